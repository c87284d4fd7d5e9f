"""A study judges all candidates on rows that they were not fitted to."""

from __future__ import annotations

import numpy as np
import pytest

from dotsketch import (
    AutoFeatures,
    Exponential,
    FourierFeatures,
    Gaussian,
    MaclaurinFeatures,
    NystromFeatures,
    Polynomial,
    plan,
)
from dotsketch.features import Study
from dotsketch.features.study import off_diagonal_mean, root_ratio
from dotsketch.planning import predict_with


def rows_of(A):
    return {row.tobytes() for row in A}


@pytest.fixture(scope="module")
def X():
    return np.random.default_rng(0).standard_t(3, size=(6000, 6))


@pytest.mark.parametrize("n_rows", [2, 5, 150, 6000])
def test_rows_that_are_judged_are_others_than_those_fitted_to(X, n_rows):
    study = Study(Gaussian(), X[:n_rows], n_pairs_sample=100)
    assert len(rows_of(study.held)) == min(100, (n_rows + 1) // 2)
    assert len(rows_of(study.fitting)) == min(100, n_rows // 2)
    assert not rows_of(study.held) & rows_of(study.fitting)
    assert rows_of(study.held) | rows_of(study.fitting) <= rows_of(X)
    alone = Study(Gaussian(lengthscale=1.0), X[:1], n_pairs_sample=100)
    np.testing.assert_array_equal(alone.held, alone.fitting)


def test_samples_are_random_and_follow_the_seed(X):
    """Evenly spaced rows would be of one phase of a periodic table."""
    hours = np.arange(24 * 499 + 1)[:, None] % 24.0
    study = Study(Gaussian(lengthscale=1.0), hours, n_pairs_sample=250)
    for rows in (study.held, study.fitting, study.rows(500)):
        assert len(np.unique(rows)) == 24
    again = Study(Gaussian(lengthscale=1.0), hours, n_pairs_sample=250)
    other = Study(Gaussian(lengthscale=1.0), hours, n_pairs_sample=250, random_state=1)
    np.testing.assert_array_equal(study.held, again.held)
    assert not np.array_equal(study.held, other.held)


def test_distances_do_not_see_a_common_offset(X):
    kernel = Gaussian(lengthscale=2.0)
    near, far = (Study(kernel, X[:100] + offset, n_pairs_sample=50) for offset in (0.0, 1e8))
    candidate = FourierFeatures(kernel, n_components=20)
    expected = candidate.expected_error(near).relative_error
    assert candidate.expected_error(far).relative_error == pytest.approx(expected, rel=1e-5)


def test_landmarks_may_be_zero_and_kernels_may_not_overflow(X):
    rows = np.vstack([np.zeros((40, 6)), X[:2]])
    kernel = Polynomial(2, coef0=0.0)
    candidate = NystromFeatures(kernel, n_components=5)
    assert candidate.expected_error(Study(kernel, X[:60], n_pairs_sample=20)).relative_error <= 1
    assert np.isfinite(predict_with(candidate, Study(kernel, rows, n_pairs_sample=20), 1).cost)
    overflowing = Study(Polynomial(40), 1e5 * X, n_pairs_sample=20)
    assert NystromFeatures.variants(overflowing) == []
    with pytest.raises(ValueError, match="overflow on these data"):
        MaclaurinFeatures(Polynomial(40), max_degree=40).expected_error(overflowing)


@pytest.mark.parametrize("n_components", [200, 199, 150])
def test_landmarks_at_every_row_are_not_exact_on_fresh_rows(n_components):
    rng = np.random.default_rng(0)
    X, fresh = rng.standard_normal((200, 4)), rng.standard_normal((300, 4))
    kernel = Gaussian(lengthscale=1.0)
    row = predict_with(
        NystromFeatures(kernel, n_landmarks=1.0), Study(kernel, X, n_pairs_sample=500), n_components
    )
    features = NystromFeatures(kernel, n_components=n_components, n_landmarks=1.0, random_state=0)
    Z, K = features.fit(X).transform(fresh), kernel(fresh)
    error = np.sqrt(off_diagonal_mean((Z @ Z.T - K) ** 2) / off_diagonal_mean(K**2))
    assert 0.8 * error < row.relative_error < 1.4 * error
    assert row.standard_error > 0
    assert row.n_measured == (None if n_components == 150 else 180)


@pytest.mark.parametrize("outlier", [0, 7, 399])
def test_one_outlier_is_not_predicted_away(outlier):
    """Its pairs make up nearly all of E k²: fitted coefficients must not look exact."""
    X = np.random.default_rng(0).standard_normal((400, 3)) / 2
    X[outlier] *= 30
    kernel = Exponential(lengthscale=2.0)
    study = Study(kernel, X, n_pairs_sample=500)
    for mean_split in (False, True):
        candidate = MaclaurinFeatures(kernel, coefficients="fitted", mean_split=mean_split)
        row = predict_with(candidate, study, 40)
        assert row.upper_error > 0.01


def test_heavy_tails_have_a_large_standard_error():
    """Exponential kernel on normal rows: E k² is infinite, and fresh rows are worse."""
    rng = np.random.default_rng(0)
    kernel = Exponential()
    ratios = []
    for _ in range(8):
        X, fresh = rng.standard_normal((200, 2)), rng.standard_normal((200, 2))
        auto = AutoFeatures(kernel, n_components=40, random_state=0).fit(X)
        Z, K = auto.transform(fresh), kernel(fresh)
        error = np.sqrt(off_diagonal_mean((Z @ Z.T - K) ** 2) / off_diagonal_mean(K**2))
        ratios.append(error / auto.chosen_.upper_error)
    assert np.median(ratios) < 2
    assert max(ratios) < 30


def test_a_standard_error_is_the_jackknife():
    rng = np.random.default_rng(0)
    errors, squares = rng.random((3, 10)), 1 + rng.random((3, 10))
    error, deviation = root_ratio(errors, squares)
    assert error == pytest.approx(np.sqrt(errors.sum() / squares.sum()))

    def jackknife(left_out):
        roots = np.array([np.sqrt((errors.sum() - a) / (squares.sum() - b)) for a, b in left_out])
        n = len(roots)
        return np.sqrt((n - 1) / n * np.sum((roots - roots.mean()) ** 2))

    rows = jackknife(zip(2 * errors.ravel(), 2 * squares.ravel(), strict=True))
    draws = jackknife(zip(errors.sum(axis=1), squares.sum(axis=1), strict=True))
    assert deviation == pytest.approx(max(rows, draws))
    assert root_ratio(np.zeros((1, 3)), np.ones((1, 3))) == (0.0, 0.0)
    assert root_ratio(np.ones((1, 3)), np.zeros((1, 3))) == (np.inf, 0.0)
    dominated = np.array([[1e-9, 1e-9, 5.0, 5.0]]), np.array([[1.0, 1.0, 5.0, 5.0]])
    assert root_ratio(*dominated)[1] > 0.5


def test_wide_rows_are_fewer():
    wide = np.random.default_rng(0).standard_normal((200, 60_000)).astype(np.float32)
    candidates = [FourierFeatures(Gaussian(), projection="independent")]
    table = plan(Gaussian(), wide, n_components=10, n_pairs_sample=100, candidates=candidates)
    assert table.n_pairs_sample == 69


def test_sizes_are_checked_before_memory_is_taken(X):
    with pytest.raises(ValueError, match=r"take .* GiB, and there are .* columns or fewer"):
        FourierFeatures(Gaussian(), n_components=10**13).fit(X[:50])


class Unread:
    """Rows that must not be looked at."""

    shape = (10, 3)


def test_constructing_a_study_reads_and_draws_nothing():
    rng = np.random.default_rng(0)
    before = rng.bit_generator.state
    study = Study(Gaussian(), Unread(), random_state=rng)
    assert (study.n_rows, study.dimension) == (10, 3)
    assert rng.bit_generator.state == before


def test_an_error_that_stands_in_few_rows_is_predicted():
    """Two rows in a hundred leave the subspace of the others: their pairs are four in 10,000."""
    rng = np.random.default_rng(0)

    def rows(n):
        X = rng.standard_normal((n, 8))
        X[rng.random(n) > 0.02, 4:] *= 0.02
        return X / np.linalg.norm(X, axis=1, keepdims=True)

    X, fresh = rows(8000), rows(2000)
    kernel = Polynomial(3, gamma=0.5, coef0=0.5)
    K, candidate = kernel(fresh), NystromFeatures(kernel, n_components=40, random_state=0)
    Z = candidate.fit(X).transform(fresh)
    error = np.sqrt(off_diagonal_mean((Z @ Z.T - K) ** 2) / off_diagonal_mean(K**2))
    for seed in range(4):
        row = candidate.expected_error(Study(kernel, X, random_state=seed))
        assert row.relative_error == pytest.approx(error, rel=0.2)
        assert 0.9 * error < row.upper_error < 2 * error

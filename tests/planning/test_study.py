"""A study judges all candidates on the same rows: other rows than they were fitted to."""

from __future__ import annotations

import numpy as np
import pytest

from dotsketch import (
    FourierFeatures,
    Gaussian,
    MaclaurinFeatures,
    NystromFeatures,
    Polynomial,
    plan,
)
from dotsketch.features import Study, Unsuited
from dotsketch.features.maclaurin.allocation import evaluate
from dotsketch.features.maclaurin.search import allocate
from dotsketch.planning import Plan, predict_with


def rows_of(A):
    return {row.tobytes() for row in A}


@pytest.fixture(scope="module")
def X():
    return np.random.default_rng(0).standard_t(3, size=(6000, 6))


def test_fitting_rows_are_others_if_there_are_enough(X):
    study = Study(Gaussian(), X, n_pairs_sample=100)
    assert len(rows_of(study.sample)) == len(rows_of(study.fitting)) == 100
    assert not rows_of(study.sample) & rows_of(study.fitting)
    assert rows_of(study.sample) | rows_of(study.fitting) <= rows_of(X)
    few = Study(Gaussian(), X[:150], n_pairs_sample=100)
    assert few.fitting is few.sample


@pytest.mark.parametrize("coefficients", ["taylor", "fitted"])
@pytest.mark.parametrize("mean_split", [False, True])
def test_an_allocation_is_judged_on_rows_it_has_not_seen(X, coefficients, mean_split):
    kernel = Polynomial(3, gamma=0.1)
    study = Study(kernel, X, n_pairs_sample=50)
    candidate = MaclaurinFeatures(
        kernel,
        sketch="rademacher",
        coefficients=coefficients,
        mean_split=mean_split,
        n_components=12,
    )
    fitting, judging = (candidate._series.moments(study, rows) for rows in ("fitting", "sample"))
    found = allocate(fitting, 12, coefficients=coefficients)
    row = candidate.expected_error(study)
    judged = evaluate(judging, found.projections, found.exact, found.coefficients)
    assert row.squared_bias == pytest.approx(judged.squared_bias)
    assert row.variance == pytest.approx(judged.variance)
    # Twins swap the two samples: what fits best there is never better here than what fits here
    best = allocate(judging, 12, coefficients=coefficients)
    assert best.expected_squared_error <= judged.expected_squared_error * (1 + 1e-9)
    assert judging.kernel_square == pytest.approx(study.kernel_square)


def test_distances_do_not_see_a_common_offset(X):
    kernel = Gaussian(lengthscale=2.0)
    near, far = (Study(kernel, X[:100] + offset, n_pairs_sample=50) for offset in (0.0, 1e8))
    np.testing.assert_allclose(far.lengths(-1), near.lengths(-1), rtol=1e-5)
    candidate = FourierFeatures(kernel, n_components=20)
    expected = candidate.expected_error(near).relative_error
    assert candidate.expected_error(far).relative_error == pytest.approx(expected, rel=1e-5)


def test_landmarks_may_be_zero_and_kernels_may_not_overflow(X):
    rows = np.vstack([np.zeros((40, 6)), X[:2]])
    kernel = Polynomial(2, coef0=0.0)
    candidate = NystromFeatures(kernel, n_components=5)
    assert candidate.expected_error(Study(kernel, rows)).relative_error <= 1
    assert candidate.expected_error(Study(kernel, 0 * rows)).relative_error == 0
    with pytest.raises(Unsuited, match="overflows"):
        candidate.check_study(Study(kernel, 1e100 * X))


def test_measured_errors_are_those_of_the_sample(X):
    study = Study(Gaussian(lengthscale=2.0), X, n_pairs_sample=60)
    seen = []

    def approximate(fitting, held, rng):
        seen.append((fitting, held))
        return study.kernel(held) * 1.1

    found = study.measure(approximate, 300, 3e8)
    assert found.relative_error == pytest.approx(0.1)
    assert found.standard_error == pytest.approx(0, abs=1e-12)
    assert found.n_fitting == 300
    assert len(seen) == 3
    for fitting, held in seen:
        assert rows_of(held) == rows_of(study.sample)
        assert len(fitting) == 300
        assert not rows_of(fitting) & rows_of(held)
    assert rows_of(seen[0][0]) != rows_of(seen[1][0])


@pytest.mark.parametrize(
    ("n_rows", "n_fitting"), [(1, 1), (2, 1), (30, 20), (100, 99), (100, 1000)]
)
def test_few_rows_are_split_anew_in_every_draw(X, n_rows, n_fitting):
    study = Study(Gaussian(lengthscale=2.0), X[:n_rows], n_pairs_sample=500)

    def approximate(fitting, held, rng):
        assert len(fitting) >= min(n_fitting, n_rows * 9 // 10, 1)
        assert len(fitting) <= n_fitting
        if n_rows > 1:
            assert not rows_of(fitting) & rows_of(held)
        return study.kernel(held)

    found = study.measure(approximate, n_fitting, 1e9)
    assert tuple(found[:2]) == pytest.approx((0.0, 0.0), abs=1e-14)
    row = predict_with(NystromFeatures(None), study, min(n_rows, n_fitting))
    assert np.isfinite(row.relative_error)


@pytest.mark.parametrize("kernel", [Gaussian(lengthscale=2.0), Polynomial(3, gamma=0.1)], ids=str)
@pytest.mark.parametrize("candidate", [{}, {"n_landmarks": 1.0}, {"landmarks": "rpcholesky"}])
def test_values_of_the_kernel_that_are_known_change_nothing(kernel, candidate, X, monkeypatch):
    """Of few rows they are looked up, with the same draws; of many or wide rows they are not."""
    features = NystromFeatures(kernel, n_components=10, **candidate)
    found = features.expected_error(Study(kernel, X[:150], n_pairs_sample=40))
    monkeypatch.setattr("dotsketch.features.study._KNOWN_ROWS", 149)
    study = Study(kernel, X[:150], n_pairs_sample=40)
    assert study.known_values[0] is study.kernel
    expected = features.expected_error(study)
    assert found.relative_error == pytest.approx(expected.relative_error, rel=1e-6)
    assert found.standard_error == pytest.approx(expected.standard_error, rel=1e-6)


def test_known_values_are_those_of_the_kernel(X):
    study = Study(Polynomial(2), X[:50])
    values, rows = study.known_values
    few, many = np.array([3, 7, 1]), np.arange(40, 10, -1)
    np.testing.assert_array_equal(rows, np.arange(50)[:, None])
    for left, right in ((few, many), (many, few), (few, few)):
        expected = study.kernel(X[left], X[right])
        np.testing.assert_allclose(values(rows[left], rows[right]), expected, rtol=1e-12)
    np.testing.assert_allclose(values(rows[many]), study.kernel(X[many]), rtol=1e-12)
    np.testing.assert_allclose(values.diag(rows[many]), study.kernel.diag(X[many]), rtol=1e-12)
    wide = Study(Polynomial(2), np.zeros((60, 100_000), dtype=np.float32))
    assert wide.known_values[0] is wide.kernel


def test_as_many_rows_are_fitted_to_as_are_claimed(X):
    """Wide rows, more than 5000 of them, or nearly all rows: only 20 rows have to be held out."""
    wide = np.zeros((130, 80_000), dtype=np.float32)  # 52 rows of it take 32 MiB
    wide[:, :6] = X[:130]
    long = np.tile(X, (2, 1)) + np.arange(12_000)[:, None]
    for rows, n_fitting, expected in (
        (wide, 100, 100),
        (long[:, :2], 8000, 8000),
        (X[:1000], 990, 980),
    ):
        study = Study(Gaussian(lengthscale=2.0), rows, n_pairs_sample=50)
        seen = []

        def approximate(fitting, held, rng, seen=seen, study=study):
            seen.append(len(rows_of(fitting) | rows_of(held)) - len(held))
            return study.kernel(held)

        found = study.measure(approximate, n_fitting, np.inf)
        assert found.n_fitting == expected
        assert seen == [expected, expected]


def test_fewer_landmarks_than_claimed_are_reported(X):
    plain = NystromFeatures(None, n_landmarks=1.0)
    row = predict_with(plain, Study(Gaussian(), X[:100]), 95)
    assert row.n_measured == 90
    assert "with 90 rows" in repr(Plan([row]))
    assert predict_with(plain, Study(Gaussian(), X[:100]), 90).n_measured is None
    assert predict_with(NystromFeatures(None), Study(Gaussian(), X[:100]), 90).n_measured == 90


def test_a_standard_error_is_that_of_the_root_mean_square(X):
    study = Study(Gaussian(lengthscale=2.0), X, n_pairs_sample=20)
    errors = iter([0.1, 0.1, 0.5])
    found = study.measure(lambda _, held, __: study.kernel(held) * (1 + next(errors)), 1, 3e8)
    squares = np.array([0.01, 0.01, 0.25])
    assert found.relative_error == pytest.approx(np.sqrt(0.09))
    expected = np.std(squares, ddof=1) / np.sqrt(3) / (2 * 0.3)
    assert found.standard_error == pytest.approx(expected)


def test_one_draw_does_where_only_the_rows_held_out_are_random(X):
    study = Study(Gaussian(lengthscale=2.0), X, n_pairs_sample=100)
    drawn = []

    def approximate(fitting, held, rng):
        drawn.append(held)
        return study.kernel(held) * (1 + 0.1 * held[:, :1] * held[:, :1].T)

    found = study.measure(approximate, 10, np.inf, is_random=False)
    assert len(drawn) == 1
    many = study.measure(approximate, 10, 1e7)  # the same with others of the sample's rows
    assert abs(found.relative_error - many.relative_error) < 6 * found.standard_error
    assert found.standard_error < 0.5 * found.relative_error


@pytest.mark.parametrize(
    ("errors", "n_draws"), [([0.1], 16), ([0.1, 0.15], 16), ([0, 0, 0, 1], 128)]
)
def test_draws_end_where_they_agree(X, errors, n_draws):
    study = Study(Gaussian(lengthscale=2.0), X, n_pairs_sample=200)
    draws = iter(errors * 200)
    held_out = []

    def approximate(fitting, held, rng):
        held_out.append(rows_of(held))
        return study.kernel(held) * (1 + next(draws))

    found = study.measure(approximate, 1, 1.0)
    assert len(held_out) == n_draws
    assert {len(rows) for rows in held_out} == {150}
    assert held_out[0] != held_out[1]
    assert found.relative_error == pytest.approx(np.sqrt(np.mean(np.square(errors))))


def test_wide_rows_are_fewer_and_a_plan_reports_it():
    rng = np.random.default_rng(0)
    wide = rng.standard_normal((120, 60_000)).astype(np.float32)
    options = {
        "n_components": 10,
        "candidates": [FourierFeatures(Gaussian(), projection="independent")],
    }
    table = plan(Gaussian(), wide, n_pairs_sample=100, **options)
    assert table.n_pairs_sample == 69
    narrow = plan(Gaussian(), wide[:, :10], n_pairs_sample=500, **options)
    assert narrow.n_pairs_sample == 120


class Unread:
    """Rows that must not be looked at."""

    shape = (10, 3)


def test_constructing_a_study_reads_and_draws_nothing():
    rng = np.random.default_rng(0)
    before = rng.bit_generator.state
    study = Study(Gaussian(), Unread(), random_state=rng)
    assert (study.n_rows, study.dimension) == (10, 3)
    assert rng.bit_generator.state == before


def test_a_study_computes_each_thing_once(X):
    study = Study(Gaussian(), X)
    calls = []
    for _ in range(2):
        assert study.once("key", lambda: calls.append(None) or 5) == 5
    assert len(calls) == 1

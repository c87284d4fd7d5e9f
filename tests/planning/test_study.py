"""A study judges all candidates on the same rows: other rows than they were fitted to."""

from __future__ import annotations

import numpy as np
import pytest

from dotsketch import (
    FourierCandidate,
    Gaussian,
    MaclaurinCandidate,
    NystromCandidate,
    Polynomial,
    plan,
)
from dotsketch.features.maclaurin.allocation import allocate, evaluate
from dotsketch.planning import Plan, Study


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
    candidate = MaclaurinCandidate("rademacher", "real", "optimal", coefficients, mean_split)
    moments = study.moments("rademacher", "real", mean_split)
    found = allocate(moments.fitting, 12, coefficients=coefficients)
    row = candidate.predict(study, 12)
    judged = evaluate(moments.judging, found.projections, found.exact, found.coefficients)
    assert row.squared_bias == pytest.approx(judged.squared_bias)
    assert row.variance == pytest.approx(judged.variance)
    # Twins swap the two samples: what fits best there is never better here than what fits here
    best = allocate(moments.judging, 12, coefficients=coefficients)
    assert best.expected_squared_error <= judged.expected_squared_error * (1 + 1e-9)
    assert moments.judging.kernel_square == pytest.approx(study.kernel_square)


def test_distances_do_not_see_a_common_offset(X):
    kernel = Gaussian(lengthscale=2.0)
    near, far = (Study(kernel, X[:100] + offset, n_pairs_sample=50) for offset in (0.0, 1e8))
    np.testing.assert_allclose(far.scaled_distances, near.scaled_distances, rtol=1e-5)
    candidate = FourierCandidate()
    expected = candidate.predict(near, 20).relative_error
    assert candidate.predict(far, 20).relative_error == pytest.approx(expected, rel=1e-5)


def test_landmarks_may_be_zero_and_kernels_may_not_overflow(X):
    rows = np.vstack([np.zeros((40, 6)), X[:2]])
    kernel = Polynomial(2, coef0=0.0)
    assert NystromCandidate().predict(Study(kernel, rows), 5).relative_error <= 1
    assert NystromCandidate().predict(Study(kernel, 0 * rows), 5).relative_error == 0
    assert not NystromCandidate().serves(Study(kernel, 1e100 * X))


def test_measured_errors_are_those_of_the_sample(X):
    study = Study(Gaussian(lengthscale=2.0), X, n_pairs_sample=60)
    seen = []

    def approximate(fitting, held, rng):
        seen.append((fitting, held))
        return study.kernel(held) * 1.1

    found = study.measure(approximate, 300, 1e9)
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
    assert np.isfinite(NystromCandidate().predict(study, min(n_rows, n_fitting)).relative_error)


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
    row = NystromCandidate().predict(Study(Gaussian(), X[:100]), 95)
    assert row.n_measured == 90
    assert "with 90 landmarks" in repr(Plan([row]))
    assert NystromCandidate().predict(Study(Gaussian(), X[:100]), 90).n_measured is None


def test_a_standard_error_is_that_of_the_root_mean_square(X):
    study = Study(Gaussian(lengthscale=2.0), X, n_pairs_sample=20)
    errors = iter([0.1, 0.1, 0.5])
    found = study.measure(lambda _, held, __: study.kernel(held) * (1 + next(errors)), 1, 1e9)
    squares = np.array([0.01, 0.01, 0.25])
    assert found.relative_error == pytest.approx(np.sqrt(0.09))
    expected = np.std(squares, ddof=1) / np.sqrt(3) / (2 * 0.3)
    assert found.standard_error == pytest.approx(expected)


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
    options = {"n_components": 10, "candidates": [FourierCandidate("independent")]}
    table = plan(Gaussian(), wide, n_pairs_sample=100, **options)
    assert (table.n_pairs_sample, table.reduced_from) == (69, 100)
    assert "69 rows, not of n_pairs_sample=100" in repr(table)
    narrow = plan(Gaussian(), wide[:, :10], n_pairs_sample=500, **options)
    assert (narrow.n_pairs_sample, narrow.reduced_from) == (120, None)
    assert "n_pairs_sample" not in repr(narrow)

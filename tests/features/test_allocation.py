"""The allocation solves the problem it states: brute force, identities, and its own oracle."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from dotsketch import Exponential, Gaussian, Maclaurin, Polynomial, _backends
from dotsketch._backends import cpp
from dotsketch.features.maclaurin import (
    ExpansionMoments,
    allocate,
    drawn_degrees,
    evaluate,
    expand,
    fitted_coefficients,
    solve,
)
from dotsketch.pairs import PairStatistics
from dotsketch.sketches import make_sketch

SKETCHES = ["gaussian", "rademacher", "tensor_srht", "tensor_sketch", "balanced_tensor_sketch"]


def moments_of(kernel, X, sketch="tensor_srht", field="real", part="real", budget=60, **options):
    expansion = expand(kernel, options.pop("max_degree", 6), X, X.mean(axis=0), **options)
    prototype = make_sketch(sketch, 1, 1, field)
    inputs = expansion.inputs(X)
    return ExpansionMoments.of(
        inputs, expansion.degrees, kernel, prototype, part, budget, block_size=7
    )


@pytest.fixture
def X():
    return np.random.default_rng(3).standard_normal((20, 4)) / 2 + 0.3


def off_diagonal(A):
    return A[~np.eye(len(A), dtype=bool)]


@pytest.mark.parametrize(
    ("field", "part"), [("real", "real"), ("complex", "real"), ("complex", "complex")]
)
@pytest.mark.parametrize("sketch", SKETCHES)
def test_moments_are_averages_over_pairs_of_distinct_rows(X, sketch, field, part):
    kernel = Exponential(lengthscale=1.3)
    moments = moments_of(kernel, X, sketch, field, part)
    S = kernel.scale(X)
    pairs = PairStatistics.between(S)
    a = kernel.coefficients(6)
    terms = np.array([off_diagonal(a[n] * pairs.dot**n) for n in range(7)])
    K = off_diagonal(kernel(X))
    np.testing.assert_allclose(moments.gram, terms @ terms.T / len(K), rtol=1e-10)
    np.testing.assert_allclose(moments.kernel_square, np.mean(K**2), rtol=1e-10)
    rest = K - terms.sum(axis=0)
    np.testing.assert_allclose(moments.tail_square, np.mean(rest**2), rtol=1e-6)
    for n in range(1, 7):
        for D in (1, 2, 3, 4, 5, 9):
            described = make_sketch(sketch, n, D, field)
            of = described.variance if part == "complex" else described.real_part_variance
            expected = a[n] ** 2 * np.mean(off_diagonal(of(pairs)))
            variances = moments.variances[n]
            np.testing.assert_allclose(
                variances[D - 1], expected, rtol=1e-8, atol=1e-13 * variances[0]
            )


@pytest.mark.skipif(not cpp.AVAILABLE, reason="The compiled kernels are not built.")
@pytest.mark.parametrize("d", [1, 2, 9, 100])
def test_compiled_and_portable_moments_agree(d, monkeypatch):
    """For all sketches in one pass; blocks of 7 rows have diagonals and rectangles of any width."""
    kernel = Gaussian(lengthscale=3.0)
    X = np.random.default_rng(d).standard_normal((24, d)) + 0.3
    X[3] = 0
    expansion = expand(kernel, 10, X, X.mean(axis=0))
    fields = [("real", "real"), *(("complex", part) for part in ("real", "complex", "pseudo"))]
    sketches = [(make_sketch(name, 1, 1, f), part) for name in SKETCHES for f, part in fields]
    calls, pair_terms = [], _backends.compiled.pair_terms

    def counted(*arguments, shape):
        calls.append(shape)
        return pair_terms(*arguments, shape=shape)

    monkeypatch.setattr(_backends.compiled, "pair_terms", counted)

    def moments():
        inputs = expansion.inputs(X)
        return [
            ExpansionMoments.of(inputs, expansion.degrees, kernel, *sketch, 40, block_size=7)
            for sketch in sketches
        ]

    compiled = moments()
    assert len(calls) > 0
    assert len(calls) % len(sketches) == 0
    calls.clear()
    monkeypatch.setattr(cpp, "AVAILABLE", False)
    for one, other in zip(compiled, moments(), strict=True):
        for name in ("gram", "tail", "tail_square", "kernel_square"):
            expected = getattr(other, name)
            size = np.max(np.abs(other.gram))
            np.testing.assert_allclose(getattr(one, name), expected, rtol=1e-12, atol=1e-14 * size)
        sizes = np.diag(other.gram)
        for fast, expected, size in zip(one.variances, other.variances, sizes, strict=True):
            np.testing.assert_allclose(fast, expected, rtol=1e-11, atol=1e-13 * size)
    assert not calls


@pytest.mark.parametrize("sketch", ["gaussian", "rademacher", "tensor_sketch"])
@pytest.mark.parametrize("budget", [4, 7, 12])
def test_greedy_is_brute_force_for_convex_variances(X, sketch, budget):
    moments = moments_of(Polynomial(3, gamma=0.7, coef0=0.4), X, sketch, budget=budget)
    every, none = np.ones(4, dtype=bool), np.zeros(4, dtype=bool)
    best = evaluate(moments, solve(moments, every, none, np.ones(4)), none)
    totals = [
        evaluate(moments, np.array([1, *D]), np.zeros(4, bool)).variance
        for D in itertools.product(range(1, budget), repeat=3)
        if sum(D) == budget - 1
    ]
    assert best.projections.sum() == budget
    # the parity of D enters TensorSketch's variance, which its convex hull smooths over
    slack = 1.02 if sketch == "tensor_sketch" else 1 + 1e-12
    assert best.variance <= slack * min(totals)


@pytest.mark.parametrize("seed", range(20))
def test_selection_equals_adding_one_projection_at_a_time(seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((15, 5)) * rng.uniform(0.2, 1) + rng.uniform(0, 1)
    budget = int(rng.integers(6, 60))
    moments = moments_of(Exponential(), X, "tensor_srht", budget=1 + budget)
    p = int(rng.integers(1, 7))
    solved = solve(moments, moments.degrees <= p, np.zeros(7, bool), np.ones(7))
    if solved is None:
        assert budget < p
        return
    D = np.ones(p, dtype=int)
    while D.sum() < budget:  # Algorithm 2, line by line, on the surrogate
        gains = [moments.gains[n + 1][D[n] - 1] for n in range(p)]
        D[int(np.argmax(gains))] += 1
    gained = [
        sum(moments.gains[n + 1][: d - 1].sum() for n, d in enumerate(counts))
        for counts in (D, solved[1 : p + 1])
    ]
    assert solved[1 : p + 1].sum() == budget
    np.testing.assert_allclose(gained[1], gained[0], rtol=1e-12)


def test_projections_for_given_coefficients_are_brute_force(X):
    """min Σ θ² V(D) over the projections; the variances V(D) ∝ 1/D are convex."""
    kernel = Exponential(lengthscale=1.3)
    moments = moments_of(kernel, X, "gaussian", budget=13, max_degree=3)
    every = [c for c in itertools.product(range(1, 13), repeat=3) if sum(c) == 12]
    chosen = []
    for theta in ([1.0, 1.0, 1.0, 1.0], [1.0, 0.1, 1.0, 20.0], [1.0, 0.1, 9.0, 1.0]):
        errors = [
            sum(theta[b] ** 2 * moments.variances[b, D - 1] for b, D in enumerate(counts, 1))
            for counts in every
        ]
        best = every[int(np.argmin(errors))]
        used, exact = np.ones(4, dtype=bool), np.zeros(4, dtype=bool)
        assert tuple(solve(moments, used, exact, np.array(theta))) == (1, *best)
        chosen.append(best)
    assert len(set(chosen)) == 3  # the coefficients decide


def test_large_budget_is_spent_in_full(X):
    for budget in (1000, 100_000):
        best = allocate(moments_of(Exponential(), X, budget=budget))
        assert best.projections.sum() + best.unused == budget


def test_degrees_without_a_coefficient_get_nothing(X):
    moments = moments_of(Maclaurin([0, 0, 1.0, 0, 2.0]), X)
    best = allocate(moments)
    assert moments.degrees.tolist() == [2, 4]
    assert best.squared_bias == 0
    assert best.projections.sum() + best.unused == 60


def test_exact_monomials_have_no_variance_and_are_used_where_better(X):
    moments = moments_of(Polynomial(2), X, budget=1 + 4 + 10)
    best = allocate(moments)
    assert best.exact.tolist() == [False, True, True]
    assert best.expected_squared_error == 0
    without = allocate(moments, writes_out=False)
    assert without.expected_squared_error > 0


@pytest.mark.parametrize("sketch", SKETCHES)
def test_fitted_coefficients_are_the_nonnegative_minimum(X, sketch):
    moments = moments_of(Exponential(), X, sketch)
    projections = np.array([1, 3, 3, 2, 2, 1, 1])
    exact = np.zeros(7, bool)
    theta = fitted_coefficients(moments, projections, exact)
    best = evaluate(moments, projections, exact, theta).expected_squared_error
    assert np.all(theta >= 0)
    assert best <= evaluate(moments, projections, exact).expected_squared_error
    rng = np.random.default_rng(0)
    for _ in range(200):
        other = np.maximum(theta + 0.1 * rng.standard_normal(7), 0)
        assert best <= evaluate(moments, projections, exact, other).expected_squared_error * (
            1 + 1e-9
        )


def test_fitting_never_raises_the_predicted_error(X):
    for budget in (8, 20, 60):
        moments = moments_of(Exponential(), X, budget=budget)
        taylor, fitted = (allocate(moments, coefficients=name) for name in ("taylor", "fitted"))
        assert fitted.expected_squared_error <= taylor.expected_squared_error


def test_random_degrees_are_unbiased_by_enumeration(X):
    """Two draws beside the constant, of every outcome with its probability."""

    class Enumerated:
        def __init__(self, counts):
            self.counts = counts

        def multinomial(self, n, p):
            self.p = p
            return np.array(self.counts)

    moments = moments_of(Maclaurin([1.0, 1.0, 0.0, 1.0]), X, budget=3)
    mean = np.zeros(3)
    for counts, orders in (([0, 2, 0], 1), ([0, 1, 1], 2), ([0, 0, 2], 1)):
        generator = Enumerated(counts)
        table = drawn_degrees(moments, generator)
        probability = orders * np.prod(generator.p[1:] ** np.array(counts[1:]))
        mean += probability * table.coefficients
        assert table.projections.sum() == 3
    np.testing.assert_allclose(mean, 1.0)
    np.testing.assert_allclose(generator.p, [0, 0.8, 0.2])

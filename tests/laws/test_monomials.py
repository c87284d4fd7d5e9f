"""Exact monomials: the multinomial theorem, column by column, on every array library."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from dotsketch import MaclaurinFeatures, Polynomial, required_components
from dotsketch.features.maclaurin import ExpansionMoments, allocate, evaluate, expand, solve
from dotsketch.sketches import MonomialSketch, make_sketch

SHAPES = [(1, 1), (1, 4), (2, 3), (3, 2), (3, 5), (4, 3), (7, 2), (5, 1)]  # degree, dimension


def features(sketch, X):
    return sketch.apply(X, sketch.sample(X.shape[1], np.random.default_rng(0)))


@pytest.mark.parametrize(("degree", "d"), SHAPES)
def test_columns_are_all_monomials_with_multinomial_factors(degree, d):
    X = np.random.default_rng(0).standard_normal((3, d))
    expected = []
    for indices in itertools.combinations_with_replacement(range(d), degree):
        repeats = math.prod(math.factorial(indices.count(k)) for k in range(d))
        factor = math.sqrt(math.factorial(degree) / repeats)
        expected.append(factor * np.prod(X[:, list(indices)], axis=1))
    found = features(MonomialSketch.of(degree, d), X)
    assert found.shape[1] == math.comb(d + degree - 1, degree)
    np.testing.assert_allclose(np.sort(found, axis=1), np.sort(np.array(expected).T, axis=1))


@pytest.mark.parametrize(("field", "packed"), [("real", 0), ("complex", 0), ("complex", 1)])
@pytest.mark.parametrize(("degree", "d"), SHAPES)
def test_the_kernel_is_exact(degree, d, field, packed):
    X = np.random.default_rng(1).standard_normal((4, d))
    Z = features(MonomialSketch.of(degree, d, field, bool(packed)), X)
    np.testing.assert_allclose((Z @ Z.conj().T).real, (X @ X.T) ** degree, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize(
    ("output", "most"), [("real", 165), ("complex", 165), ("complex_to_real", 166)]
)
def test_a_cubic_kernel_of_eight_columns_is_exact(output, most):
    X = np.random.default_rng(3).standard_normal((60, 8))
    kernel = Polynomial(3, gamma=0.3)
    found = MaclaurinFeatures(kernel, n_components=200, output=output).fit(X)
    Z = found.transform(X)
    np.testing.assert_allclose((Z @ Z.conj().T).real, kernel(X), rtol=1e-11, atol=1e-11)
    assert found.expected_squared_error_ == 0
    assert required_components(kernel, X, tolerance=0.01, output=output) <= most


def test_the_best_choice_of_exact_degrees_is_found_by_enumeration():
    """In two dimensions with four degrees, runs are as good as all sets."""
    X = np.random.default_rng(5).standard_normal((25, 2)) / 2
    kernel = Polynomial(4)
    expansion = expand(kernel, 4, X, X.mean(axis=0))
    sketch = make_sketch("rademacher", 1, 1)
    inputs = expansion.inputs(X)
    for n in range(6, 16):
        best = np.inf
        moments = ExpansionMoments.of(inputs, expansion.degrees, kernel, sketch, "real", n)
        for p, k in itertools.product(range(1, 5), range(5)):
            active = moments.degrees <= p
            for degrees in itertools.combinations(range(1, p + 1), k):
                exact = np.isin(moments.degrees, degrees)
                projections = solve(moments, active, exact, np.ones(5))
                if projections is not None:
                    table = evaluate(moments, projections, exact)
                    best = min(best, table.expected_squared_error)
        chosen = allocate(moments, max_degree=4)
        assert chosen.expected_squared_error <= (1 + 1e-9) * best

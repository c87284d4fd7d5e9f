"""Exact monomials: the multinomial theorem, column by column, on every array library."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from dotsketch import MaclaurinFeatures, Polynomial, required_components
from dotsketch.features.maclaurin.search import _exact_choices, allocate
from dotsketch.sketches import MonomialSketch
from libraries import NAMES, Library

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


@pytest.mark.parametrize("name", NAMES)
def test_every_library_has_the_same_columns(name):
    library = Library(name)
    X = np.random.default_rng(2).standard_normal((5, 4)).astype(np.float32)
    sketch = MonomialSketch.of(3, 4)
    Z = library.numpy(features(sketch, library.asarray(X)))
    np.testing.assert_allclose(Z, features(sketch, X), rtol=1e-6)


def test_gradients_flow_to_the_rows():
    torch = pytest.importorskip("torch")
    X = torch.tensor([[0.5, -1.0, 2.0]], dtype=torch.float64, requires_grad=True)
    (features(MonomialSketch.of(3, 3), X) ** 2).sum().backward()  # |x|⁶, of gradient 6 |x|⁴ x
    expected = 6 * float((X.detach() ** 2).sum()) ** 2 * X.detach()
    torch.testing.assert_close(X.grad, expected)


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


def test_a_number_is_the_largest_degree_that_is_written_out():
    X = np.random.default_rng(4).standard_normal((30, 3))
    shares = [
        MaclaurinFeatures(Polynomial(4), n_components=60, exact_monomials=n).fit(X).allocation_
        for n in (False, 1, 2, 3, True)
    ]
    for most, table in zip((0, 1, 2, 3, 4), shares, strict=True):
        assert table.degrees[table.exact].max(initial=0) <= most
    errors = [table.expected_squared_error for table in shares]
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] == 0 < errors[-2]


@pytest.mark.parametrize("given", [0, -1, 2.0, "all", None])
def test_other_choices_are_refused(given):
    with pytest.raises(ValueError, match="exact_monomials, unless it is True or False"):
        MaclaurinFeatures(Polynomial(2), exact_monomials=given).fit(np.eye(3))


def test_the_choices_of_degrees():
    assert _exact_choices([1, 3]) == [{1, 3}, {1}, {3}, set()]
    assert len(_exact_choices([1, 2, 3])) == 8
    runs = _exact_choices([1, 2, 4, 6])
    assert {2, 4, 6} in runs
    assert {1, 4} not in runs
    assert len(runs) == 10


def test_the_best_choice_of_exact_degrees_is_found_by_enumeration(monkeypatch):
    """In two dimensions with four degrees, runs are as good as all sets."""
    from dotsketch.features.maclaurin import search
    from dotsketch.features.maclaurin.moments import ExpansionMoments
    from dotsketch.features.maclaurin.series import expand
    from dotsketch.sketches import make_sketch

    X = np.random.default_rng(5).standard_normal((25, 2)) / 2
    kernel = Polynomial(4)
    expansion = expand(kernel, 4, X, X.mean(axis=0))
    [moments] = ExpansionMoments.of(
        expansion.inputs(X), expansion.degrees, kernel, [(make_sketch("rademacher", 1, 1), "real")]
    )
    found = [allocate(moments, n, max_degree=4) for n in range(6, 16)]
    every = [set(c) for k in (4, 3, 2, 1, 0) for c in itertools.combinations(range(1, 5), k)]
    monkeypatch.setattr(
        search, "_exact_choices", lambda degrees: [c for c in every if c <= set(degrees)]
    )
    best = [allocate(moments, n, max_degree=4) for n in range(6, 16)]
    for one, other in zip(found, best, strict=True):
        assert one.expected_squared_error <= (1 + 1e-9) * other.expected_squared_error

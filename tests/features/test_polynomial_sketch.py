"""PolynomialSketch: columns, parameters, sparse input, refusals, and its place in scikit-learn."""

import numpy as np
import pytest
from scipy import sparse
from sklearn import config_context

from dotsketch import PolynomialSketch
from dotsketch.sketches import SKETCHES, CompactSketch, make_sketch
from rounding import assert_same_to_rounding

every_sketch = pytest.mark.parametrize("name", SKETCHES)


def test_random_states(X):
    def first(random_state):
        return PolynomialSketch(n_components=4, random_state=random_state).fit_transform(X)[0, 0]

    for make in (lambda: 0, lambda: np.random.RandomState(0), lambda: np.random.default_rng(0)):
        assert_same_to_rounding(first(make()), first(make()))
    for one, other in ((0, 1), (None, None)):
        assert abs(first(one) - first(other)) > 1e-6


@every_sketch
def test_integers_of_numpy_are_integers(name, X):
    """As a grid search over np.arange has them."""
    plain = {"degree": 5, "n_components": 6}
    numpy = {key: np.uint8(value) for key, value in plain.items()}
    one, other = (
        PolynomialSketch(sketch=name, coef0=1.0, random_state=0, **given).fit(X)
        for given in (plain, numpy)
    )
    assert_same_to_rounding(one.transform(X), other.transform(X))
    assert_same_to_rounding(one.variance(X), other.variance(X))


def test_options_reach_the_sketch(X):
    model = PolynomialSketch(
        2,
        sketch="rademacher",
        weights=0.3,
        compact=np.int64(3),
        output="complex_to_real",
        n_components=4,
    ).fit(X)
    assert isinstance(model.design_.sketch, CompactSketch)
    assert model.design_.sketch.n_projections == 2
    assert model.design_.sketch.inner == make_sketch("rademacher", 2, 6, "complex", weights=0.3)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: make_sketch("rademacher", 0, 1), "degree must be a positive integer; got 0"),
        (lambda: make_sketch("rademacher", 1, 2.5), "n_projections must be a positive integer"),
        (lambda: make_sketch("rademacher", 1, 1, "quaternion"), "field must be .*'quaternion'"),
        (lambda: CompactSketch(1, 1), r"CompactSketch\.of\(inner, n_projections\)"),
        (lambda: CompactSketch.of(make_sketch("rademacher", 1, 2), 3), "a compact sketch projects"),
    ],
)
def test_sketches_without_meaning_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_integers_and_booleans_are_numbers(X, library):
    model = PolynomialSketch(n_components=4, random_state=0).fit(X)
    A = np.round(3 * X)
    expected = model.transform(A)
    Z = model.transform(library.asarray(A.astype(np.int64)))
    np.testing.assert_allclose(library.numpy(Z), expected)
    Z = model.transform(library.asarray(A > 0))
    np.testing.assert_allclose(library.numpy(Z), model.transform((A > 0).astype(float)))


def test_the_rule_of_scikit_learns_dispatch(X, foreign):
    """Without it any library may follow any fit, since weights live on the host."""
    model = PolynomialSketch(n_components=4, random_state=0).fit(foreign.asarray(X))
    with (
        config_context(array_api_dispatch=True),
        pytest.raises(ValueError, match="must use the same namespace as those passed to fit"),
    ):
        model.transform(X)


@every_sketch
def test_bound_on_the_features_holds(name):
    rows = np.vstack([np.eye(6), np.ones((1, 6)), -np.ones((1, 6)) / 3])
    for field in ("real", "complex"):
        sketch = make_sketch(name, 3, 5, field)
        Z = sketch.apply(rows, sketch.sample(6, np.random.default_rng(0)))
        bounds = [sketch.log_largest(float(np.log(np.abs(x).sum()))) for x in rows]
        assert np.all(np.log(np.abs(Z).max(axis=1) + 1e-300) <= bounds)


@pytest.mark.parametrize(
    ("name", "adds_products"),
    [
        ("gaussian", True),
        ("rademacher", False),
        ("tensor_srht", False),
        ("tensor_sketch", False),
        ("balanced_tensor_sketch", False),
        ("tree_rademacher", True),
        ("tree_srht", True),
    ],
)
def test_bound_on_the_features_is_tight_for_signs(name, adds_products):
    """Rows of unit norm are not looked through for an overflow at degree 7 and d = D = 1024."""
    large = make_sketch(name, 7, 1024, "complex").log_largest(np.log(1024 * 0.15))
    assert adds_products == (large > np.log(np.finfo(np.float32).max))


@pytest.mark.parametrize("compact", [None, 8])
def test_overflow_in_sums_of_features_is_refused(compact):
    """Trees and compact sketches add up products: the bound on them must count the terms."""
    X = np.full((1, 1), 1.0, dtype=np.float32)
    size = np.float32(np.finfo(np.float32).max ** (1 / 4) / 8.001)
    for name in ("tree_rademacher", "tree_srht", "rademacher"):
        model = PolynomialSketch(
            4, sketch=name, n_components=32, compact=compact, random_state=0
        ).fit(X)
        for factor in (1, 2, 4, 7.9):
            refusal = ""
            try:
                assert np.all(np.isfinite(model.transform(size * factor * X)))
            except ValueError as error:
                refusal = str(error)
            assert not refusal or "overflow" in refusal


@pytest.mark.parametrize("name", ["tensor_srht", "tree_srht"])
def test_hadamard_transforms_beyond_the_compiled_length(name):
    """Rows of 2²⁰ + 1 coordinates, padded to 2²¹, against entries (−1)^|i & j| of the matrix."""
    d, entries = (1 << 20) + 1, np.array([3, 1 << 20])
    X = sparse.csr_array((np.array([2.0, 3.0]), ([0, 0], entries)), shape=(1, d))
    model = PolynomialSketch(1, coef0=0.0, sketch=name, n_components=8, random_state=0).fit(X)
    weights = model.weights_ if name == "tensor_srht" else model.weights_.leaves
    places, turns = weights.places[0, 0, :8], weights.turns[0, 0, entries]
    signs = [[(-1) ** (int(i) & int(j)).bit_count() for j in entries] for i in places]
    expected = np.array(signs) @ ((1 - turns) * X.data) / np.sqrt(8)
    np.testing.assert_allclose(model.transform(X)[0], expected, rtol=1e-12)

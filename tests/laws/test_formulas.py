"""The variance formulas in floating point = the formulas of the paper in exact arithmetic."""

from fractions import Fraction

import numpy as np
import pytest

import reference
from dotsketch.pairs import PairStatistics
from dotsketch.sketches import CompactSketch, RademacherSketch, make_sketch

TINY = Fraction(1, 1024)
NEARLY_PARALLEL = ((1, TINY), (1, 2 * TINY))  # a naive subtraction would lose its digits
PAIRS = [
    ((1, 2, 0, 1), (2, 1, 1, -1)),
    ((1, -1, 2), (1, 1, 1)),  # γ < 0
    ((2, 1, 1, 1, 3), (2, 1, 1, 1, 3)),
    ((3,), (-2,)),
    ((1, 0), (0, 1)),
    NEARLY_PARALLEL,
]
DEGREES = (1, 2, 3, 4, 5, 8, 13, 21, 30)


def formula(name, field):
    kappa2 = 1 if field == "real" else 0
    m4 = {"real": 3, "complex": 2}[field] if name == "gaussian" else 1
    if name in ("gaussian", "rademacher"):
        return lambda *args, **kw: reference.independent(*args, m4=m4, kappa2=kappa2, **kw)
    if name == "tree_rademacher":
        return lambda *args, **kw: reference.tree(*args, kappa2=kappa2, **kw)
    return lambda *args, **kw: getattr(reference, name)(*args, kappa2=kappa2, **kw)


def assert_close(actual, exact, size=0, rtol=1e-12):
    """Equal to rtol, and to a few roundings of `size`, the size of the terms of the formula."""
    error = abs(Fraction(float(actual)) - exact)
    assert error <= Fraction(rtol) * abs(exact) + Fraction(1e-14) * size, (float(actual), exact)


def statistics(x, y):
    return PairStatistics.between(np.array([x], float), np.array([y], float))


@pytest.mark.parametrize("D", [1, 2, 4, 7, 64])
@pytest.mark.parametrize("field", ["real", "complex"])
@pytest.mark.parametrize(
    "name",
    [
        "gaussian",
        "rademacher",
        "tensor_srht",
        "tensor_sketch",
        "balanced_tensor_sketch",
        "tree_rademacher",
    ],
)
def test_variances_of_degree_1_to_30_lose_nothing(name, field, D):
    for x, y in PAIRS:
        pairs = statistics(x, y)
        for degree in DEGREES:
            sketch = make_sketch(name, degree, D, field)
            size = reference.Pair.of(x, y).N ** degree
            exact = formula(name, field)(x, y, degree, D)
            assert_close(sketch.variance(pairs)[0, 0], exact, size)
            if field == "complex":
                exact = formula(name, field)(x, y, degree, D, pseudo=True)
                assert_close(sketch.pseudo_variance(pairs)[0, 0], exact, size)


@pytest.mark.parametrize("kind", ["independent", "close", "one large coordinate"])
@pytest.mark.parametrize("d", [2, 5, 60, 300])
@pytest.mark.parametrize("name", ["tensor_sketch", "balanced_tensor_sketch"])
def test_terms_of_every_budget_give_the_variance(name, d, kind):
    """To rounding of ((s² + β)ⁿ − s²ⁿ)/D, and to 1e-7 of it where high powers of ρ are left out.

    Not of V itself, which may be far smaller: balanced hashes are exact at degree 1 for D ≥ d.
    """
    rng = np.random.default_rng(d)
    x, y = rng.integers(-4, 5, (2, d)).tolist()
    x[0], y[0] = {"one large coordinate": (100, 120)}.get(kind, (1, 2))
    y = [4 * a + b for a, b in zip(x, y, strict=True)] if kind == "close" else y
    pairs, max_degree = statistics(x, y), 10
    pair = reference.Pair.of(x, y)
    for field, part in (("real", "complex"), ("complex", "complex"), ("complex", "pseudo")):
        sketch = make_sketch(name, 1, 1, field)
        cut = sketch.order(d, max_degree) < max_degree and name == "balanced_tensor_sketch"
        every = list(sketch.terms(pairs, max_degree, part, every_budget=True))
        for D in (1, 2, 7, d, 2 * d + 1):
            for degree in (1, 2, 3, 7, 10):
                actual = sketch.combine(every[degree - 1], D, d)[0, 0]
                exact = formula(name, field)(x, y, degree, D, pseudo=part == "pseudo")
                error = abs(Fraction(float(actual)) - exact)
                A = pair.s**2 + pair.beta
                scale = (A**degree - pair.s ** (2 * degree)) / Fraction(D)
                # β and γ are differences and carry the rounding of N = |x|²|y|²
                slope = degree * A ** (degree - 1) * (Fraction(2, D) + Fraction(2**degree, D * D))
                rounding = Fraction(4e-16) * pair.N * slope
                assert error <= Fraction(1e-7 if cut else 1e-13) * scale + rounding, (field, D)


@pytest.mark.parametrize("name", ["gaussian", "rademacher", "tensor_srht", "tensor_sketch"])
@pytest.mark.parametrize("degree", [2, 10, 30])
def test_tiny_variances_keep_their_digits(name, degree):
    """x·y ≈ |x||y| ≈ 1 and V ≈ 1e-6: a subtraction aⁿ − bⁿ would leave nine digits or fewer."""
    pairs = statistics(*NEARLY_PARALLEL)
    for field in ("real", "complex"):
        exact = formula(name, field)(*NEARLY_PARALLEL, degree, 3)
        assert name == "gaussian" or 0 < exact < 1e-3
        assert_close(make_sketch(name, degree, 3, field).variance(pairs)[0, 0], exact)


@pytest.mark.parametrize("q", [0.0, 0.25, 0.5, 1.0])
@pytest.mark.parametrize("degree", [1, 3, 10])
def test_q_family_depends_on_kappa_squared(q, degree):
    kappa2 = (2 * Fraction(q) - 1) ** 2
    for x, y in PAIRS:
        sketch = RademacherSketch(degree, 5, "complex", q)
        size = reference.Pair.of(x, y).N ** degree
        for method, pseudo in ((sketch.variance, False), (sketch.pseudo_variance, True)):
            exact = reference.independent(x, y, degree, 5, m4=1, kappa2=kappa2, pseudo=pseudo)
            assert_close(method(statistics(x, y))[0, 0], exact, size)


@pytest.mark.parametrize("field", ["real", "complex"])
@pytest.mark.parametrize(("D", "inner"), [(1, 1), (2, 4), (3, 4), (4, 6), (5, 16)])
def test_compact_variance_of_independent_weights(field, D, inner):
    """V_inner + f (1 − 1/E)(Nⁿ + κ²s²ⁿ), the docstring of CompactSketch."""
    x, y = PAIRS[0]
    kappa2, m4 = (1, 3) if field == "real" else (0, 2)
    for degree in (1, 2, 5):
        sketch = CompactSketch.of(make_sketch("gaussian", degree, inner, field), D)
        exact = reference.compact(x, y, degree, D, inner, m4=m4, kappa2=kappa2)
        assert_close(sketch.variance(statistics(x, y))[0, 0], exact)


@pytest.mark.parametrize("name", ["tensor_sketch", "balanced_tensor_sketch"])
def test_compact_tensor_sketch_says_that_no_variance_is_known(name):
    sketch = make_sketch(name, 2, 3, compact=2)
    with pytest.raises(NotImplementedError, match="No closed-form moments are known"):
        sketch.variance(PairStatistics.between(np.eye(2)))

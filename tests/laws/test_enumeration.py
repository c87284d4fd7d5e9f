"""Every sketch is unbiased and has its closed-form variance and pseudo-variance: to rounding."""

import itertools

import numpy as np
import pytest

import reference
from dotsketch.sketches import SKETCHES, CompactSketch, make_sketch
from laws.enumerations import enumerate_weights
from laws.moments import assert_exact_laws, rows

MAX_OUTCOMES = 300
FAMILIES = {
    **{f"{name}-{field}": (name, field, {}) for name in SKETCHES for field in ("real", "complex")},
    "q=0.3": ("rademacher", "complex", {"weights": 0.3}),
    "q=1": ("rademacher", "complex", {"weights": 1.0}),
    "circle": ("rademacher", "complex", {"weights": "circle"}),
}


def settings():
    """All small settings of every family whose outcomes can be enumerated."""
    for family, (name, field, options) in FAMILIES.items():
        for degree, D, d in itertools.product((1, 2, 3, 4, 5), (1, 2, 3, 4, 5), (1, 2, 3, 4)):
            sketch = make_sketch(name, degree, D, field, **options)
            count = enumerate_weights(sketch, d).count
            if count <= MAX_OUTCOMES and (count > 1 or D == 1):
                yield pytest.param(sketch, d, id=f"{family}-degree{degree}-D{D}-d{d}")


@pytest.mark.parametrize(("sketch", "dimension"), list(settings()))
def test_mean_and_variances_are_exact(sketch, dimension):
    assert_exact_laws(sketch, rows(dimension), enumerate_weights(sketch, dimension))


MORE = [
    # sketch, field, degree, projections, dimension
    ("tensor_srht", "real", 2, 3, 3),  # a partial block of padded inputs
    ("tensor_srht", "real", 3, 2, 3),
    ("tensor_srht", "complex", 1, 5, 3),  # a full and a partial block
    ("tensor_srht", "complex", 2, 2, 3),
    ("tree_rademacher", "real", 3, 2, 2),
    ("tree_srht", "real", 4, 3, 1),
    ("tree_srht", "complex", 3, 2, 2),
    ("balanced_tensor_sketch", "real", 2, 2, 4),  # more coordinates than buckets
]
COMPACT = [
    # inner sketch, field, degree, inner projections, dimension, projections
    ("rademacher", "real", 1, 2, 3, 1),
    ("rademacher", "real", 2, 2, 2, 2),
    ("rademacher", "real", 2, 3, 2, 2),  # padded to 4
    ("rademacher", "complex", 1, 2, 2, 2),
    ("rademacher", "complex", 2, 2, 2, 1),
    ("gaussian", "real", 1, 2, 2, 1),
    ("tensor_srht", "real", 2, 4, 2, 3),
    ("tensor_srht", "complex", 2, 2, 2, 2),
    ("tensor_srht", "complex", 1, 3, 2, 2),
    ("tree_srht", "real", 3, 2, 2, 1),
    ("tree_rademacher", "real", 3, 2, 2, 2),
]


@pytest.mark.parametrize("case", [*MORE, *COMPACT], ids=str)
def test_mean_and_variances_are_exact_where_families_differ(case):
    name, field, degree, D, d, *projections = case
    sketch = make_sketch(name, degree, D, field)
    sketch = CompactSketch.of(sketch, *projections) if projections else sketch
    enumeration = enumerate_weights(sketch, d)
    assert (0 if projections else MAX_OUTCOMES) < enumeration.count < 5000
    assert_exact_laws(sketch, rows(d), enumeration)


@pytest.mark.parametrize(
    ("name", "field", "degree", "D", "d"),
    [
        ("rademacher", "complex", 1, 2, 2),
        ("rademacher", "real", 2, 2, 2),
        ("tensor_srht", "real", 1, 3, 3),
        ("tensor_srht", "real", 2, 2, 2),
        ("tensor_srht", "real", 2, 3, 2),
        ("tensor_srht", "complex", 1, 3, 2),
        ("tensor_sketch", "real", 2, 3, 2),
        ("tensor_sketch", "complex", 1, 3, 2),
        ("balanced_tensor_sketch", "real", 2, 3, 2),
        ("balanced_tensor_sketch", "complex", 1, 3, 2),
    ],
)
def test_laws_hold_without_any_use_of_symmetry(name, field, degree, D, d):
    """The same by all signs, permutations and hashes: the reductions above are sound."""
    sketch = make_sketch(name, degree, D, field)
    enumeration = enumerate_weights(sketch, d, reduced=False)
    assert enumerate_weights(sketch, d).count < enumeration.count < 5000
    assert_exact_laws(sketch, rows(d), enumeration)


@pytest.mark.parametrize("compact", [None, 2])
@pytest.mark.parametrize("field", ["real", "complex"])
@pytest.mark.parametrize("name", SKETCHES)
@pytest.mark.parametrize(("degree", "D", "d"), [(1, 3, 1), (2, 5, 3), (3, 4, 4), (5, 3, 2)])
def test_features_are_those_of_the_definition(name, field, compact, degree, D, d, rng):
    """`apply` = full projection matrices, direct convolutions and explicit trees."""
    sketch = make_sketch(name, degree, D, field, compact=compact)
    X = rows(d)
    weights = sketch.sample(d, rng)
    Z = sketch.apply(X, weights)
    assert np.iscomplexobj(Z) == (field == "complex")
    np.testing.assert_allclose(Z, reference.features(sketch, X, weights), rtol=1e-10, atol=1e-12)

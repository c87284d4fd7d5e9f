"""The random weights of a sketch against the sketch: shapes, ranges and permutations.

What a sketch samples has shapes that follow from its degree, its number of projections and the
dimension. A file in which they differ is refused, so that a forged count allocates nothing and no
kernel reads an index that lies outside.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .._transforms import power_of_two
from ..sketches.monomials import monomial_projections
from .errors import PersistenceError

# Weights with integers -> the range of each
WEIGHTS: dict[str, dict[str, tuple[int, int]]] = {
    "HashWeights": {"turns": (0, 3)},
    "SRHTWeights": {"turns": (0, 3)},
    "StructuredFrequencies": {"signs": (-1, 1)},
    "TurnWeights": {"turns": (0, 3)},
}


def check_alone(name: str, weights: Any) -> None:
    """Raise unless the integers of the weights lie in their ranges."""
    for field, (least, largest) in WEIGHTS[name].items():
        check_range(f"{name}.{field}", getattr(weights, field), least, largest)
    if name == "SRHTWeights":
        places = weights.places
        if not np.array_equal(
            np.sort(places, axis=2), np.broadcast_to(np.arange(places.shape[2]), places.shape)
        ):
            raise PersistenceError("SRHTWeights.places are no permutations.")


def check_range(where: str, values: np.ndarray, least: int, largest: int) -> None:
    if values.size and not least <= values.min() <= values.max() <= largest:
        raise PersistenceError(f"{where} has values outside {least} to {largest}.")


def check_weights(sketch: Any, weights: Any, dimension: int) -> None:
    """Raise unless the sketch could have drawn the weights for this dimension."""
    name = type(sketch).__name__
    if name not in SKETCHES:
        raise PersistenceError(f"{name} is no sketch.")
    SKETCHES[name](sketch, weights, dimension)


def check_frequencies(frequencies: Any, weights: Any, dimension: int) -> None:
    """The same for `Frequencies`."""
    D = frequencies.n_frequencies
    if frequencies.projection == "sorf":
        p = power_of_two(dimension)
        _expect(weights, "StructuredFrequencies", signs=(-(-D // p), 3, p), scales=(D,))
    else:
        _expect(weights, "DenseFrequencies", matrix=(D, dimension))


def _expect(weights: Any, name: str, **shapes: tuple[int, ...]) -> None:
    """Raise unless the weights are of this class, with arrays of these shapes."""
    if type(weights).__name__ != name:
        raise PersistenceError(f"The weights are no {name}.")
    for field, shape in shapes.items():
        found = getattr(weights, field).shape
        if found != shape:
            raise PersistenceError(f"{name}.{field} has the shape {found}, not {shape}.")


def _turns(weights: Any, count: int, n_projections: int, dimension: int) -> None:
    _expect(weights, "TurnWeights", turns=(count, n_projections, dimension))


def _srht(weights: Any, count: int, n_projections: int, dimension: int) -> None:
    d = power_of_two(dimension)
    shape = (count, -(-n_projections // d), d)
    _expect(weights, "SRHTWeights", turns=shape, places=shape)


def _check_product(sketch: Any, weights: Any, dimension: int) -> None:
    _srht(weights, sketch.degree, sketch.n_projections, dimension)


def _check_rademacher(sketch: Any, weights: Any, dimension: int) -> None:
    if sketch.weights == "circle":
        shape = (sketch.degree, sketch.n_projections, dimension)
        _expect(weights, "AngleWeights", angles=shape)
    else:
        _turns(weights, sketch.degree, sketch.n_projections, dimension)


def _check_gaussian(sketch: Any, weights: Any, dimension: int) -> None:
    parts = 2 if sketch.is_complex else 1
    shape = (sketch.degree, parts, sketch.n_projections, dimension)
    _expect(weights, "GaussianWeights", values=shape)


def _check_hashes(sketch: Any, weights: Any, dimension: int) -> None:
    shape = (sketch.degree, dimension)
    _expect(weights, "HashWeights", buckets=shape, turns=shape)
    check_range("HashWeights.buckets", weights.buckets, 0, sketch.n_projections - 1)


def _check_monomials(sketch: Any, weights: Any, dimension: int) -> None:
    count = monomial_projections(sketch.degree, dimension)
    second = 0 if sketch.degree == 1 else count
    _expect(weights, "MonomialWeights", first=(count,), second=(second,), factor=(count,))
    if sketch.n_projections != monomial_projections(sketch.degree, dimension, sketch.packed):
        raise PersistenceError("MonomialSketch.n_projections does not fit its degree.")
    for field in ("first", "second"):
        check_range(f"MonomialWeights.{field}", getattr(weights, field), 0, dimension - 1)


def _check_tree(sketch: Any, weights: Any, dimension: int) -> None:
    check = _turns if type(sketch).__name__ == "RademacherTree" else _srht
    if type(weights).__name__ != "TreeWeights":
        raise PersistenceError("The weights are no TreeWeights.")
    D = sketch.n_projections
    check(weights.leaves, power_of_two(sketch.degree), D, dimension)
    inner = sketch._inner_projections
    if inner:
        check(weights.nodes, inner, D, D)
    elif weights.nodes is not None:
        raise PersistenceError("TreeWeights.nodes are there, and the tree has none.")


def _check_compact(sketch: Any, weights: Any, dimension: int) -> None:
    if type(weights).__name__ != "CompactWeights":
        raise PersistenceError("The weights are no CompactWeights.")
    check_weights(sketch.inner, weights.up, dimension)
    _srht(weights.down, 1, sketch.n_projections, sketch.inner.n_projections)


SKETCHES = {
    "BalancedTensorSketch": _check_hashes,
    "CompactSketch": _check_compact,
    "GaussianSketch": _check_gaussian,
    "MonomialSketch": _check_monomials,
    "RademacherSketch": _check_rademacher,
    "RademacherTree": _check_tree,
    "SRHTTree": _check_tree,
    "TensorSRHT": _check_product,
    "TensorSketch": _check_hashes,
}

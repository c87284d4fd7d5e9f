"""The random weights of features against the features: classes, shapes and indices.

What a sketch samples has shapes that follow from its degree, its number of projections and the
dimension: `SKETCHES` states them. A file in which they differ is refused, so that a forged count
allocates nothing and no kernel reads an index that lies outside.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .._backends import power_of_two
from ..sketches.monomials import monomial_projections
from .errors import PersistenceError
from .shapes import check_range


class Indices(NamedTuple):
    """An array of this shape with values in 0 … stop − 1."""

    shape: tuple[int, ...]
    stop: int


class Expected(NamedTuple):
    """An instance of the class of this name; a field is None, a shape, `Indices` or `Expected`."""

    name: str
    fields: dict[str, Any]


def check_weights(expected: Expected, found: Any) -> None:
    """Raise unless the weights are what is expected."""
    if type(found).__name__ != expected.name:
        raise PersistenceError(f"The weights are no {expected.name}.")
    for field, wanted in expected.fields.items():
        value, where = getattr(found, field), f"{expected.name}.{field}"
        if isinstance(wanted, Expected):
            check_weights(wanted, value)
            continue
        if wanted is None:
            if value is not None:
                raise PersistenceError(f"{where} are there, and the sketch has none.")
            continue
        shape = wanted.shape if isinstance(wanted, Indices) else wanted
        if value.shape != shape:
            raise PersistenceError(f"{where} has the shape {value.shape}, not {shape}.")
        if isinstance(wanted, Indices):
            check_range(where, value, 0, wanted.stop - 1)


def sketch_weights(sketch: Any, dimension: int) -> Expected:
    """What the sketch draws for this dimension."""
    name = type(sketch).__name__
    if name not in SKETCHES:
        raise PersistenceError(f"{name} is no sketch.")
    return SKETCHES[name](sketch, dimension)


def frequency_weights(frequencies: Any, dimension: int) -> Expected:
    """The same for `Frequencies`."""
    D = frequencies.n_frequencies
    if frequencies.projection == "sorf":
        p = power_of_two(dimension)
        return Expected("StructuredFrequencies", {"signs": (-(-D // p), 3, p), "scales": (D,)})
    return Expected("DenseFrequencies", {"matrix": (D, dimension)})


def _turns(count: int, n_projections: int, dimension: int) -> Expected:
    return Expected("TurnWeights", {"turns": (count, n_projections, dimension)})


def _srht(count: int, n_projections: int, dimension: int) -> Expected:
    d = power_of_two(dimension)
    shape = (count, -(-n_projections // d), d)
    return Expected("SRHTWeights", {"turns": shape, "places": shape})


def _rademacher(sketch: Any, dimension: int) -> Expected:
    shape = (sketch.degree, sketch.n_projections, dimension)
    if sketch.weights == "circle":
        return Expected("AngleWeights", {"angles": shape})
    return _turns(*shape)


def _gaussian(sketch: Any, dimension: int) -> Expected:
    parts = 2 if sketch.is_complex else 1
    shape = (sketch.degree, parts, sketch.n_projections, dimension)
    return Expected("GaussianWeights", {"values": shape})


def _hashes(sketch: Any, dimension: int) -> Expected:
    shape = (sketch.degree, dimension)
    buckets = Indices(shape, sketch.n_projections)
    return Expected("HashWeights", {"buckets": buckets, "turns": shape})


def _monomials(sketch: Any, dimension: int) -> Expected:
    if sketch.n_projections != monomial_projections(sketch.degree, dimension, sketch.packed):
        raise PersistenceError("MonomialSketch.n_projections does not fit its degree.")
    count = monomial_projections(sketch.degree, dimension)
    return Expected("MonomialWeights", {"factor": (count,)})


def _tree(projections: Callable[[int, int, int], Expected]) -> Callable[[Any, int], Expected]:
    def weights(sketch: Any, dimension: int) -> Expected:
        D, inner = sketch.n_projections, sketch._inner_projections
        leaves = projections(power_of_two(sketch.degree), D, dimension)
        nodes = projections(inner, D, D) if inner else None
        return Expected("TreeWeights", {"leaves": leaves, "nodes": nodes})

    return weights


def _compact(sketch: Any, dimension: int) -> Expected:
    up = sketch_weights(sketch.inner, dimension)
    down = _srht(1, sketch.n_projections, sketch.inner.n_projections)
    return Expected("CompactWeights", {"up": up, "down": down})


SKETCHES: dict[str, Callable[[Any, int], Expected]] = {
    "BalancedTensorSketch": _hashes,
    "CompactSketch": _compact,
    "GaussianSketch": _gaussian,
    "MonomialSketch": _monomials,
    "RademacherSketch": _rademacher,
    "RademacherTree": _tree(_turns),
    "SRHTTree": _tree(_srht),
    "TensorSRHT": lambda sketch, d: _srht(sketch.degree, sketch.n_projections, d),
    "TensorSketch": _hashes,
}


def _check_polynomial(instance: Any, state: dict[str, Any]) -> None:
    if "weights_" in state:
        design = state["design_"]
        dimension = state["n_features_in_"] + design.has_constant
        check_weights(sketch_weights(design.sketch, dimension), state["weights_"])


def _check_maclaurin(instance: Any, state: dict[str, Any]) -> None:
    if "weights_" not in state:
        return
    design, weights = state["design_"], state["weights_"]
    blocks = design.blocks
    if not isinstance(weights, tuple) or len(weights) != len(blocks):
        raise PersistenceError("MaclaurinFeatures.weights_ are not those of its blocks.")
    for block, drawn in zip(blocks, weights, strict=True):
        if block.sketch is not None:
            check_weights(sketch_weights(block.sketch, state["n_features_in_"]), drawn)
    if sum(block.width for block in blocks) > design.n_projections:
        raise PersistenceError("MaclaurinFeatures.weights_ have more columns than n_components.")


def _check_frequency_map(instance: Any, state: dict[str, Any]) -> None:
    if "weights_" not in state:
        return
    design = state["design_"]
    expected = frequency_weights(design.frequencies, state["n_features_in_"])
    if type(state["weights_"]).__name__ == "WaveWeights":
        phase = (int(design.has_phase),)
        expected = Expected("WaveWeights", {"phase": phase, "frequencies": expected})
    check_weights(expected, state["weights_"])


def _check_nystrom(instance: Any, state: dict[str, Any]) -> None:
    if "weights_" in state:
        # of landmarks, dense or CSR
        rows = np.shape(getattr(state["weights_"], "rows", np.empty((0, 0))))[0]
        expected = {
            "rows": (rows, state["n_features_in_"]),
            "normalization": (rows, state["design_"].n_components),
        }
        check_weights(Expected("Basis", expected), state["weights_"])


def _check_permutations(instance: Any, state: dict[str, Any]) -> None:
    places = state["places"]
    if np.any(np.sort(places, axis=2) != np.arange(places.shape[2])):
        raise PersistenceError("SRHTWeights.places are no permutations.")


RELATIONS: dict[str, Callable[[Any, dict[str, Any]], None]] = {
    "FourierFeatures": _check_frequency_map,
    "MaclaurinFeatures": _check_maclaurin,
    "NystromFeatures": _check_nystrom,
    "PolynomialSketch": _check_polynomial,
    "PositiveFeatures": _check_frequency_map,
    "SRHTWeights": _check_permutations,
    "SphericalFeatures": _check_frequency_map,
}

"""The classes of dotsketch that a file may hold, and what their attributes may be.

`OWN` is the list: a class that stands in no line is neither saved nor loaded. A line has the
arrays of a class as in `shapes`; `RELATIONS` compares the parts of an estimator, so that no count
that a file claims is larger than the arrays behind it. Integers are bounded everywhere, also
inside lists, and dataclasses are validated by their own `__post_init__`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse

from .errors import PersistenceError
from .shapes import MAX_COLUMNS, MAX_COUNT, MAX_DEGREE, MAX_JOBS, Arrays, bounded, check_array
from .weight_checks import WEIGHTS, check_alone, check_frequencies, check_weights

MAX_INTEGER = 2**53  # of numbers of rows
# What a name contains, and the largest integer under such a name; the first that fits
BOUNDS = (
    ("degree", MAX_DEGREE),
    ("order", MAX_DEGREE),
    ("n_projections", MAX_COLUMNS),
    ("n_components", MAX_COLUMNS),
    ("n_jobs", MAX_JOBS),
    ("n_", MAX_COUNT),
)
UNBOUNDED = ("random_state", "seed", "class_weight")

NONE: Arrays = {}
PACKED = ("fc", (("packed",),))
OWN: dict[str, Arrays] = {
    # kernels and feature maps
    **dict.fromkeys(("ArcCosine", "Exponential", "Gaussian", "Maclaurin", "Polynomial"), NONE),
    **dict.fromkeys(("AutoFeatures", "FourierFeatures", "MaclaurinFeatures"), NONE),
    **dict.fromkeys(("NystromFeatures", "PolynomialSketch", "PositiveFeatures"), NONE),
    "SphericalFeatures": NONE,
    # sketches and maps, and their weights
    **dict.fromkeys(("BalancedTensorSketch", "CompactSketch", "GaussianSketch"), NONE),
    **dict.fromkeys(("MonomialSketch", "RademacherSketch", "RademacherTree", "SRHTTree"), NONE),
    **dict.fromkeys(("TensorSRHT", "TensorSketch"), NONE),
    **dict.fromkeys(("FourierMap", "PositiveMap", "SphericalMap"), NONE),
    "AngleWeights": {"angles": ("f", (("p", "D", "d"),))},
    "Basis": {
        "rows": ("f", (("D", "d"),)),
        "indices": ("iu", (("D",),)),
        "normalization": ("f", (("D", "D"),)),
        "relative_eigenvalues": ("f", (("D",),)),
    },
    "CompactWeights": NONE,
    "DenseFrequencies": {"matrix": ("f", (("D", "d"),))},
    "GaussianWeights": {"values": ("f", (("p", "r", "D", "d"),))},
    "HashWeights": {"buckets": ("i", (("p", "d"),)), "turns": ("i", (("p", "d"),))},
    "MonomialWeights": {
        "first": ("i", (("m",),)),
        "second": ("i", (("m",), (0,))),
        "factor": ("f", (("m",),)),
    },
    "SRHTWeights": {"turns": ("i", (("p", "b", "d"),)), "places": ("i", (("p", "b", "d"),))},
    "Shift": {"centre": ("f", (("d",),))},
    "SketchedBlock": NONE,
    "StructuredFrequencies": {"signs": ("i", (("b", 3, "d"),)), "scales": ("f", (("D",),))},
    "TreeWeights": NONE,
    "TurnWeights": {"turns": ("i", (("p", "D", "d"),))},
    "WaveWeights": {"phase": ("f", ((0,), (1,)))},
    # expansions, allocations and plans
    "Allocation": {
        "degrees": ("iu", (("b",),)),
        "projections": ("iu", (("b",),)),
        "coefficients": ("f", (("b",),)),
        "exact": ("b", (("b",),)),
        "variances": ("f", (("b",),)),
    },
    "MaclaurinExpansion": {"mean": ("f", (("d",),))},
    "MeanSplitExpansion": {"direction": ("f", (("d",),)), "functions": ("f", (("b", "n"),))},
    "RadialDensity": {"radii": ("f", (("r",),)), "weights": ("f", (("r",),))},
    **dict.fromkeys(("FourierCandidate", "MaclaurinCandidate", "NystromCandidate"), NONE),
    **dict.fromkeys(("PolynomialCandidate", "PositiveCandidate", "SphericalCandidate"), NONE),
    **dict.fromkeys(("ComplexAdvantage", "LeftOut", "Plan", "PlannedCandidate"), NONE),
    # Gaussian processes
    "DirichletLabels": {"means": ("f", (("c",),))},
    "ExactGPClassifier": {
        "X_train_": ("f", (("n", "d"),)),
        "_codes": ("iu", (("n",),)),
        "classes_": ("iufbOUS", (("c",),)),
        "class_weights_": ("f", (("c",),)),
        "frequencies_": ("f", (("c",),)),
    },
    "ExactGPRegressor": {
        "X_train_": ("f", (("n", "d"),)),
        "means_": ("f", (("k",),)),
        "scales_": ("f", (("k",),)),
    },
    "ExactPosterior": {"factor": PACKED, "weights": ("fc", (("D", "k"),))},
    "FeatureGPClassifier": {
        "_named": ("iufbOUS", (("any",),)),
        "_probe": ("fc", (("any", "any"),)),
        "classes_": ("iufbOUS", (("c",),)),
        "class_weights_": ("f", (("c",),)),
        "frequencies_": ("f", (("c",),)),
    },
    "FeatureGPRegressor": {
        "_probe": ("fc", (("any", "any"),)),
        "means_": ("f", (("k",),)),
        "offset_": ("f", (("k",),)),
        "scales_": ("f", (("k",),)),
    },
    "Posterior": {"factor": PACKED, "mean": ("fc", (("D", "k"),))},
    "Reservoir": {"rows": ("fc", (("n", "D"),)), "labels": ("iufbOUS", (("n",),))},
    "SufficientStatistics": {
        "second_moment": PACKED,
        "cross": ("fc", (("D", "k"),)),
        "plain": ("f", ((2, "any"),)),
        "targets": ("fc", (("k", "k"),)),
    },
}
SPARSE = {"X_train_"}  # what may be sparse rows


def check_own(name: str, instance: Any, state: dict[str, Any]) -> None:
    """Raise unless an instance of a class of dotsketch may have this state."""
    for field, value in state.items():
        _check_integers(f"{name}.{field}", field, value)
    parameters = instance.get_params(deep=False) if hasattr(instance, "get_params") else {}
    lengths: dict[str, int] = {}
    if "n_features_in_" in state:
        lengths["d"] = bounded(f"{name}.n_features_in_", state["n_features_in_"])
    arrays = OWN[name]
    for field, value in state.items():
        if isinstance(value, np.ndarray) and field not in arrays and field not in parameters:
            raise PersistenceError(f"{name}.{field} is an array, and {name} has none there.")
    for field, (kinds, shapes) in arrays.items():  # in this order, which says what letters are
        value = state.get(field)
        if value is not None and not (field in SPARSE and scipy.sparse.issparse(value)):
            check_array(f"{name}.{field}", value, kinds, shapes, lengths)
    D = lengths.get("D", 0)
    if lengths.get("packed", 0) != D * (D + 1) // 2 and "packed" in lengths:
        raise PersistenceError(f"A triangle of {name} does not fit its other arrays.")
    if dataclasses.is_dataclass(instance) and hasattr(instance, "__post_init__"):
        instance.__post_init__()
    if name in WEIGHTS:
        check_alone(name, instance)
    if name in RELATIONS:
        RELATIONS[name](instance, state)


def _check_integers(where: str, field: str, value: Any) -> None:
    """Raise if an integer, also one inside of lists, is larger than anything it counts."""
    if field.strip("_") in UNBOUNDED:
        return
    if isinstance(value, (list, tuple)):
        for item in value:
            _check_integers(where, field, item)
    elif isinstance(value, dict):
        for item in value.values():
            _check_integers(where, field, item)
    elif isinstance(value, (int, np.integer)):
        largest = next((bound for text, bound in BOUNDS if text in field), MAX_INTEGER)
        if abs(int(value)) > largest:
            raise PersistenceError(f"{where} is {value}, beyond {largest}.")


def _check_polynomial(instance: Any, state: dict[str, Any]) -> None:
    if "weights_" in state:
        check_weights(state["sketch_"], state["weights_"], instance._dimension)


def _check_maclaurin(instance: Any, state: dict[str, Any]) -> None:
    if "blocks_" not in state:
        return
    columns = 0
    for block in state["blocks_"]:
        if type(block).__name__ != "SketchedBlock":
            raise PersistenceError("MaclaurinFeatures.blocks_ are no blocks.")
        if block.sketch is None:
            columns += 1
        else:
            check_weights(block.sketch, block.weights, state["n_features_in_"])
            columns += block.sketch.n_projections
    if columns > state["n_projections_"]:
        raise PersistenceError("MaclaurinFeatures.blocks_ have more columns than n_projections_.")


def _check_frequency_map(instance: Any, state: dict[str, Any]) -> None:
    if "weights_" not in state:
        return
    weights = state["weights_"]
    if type(weights).__name__ == "WaveWeights":
        if len(weights.phase) != int(state["map_"].has_phase):
            raise PersistenceError("WaveWeights.phase does not fit the number of columns.")
        weights = weights.frequencies
    check_frequencies(state["map_"].frequencies, weights, state["n_features_in_"])


def _check_nystrom(instance: Any, state: dict[str, Any]) -> None:
    if "basis_" in state:
        expected = (state["n_projections_"], state["n_features_in_"])
        if type(state["basis_"]).__name__ != "Basis" or state["basis_"].rows.shape != expected:
            raise PersistenceError(f"NystromFeatures.basis_ is no basis of the shape {expected}.")


RELATIONS: dict[str, Callable[[Any, dict[str, Any]], None]] = {
    "FourierFeatures": _check_frequency_map,
    "MaclaurinFeatures": _check_maclaurin,
    "NystromFeatures": _check_nystrom,
    "PolynomialSketch": _check_polynomial,
    "PositiveFeatures": _check_frequency_map,
    "SphericalFeatures": _check_frequency_map,
}

"""Relations between the parts of scikit-learn's encoders and of its polynomial features.

Values that `fit` derives from others are computed again and not read.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .errors import PersistenceError
from .shapes import MAX_COLUMNS, MAX_DEGREE, bounded

MAX_POWERS = 1 << 25  # columns of PolynomialFeatures times its inputs


def _indices(where: str, values: Any, stop: int) -> None:
    """Raise unless these are integers in 0 … stop − 1."""
    array = np.asarray(values)
    if array.ndim > 1 or array.dtype.kind not in "iu":
        raise PersistenceError(f"{where} are no integers.")
    if array.size and not 0 <= array.min() <= array.max() < stop:
        raise PersistenceError(f"{where} do not lie in 0 to {stop - 1}.")


def _check_categories(name: str, state: dict[str, Any]) -> list[np.ndarray]:
    """The categories: one ascending array per column, since scikit-learn searches by bisection."""
    found = state["categories_"]
    if not isinstance(found, list) or len(found) != state.get("n_features_in_"):
        raise PersistenceError(f"{name}.categories_ is no list of one array per column.")
    for values in found:
        if not isinstance(values, np.ndarray) or values.ndim != 1 or values.dtype.kind in "cV":
            raise PersistenceError(f"{name}.categories_ holds something that is no row of values.")
        if values.dtype.kind in "iufb":
            finite = (
                values[:-1] if values.dtype.kind == "f" and np.isnan(values[-1:]).any() else values
            )
            if not np.all(finite[:-1] < finite[1:]):
                raise PersistenceError(f"{name}.categories_ are not in ascending order.")
    return found


def _check_encoder(instance: Any, state: dict[str, Any]) -> None:
    name = type(instance).__name__
    if "categories_" not in state:
        if set(state) & {"_n_features_outs", "drop_idx_", "_infrequent_indices"}:
            raise PersistenceError(f"{name} lacks categories_.")
        return
    categories = _check_categories(name, state)
    for field in ("drop_idx_", "_drop_idx_after_grouping"):
        for index, values in zip(
            state[field] if state.get(field) is not None else (), categories, strict=False
        ):
            if index is not None:
                _indices(f"{name}.{field}", index, len(values))
    infrequent = state.get("_infrequent_indices", [None] * len(categories))
    mappings = state.get("_default_to_infrequent_mappings", [None] * len(categories))
    for indices, mapping, values in zip(infrequent, mappings, categories, strict=True):
        if (indices is None) != (mapping is None):
            raise PersistenceError(f"{name} has infrequent categories without a mapping.")
        if indices is not None:
            _indices(f"{name}._infrequent_indices", indices, len(values))
            kept = len(values) - len(indices) + 1
            _indices(f"{name}._default_to_infrequent_mappings", mapping, kept)
            if len(mapping) != len(values) or len(np.unique(indices)) != len(indices):
                raise PersistenceError(f"{name} has a mapping of another length.")
    if state.get("_infrequent_enabled") not in (True, False):
        raise PersistenceError(f"{name}._infrequent_enabled is no truth value.")
    if state["_infrequent_enabled"] and "_infrequent_indices" not in state:
        raise PersistenceError(f"{name} lacks _infrequent_indices.")
    if name == "OneHotEncoder":  # how many columns follows from the categories
        instance._n_features_outs = instance._compute_n_features_outs()


def _check_bins(instance: Any, state: dict[str, Any]) -> None:
    if "bin_edges_" not in state:
        return
    edges, n_bins = state["bin_edges_"], state["n_bins_"]
    for row, count in zip(edges, n_bins, strict=True):
        if not isinstance(row, np.ndarray) or row.dtype.kind != "f" or row.ndim != 1:
            raise PersistenceError("KBinsDiscretizer.bin_edges_ are no rows of numbers.")
        if len(row) != count + 1 or not np.all(row[:-1] <= row[1:]):
            raise PersistenceError("KBinsDiscretizer.bin_edges_ do not fit n_bins_.")
    encoder = state.get("_encoder")
    if encoder is None and state["encode"] == "ordinal":
        return
    found = getattr(encoder, "categories_", None)
    if type(encoder).__name__ != "OneHotEncoder" or found is None or len(found) != len(edges):
        raise PersistenceError("KBinsDiscretizer._encoder is no fitted encoder.")
    for values, count in zip(found, n_bins, strict=True):
        if not np.array_equal(values, np.arange(count)):
            raise PersistenceError("KBinsDiscretizer._encoder has other bins.")


def _check_powers(instance: Any, state: dict[str, Any]) -> None:
    fitted = "n_output_features_", "_min_degree", "_max_degree"
    if not any(name in state for name in fitted):
        return
    missing = [name for name in fitted if name not in state]
    if missing:  # the names of the columns need only some of them
        raise PersistenceError(f"PolynomialFeatures has no {missing[0]}.")
    d = bounded("PolynomialFeatures.n_features_in_", state.get("n_features_in_"))
    least, largest = (
        bounded(f"PolynomialFeatures.{n}", state[n]) for n in ("_min_degree", "_max_degree")
    )
    if (
        not least <= largest <= MAX_DEGREE
        or math.comb(d + min(largest, MAX_DEGREE), d) > MAX_COLUMNS
    ):
        raise PersistenceError(
            f"PolynomialFeatures of degree {largest} has over {MAX_COLUMNS} columns."
        )
    options = {"interaction_only": instance.interaction_only, "include_bias": instance.include_bias}
    count = type(instance)._num_combinations
    full = count(n_features=d, min_degree=0, max_degree=largest, **options)
    some = count(n_features=d, min_degree=least, max_degree=largest, **options)
    if some * d > MAX_POWERS:  # scikit-learn makes this table for the names of the columns
        raise PersistenceError(
            f"PolynomialFeatures with {d} inputs and {some} columns has over {MAX_POWERS} powers."
        )
    instance.n_output_features_, instance._n_out_full = some, full


RELATIONS: dict[str, Callable[[Any, dict[str, Any]], None]] = {
    "KBinsDiscretizer": _check_bins,
    "OneHotEncoder": _check_encoder,
    "OrdinalEncoder": _check_encoder,
    "PolynomialFeatures": _check_powers,
}

"""What the attributes of a loaded object may be: checked before native code sees them.

Arrays must be those that `classes` states for the class. The integers of dotsketch's own classes
are bounded, also inside lists, and its dataclasses are validated by their own `__post_init__`.
`RELATIONS` compare the parts of an object, so that no count that a file claims is larger than the
arrays behind it.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import scipy.sparse

from . import encoder_checks, weight_checks
from .classes import OWN, SCIKIT_LEARN
from .errors import PersistenceError
from .shapes import (
    MAX_COLUMNS,
    MAX_COUNT,
    MAX_DEGREE,
    MAX_DRAWS,
    MAX_JOBS,
    bounded,
    check_array,
)

MAX_INTEGER = 2**53  # of numbers of rows
# What a name contains, and the largest integer under such a name; the first that fits
BOUNDS = (
    ("degree", MAX_DEGREE),
    ("order", MAX_DEGREE),
    ("n_projections", MAX_COLUMNS),
    ("n_components", MAX_COLUMNS),
    ("n_samples", MAX_DRAWS),
    ("n_", MAX_COUNT),
)
UNBOUNDED = ("random_state", "seed", "class_weight")
SPARSE = ("X_train_", "coef_", "rows")  # what may be sparse
PACKAGES = {
    "dotsketch": (OWN, weight_checks.RELATIONS),
    "sklearn": (SCIKIT_LEARN, encoder_checks.RELATIONS),
}


def check(name: str, instance: Any, state: dict[str, Any]) -> None:
    """Raise PersistenceError unless an object of the class `name` may have this state."""
    package, _, short = name.partition(".")
    classes, relations = PACKAGES[package]
    is_own = package == "dotsketch"
    if is_own:
        for field, value in state.items():
            _check_integers(f"{short}.{field}", field, value)
    if state.get("n_jobs") is not None:
        bounded(f"{short}.n_jobs", state["n_jobs"], MAX_JOBS, least=-MAX_JOBS)
    _check_arrays(short, instance, state, classes[short], is_own)
    if is_own and dataclasses.is_dataclass(instance) and hasattr(instance, "__post_init__"):
        instance.__post_init__()
    if short in relations:
        relations[short](instance, state)


def _check_arrays(
    name: str, instance: Any, state: dict[str, Any], arrays: dict[str, str], is_own: bool
) -> None:
    """Raise unless the arrays are those of the class; scikit-learn may have a scalar instead."""
    parameters = instance.get_params(deep=False) if hasattr(instance, "get_params") else {}
    lengths: dict[str, int] = {}
    if "n_features_in_" in state:
        # Without an array of that length in the file, names of columns would be all that it costs
        sized = (field for field, text in arrays.items() if "d" in text.partition(":")[2].split())
        is_sized = is_own or any(_is_array(state.get(field)) for field in sized)
        largest = MAX_COUNT if is_sized else MAX_COLUMNS
        lengths["d"] = bounded(f"{name}.n_features_in_", state["n_features_in_"], largest)
    if not is_own:
        arrays = arrays | {"feature_names_in_": "O: d"}
    for field, value in state.items():
        if _is_array(value) and field not in arrays and field not in parameters:
            raise PersistenceError(f"{name}.{field} is an array, and {name} has none there.")
    for field, description in arrays.items():  # in this order, which says what letters are
        value = state.get(field)
        is_sparse = scipy.sparse.issparse(value)
        if is_sparse and field in SPARSE:
            continue
        if _is_array(value) or (is_own and value is not None):
            check_array(f"{name}.{field}", value, description, lengths)


def _is_array(value: Any) -> bool:
    return isinstance(value, np.ndarray) or bool(scipy.sparse.issparse(value))


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

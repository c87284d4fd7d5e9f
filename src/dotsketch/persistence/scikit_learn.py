"""The estimators of scikit-learn that files hold: those that dotsketch builds, and unions.

They are rebuilt by their public constructors from the parameters that differ from the defaults, and
get the fitted values of the file, which are checked. Files survive new versions of scikit-learn.

- `Pipeline`, `FeatureUnion` and `FrozenEstimator` consist of their parameters
- `StandardScaler`: means, variances, scales
- `PowerTransformer`: its powers, if it does not standardise
"""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import PowerTransformer, StandardScaler

from .._support.stored import MOST_COLUMNS
from .container import PersistenceError

NAMES = ("n_features_in_", "feature_names_in_")
# The public fitted attributes that a file has
CLASSES: dict[type, tuple[str, ...]] = {
    FeatureUnion: (),
    FrozenEstimator: (),
    Pipeline: ("facts_",),  # of the command line: plain values
    PowerTransformer: ("lambdas_", *NAMES),
    StandardScaler: ("mean_", "var_", "scale_", "n_samples_seen_", *NAMES),
}


def state_of(value: Any) -> dict[str, Any]:
    """Parameters that differ from the defaults, and the fitted attributes."""
    defaults = inspect.signature(type(value)).parameters
    parameters = value.get_params(deep=False).items()
    state = {name: p for name, p in parameters if p is not defaults[name].default}
    fitted = vars(value)
    return state | {name: fitted[name] for name in CLASSES[type(value)] if name in fitted}


def rebuild(cls: Any, state: dict[str, Any]) -> Any:
    """The estimator with these parameters and fitted attributes."""
    fitted = {name: value for name, value in state.items() if name.endswith("_")}
    instance = cls(**{name: value for name, value in state.items() if name not in fitted})
    extra = set(fitted) - set(CLASSES[cls])
    if extra:
        raise PersistenceError(f"{cls.__name__} cannot have an attribute {min(extra)!r}.")
    if "n_jobs" in state and not (state["n_jobs"] is None or -64 <= state["n_jobs"] <= 64):
        raise PersistenceError(f"{cls.__name__}.n_jobs is {state['n_jobs']}, beyond 64.")
    if state.get("memory") is not None:  # joblib would open pickles in a folder of this name
        raise PersistenceError(f"{cls.__name__}.memory cannot be stored.")
    if fitted and cls is not Pipeline:
        _check_fitted(instance, **fitted)
    for name, value in fitted.items():
        setattr(instance, name, value)
    return instance


def _check_fitted(
    instance: Any,
    n_features_in_: Any,
    n_samples_seen_: Any = None,
    feature_names_in_: Any = None,
    **arrays: Any,
) -> None:
    """Raise unless there is one number, and one name if there are names, per column."""
    kind, names = type(instance).__name__, feature_names_in_
    if type(n_features_in_) is not int or not 0 < n_features_in_ <= MOST_COLUMNS:
        raise PersistenceError(f"{kind}.n_features_in_ is not a number of columns.")
    if names is not None and not (
        names.shape == (n_features_in_,) and all(type(name) is str for name in names)
    ):
        raise PersistenceError(f"{kind} has other names than columns.")
    for name, values in arrays.items():
        is_array = isinstance(values, np.ndarray) and values.dtype.kind == "f"
        if values is not None and not (is_array and values.shape == (n_features_in_,)):
            raise PersistenceError(f"{kind}.{name} does not fit n_features_in_.")
    powers = arrays.get("lambdas_")
    if powers is not None and (instance.standardize or not np.all(np.abs(powers) < 1e3)):
        raise PersistenceError(f"{kind}.lambdas_ are not powers without a scaler.")

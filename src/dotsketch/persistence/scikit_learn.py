"""The estimators of scikit-learn that files hold: those that the command line builds.

They are rebuilt by their public constructors, from the parameters that differ from the defaults,
and by `fit` on one or two rows that give the fitted values of the file. Nothing depends on private
attributes, so that files survive new versions of scikit-learn.

- `Pipeline`, `FeatureUnion` and `FrozenEstimator` consist of their parameters
- `StandardScaler`: means, variances, scales
- `PowerTransformer`: its powers, if it does not standardise
- `OneHotEncoder`: its categories (no dropped or infrequent ones)
- `SimpleImputer`: its statistics, and the columns that have indicators
- `ColumnTransformer`: its fitted parts and the names of its columns
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import OneHotEncoder, PowerTransformer, StandardScaler

from .._support.stored import MOST_COLUMNS
from .container import PersistenceError

# The public fitted attributes that a file has
CLASSES: dict[type, tuple[str, ...]] = {
    ColumnTransformer: ("transformers_", "feature_names_in_"),
    FeatureUnion: (),
    FrozenEstimator: (),
    OneHotEncoder: ("categories_", "feature_names_in_"),
    Pipeline: ("facts_",),  # of the command line: plain values
    PowerTransformer: ("lambdas_", "feature_names_in_"),
    SimpleImputer: ("statistics_", "feature_names_in_"),
    StandardScaler: (
        "mean_",
        "var_",
        "scale_",
        "n_samples_seen_",
        "n_features_in_",
        "feature_names_in_",
    ),
}


def state_of(value: Any) -> dict[str, Any]:
    """Parameters that differ from the defaults, and the fitted attributes."""
    defaults = inspect.signature(type(value)).parameters
    state: dict[str, Any] = {
        name: parameter
        for name, parameter in value.get_params(deep=False).items()
        if parameter is not defaults[name].default
    }
    fitted = vars(value)
    state |= {name: fitted[name] for name in CLASSES[type(value)] if name in fitted}
    if isinstance(value, SimpleImputer) and fitted.get("indicator_") is not None:
        state["indicated_"] = value.indicator_.features_
    return state


def rebuild(cls: Any, state: dict[str, Any]) -> Any:
    """The estimator with these parameters and fitted attributes."""
    fitted = {name: value for name, value in state.items() if name.endswith("_")}
    instance = cls(**{name: value for name, value in state.items() if name not in fitted})
    extra = set(fitted) - {*CLASSES[cls], *(("indicated_",) if cls is SimpleImputer else ())}
    if extra:
        raise PersistenceError(f"{cls.__name__} cannot have an attribute {min(extra)!r}.")
    if "n_jobs" in state and not (state["n_jobs"] is None or -64 <= state["n_jobs"] <= 64):
        raise PersistenceError(f"{cls.__name__}.n_jobs is {state['n_jobs']}, beyond 64.")
    if state.get("memory") is not None:  # joblib would open pickles in a folder of this name
        raise PersistenceError(f"{cls.__name__}.memory cannot be stored.")
    names = fitted.pop("feature_names_in_", None)
    if fitted and cls in REFIT:
        REFIT[cls](instance, names, **fitted)
    elif cls is Pipeline and fitted:
        instance.facts_ = fitted["facts_"]
    if names is not None and cls is not ColumnTransformer:
        if names.shape != (instance.n_features_in_,) or not all(type(n) is str for n in names):
            raise PersistenceError(f"{cls.__name__} has other names than columns.")
        instance.feature_names_in_ = names
    return instance


def _row(where: str, values: Any, kinds: str = "f") -> np.ndarray:
    """The values, if they are a row of numbers."""
    if not isinstance(values, np.ndarray) or values.ndim != 1 or values.dtype.kind not in kinds:
        raise PersistenceError(f"{where} is not a row of values.")
    return values


def _fit_scaler(
    scaler: StandardScaler, names: Any, n_features_in_: Any, n_samples_seen_: Any, **arrays: Any
) -> None:
    if type(n_features_in_) is not int or not 0 < n_features_in_ <= MOST_COLUMNS:
        raise PersistenceError("StandardScaler.n_features_in_ is not a number of columns.")
    scaler.n_features_in_, scaler.n_samples_seen_ = n_features_in_, n_samples_seen_
    for name, values in arrays.items():
        if values is not None and _row(f"StandardScaler.{name}", values).shape != (n_features_in_,):
            raise PersistenceError(f"StandardScaler.{name} does not fit n_features_in_.")
        setattr(scaler, name, values)


def _fit_power(power: PowerTransformer, names: Any, lambdas_: Any) -> None:
    n = len(_row("PowerTransformer.lambdas_", lambdas_))
    if power.standardize or not 0 < n <= MOST_COLUMNS or not np.all(np.abs(lambdas_) < 1e3):
        raise PersistenceError("PowerTransformer.lambdas_ are not powers without a scaler.")
    power.fit(np.tile(np.arange(1.0, 4.0)[:, None], (1, n)))
    power.lambdas_ = lambdas_


def _fit_encoder(encoder: OneHotEncoder, names: Any, categories_: Any) -> None:
    if encoder.drop is not None or encoder.min_frequency or encoder.max_categories:
        raise PersistenceError("A OneHotEncoder that drops or groups categories has no plain form.")
    if not isinstance(categories_, list) or not categories_:
        raise PersistenceError("OneHotEncoder.categories_ is not a list of one array per column.")
    for values in categories_:
        if len(_row("OneHotEncoder.categories_", values, "OUSiufb")) == 0:
            raise PersistenceError("OneHotEncoder.categories_ has a column without categories.")
    parameter, kinds = encoder.categories, {values.dtype for values in categories_}
    row = np.empty((1, len(categories_)), dtype=kinds.pop() if len(kinds) == 1 else object)
    row[0] = [values[0] for values in categories_]
    encoder.set_params(categories=categories_).fit(row)
    encoder.set_params(categories=parameter)
    encoder.categories_ = categories_  # in their own dtypes


def _fit_imputer(
    imputer: SimpleImputer, names: Any, statistics_: Any, indicated_: Any = None
) -> None:
    example = np.tile(_row("SimpleImputer.statistics_", statistics_), (2, 1))
    if indicated_ is not None:
        example[1, _row("SimpleImputer.indicated_", indicated_, "i")] = imputer.missing_values
    imputer.fit(example)
    if imputer.statistics_.shape != statistics_.shape or (
        indicated_ is not None and not np.array_equal(imputer.indicator_.features_, indicated_)
    ):
        raise PersistenceError("SimpleImputer.statistics_ and its indicators do not fit.")
    imputer.statistics_ = statistics_


def _fit_columns(columns: ColumnTransformer, names: Any, transformers_: Any) -> None:
    """The parts are frozen while the transformer is fitted to one row that they accept."""
    import pandas

    if names is None or columns.remainder != "drop":
        raise PersistenceError(
            "A ColumnTransformer has a plain form if its columns have names and the others are "
            "dropped."
        )
    row: dict[str, Any] = dict.fromkeys(names, 0.0)
    for _, part, chosen in transformers_:
        if isinstance(part, OneHotEncoder):
            row |= {name: c[0] for name, c in zip(chosen, part.categories_, strict=True)}
    parameter, parts = columns.transformers, {name: part for name, part, _ in transformers_}
    frozen = [
        (name, part if isinstance(part, str) else FrozenEstimator(part), chosen)
        for name, part, chosen in transformers_
        if name != "remainder"
    ]
    columns.set_params(transformers=frozen).fit(pandas.DataFrame({n: [v] for n, v in row.items()}))
    columns.transformers = parameter
    columns.transformers_ = [(name, parts[name], c) for name, _, c in columns.transformers_]


REFIT: dict[type, Callable[..., None]] = {
    ColumnTransformer: _fit_columns,
    OneHotEncoder: _fit_encoder,
    PowerTransformer: _fit_power,
    SimpleImputer: _fit_imputer,
    StandardScaler: _fit_scaler,
}

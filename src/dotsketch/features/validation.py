"""What is checked of rows before features are computed."""

from __future__ import annotations

import math
from typing import Any, TypeGuard

import numpy as np
from sklearn import get_config
from sklearn.utils.validation import _check_n_features, check_is_fitted

from .._arrays import ArrayT, double, is_traced, namespace
from .._backends import largest_entry


def check_fitted(estimator: Any) -> None:
    """scikit-learn's `check_is_fitted`, which builds all tags first, only if it may raise."""
    if "n_features_in_" not in vars(estimator):
        check_is_fitted(estimator)


def is_plain(estimator: Any, X: Any) -> TypeGuard[np.ndarray]:
    """Whether scikit-learn's `validate_data` would return X itself if its entries are finite."""
    return (
        type(X) is np.ndarray
        and X.ndim == 2
        and X.dtype in (np.float32, np.float64)
        and X.shape[0] > 0
        and X.shape[1] == estimator.n_features_in_
        and not hasattr(estimator, "feature_names_in_")
        and not get_config()["array_api_dispatch"]
    )


def is_valid(estimator: Any, X: Any) -> bool:
    """Whether `validate_data` would return X itself: it looks for data frames first, which takes
    longer than the features of one row."""
    return is_plain(estimator, X) and (
        bool(get_config()["assume_finite"]) or math.isfinite(largest_entry(X))
    )


def check_foreign(estimator: Any, X: ArrayT, *, reset: bool) -> ArrayT:
    """The checks of scikit-learn's `validate_data` for arrays of other libraries."""
    xp = namespace(X)
    name = type(estimator).__name__
    if X.ndim != 2:
        raise ValueError(
            f"Expected 2D array, got {X.ndim}D array of shape {tuple(X.shape)} instead. "
            "Reshape it to (rows, features)."
        )
    if xp.isdtype(X.dtype, "complex floating"):
        raise ValueError(f"Complex data not supported by {name}: X has dtype {X.dtype}.")
    if not xp.isdtype(X.dtype, "real floating"):
        X = double(X)
    for count, what in zip(X.shape, ("sample", "feature"), strict=True):
        if count == 0:
            raise ValueError(
                f"Found array with 0 {what}(s) (shape={tuple(X.shape)}) while a minimum of 1 is "
                f"required by {name}."
            )
    _check_n_features(estimator, X, reset=reset)
    if is_traced(X) or get_config()["assume_finite"]:
        return X
    if not math.isfinite(largest_entry(X)):
        raise ValueError(f"Input X contains NaN or infinity; {name} needs finite values.")
    return X

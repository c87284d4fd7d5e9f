"""From encoded rows to fitted Gaussian processes: the only module that calls them.

The model is the library's default (`FeatureGPRegressor()` or `FeatureGPClassifier()`, with its
search for a kernel) unless a kernel or a family of features is asked for. It is fitted to rows of
the sample first, and scored on others that were held out; the features found there serve for all
rows of a table that is larger than the sample.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator

from ..features import FAMILIES, NystromFeatures
from ..gp import (
    ExactGPClassifier,
    ExactGPRegressor,
    FeatureGPClassifier,
    FeatureGPRegressor,
)
from ..kernels import Kernel
from ..planning import AutoFeatures
from .output import UserMistake
from .schema import EncodedTable, add_to_sample, encoded_pair
from .tables import Table, as_frame
from .words import parse_kernel

TRAIN_ROWS = 10_000  # of the sample
TEST_ROWS = 2_000
TEST_SHARE = 0.2
LEAST_ROWS = 10


class Request(NamedTuple):
    """The model that is asked for."""

    task: str = "regression"
    kernel: str = "auto"
    components: int | None = None
    features: str = "auto"  # or a family
    seed: int = 0


class HeldOut(NamedTuple):
    """Encoded rows to fit on, and rows held out."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray


def hold_out(rows: EncodedTable, seed: int, test: Table | None = None) -> HeldOut:
    """Rows to fit on and others to test on, from the sample; or the rows of `test`, or those that a
    data set sets aside. UserMistake if there are not enough rows, or not of enough classes."""
    schema, X, y = rows.schema, rows.X, rows.y
    if schema.n_rows < LEAST_ROWS:
        raise UserMistake(
            f"{schema.source} has {schema.n_rows} rows: comparing needs at least {LEAST_ROWS}."
        )
    test = test or rows.table.test
    if test is not None:
        sample, rng = None, np.random.default_rng(seed)
        for batch, _ in test.chunks():
            sample = add_to_sample(sample, batch, TEST_ROWS, rng)
        held = encoded_pair(rows.encoder, schema, as_frame(sample).iloc[:, :-1], 1, test)
    else:
        n_test = min(max(2, round(TEST_SHARE * len(X))), TEST_ROWS)
        held, X, y = (X[:n_test], y[:n_test]), X[n_test:], y[n_test:]
    X, y = X[:TRAIN_ROWS], y[:TRAIN_ROWS]
    if schema.task == "classification" and len(np.unique(y)) < 2:
        raise UserMistake(
            f"{schema.source}: the rows that are left for fitting are of one class only: more rows "
            "of the others are needed."
        )
    return HeldOut(X, y, *held)


def check_request(request: Request) -> None:
    """Raise, before a table is read, if there is no such kernel or family of features."""
    if request.kernel != "auto":
        parse_kernel(request.kernel, 1)
    if request.features not in ("auto", *FAMILIES):
        raise UserMistake(
            f"there are no features {request.features!r}; give auto or one of "
            f"{', '.join(FAMILIES)}."
        )


def is_nonnegative(request: Request) -> bool:
    """Whether the kernel compares nonnegative rows, which are not standardized."""
    return request.kernel != "auto" and parse_kernel(request.kernel, 1)[0].nonnegative


def make_gp(task: str, features: Any, optimize: bool | str = "auto", seed: int = 0) -> Any:
    """An unfitted Gaussian process."""
    make = FeatureGPRegressor if task == "regression" else FeatureGPClassifier
    return make(features, optimize=optimize, random_state=seed)


def base_model(request: Request, X: np.ndarray) -> Any:
    """The unfitted model on landmarks: the library's default, or one with the kernel asked for."""
    task, components, seed = request.task, request.components, request.seed
    if request.kernel == "auto":
        return make_gp(task, components or "auto", seed=seed)
    kernel, is_free = parse_kernel(request.kernel, X.shape[1])
    features: Any = kernel
    if components is not None:
        columns = min(components, len(X))
        features = NystromFeatures(kernel, n_components=columns, random_state=seed)
    return make_gp(task, features, is_free, seed)


def family_model(request: Request, kernel: Kernel, columns: int) -> Any:
    """The unfitted model on the best features of a family for a kernel that is known."""
    features = AutoFeatures(
        kernel, n_components=columns, candidates=request.features, random_state=request.seed
    )
    return make_gp(request.task, features, seed=request.seed)


def chosen_model(request: Request, split: HeldOut) -> Any:
    """The model that is asked for, fitted to the rows of a split."""
    gp = base_model(request, split.X).fit(split.X, split.y)
    if request.features == "auto":
        return gp
    model = family_model(request, gp.kernel_, request.components or n_columns(gp, split.X))
    return model.fit(split.X, split.y)


def n_columns(gp: Any, X: np.ndarray) -> int:
    return int(np.shape(gp.features_.transform(X[:1]))[1])


def exact_model(task: str, kernel: Kernel) -> Any:
    """The unfitted process that features approximate."""
    return (ExactGPRegressor if task == "regression" else ExactGPClassifier)(kernel)


def fit_all(
    request: Request, first: Any, rows: EncodedTable, advance: Callable[[float], None]
) -> Any:
    """The process of all rows of a table.

    A table within the sample is fitted as the library would fit it. A larger one is read chunk by
    chunk, with the features of the process `first`, which was fitted to rows of the sample.
    """

    def stream() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        done = 0
        for X, y in rows.chunks():
            yield X, y
            done += len(y)
            advance(done / rows.schema.n_rows)

    if rows.is_whole:
        model = base_model(request, rows.X) if request.features == "auto" else clone(first)
        return model.fit(rows.X, rows.y)
    gp = make_gp(rows.schema.task, FrozenEstimator(first.features_), seed=request.seed)
    return gp.fit(stream)


def describe_features(gp: Any, X: np.ndarray) -> str:
    """The features of a fitted process in a few words."""
    features = getattr(gp.features_, "estimator", gp.features_)  # of a frozen one
    chosen = getattr(features, "chosen_", None)
    name = "landmarks" if chosen is None else chosen.label
    return f"{name}, {n_columns(gp, X)} columns"

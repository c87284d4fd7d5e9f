"""From encoded rows to a fitted Gaussian process: kernel, features, one pass over the rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator

from ..gp import ExactGPClassifier, ExactGPRegressor, FeatureGPClassifier, FeatureGPRegressor
from ..kernels import DotProductKernel
from ..planning import FAMILIES, Plan, PlannedCandidate, plan
from .errors import UserMistake
from .kernel_names import parse_kernel

TUNING_ROWS = 600  # the lengthscale is chosen by the exact likelihood of so many rows
Stream = Callable[[], Iterator[tuple[np.ndarray, np.ndarray]]]


def choose_kernel(
    text: str, X: np.ndarray, y: np.ndarray, task: str, seed: int
) -> DotProductKernel:
    """The kernel that is asked for; a lengthscale that is not given maximises the likelihood."""
    kernel, is_free = parse_kernel(text, X.shape[1])
    kernel = kernel.resolve(X)
    if not is_free:
        return kernel
    rows = np.random.default_rng(seed).permutation(len(X))[:TUNING_ROWS]
    # Labels are regressed upon as columns of 0 and 1: close enough for a lengthscale
    targets = y[rows] if task == "regression" else one_hot(y[rows])
    if len(rows) < 10 or np.all(targets == targets[0]):
        return kernel
    tuned = ExactGPRegressor(kernel).fit(X[rows], targets, optimize=True).kernel_.lengthscale
    return type(kernel)(lengthscale=float(f"{tuned:.4g}"))  # digits that a line of Python can show


def one_hot(labels: np.ndarray) -> np.ndarray:  # (n,) -> (n, C)
    return (labels[:, None] == np.unique(labels)[None, :]).astype(float)


def choose_features(
    text: str, kernel: DotProductKernel, X: np.ndarray, n_components: int, seed: int
) -> tuple[PlannedCandidate, Plan]:
    """The best candidate of the plan ("auto"), of a family, or the one of a name; and the plan."""
    families: Any = text if text in FAMILIES else "all"
    table = plan(kernel, X, n_components=n_components, candidates=families, random_state=seed)
    if text == "auto" or text in FAMILIES:
        return table.best, table
    wanted = spelled(text)
    for row in table:
        if spelled(str(row.candidate)) == wanted:
            return row, table
    raise UserMistake(
        f"the features {text!r} are not known for this kernel; give auto, a family "
        f"({', '.join(FAMILIES)}), or a name from the first column of `dotsketch compare`."
    )


def spelled(name: str) -> str:
    """A candidate's name without spaces and capitals."""
    return "".join(name.lower().split())


def make_gp(task: str, features: Any) -> Any:
    """The Gaussian process on these features, unfitted."""
    if task == "regression":
        return FeatureGPRegressor(features, prior_variance="auto", normalize_y="standard")
    return FeatureGPClassifier(features)


def exact_gp(task: str, kernel: DotProductKernel) -> Any:
    """The exact Gaussian process, unfitted."""
    return ExactGPRegressor(kernel) if task == "regression" else ExactGPClassifier(kernel)


def fit_stream(task: str, features: Any, X: np.ndarray, stream: Stream) -> Any:
    """A process fitted in one pass over the rows, with features fitted to the sample X."""
    fitted = clone(features).fit(X)
    gp = make_gp(task, FrozenEstimator(fitted)).fit(stream)
    # The model is then what a fit without the frame would have made
    gp.features, gp.features_ = features, fitted
    return gp

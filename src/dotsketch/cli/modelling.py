"""From encoded rows to a fitted Gaussian process: kernel, features, one pass over the rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator

from ..gp import ExactGPClassifier, ExactGPRegressor, FeatureGPClassifier, FeatureGPRegressor
from ..kernels import DotProductKernel, Gaussian
from ..planning import FAMILIES, PlannedCandidate, Study, all_candidates, plan
from .errors import UserMistake
from .kernel_names import parse_kernel

TUNING_ROWS = 400  # the lengthscale is chosen by the exact likelihood of so many rows
LEAST_KERNEL = 1e-3  # root mean square over pairs of rows
Stream = Callable[[], Iterator[tuple[np.ndarray, np.ndarray]]]


def choose_kernel(
    text: str, X: np.ndarray, y: np.ndarray, task: str, seed: int
) -> DotProductKernel:
    """The kernel that is asked for; a free lengthscale maximises the likelihood of some rows."""
    kernel, is_free = parse_kernel(text, X.shape[1])
    kernel = kernel.resolve(X)
    if not is_free:
        return kernel
    rows = np.random.default_rng(seed).permutation(len(X))[:TUNING_ROWS]
    # Labels are regressed upon as columns of 0 and 1: close enough for a lengthscale
    targets = y[rows] if task == "regression" else one_hot(y[rows])
    if len(rows) < 10 or np.all(targets == targets[0]):
        return kernel
    tuned = ExactGPRegressor(kernel).fit(X[rows], targets, optimize=True).kernel_
    lengthscale = float(f"{tuned.lengthscale:.4g}")  # digits that a line of Python can show
    return visible(Gaussian(lengthscale=lengthscale), X[rows])


def visible(kernel: Gaussian, X: np.ndarray) -> Gaussian:
    """The kernel with its lengthscale raised until different rows have something in common.

    Where the target is noise, the likelihood is greatest for a kernel that is zero between rows.
    """
    different = ~np.eye(len(X), dtype=bool)
    while np.sqrt(np.mean(kernel(X)[different] ** 2)) < LEAST_KERNEL:
        kernel = Gaussian(lengthscale=float(f"{1.25 * kernel.lengthscale:.4g}"))
    return kernel


def one_hot(labels: np.ndarray) -> np.ndarray:  # (n,) -> (n, C)
    return (labels[:, None] == np.unique(labels)[None, :]).astype(float)


def choose_features(
    text: str, kernel: DotProductKernel, X: np.ndarray, n_components: int, seed: int
) -> PlannedCandidate:
    """The best candidate of the plan ("auto") or of a family, or the one of a name."""
    candidates: Any = "all" if text == "auto" else text
    if text != "auto" and text not in FAMILIES:
        study = Study(kernel, X, random_state=seed)
        named = {spelled(str(candidate)): candidate for candidate in all_candidates(study)}
        if spelled(text) not in named:
            raise UserMistake(
                f"the features {text!r} are not known for this kernel; give auto, a family "
                f"({', '.join(FAMILIES)}), or a name from the first column of `dotsketch compare`."
            )
        candidates = [named[spelled(text)]]
    return plan(kernel, X, n_components=n_components, candidates=candidates, random_state=seed).best


def spelled(name: str) -> str:
    """A candidate's name without spaces and capitals."""
    return "".join(name.lower().split())


def make_gp(task: str, features: Any) -> Any:
    """The Gaussian process on these features, unfitted."""
    if task == "regression":
        return FeatureGPRegressor(features)
    return FeatureGPClassifier(features)


def exact_gp(task: str, kernel: DotProductKernel) -> Any:
    """The exact Gaussian process, unfitted."""
    if task == "regression":
        return ExactGPRegressor(kernel)
    return ExactGPClassifier(kernel)


class FittedFeatures(FrozenEstimator):
    """Features that stay as they are when a process fits them, and need no targets for it."""

    def fit(self, X: Any, y: Any = None) -> FittedFeatures:
        return self


def use_threads(features: Any, jobs: int | None) -> None:
    """Let `transform` use so many threads, or all."""
    if "n_jobs" in features.get_params(deep=False):
        features.set_params(n_jobs=jobs or -1)


def fit_stream(
    features: Any, X: np.ndarray, stream: Stream, classes: list[Any] | None, jobs: int | None
) -> Any:
    """A process fitted in one pass over the rows, with features fitted to the sample X.

    A classification names its classes, a regression has none.
    """
    fitted = clone(features).fit(X)
    use_threads(fitted, jobs)
    if classes is None:
        gp = make_gp("regression", FittedFeatures(fitted)).fit(stream)
    else:
        gp = make_gp("classification", FittedFeatures(fitted)).fit(stream, classes=classes)
    # Without the frame again: the model is what a fit from the start would have made
    gp.features, gp.features_ = features, fitted.set_params(**features.get_params(deep=False))
    return gp

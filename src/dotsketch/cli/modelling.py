"""From encoded rows to a fitted Gaussian process: kernel, features, one pass over the rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from difflib import get_close_matches
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator

from ..features import FAMILIES, FeatureMap, NystromFeatures, Study
from ..features.degenerate import without_degenerate_warnings
from ..gp import ExactGPClassifier, ExactGPRegressor, FeatureGPClassifier, FeatureGPRegressor
from ..kernels import DistanceKernel, Kernel
from ..planning import (
    Plan,
    PlannedCandidate,
    Selection,
    assess,
    identity,
    select,
    variants,
)
from .errors import UserMistake
from .kernel_names import parse_kernel
from .tables import list_names

# The lengthscale maximises the likelihood of so many rows under Nyström features with so many
# columns. Fewer rows let the draw decide between a short and a long lengthscale: the likelihood of
# 400 rows of the protein data is greatest at 1.0, 2.0 or 5.0, depending on the seed.
TUNING_ROWS = 5000
TUNING_COLUMNS = 500
LEAST_KERNEL = 1e-3  # root mean square over pairs of rows
VISIBLE_ROWS = 400  # whose pairs are looked at for it
Stream = Callable[[], Iterator[tuple[np.ndarray, np.ndarray]]]


def choose_kernel(text: str, X: np.ndarray, y: np.ndarray, task: str, seed: int) -> Kernel:
    """The kernel that is asked for; a free lengthscale maximises the likelihood of some rows.

    The features of the search are cheap and fixed, so the lengthscale depends on the data alone
    and not on the features that are chosen for it.
    """
    kernel, is_free = parse_kernel(text, X.shape[1])
    kernel = kernel.resolve(X)
    if not is_free:
        return kernel
    rows = np.random.default_rng(seed).permutation(len(X))[:TUNING_ROWS]
    # Labels are regressed upon as columns of 0 and 1: close enough for a lengthscale
    targets = y[rows] if task == "regression" else one_hot(y[rows])
    if len(rows) < 10 or np.all(targets == targets[0]):
        return kernel
    columns = min(TUNING_COLUMNS, len(rows))
    # The search fits them a dozen times: plain landmarks are enough, and fast
    features = NystromFeatures(kernel, n_components=columns, n_landmarks=1.0, random_state=seed)
    with without_degenerate_warnings():  # `visible` corrects a lengthscale that is too short
        gp = FeatureGPRegressor(features).fit(X[rows], targets, optimize=True)
    # Four digits, so that a line of Python can show the value
    lengthscale = float(f"{gp.features_.kernel_.lengthscale:.4g}")
    return visible(kernel.set_params(lengthscale=lengthscale), X[rows[:VISIBLE_ROWS]])


def visible(kernel: DistanceKernel, X: np.ndarray) -> DistanceKernel:
    """The kernel with its lengthscale raised until different rows have something in common.

    Where the target is noise, the likelihood is greatest for a kernel that is zero between rows.
    """
    different = ~np.eye(len(X), dtype=bool)
    while np.sqrt(np.mean(kernel(X)[different] ** 2)) < LEAST_KERNEL:
        kernel.set_params(lengthscale=float(f"{1.25 * kernel.lengthscale:.4g}"))
    return kernel


def one_hot(labels: np.ndarray) -> np.ndarray:  # (n,) -> (n, C)
    return (labels[:, None] == np.unique(labels)[None, :]).astype(float)


def choose_features(text: str, study: Study, n_components: int) -> PlannedCandidate:
    """The best candidate of the plan ("auto") or of a family, or the one of a name."""
    candidates: Any = "all" if text == "auto" else text
    if text != "auto" and text not in FAMILIES:
        candidates = [named_candidate(text, study)]
    return rank(study, select(candidates, study), n_components).best


def named_candidate(text: str, study: Study) -> FeatureMap:
    """The candidate that is called so in the table of `compare`."""
    named = {normalise_name(one.label()): one for one in variants(study)}
    if normalise_name(text) not in named:
        close = get_close_matches(normalise_name(text), [*named, *FAMILIES], 1)
        nearest = named[close[0]].label() if close and close[0] in named else "".join(close)
        hint = f" Did you mean {nearest!r}?" if close else ""
        raise UserMistake(
            f"the features {text!r} are not known for this kernel; give auto, a family "
            f"({', '.join(FAMILIES)}), or a name from the first column of "
            f"`dotsketch compare`.{hint}"
        )
    return named[normalise_name(text)]


def check_features(text: str, kernel: str) -> None:
    """Raise, before a table is read, if no features are called so, or none fit the kernel.

    Which candidates there are depends on the data only in that some need rows on a sphere: the
    example has such rows.
    """
    if text == "auto":
        return
    rows = np.array([[0.6, 0.8], [0.8, -0.6]])
    study = Study(parse_kernel(kernel, rows.shape[1])[0], rows)
    if text in FAMILIES:
        select(text, study)
    else:
        named_candidate(text, study)


def rank(study: Study, selection: Selection, n_components: int) -> Plan:
    """The candidates at so many columns, by their predicted error.

    Landmarks are rows: where there are fewer rows than columns asked for, candidates that cannot
    have as many get one column per row.
    """
    rows, left_out = assess(study, selection, n_components)
    candidates = selection.candidates
    if n_components > study.n_rows:
        compared = [one.candidate for one in rows] + [one.candidate for one in left_out]
        done = set(map(identity, compared))
        rest = [one for one in candidates if identity(one) not in done]
        rows = [*rows, *assess(study, Selection(rest, selection.unasked), study.n_rows).rows]
    if not rows:
        names = list_names((one.label() for one in candidates), 3)
        raise UserMistake(f"--components {n_components} is too few for {names}: give more.")
    return Plan(rows, left_out=left_out)


def describe_cap(table: Plan, n_components: int, n_rows: int) -> str | None:
    """A line about candidates that have fewer columns than asked for because rows are few."""
    names = [row.family for row in table if n_components > n_rows == row.n_components]
    if not names:
        return None
    return (
        f"{list_names(dict.fromkeys(names))}: {n_rows} columns, one per row, and not the "
        f"{n_components} of --components"
    )


def normalise_name(name: str) -> str:
    """A candidate's name without spaces and capitals."""
    return "".join(name.lower().split())


def make_gp(task: str, features: Any) -> Any:
    """The Gaussian process on these features, unfitted."""
    if task == "regression":
        return FeatureGPRegressor(features)
    return FeatureGPClassifier(features)


def exact_gp(task: str, kernel: Kernel) -> Any:
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

"""From encoded rows to a fitted Gaussian process: kernel, features, one pass over the rows."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from typing import Any

import numpy as np
from sklearn.base import clone, is_regressor
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline

from ..features import FAMILIES, FeatureMap, NystromFeatures, Study
from ..features.degenerate import without_degenerate_warnings
from ..gp import (
    ExactGPClassifier,
    ExactGPRegressor,
    FeatureGPClassifier,
    FeatureGPRegressor,
    ImputedGPRegressor,
)
from ..kernels import DistanceKernel, Kernel
from ..planning import (
    AutoFeatures,
    Plan,
    PlannedCandidate,
    TooFewColumns,
    compare,
    select,
    variants,
)
from .encoding import Imputation
from .errors import UserMistake
from .kernel_names import parse_kernel
from .tables import list_names

# The lengthscale maximises the likelihood of so many rows under Nyström features with so many
# columns. Fewer rows let the draw decide between a short and a long lengthscale: the likelihood of
# 400 rows of the protein data is greatest at 1.0, 2.0 or 5.0, depending on the seed.
TUNING_ROWS = 5000
TUNING_COLUMNS = 500
MOST_LENGTHSCALES = 30  # columns after encoding, with a lengthscale each
LEAST_KERNEL = 1e-3  # root mean square over pairs of rows
VISIBLE_ROWS = 400  # whose pairs are looked at for it
SHORT_WORDS = {
    "balanced_tensor_sketch": "balanced",
    "tensor_sketch": "sketch",
    "tensor_srht": "srht",
    "complex_to_real": "complex",
    ", real": "",
    " landmarks": "",
    "D uniform": "D,uniform",
    "D rpcholesky": "D,rpcholesky",
    "mean split": "split",
    "random degrees": "random",
    "constant norms": "constant",
}


def choose_kernel(text: str, X: np.ndarray, y: np.ndarray, task: str, seed: int) -> Kernel:
    """The kernel that is asked for; free lengthscales maximise the likelihood of some rows.

    Those of a classification are the best for rows held out. Every column has its own if the
    columns are few enough to be shown and the rows many enough. The features of the search are
    cheap and fixed, so the lengthscales depend on the data alone and not on the features that are
    chosen for them.
    """
    given, is_free = parse_kernel(text, X.shape[1])
    kernel: Kernel = given.resolve(X)
    if not is_free:
        return kernel
    rows = np.random.default_rng(seed).permutation(len(X))[:TUNING_ROWS]
    targets = y[rows]
    if len(rows) < 10 or np.all(targets == targets[0]):
        return kernel
    columns = min(TUNING_COLUMNS, len(rows))
    # The search fits them a dozen times: plain landmarks are enough, and fast
    features = NystromFeatures(
        kernel, n_components=columns, n_landmarks=1.0, landmarks="uniform", random_state=seed
    )
    few = X.shape[1] <= MOST_LENGTHSCALES
    with without_degenerate_warnings():  # `visible` corrects lengthscales that are too short
        gp = make_gp(task, features)
        gp.fit(X[rows], targets, optimize=True if few else "common")
    found = with_lengthscales(gp.kernel_, gp.kernel_.lengthscale)
    return visible(found, X[rows[:VISIBLE_ROWS]])


def with_lengthscales(kernel: Kernel, values: Any) -> DistanceKernel:
    """The kernel with these lengthscales; four digits, so that a line of Python can show them."""
    rounded = [float(f"{value:.4g}") for value in np.atleast_1d(values)]
    lengthscale = rounded if np.ndim(values) else rounded[0]
    return clone(kernel).set_params(lengthscale=lengthscale)


def visible(kernel: DistanceKernel, X: np.ndarray) -> DistanceKernel:
    """The kernel with its lengthscales raised until different rows have something in common.

    Where the target is noise, the likelihood is greatest for a kernel that is zero between rows.
    """
    different = ~np.eye(len(X), dtype=bool)
    while np.sqrt(np.mean(kernel(X)[different] ** 2)) < LEAST_KERNEL:
        kernel = with_lengthscales(kernel, 1.25 * np.asarray(kernel.lengthscale))
    return kernel


def candidates_of(text: str, study: Study) -> Any:
    """What "auto", the name of a family or that of a candidate stand for in a plan."""
    if text == "auto":
        return "all"
    return text if text in FAMILIES else [named_candidate(text, study)]


def plan_within(
    text: str, study: Study, X: np.ndarray, tolerance: float, most: int, seed: int
) -> PlannedCandidate:
    """The candidate that reaches a tolerance on the rows of the study, X, with fewest columns."""
    auto = AutoFeatures(
        study.kernel,
        n_components=most,
        tolerance=tolerance,
        candidates=candidates_of(text, study),
        random_state=seed,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # what is not reached is a mistake here
        chosen = auto.fit(X).chosen_
    if chosen.upper_error > tolerance:
        raise UserMistake(
            f"--tolerance {tolerance:g} is not reached with {most:,} columns, where the error is "
            f"{chosen.relative_error:.3g}: give a larger --tolerance or more --components."
        )
    return chosen


def short_name(label: str) -> str:
    """A candidate's name as tables show it and `--features` takes it.

    >>> short_name("maclaurin: balanced_tensor_sketch, complex_to_real, fitted")
    'maclaurin:balanced,complex,fitted'
    """
    for long, short in SHORT_WORDS.items():
        label = label.replace(long, short)
    return label.replace(" ", "")


def named_candidate(text: str, study: Study) -> FeatureMap:
    """The candidate that is called so in the table of `compare`, or so in full."""
    found = variants(study)
    named = {normalise_name(short_name(one.label())): one for one in found}
    named |= {normalise_name(one.label()): one for one in found}
    if normalise_name(text) not in named:
        close = get_close_matches(normalise_name(text), [*named, *FAMILIES], 1)
        nearest = (
            short_name(named[close[0]].label()) if close and close[0] in named else "".join(close)
        )
        hint = f" Did you mean {nearest!r}?" if close else ""
        raise UserMistake(
            f"the features {text!r} are not known for this kernel; give auto, a family "
            f"({', '.join(FAMILIES)}), or a name from the first column of "
            f"`dotsketch compare`.{hint}"
        )
    return named[normalise_name(text)]


def check_features(text: str, kernel: str) -> None:
    """Raise, before a table is read, if no features are called so, or none fit the kernel.

    Which candidates there are depends on the data only in that some need rows on a sphere, or
    nonnegative ones: the example has such rows.
    """
    if text == "auto":
        return
    rows = np.array([[0.6, 0.8], [0.8, 0.6]])
    study = Study(parse_kernel(kernel, rows.shape[1])[0], rows)
    if text in FAMILIES:
        select(text, study)
    else:
        named_candidate(text, study)


def ranked(text: str, study: Study, components: int) -> Plan:
    """The candidates that `text` stands for by their predicted error."""
    try:
        return compare(study, candidates_of(text, study), components)
    except TooFewColumns as error:
        raise UserMistake(f"--components {components} is too few: {error}") from None


def is_capped(row: PlannedCandidate, n_components: int, n_rows: int) -> bool:
    """Whether a candidate has fewer columns than asked for because rows are few."""
    return n_components > n_rows == row.n_components


def describe_cap(names: Iterable[str], n_components: int, n_rows: int) -> str | None:
    """A line about families that have one column per row."""
    names = list_names(dict.fromkeys(names))
    if not names:
        return None
    return f"{names}: {n_rows} columns, one per row, and not the {n_components} of --components"


def normalise_name(name: str) -> str:
    """A candidate's name without spaces and capitals."""
    return "".join(name.lower().split())


def make_gp(task: str, features: Any, imputation: Imputation | None = None) -> Any:
    """The Gaussian process on these features, unfitted; of rows with gaps if they are imputed."""
    make = FeatureGPRegressor if task == "regression" else FeatureGPClassifier
    return imputed(make(features), imputation)


def exact_gp(task: str, kernel: Kernel, imputation: Imputation | None = None) -> Any:
    """The exact Gaussian process, unfitted."""
    make = ExactGPRegressor if task == "regression" else ExactGPClassifier
    return imputed(make(kernel), imputation)


def imputed(gp: Any, imputation: Imputation | None) -> Any:
    """A process of rows with gaps; a regressor knows what they cost."""
    if imputation is None:
        return gp
    imputer = FrozenEstimator(imputation.imputer)
    if is_regressor(gp):
        return ImputedGPRegressor(gp, imputer=imputer, one_hot=imputation.one_hot)
    return Pipeline([("impute", imputer), ("gp", gp)])


class FittedFeatures(FrozenEstimator):
    """Features that stay as they are when a process fits them, and need no targets for it."""

    def fit(self, X: Any, y: Any = None) -> FittedFeatures:
        return self


def use_threads(features: Any, jobs: int | None) -> None:
    """Let `transform` use so many threads, or all."""
    if "n_jobs" in features.get_params(deep=False):
        features.set_params(n_jobs=jobs or -1)


def process_of(gp: Any) -> Any:
    """The Gaussian process on features inside of what `make_gp` makes."""
    if isinstance(gp, Pipeline):
        gp = gp[-1]
    return gp.regressor_ if isinstance(gp, ImputedGPRegressor) else gp


def fit_process(
    features: Any,
    sample: tuple[np.ndarray, np.ndarray],
    rows: tuple[Any, ...],
    classes: list[Any] | None,
    jobs: int | None,
    imputation: Imputation | None = None,
) -> Any:
    """A process fitted in one pass over all rows, with features fitted to the sample (X, y).

    `rows` is a stream, or rows (X, y) of workers. A classification names its classes, a regression
    has none.
    """
    X, _ = sample
    fitted = clone(features).fit(X if imputation is None else imputation.imputer.transform(X))
    use_threads(fitted, jobs)
    gp = make_gp("regression" if classes is None else "classification", FittedFeatures(fitted))
    if imputation is None:
        gp.fit(*rows, **({} if classes is None else {"classes": classes}))
    elif classes is None:
        gp = imputed(gp, imputation).fit(*rows, sample=sample)
        gp.regressor = FeatureGPRegressor(features)
    else:
        [stream] = rows

        def filled() -> Iterator[tuple[np.ndarray, np.ndarray]]:
            for X, y in stream():
                yield imputation.imputer.transform(X), y

        gp = imputed(gp.fit(filled, classes=classes), imputation)
    # Without the frame again: the model is what a fit from the start would have made
    process = process_of(gp)
    process.features = features
    process.features_ = fitted.set_params(**features.get_params(deep=False))
    return gp

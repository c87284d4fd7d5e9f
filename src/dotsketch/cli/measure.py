"""Candidates side by side: predicted and measured error, held-out score, time.

The plan ranks all candidates by their predicted error. The best of every family, and the next
best, are then drawn, measured against the exact kernel on rows held out, and used in a Gaussian
process that is scored on the same rows; the likelihood there ranks them. Differences within their
standard error are ties.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, RidgeCV
from threadpoolctl import threadpool_limits

from ..features import Study
from ..kernels import Kernel
from ..planning import Plan, PlannedCandidate, predict_with
from .encoding import Imputation
from .modelling import FittedFeatures, exact_gp, make_gp, short_name
from .scoring import NumberPrediction, Prediction, Score, predict_rows

EXACT_ROWS = 2000  # the exact process is a reference up to so many rows
ERROR_ROWS = 400  # of the Gram matrix that errors are measured on
ERROR_DRAWS = 5
INVISIBLE = 0.0005  # a difference of losses that is rounded away
Curves = dict[str, tuple[list[int], list[float]]]  # name: numbers of columns, predicted errors


@dataclass(frozen=True)
class HeldOut:
    """Encoded rows to fit on, and rows held out; with gaps beside them if they are imputed."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    given: np.ndarray | None = None  # X before gaps were filled in
    given_test: np.ndarray | None = None
    imputation: Imputation | None = None

    @classmethod
    def of(
        cls,
        fitted: tuple[np.ndarray, np.ndarray],
        held: tuple[np.ndarray, np.ndarray],
        imputation: Imputation | None,
    ) -> HeldOut:
        if imputation is None:
            return cls(*fitted, *held)
        X, X_test = (imputation.imputer.transform(rows) for rows, _ in (fitted, held))
        return cls(X, fitted[1], X_test, held[1], fitted[0], held[0], imputation)

    @property
    def rows(self) -> np.ndarray:
        """What a process is fitted to."""
        return self.X if self.given is None else self.given

    @property
    def test_rows(self) -> np.ndarray:
        return self.X_test if self.given_test is None else self.given_test


@dataclass(frozen=True)
class Compared:
    """What is known of one candidate; the exact process and baselines have no row of the plan."""

    name: str
    row: PlannedCandidate | None
    measured_error: float | None
    error_spread: float | None  # standard deviation between draws
    figures: dict[str, float | None]
    losses: np.ndarray | None  # −log p(y) of every row held out; None without a distribution
    errors: np.ndarray  # wrong or not (1, 0), or squared errors over the variance of the target
    prediction: Prediction | None
    microseconds: float | None  # of the features, or of predictions of a baseline, per row
    fit_seconds: float
    features: Any = None
    model: Any = None  # fitted
    is_baseline: bool = False

    @property
    def predicted_error(self) -> float | None:
        return None if self.row is None else self.row.relative_error

    @property
    def error(self) -> tuple[float, float]:
        """The share that is wrong, or the unexplained variance; and its standard error."""
        return mean_and_error(self.errors)

    @property
    def loss(self) -> float:
        return np.inf if self.losses is None else float(self.losses.mean())


def mean_and_error(values: np.ndarray) -> tuple[float, float]:  # (n,)
    """The mean of numbers, and its standard error."""
    n = len(values)
    error = float(np.std(values, ddof=1) / np.sqrt(n)) if n > 1 else 0.0
    return float(np.mean(values)), error


class Difference(NamedTuple):
    """How much larger the mean loss of one is than that of another, and its standard error."""

    mean: float
    standard_error: float

    @classmethod
    def of(cls, one: Compared, best: Compared) -> Difference | None:
        """From the losses of the same rows; None where one has none, or an infinite one."""
        if one.losses is None or best.losses is None or not np.isfinite(one.loss + best.loss):
            return None
        return cls(*mean_and_error(one.losses - best.losses))

    @property
    def is_tie(self) -> bool:
        """Within the standard error, or too small for the table to show."""
        return self.mean <= max(self.standard_error, INVISIBLE)


def is_as_good(one: Compared, best: Compared) -> bool:
    """Whether one has losses that are not clearly larger than those of the best."""
    difference = Difference.of(one, best)
    return difference is not None and difference.is_tie


def shortlist(table: Plan, most: int) -> list[PlannedCandidate]:
    """The best of every family, then of every variant of it, then the next best; as planned."""

    def option(row: PlannedCandidate, name: str) -> Any:
        return row.family, getattr(row.candidate, name, None)

    chosen: list[PlannedCandidate] = []
    for kind in (
        "family",
        "landmarks",
        "n_landmarks",
        "coefficients",
        "sketch",
        "projection",
        None,
    ):
        seen = {option(row, kind) for row in chosen} if kind else set()
        for row in table:
            if len(chosen) == most:
                break
            if row not in chosen and (kind is None or option(row, kind) not in seen):
                chosen.append(row)
                seen.add(option(row, kind) if kind else None)
    return [row for row in table if row in chosen]


def measured_error(features: Any, kernel: Kernel, split: HeldOut, seed: int) -> tuple[float, float]:
    """√(Σ(k − k̂)²/Σk²) over pairs of distinct rows held out: root mean square over some draws,
    and the standard deviation between them.

    `features` are fitted and the first draw.
    """
    X = split.X_test[:ERROR_ROWS]
    exact = np.asarray(kernel(X))
    distinct = ~np.eye(len(X), dtype=bool)
    squares = []
    for draw in range(ERROR_DRAWS):
        if draw:
            features = clone(features).set_params(random_state=seed + draw).fit(split.X)
        Z = features.transform(X)
        difference = np.real(Z @ Z.conj().T) - exact
        squares.append(np.sum(difference[distinct] ** 2) / np.sum(exact[distinct] ** 2))
    errors = np.sqrt(squares)
    return float(np.sqrt(np.mean(squares))), float(np.std(errors, ddof=1))


def compare_one(
    row: PlannedCandidate, kernel: Kernel, split: HeldOut, task: str, seed: int
) -> Compared:
    """Draw, measure, fit and score one candidate."""
    features = row.candidate.for_kernel(kernel, row.n_components, random_state=seed)
    start = time.perf_counter()
    fitted = clone(features).fit(split.X)
    gp = make_gp(task, FittedFeatures(fitted), split.imputation).fit(split.rows, split.y)
    seconds = time.perf_counter() - start
    is_measured = len(split.X_test) > 2
    errors = measured_error(fitted, kernel, split, seed) if is_measured else (None, None)
    return Compared(
        short_name(row.label),
        row,
        errors[0],
        errors[1],
        **scores_of(predict_rows(gp, split.test_rows), split),
        microseconds=microseconds_a_row(fitted.transform, split.X_test),
        fit_seconds=seconds,
        features=features,
        model=gp,
    )


def compare_exact(kernel: Kernel, split: HeldOut, task: str) -> Compared:
    """The exact Gaussian process, which the others approximate."""
    start = time.perf_counter()
    gp = exact_gp(task, kernel, split.imputation).fit(split.rows, split.y)
    seconds = time.perf_counter() - start
    return Compared(
        "exact Gaussian process",
        None,
        None,
        None,
        **scores_of(predict_rows(gp, split.test_rows), split),
        microseconds=None,
        fit_seconds=seconds,
        model=gp,
    )


def compare_baselines(split: HeldOut, task: str, seed: int) -> list[Compared]:
    """A linear and a tree model of scikit-learn, not tuned, on the same rows."""
    models: dict[str, Any] = {
        "ridge (scikit-learn)": RidgeCV(alphas=np.logspace(-3, 3, 13)),
        "gradient boosting (scikit-learn)": HistGradientBoostingRegressor(random_state=seed),
    }
    if task == "classification":
        models = {
            "logistic regression (scikit-learn)": LogisticRegression(max_iter=1000),
            "gradient boosting (scikit-learn)": HistGradientBoostingClassifier(random_state=seed),
        }
    found = []
    for name, model in models.items():
        start = time.perf_counter()
        # One thread: on a busy machine those of OpenMP wait for each other (digits: 29 s, not 2)
        with warnings.catch_warnings(), threadpool_limits(1):
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(split.X, split.y)
        seconds = time.perf_counter() - start
        predict = getattr(model, "predict_proba", model.predict)
        microseconds = microseconds_a_row(predict, split.X_test, calls=1)
        if task == "classification":
            scored = scores_of(predict_rows(model, split.X_test), split)
        else:  # without a distribution
            mean = model.predict(split.X_test)
            scored = scores_of(NumberPrediction(mean, np.ones_like(mean)), split)
            scored |= {"losses": None, "prediction": None}
            scored["figures"] |= {"mnll": None, "coverage": None}
        scored |= {"microseconds": microseconds, "fit_seconds": seconds, "is_baseline": True}
        found.append(Compared(name, None, None, None, **scored))
    return found


def scores_of(prediction: Prediction, split: HeldOut) -> dict[str, Any]:
    """How good predictions for the rows held out are."""
    total = Score(prediction.task)
    total.add(prediction, split.y_test)
    return {
        "figures": total.figures(),
        "losses": prediction.losses(split.y_test),
        "errors": errors_of(prediction.values, split.y_test, prediction.task),
        "prediction": prediction,
    }


def errors_of(predicted: np.ndarray, y: np.ndarray, task: str) -> np.ndarray:  # -> (n,)
    """Wrong or not, or squared errors over the variance of y."""
    if task == "classification":
        errors: np.ndarray = (predicted != y).astype(float)
    else:
        errors = (y - predicted) ** 2 / (float(np.var(y)) or 1.0)
    return errors


def microseconds_a_row(
    transform: Callable[[np.ndarray], Any], X: np.ndarray, calls: int = 5
) -> float:
    """The best of some calls: whatever else the machine does only adds time."""
    seconds = []
    for _ in range(calls):
        start = time.perf_counter()
        transform(X)
        seconds.append(time.perf_counter() - start)
    return 1e6 * min(seconds) / len(X)


def rank_measured(compared: list[Compared]) -> list[Compared]:
    """By what the table shows: the held-out likelihood; by accuracy where none is finite."""
    if any(np.isfinite(one.loss) for one in compared):
        return sorted(compared, key=lambda one: one.loss)
    return sorted(compared, key=lambda one: -(one.figures.get("accuracy") or 0.0))


def error_curves(rows: list[PlannedCandidate], study: Study, n_components: int) -> Curves:
    """The predicted error at several numbers of columns, of candidates that have a formula.

    `rows` are the predictions at n_components.
    """
    known = [row for row in rows if row.source == "formula"]
    curves: Curves = {short_name(row.label): ([], []) for row in known}
    for size in sorted({max(4, n_components * 4**power // 16) for power in range(4)}):
        for row in (predict_with(row.candidate, study, size) for row in known):
            if row is None:  # the columns are too few
                continue
            columns, errors = curves[short_name(row.label)]
            columns.append(size)
            errors.append(row.relative_error)
    return curves

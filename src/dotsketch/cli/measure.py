"""Candidates side by side: predicted and measured error, held-out score, time.

The plan ranks all candidates by their predicted error. The best of every family, and the next
best, are then drawn, measured against the exact kernel on rows held out, and used in a Gaussian
process that is scored on the same rows.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from ..features import Study
from ..kernels import Kernel
from ..planning import Plan, PlannedCandidate, Selection, assess
from .modelling import FittedFeatures, exact_gp, make_gp
from .scoring import Prediction, Score, predict_rows

EXACT_ROWS = 2000  # the exact process is a reference up to so many rows
ERROR_ROWS = 400  # of the Gram matrix that errors are measured on
ERROR_DRAWS = 5
Curves = dict[str, tuple[list[int], list[float]]]  # name: numbers of columns, predicted errors


@dataclass(frozen=True)
class HeldOut:
    """Encoded rows to fit on, and rows held out."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray


@dataclass(frozen=True)
class Compared:
    """What is known of one candidate; the exact process has no row of the plan."""

    name: str
    row: PlannedCandidate | None
    measured_error: float | None
    error_spread: float | None  # standard deviation between draws
    figures: dict[str, float | None]
    losses: np.ndarray  # −log p(y) of every row held out
    prediction: Prediction
    microseconds: float | None  # of the features, a row
    fit_seconds: float
    features: Any = None

    @property
    def predicted_error(self) -> float | None:
        return None if self.row is None else self.row.relative_error


def shortlist(table: Plan, most: int) -> list[PlannedCandidate]:
    """The best of every family, then of every variant of it, then the next best; as planned."""

    def option(row: PlannedCandidate, name: str) -> Any:
        return row.family, getattr(row.candidate, name, None)

    chosen: list[PlannedCandidate] = []
    for kind in ("family", "coefficients", "sketch", "projection", None):
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
            features = features.redrawn(split.X, seed + draw)
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
    gp = make_gp(task, FittedFeatures(fitted)).fit(split.X, split.y)
    seconds = time.perf_counter() - start
    error, spread = (
        measured_error(fitted, kernel, split, seed) if len(split.X_test) > 2 else (None,) * 2
    )
    return Compared(
        row.label,
        row,
        error,
        spread,
        **score_process(gp, split, task),
        microseconds=microseconds_a_row(fitted.transform, split.X_test),
        fit_seconds=seconds,
        features=features,
    )


def compare_exact(kernel: Kernel, split: HeldOut, task: str) -> Compared:
    """The exact Gaussian process, which the others approximate."""
    start = time.perf_counter()
    gp = exact_gp(task, kernel).fit(split.X, split.y)
    seconds = time.perf_counter() - start
    return Compared(
        "exact Gaussian process",
        None,
        None,
        None,
        **score_process(gp, split, task),
        microseconds=None,
        fit_seconds=seconds,
    )


def score_process(gp: Any, split: HeldOut, task: str) -> dict[str, Any]:
    prediction = predict_rows(gp, split.X_test)
    total = Score(task)
    total.add(prediction, split.y_test)
    return {
        "figures": total.figures(),
        "losses": prediction.losses(split.y_test),
        "prediction": prediction,
    }


def microseconds_a_row(transform: Callable[[np.ndarray], Any], X: np.ndarray) -> float:
    """The best of some calls: whatever else the machine does only adds time."""
    seconds = []
    for _ in range(5):
        start = time.perf_counter()
        transform(X)
        seconds.append(time.perf_counter() - start)
    return 1e6 * min(seconds) / len(X)


def recommend(compared: list[Compared]) -> Compared:
    """The cheapest of those whose held-out likelihood is as good as the best's.

    As good: the mean difference of the losses is within its standard error.
    """
    found = [one for one in compared if one.row is not None]
    best = min(found, key=lambda one: one.losses.mean())
    if not np.isfinite(best.losses.mean()):
        return max(found, key=lambda one: one.figures.get("accuracy") or 0.0)

    def as_good(one: Compared) -> bool:
        difference = one.losses - best.losses
        error = np.std(difference, ddof=1) / np.sqrt(len(difference)) if len(difference) > 1 else 0
        return bool(np.mean(difference) <= error)

    return min(filter(as_good, found), key=lambda one: one.row.cost if one.row else np.inf)


def error_curves(rows: list[PlannedCandidate], study: Study, n_components: int) -> Curves:
    """The predicted error at several numbers of columns, of candidates that have a formula.

    `rows` are the predictions at n_components. The study remembers its averages over pairs, which
    do not depend on the number of columns.
    """
    known = [row for row in rows if row.source == "formula"]
    curves: Curves = {row.label: ([], []) for row in known}
    candidates = Selection([row.candidate for row in known], [])
    for size in sorted({max(4, n_components * 4**power // 16) for power in range(4)}):
        found = known if size == n_components else assess(study, candidates, size).rows
        for row in found:  # without those for which the columns are too few
            columns, errors = curves[row.label]
            columns.append(size)
            errors.append(row.relative_error)
    return curves

"""The two stages of a search for the kernel of features.

Where the kernel leaves a choice (`Kernel.alternatives`), it is made before them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ..._arrays import Array, is_sparse
from ..._support.threads import suited_blas_threads
from ...features.degenerate import without_degenerate_warnings
from ...kernels import DotProductKernel
from ...kernels.algebra import CompositeKernel
from .factor import MARGIN, best_factor
from .moving import moved_landmarks
from .placement import Placement
from .record import OutOfTime, Recorder
from .rounds import (
    FEATURES,
    SHORT_FEATURES,
    Found,
    Schedule,
    found_on_rows,
    has_parameters,
    preferred,
)

MOST_COMPARED = 512  # columns at which kernels are compared
# A kernel other than the usual one must be better by so much, per row: lengthscales are found in
# haste there, and a difference of less may turn round
CLEAR = 0.03
Score = tuple[float, float, float]  # log-likelihood per row, noise variance, prior variance


class Judge(NamedTuple):
    """What unfitted features reach on so many rows."""

    score: Callable[[Any], Score]
    n_rows: int
    most_columns: int | None = None  # features with more are judged with so many


def tuned_features(
    features: Any,
    X: Array,
    Y: np.ndarray,
    noise: np.ndarray | None,
    counts: np.ndarray | None,
    *,
    fitting: Array,
    judge: Judge,
    quick: Judge,
    per_column: bool | None,
    rng: np.random.Generator,
    recorder: Recorder,
    margin: float = MARGIN,
) -> tuple[Any, str]:
    """A clone of the features with the kernel that was found, and what was done.

    The first stage takes some of the rows X (n, d) with targets Y (n, m) and, if they are given,
    noise variances (n,) and sample weights (n,). `fitting` (k, d) are the rows that the features
    will be fitted to. The `judge` is for the second stage, and a `quick` one, of fewer rows, for a
    choice between kernels before the first.
    """
    place = Placement(features)
    kernel = place.kernel
    seen = None if kernel is None else place.rows_of_kernel(X, fitting)
    if seen is None:
        return features, "The features have no single kernel to search: only variances are chosen."
    if not has_parameters(kernel):
        return features, "The kernel has no parameters to search besides its variance."

    def trial(candidate: Any, by: Judge = judge) -> Trial:
        return Trial(place.settled(candidate, seen, Y), candidate, by, recorder)

    rows = seen, Y, noise, counts
    first = FirstStage(place, rows, per_column, rng, recorder)
    with without_degenerate_warnings():
        kernel = first.choice(kernel, partial(trial, by=quick))
        found, note = first.candidates(kernel)
        best, factor, value = found[-1], 1.0, -np.inf
        for candidate in reversed(found):
            try:
                recorder.check()
            except OutOfTime:
                break
            other, reached = trial(candidate).best_factor(least=value, margin=margin)
            if reached > value:
                best, factor, value = candidate, other, reached
        best = best.stretched(factor)
        message = f"Factor of the lengthscales: {factor:.3g}.{note}"
        if value == -np.inf:
            # no time was left to judge what few rows have found: it may be worse than the given one
            given = place.kernel.resolve(seen)
            start, end = (trial(candidate, quick).compared() for candidate in (given, best))
            if start > end:
                best, message = given, "The given kernel is kept."
        if place.chooses_landmarks:
            rule = trial(best).best_rule(value, is_possible=not is_sparse(seen))
            return place.with_landmarks(best, rule), f"{message} Landmarks: {rule}."
    if not place.learns_landmarks:
        return place.with_kernel(best), message
    moved = moved_landmarks(best, *rows, n_columns=place.n_columns, rng=rng, recorder=recorder)
    if moved is None:
        reason = "The landmarks stay rows: they cannot be moved, or no time was left."
        return place.with_kernel(best), f"{message} {reason}"
    best, landmarks, n_moved = moved
    return place.with_landmarks(best, landmarks), f"{message} Landmarks moved: {n_moved}."


class FirstStage:
    """Kernels by the marginal likelihood of some rows (X, Y, noise, counts): `found_on_rows`."""

    def __init__(
        self,
        place: Placement,
        rows: tuple[Any, ...],
        per_column: bool | None,
        rng: np.random.Generator,
        recorder: Recorder,
    ):
        self.place, self.rows, self.per_column = place, rows, per_column
        self.rng, self.recorder = rng, recorder
        self.note = ""

    def choice(self, kernel: Any, trial: Callable[[Any], Trial]) -> Any:
        """The kernel, or the one of its alternatives that does best through the features."""
        kernels = kernel.alternatives()
        if len(kernels) == 1:
            return kernel

        def compared(kernel: Any, rng: np.random.Generator, near: Found | None) -> Found:
            found = self._found(kernel, SHORT_FEATURES, rng=rng, near=near)[-1]
            return found._replace(log_likelihood=trial(found.kernel).compared())

        best = preferred(kernels, compared, self.rng, self.recorder, CLEAR)
        self.note = f" Kernel: {_name(best)}."
        return best

    def candidates(self, kernel: Any) -> tuple[list[Any], str]:
        """The kernels for the second stage, and what there is to say of them."""
        found = self._search(kernel, self.per_column)
        if self._suit(kernel, found):
            return found, self.note
        # its parts no longer see the same dot product up to a factor, which these features need
        found = found if self.per_column is False else self._search(kernel, False)
        if self._suit(kernel, found):
            return found, (
                f"{self.note} One lengthscale per column leaves no Maclaurin series: the parts "
                "have common ones."
            )
        note = "The parts of the kernel keep their parameters: others have no Maclaurin series."
        return [kernel.resolve(self.rows[0])], f"{self.note} {note}"

    def _search(self, kernel: Any, per_column: bool | None) -> list[Any]:
        found = self._found(kernel, FEATURES, per_column=per_column)
        return [result.kernel for result in found]

    def _found(self, kernel: Any, schedule: Schedule, **options: Any) -> list[Found]:
        given = {"per_column": self.per_column, "rng": self.rng, "recorder": self.recorder}
        schedule = schedule.with_most_landmarks(self.place.n_columns)
        return found_on_rows(kernel, *self.rows, schedule=schedule, **{**given, **options})

    def _suit(self, given: Any, found: list[Any]) -> bool:
        """Whether the features take the kernels that were found in the place of the one given."""
        if not isinstance(given, DotProductKernel):
            return True
        X = self.rows[0]
        return all(isinstance(k, DotProductKernel) or self.place.accepts(k, X) for k in found)


def _name(kernel: Any) -> str:
    """The kernel without its lengthscales, which may be many."""
    if isinstance(kernel, CompositeKernel):
        return f"{_name(kernel.left)} and {_name(kernel.right)}"
    nu = getattr(kernel, "nu", None)
    return type(kernel).__name__ + ("" if nu is None else f", nu={nu}")


class Trial:
    """What a kernel reaches through the features on many rows; every evaluation is recorded."""

    def __init__(
        self,
        place: Placement,
        kernel: Any,
        judge: Judge,
        recorder: Recorder,
    ):
        self.place, self.kernel, self.judge, self.recorder = place, kernel, judge, recorder

    def best_factor(self, *, least: float, margin: float) -> tuple[float, float]:
        """The best factor of the lengthscales, and the log-likelihood that it reaches."""
        columns = self.place.n_columns, self.place.columns_at_once
        return best_factor(self.log_likelihood, *columns, self.recorder, least=least, margin=margin)

    def best_rule(self, value: float, *, is_possible: bool) -> str:
        """The rule of landmarks, given the log-likelihood of the usual one."""
        usual = self.place.usual_rule
        try:
            self.recorder.check()
        except OutOfTime:
            return usual
        return usual

    def compared(self) -> float:
        """The log-likelihood with as many columns as kernels are compared with.

        Landmarks that are to be chosen are uniform here: `CLEAR` was found with them.
        """
        n, step = self.place.n_columns, self.place.columns_at_once
        rule = "uniform" if self.place.chooses_landmarks else None
        return self.log_likelihood(1.0, n and min(n, MOST_COMPARED // step * step), "kernel", rule)

    def log_likelihood(
        self, factor: float, n_columns: int | None, stage: str = "factor", rule: str | None = None
    ) -> float:
        """Per row, at a factor of the lengthscales; None takes columns or landmarks as given."""
        earlier = self.recorder.earlier()
        if earlier is not None:
            return earlier[0][0]
        began = time.perf_counter()
        used = self.place.n_columns if n_columns is None else n_columns
        if used is not None and self.judge.most_columns is not None:
            used = min(used, self.judge.most_columns)
        kernel = self.kernel.stretched(factor)
        trial = self.place.with_kernel(kernel, n_columns)
        if rule is not None:
            trial = self.place.with_landmarks(kernel, rule, n_columns)
        with suited_blas_threads(self.judge.n_rows):
            value, noise, prior = self.judge.score(trial)
        self.recorder.add(
            began,
            [float(value)],
            stage=stage,
            n_rows=self.judge.n_rows,
            n_columns=used,
            n_evaluations=1,
            factor=factor,
            log_likelihood=value,
            noise_variance=noise,
            prior_variance=prior,
        )
        return value

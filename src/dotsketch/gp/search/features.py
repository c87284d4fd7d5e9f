"""The two stages of a search for the kernel of features.

Where the kernel leaves a choice (`Kernel.alternatives`), it is made before them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from ..._arrays import Array
from ...features.degenerate import without_degenerate_warnings
from ...kernels import DotProductKernel
from .factor import MARGIN, best_factor
from .moving import moved_landmarks
from .placement import Placement
from .record import OutOfTime, Recorder
from .rounds import MOST_LANDMARKS, has_parameters, kernels_of_rows, preferred

MOST_COMPARED = 1024  # columns at which kernels are compared
Score = tuple[float, float, float]  # log-likelihood per row, noise variance, prior variance


def tuned_features(
    features: Any,
    X: Array,
    Y: np.ndarray,
    noise: np.ndarray | None,
    counts: np.ndarray | None,
    *,
    score: Callable[[Any], Score],
    n_scored: int,
    per_column: bool | None,
    rng: np.random.Generator,
    recorder: Recorder,
    margin: float = MARGIN,
) -> tuple[Any, str]:
    """A clone of the features with the kernel that was found, and what was done.

    The first stage takes some of the rows X (n, d) with targets Y (n, m) and, if they are given,
    noise variances (n,) and sample weights (n,). `score(features)` is for the second stage: what
    unfitted features reach on `n_scored` rows.
    """
    place = Placement(features)
    kernel = place.kernel
    seen = None if kernel is None else place.rows_of_kernel(X)
    if seen is None:
        return features, "The features have no single kernel to search: only variances are chosen."
    if not has_parameters(kernel):
        return features, "The kernel has no parameters to search besides its variance."

    def search(kernel: Any, per_column: bool | None, **options: Any) -> list[Any]:
        options = {"rng": rng, "recorder": recorder, **options}
        return kernels_of_rows(kernel, seen, Y, noise, counts, per_column=per_column, **options)

    def scored(candidate: Any) -> Trial:
        return Trial(place.settled(candidate, X, Y), candidate, score, n_scored, recorder)

    def compared(kernel: Any, rng: np.random.Generator) -> tuple[float, Any]:
        found = search(kernel, per_column, rng=rng, is_short=True)[0]
        with without_degenerate_warnings():
            return scored(found).compared(), found

    note, others = "", []
    is_open = len(kernel.alternatives()) > 1
    if is_open:
        kernel, *others = preferred(kernel.alternatives(), compared, rng, recorder)
    n_landmarks = place.n_columns or MOST_LANDMARKS
    found = search(kernel, per_column, n_landmarks=n_landmarks)
    for other in others:
        found = [*search(other, per_column, n_landmarks=n_landmarks, is_short=True), *found]
    if not _suit(place, kernel, found, seen):
        # its parts no longer see the same dot product up to a factor, which these features need
        note = " One lengthscale per column leaves no Maclaurin series: the parts have common ones."
        found = found if per_column is False else search(kernel, False, n_landmarks=n_landmarks)
        if not _suit(place, kernel, found, seen):
            found = [kernel.resolve(seen)]
            note = (
                " The parts of the kernel keep their parameters: others have no Maclaurin series."
            )
    best, factor, value = found[-1], 1.0, -np.inf
    with without_degenerate_warnings():
        for candidate in reversed(found):
            try:
                recorder.check()
            except OutOfTime:
                break
            other, reached = scored(candidate).best_factor(least=value, margin=margin)
            if reached > value:
                best, factor, value = candidate, other, reached
    message = f"Factor of the lengthscales: {factor:.3g}.{note}"
    if is_open:
        nu = getattr(best, "nu", None)
        message += f" Kernel: {type(best).__name__}{'' if nu is None else f', nu={nu}'}."
    best = best.stretched(factor)
    if not place.learns_landmarks:
        return place.with_kernel(best), message
    moved = moved_landmarks(
        best, seen, Y, noise, counts, n_columns=place.n_columns, rng=rng, recorder=recorder
    )
    if moved is None:
        reason = "The landmarks stay rows: they cannot be moved, or no time was left."
        return place.with_kernel(best), f"{message} {reason}"
    best, landmarks, n_moved = moved
    return place.with_landmarks(best, landmarks), f"{message} Landmarks moved: {n_moved}."


def _suit(place: Placement, given: Any, found: list[Any], X: Array) -> bool:
    """Whether the features take the kernels that were found in the place of the one given."""
    if not isinstance(given, DotProductKernel):
        return True
    return all(isinstance(k, DotProductKernel) or place.accepts(k, X) for k in found)


class Trial:
    """What a kernel reaches through the features on many rows; every evaluation is recorded."""

    def __init__(
        self,
        place: Placement,
        kernel: Any,
        score: Callable[[Any], Score],
        n_rows: int,
        recorder: Recorder,
    ):
        self.place, self.kernel, self.score = place, kernel, score
        self.n_rows, self.recorder = n_rows, recorder

    def best_factor(self, *, least: float, margin: float) -> tuple[float, float]:
        """The best factor of the lengthscales, and the log-likelihood that it reaches."""
        columns = self.place.n_columns, self.place.columns_at_once
        return best_factor(self.log_likelihood, *columns, self.recorder, least=least, margin=margin)

    def compared(self) -> float:
        """The log-likelihood with as many columns as kernels are compared with."""
        n, step = self.place.n_columns, self.place.columns_at_once
        return self.log_likelihood(1.0, n and min(n, MOST_COMPARED // step * step), "kernel")

    def log_likelihood(self, factor: float, n_columns: int | None, stage: str = "factor") -> float:
        """Per row, at a factor of the lengthscales; None takes the columns as they are."""
        earlier = self.recorder.earlier()
        if earlier is not None:
            return earlier[0][0]
        began = time.perf_counter()
        trial = self.place.with_kernel(self.kernel.stretched(factor), n_columns)
        value, noise, prior = self.score(trial)
        self.recorder.add(
            began,
            [float(value)],
            stage=stage,
            n_rows=self.n_rows,
            n_columns=self.place.n_columns if n_columns is None else n_columns,
            n_evaluations=1,
            factor=factor,
            log_likelihood=value,
            noise_variance=noise,
            prior_variance=prior,
        )
        return value

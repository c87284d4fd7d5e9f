"""The two stages of a search for the kernel of features."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from ..._arrays import Array
from ...features.degenerate import without_degenerate_warnings
from ...kernels import DotProductKernel
from .factor import MARGIN, best_factor
from .placement import Placement
from .record import OutOfTime, Recorder
from .rounds import MOST_LANDMARKS, has_parameters, kernels_of_rows

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

    def search(per_column: bool | None) -> list[Any]:
        return kernels_of_rows(
            kernel,
            seen,
            Y,
            noise,
            counts,
            per_column=per_column,
            rng=rng,
            recorder=recorder,
            n_landmarks=place.n_columns or MOST_LANDMARKS,
        )

    found, note = search(per_column), ""
    if not _suit(place, kernel, found, seen):
        # its parts no longer see the same dot product up to a factor, which these features need
        note = " One lengthscale per column leaves no Maclaurin series: the parts have common ones."
        found = found if per_column is False else search(False)
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
            trial = place.settled(candidate, X, Y)
            scored = _scored(trial, candidate, score, n_scored, recorder)
            columns = trial.n_columns, trial.columns_at_once
            other, reached = best_factor(scored, *columns, recorder, least=value, margin=margin)
            if reached > value:
                best, factor, value = candidate, other, reached
    message = f"Factor of the lengthscales: {factor:.3g}.{note}"
    return place.with_kernel(best.stretched(factor)), message


def _suit(place: Placement, given: Any, found: list[Any], X: Array) -> bool:
    """Whether the features take the kernels that were found in the place of the one given."""
    if not isinstance(given, DotProductKernel):
        return True
    return all(isinstance(k, DotProductKernel) or place.accepts(k, X) for k in found)


def _scored(
    place: Placement, kernel: Any, score: Callable[[Any], Score], n_rows: int, recorder: Recorder
) -> Callable[[float, int | None], float]:
    """The likelihood as a function of the factor and the number of columns, which it records."""

    def log_likelihood(factor: float, n_columns: int | None) -> float:
        earlier = recorder.earlier()
        if earlier is not None:
            return earlier[0][0]
        began = time.perf_counter()
        value, noise, prior = score(place.with_kernel(kernel.stretched(factor), n_columns))
        recorder.add(
            began,
            [float(value)],
            stage="factor",
            n_rows=n_rows,
            n_columns=place.n_columns if n_columns is None else n_columns,
            n_evaluations=1,
            factor=factor,
            log_likelihood=value,
            noise_variance=noise,
            prior_variance=prior,
        )
        return value

    return log_likelihood

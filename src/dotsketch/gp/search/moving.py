"""Landmarks that are moved to where they describe the targets best: `landmarks="learned"`.

Rows make good landmarks for the kernel, whatever the targets are. With few columns, landmarks that
are free to move, together with the lengthscales, describe the function itself much better. They
maximise the variational bound of some rows, with gradients (`collapsed.MovedLandmarks`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._arrays import is_sparse
from ...kernels import DistanceKernel
from .collapsed import MovedLandmarks
from .record import OutOfTime, Recorder
from .rounds import (
    FEATURES,
    NOISE,
    Descent,
    SearchRows,
    extremes,
    spread_rows,
    with_level,
)

MOST_MOVED = 1024  # landmarks: an evaluation takes two seconds of one core (512: half of one)
MOVES = 120  # iterations


class Moves(Descent):
    share = 1.0  # nothing follows but the final pass


def moved_landmarks(
    kernel: Any,
    X: Any,
    Y: np.ndarray,
    noise: np.ndarray | None,
    counts: np.ndarray | None,
    *,
    n_columns: int | None,
    rng: np.random.Generator,
    recorder: Recorder,
) -> tuple[Any, np.ndarray, int] | None:  # (n, d), (n, m), (n,), (n,) -> (n_columns, d)
    """The kernel, one landmark per column, and how many of them were moved (1024 at most).

    The others are rows. None if the kernel has no derivatives with respect to rows, if rows are
    sparse or too few, or if no time is left.
    """
    is_possible = isinstance(kernel, DistanceKernel) and not is_sparse(X)
    if not is_possible or n_columns is None or X.shape[0] < n_columns:
        return None
    order = rng.permutation(X.shape[0])
    rows = SearchRows.of(X, Y, noise, counts, order[: FEATURES.landmark_rows])
    m = min(n_columns, MOST_MOVED, len(rows.X))
    if not 0 < rows.square < np.inf or not recorder.steps:
        return None
    last = recorder.steps[-1]
    # a classifier has no noise, and the prior variance of another likelihood
    has_noise = np.isfinite(last.noise_variance)
    prior = last.prior_variance / rows.square if has_noise else 1.0
    first_noise = last.noise_variance / rows.square if has_noise else NOISE[1]
    searched = kernel.times(prior)
    box = searched.search_range(spread_rows(rows.X, *extremes(X)))
    start = np.clip(searched.logarithms, box[:, 0], box[:, 2])
    if rows.noise is None:
        box = np.vstack([box, np.log(NOISE)])
        start = np.append(start, np.log(np.clip(first_noise, NOISE[0], NOISE[2])))
    evidence = MovedLandmarks(searched, rows.X[:m], *rows.first(len(rows.X)))
    free = np.tile([-np.inf, 0.0, np.inf], (m * rows.X.shape[1], 1))
    descent = Moves(evidence, np.vstack([box, free]), recorder, rows.square, MOVES)
    try:
        recorder.check()
        _, values = descent.run(evidence.start(start))
    except OutOfTime:
        if descent.best[1] is None:
            return None
        values = descent.best[1]
    others = np.asarray(X[order[m:n_columns]], dtype=np.float64)
    landmarks = np.concatenate([evidence.moved(values), others])
    n_logarithms = len(searched.logarithms)
    return with_level(searched, values[:n_logarithms], kernel, rows.X), landmarks, m

"""One common factor of all lengthscales, by evaluations through the features on all rows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .record import OutOfTime, Recorder

STEP = np.sqrt(2.0)
SPAN = 4.0  # at most so far from 1, either way
SHARE = 2  # of the columns are used to find the factor
# A longer lengthscale needs such a gain of the marginal likelihood per row. Where it is flat,
# lengthscales and prior variance may grow together without end, and with them the variance that
# features do not carry.
MARGIN = 0.005
FEWEST_COLUMNS, MOST_COLUMNS = 1024, 2048


def fewer_columns(n_columns: int | None, columns_at_once: int) -> int | None:
    """The columns of an evaluation; None takes them as they are."""
    if n_columns is None or n_columns // SHARE < FEWEST_COLUMNS:
        return None
    return min(n_columns // SHARE, MOST_COLUMNS) // columns_at_once * columns_at_once


def best_factor(
    log_likelihood: Callable[[float, int | None], float],
    n_columns: int | None,
    columns_at_once: int,
    recorder: Recorder,
    *,
    least: float = -np.inf,
    margin: float = MARGIN,
) -> tuple[float, float]:
    """The factor of the greatest likelihood, uphill from 1 in steps of √2, and this likelihood.

    `log_likelihood(factor, n_columns)` is per row; with None it takes the columns as they are. Half
    of the columns are used (2048 at most) if those are at least 1024: an evaluation is then four
    times cheaper. The search ends at once where the likelihood at 1 is below `least`. A step to
    longer lengthscales must gain the `margin`.
    """
    fewer = fewer_columns(n_columns, columns_at_once)
    known: dict[int, float] = {}
    most = round(np.log(SPAN) / np.log(STEP))

    def value(place: int) -> float:
        if abs(place) > most:
            return -np.inf
        if place not in known:
            recorder.check()
            known[place] = log_likelihood(float(STEP**place), fewer)
        return known[place]

    place = 0
    try:
        if value(0) >= least:
            while value(place + 1) >= value(place) + margin:
                place += 1
            while value(place - 1) > value(place):
                place -= 1
    except OutOfTime:
        place = max(known, key=lambda k: known[k], default=0)
    return float(STEP**place), known.get(place, -np.inf)

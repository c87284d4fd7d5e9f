"""Copies of rows that count more than once, for what can be fitted to rows only."""

from __future__ import annotations

import numpy as np

from .sources import SAMPLE_ROWS, Block, pick, sample_weights

_PER_ROW = 10  # copies of a row of mean weight, where weights are not whole numbers


def copies(block: Block) -> Block:
    """The rows of a block, each as often as its weight says: a weight of 3 is three rows.

    All copies where there are at most 10,000, or as many as rows; otherwise so many of them, evenly
    spaced. Weights that are not whole numbers become multiples of a tenth of their mean, at least
    one of them.
    """
    weights = sample_weights(block)
    if weights is None or np.all(weights == 1):
        return block
    numbers = copied_rows(weights, max(SAMPLE_ROWS, len(weights)))
    return tuple(None if c is None else pick(c, numbers) for c in block[:3])


def copied_rows(weights: np.ndarray, most: int) -> np.ndarray:  # (n,) -> (at most `most`,)
    """The numbers of the rows that the copies are of, in order."""
    counts = np.rint(weights)
    if not np.array_equal(counts, weights):
        counts = np.maximum(np.rint(weights * (_PER_ROW / np.mean(weights))), 1)
    ends = np.cumsum(counts)
    total = ends[-1]
    places = np.arange(total) if total <= most else np.linspace(0, total - 1, most).round()
    return np.searchsorted(ends, places, side="right")

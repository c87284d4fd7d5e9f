"""Copies of rows that count more than once, for what can be fitted to rows only."""

from __future__ import annotations

import numpy as np

from .sources import SAMPLE_ROWS, Block, each, pick, sample_weights

_PER_ROW = 10  # copies of a row of mean weight, where weights are not whole numbers
_EXACT = 2**53  # whole numbers up to here are floating-point numbers, also when they are added


def copies(block: Block) -> Block:
    """The rows of a block, each as often as its weight says: a weight of 3 is three rows.

    All copies where there are at most 10,000, or as many as rows; otherwise that many of them,
    evenly spaced. Weights that are not whole numbers become multiples of a tenth of their mean, at
    least one of them. Weights that are all equal are no weights: the block itself is returned.
    Otherwise the rows are copied, also where all of them are in memory.
    """
    weights = sample_weights(block)
    if weights is None or np.all(weights == weights[0]):
        return block
    numbers = copied_rows(weights, max(SAMPLE_ROWS, len(weights)))
    return each(block[:3], pick, numbers)


def copied_rows(weights: np.ndarray, most: int) -> np.ndarray:  # (n,) -> (at most `most`,)
    """The numbers of the rows that the copies are of, in order."""
    counts = np.rint(weights)
    largest = np.max(weights)
    if not np.array_equal(counts, weights) or largest > _EXACT / len(weights):
        shares = weights / largest  # whose mean neither overflows nor vanishes
        counts = np.maximum(np.rint(shares * (_PER_ROW / np.mean(shares))), weights > 0)
    ends = np.cumsum(counts)
    total = ends[-1]
    places = np.arange(total) if total <= most else np.linspace(0, total - 1, most).round()
    return np.searchsorted(ends, places, side="right")

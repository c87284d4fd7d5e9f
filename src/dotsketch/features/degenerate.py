"""Warnings where features are of little use: the kernel tells no rows apart, the features vanish,
or one lengthscale stands for columns of very different scales."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import numpy as np

from .._arrays import Array, is_traced
from ..kernels import Gaussian, Kernel
from .samples import take_rows

NEGLIGIBLE = 1e-6  # of k(x, x): rows more than 5.3 lengthscales apart
LEAST_SHARE = 0.01  # of k(x, x), which the features of half of the rows hold at least
UNEVEN = 100.0  # the largest standard deviation of a column over the smallest
FEWEST_ROWS, MOST_ROWS, MOST_ENTRIES, MOST_COLUMNS = 5, 64, 1 << 15, 1 << 16

_silent: ContextVar[bool] = ContextVar("silent", default=False)


@contextmanager
def without_degenerate_warnings() -> Iterator[None]:
    """For searches over lengthscales, which try poor ones on purpose."""
    token = _silent.set(True)
    try:
        yield
    finally:
        _silent.reset(token)


def warn_if_degenerate(kernel: Kernel, X: Array, share: float = 1.0, *, degree: int = 0) -> None:
    """Warn if the kernel between nearly all rows of X (n, d) is negligible beside k(x, x).

    Then its matrix is the identity, and no features represent it: they are zero, or noise. `share`
    is the median of E[k̂(x, x)] / k(x, x) for features from a series truncated at `degree`, which
    are nearly zero if it is small. Warn, too, if one lengthscale stands for columns of very
    different scales. Only a few rows are looked at, evenly spread, and none of very wide or traced
    data.
    """
    if _silent.get() or is_traced(X) or any(is_traced(v) for v in vars(kernel).values()):
        return
    if hasattr(kernel, "lengthscale"):
        _warn_if_uneven(kernel, X)
        near = _share_of_near_pairs(kernel.detached(), X)
        if near <= 1e-3:
            warnings.warn(
                f"{kernel} is nearly zero between {'all' if near == 0 else 'almost all'} pairs of "
                "different rows: they are many lengthscales apart, its matrix is close to the "
                "identity, and its features are zero or noise. Use a larger lengthscale "
                "(Gaussian() takes the median distance), or scale X down.",
                UserWarning,
                stacklevel=3,
            )
            return
    if share < LEAST_SHARE:
        warnings.warn(
            f"The features hold at most {share:.2g} of k(x, x) for half of the training rows, so "
            "they are nearly zero there: the rows are too far from the centre for the series of "
            f"{kernel} up to degree {degree}. Use a larger lengthscale or a smaller gamma, a "
            "larger max_degree, more columns, or NystromFeatures.",
            UserWarning,
            stacklevel=3,
        )


def _warn_if_uneven(kernel: Kernel, X: Array) -> None:
    """Warn if scales of columns differ by orders of magnitude, and the kernel has one lengthscale.

    Distances are then those of the columns with the largest scale. Columns that have one value in
    half of the rows say little about a scale (pixels at the edge, categories as 0 and 1).
    """
    rows = _some_rows(X) if np.ndim(kernel.detached().lengthscale) == 0 else None
    if rows is None:
        return
    with np.errstate(over="ignore", invalid="ignore"):
        scales = np.std(rows, axis=0, dtype=np.float64)
        varied = np.mean(rows == np.median(rows, axis=0), axis=0) < 0.5
    used = np.flatnonzero(varied & (scales > 0) & np.isfinite(scales))
    if len(used) < 2:
        return
    small, large = used[np.argmin(scales[used])], used[np.argmax(scales[used])]
    if scales[large] > UNEVEN * scales[small]:
        warnings.warn(
            f"The scales of the columns differ by orders of magnitude (the standard deviation of "
            f"column {large} is {scales[large]:.2g}, that of column {small} {scales[small]:.2g}), "
            "and the kernel has one lengthscale for all: columns with small scales hardly count. "
            "Standardise them, as in make_pipeline(StandardScaler(), ...), or give one "
            "lengthscale per column.",
            UserWarning,
            stacklevel=4,
        )


def _some_rows(X: Array) -> np.ndarray | None:  # -> (m, d)
    """Different rows, evenly spread; None if they are too wide or too few to judge by."""
    n, d = X.shape
    if d > MOST_COLUMNS:
        return None
    n_rows = min(n, max(2 * FEWEST_ROWS, min(MOST_ROWS, MOST_ENTRIES // d)))
    rows = take_rows(X, np.linspace(0, n - 1, n_rows).round().astype(int))
    rows = np.array(list({row.tobytes(): row for row in rows}.values()))  # np.unique is slow
    return rows if len(rows) >= FEWEST_ROWS else None


def _share_of_near_pairs(kernel: Kernel, X: Array) -> float:
    """Of the pairs of different rows in a sample; 1 if there are too few rows to judge by."""
    rows = _some_rows(X)
    if rows is None:
        return 1.0
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        # k(x, y) / √(k(x, x) k(y, y)), which is the same for the exponential kernel
        correlations = Gaussian(lengthscale=kernel.lengthscale)(rows)
    near = correlations[np.triu_indices(len(rows), 1)] > NEGLIGIBLE
    return float(np.mean(near))

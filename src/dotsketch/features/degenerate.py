"""Warnings where features are of little use: the kernel tells no rows apart, the features vanish,
or one lengthscale stands for inputs of very different scales."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

from .._arrays import Array, host, is_traced
from .design import Design
from .study import most_rows, sample_rows

_silent: ContextVar[bool] = ContextVar("silent", default=False)


@contextmanager
def without_degenerate_warnings() -> Iterator[None]:
    """For searches over lengthscales, which try poor ones on purpose."""
    token = _silent.set(True)
    try:
        yield
    finally:
        _silent.reset(token)


def degenerate(design: Design, X: Array, rng: np.random.Generator) -> Iterator[str]:
    """What to warn of if features of the design represent next to nothing of the kernel on rows X.

    64 rows are looked at, drawn at random, and none of very wide or traced data.
    """
    kernel: Any = design.kernel
    if _silent.get() or (not isinstance(X, np.ndarray) and is_traced(X)):
        return
    if design.is_differentiable and any(map(is_traced, vars(kernel).values())):
        return
    if most_rows(X.shape[1]) <= 50:  # some rows would take more than 32 MiB
        return
    rows = sample_rows(X, 64, rng)
    if hasattr(kernel, "lengthscale"):
        inputs: Any = design.inputs(rows)
        yield from _uneven(kernel, inputs)
        if (near := _share_of_near_pairs(kernel, inputs)) <= 1e-3:
            yield (
                f"{kernel} is nearly zero between {'all' if near == 0 else 'almost all'} pairs of "
                "different rows: they are many lengthscales apart, its matrix is close to the "
                "identity, and its features are zero or noise. Use a larger lengthscale "
                "(Gaussian() takes the median distance), or scale X down."
            )
            return
    with np.errstate(over="ignore", invalid="ignore"):
        share = design.median_share(rows)
    if share < 0.01:
        yield (
            f"The features hold at most {share:.2g} of k(x, x) for half of the training rows, so "
            "they are nearly zero there: the rows are too far from the centre for the series of "
            f"{kernel} up to degree {design.highest_degree}. Use a larger lengthscale or a smaller "
            "gamma, a larger max_degree, more columns, or NystromFeatures."
        )


def _share_of_near_pairs(kernel: Any, rows: np.ndarray) -> float:  # (n, d)
    """Of the pairs of different rows; 1 if there are too few rows to judge by."""
    rows = np.unique(rows, axis=0)
    if len(rows) < 5:
        return 1.0
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        S = (rows - rows.mean(axis=0)) / np.asarray(host(kernel.lengthscale), dtype=np.float64)
        squares = np.sum(S * S, axis=1)
        distances = squares[:, None] + squares - 2 * (S @ S.T)
        # k(x, y) / √(k(x, x) k(y, y)), which is the same for the exponential kernel: rows more
        # than 5.3 lengthscales apart are not near
        near = np.exp(-distances[np.triu_indices(len(S), 1)] / 2) > 1e-6
    return float(np.mean(near))


def _uneven(kernel: Any, rows: np.ndarray) -> Iterator[str]:  # (n, d)
    """What to warn of if scales of inputs differ by orders of magnitude, and the kernel has one
    lengthscale: distances are those of the largest.

    Inputs that have one value in half of the rows say little about a scale (pixels at the edge,
    categories as 0 and 1).
    """
    if np.ndim(host(kernel.lengthscale)) > 0 or len(np.unique(rows, axis=0)) < 5:
        return
    with np.errstate(over="ignore", invalid="ignore"):
        scales = np.std(rows, axis=0)
        varied = np.mean(rows == np.median(rows, axis=0), axis=0) < 0.5
    used = np.flatnonzero(varied & (scales > 0) & np.isfinite(scales))
    if len(used) < 2:
        return
    small, large = used[np.argmin(scales[used])], used[np.argmax(scales[used])]
    if scales[large] > 100 * scales[small]:
        yield (
            f"The scales of the columns differ by orders of magnitude (the standard deviation of "
            f"column {large} is {scales[large]:.2g}, that of column {small} {scales[small]:.2g}), "
            "and the kernel has one lengthscale for all: columns with small scales hardly count. "
            "Standardise them, as in make_pipeline(StandardScaler(), ...), or give one "
            "lengthscale per column."
        )

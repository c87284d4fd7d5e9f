"""The least error that D columns of any kind can have, from the kernel matrix of a sample."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.linalg import eigh

from ..features.study import Study, off_diagonal_mean, relative_error, spread_over_rows
from ..features.whitening import Whitening, leading
from ..kernels import Kernel

ROWS_PER_COLUMN = 4  # a sample of fewer rows says too little about the best possible
_MOST_ROWS = 2048
# The truth is between an error that is too small and one that is too large, nearer to the first:
# the weight of the second in their geometric mean, by measurement (docs: how many columns)
_HELD_OUT_WEIGHT = 0.25


@dataclass(frozen=True, kw_only=True)
class BestPossible:
    """The error of the best features with n_components columns, and what it stands on.

    No k̂ of rank D is nearer to the kernel matrix of all rows than that of its top D eigenvectors.
    A sample brackets its error over pairs of distinct rows: the eigenvectors of the sample's own
    matrix have an error that is too small (`lowest`), those of half of it an error on the other
    half that is too large (`highest`). `relative_error` is their geometric mean with the weights
    3/4 and 1/4; standard_error is that of `lowest`, from the spread over rows.
    """

    n_components: int
    relative_error: float
    standard_error: float
    lowest: float
    highest: float
    n_rows: int

    def __str__(self) -> str:
        return f"best possible with {self.n_components} columns"


def best_possible(study: Study, n_components: int) -> BestPossible | None:
    """The limit for so many columns; None if X has fewer than four rows per column, or 2048 rows
    are fewer."""
    return best_possible_later(study, n_components)()


def best_possible_later(study: Study, n_components: int) -> Callable[[], BestPossible | None]:
    """What computes the limit. It holds the rows that it needs, and neither X nor the study."""
    least = ROWS_PER_COLUMN * n_components
    n = min(study.n_rows, max(len(study.sample), least), _MOST_ROWS)
    rows = study.rows(n) if n >= least else np.empty((0, 0))
    if len(rows) < least:  # wide rows are fewer
        return lambda: None
    return partial(_estimate, study.kernel, rows, n_components)


def _estimate(kernel: Kernel, rows: np.ndarray, n_components: int) -> BestPossible | None:
    K = kernel(rows)
    with np.errstate(over="ignore", invalid="ignore"):
        lowest, deviation = _own_error(K, n_components)
        highest = _held_out_error(K, n_components)
    if not np.isfinite(lowest + highest):
        return None
    highest = max(lowest, highest)
    return BestPossible(
        n_components=n_components,
        relative_error=float(lowest ** (1 - _HELD_OUT_WEIGHT) * highest**_HELD_OUT_WEIGHT),
        standard_error=deviation,
        lowest=lowest,
        highest=highest,
        n_rows=len(K),
    )


def _own_error(K: np.ndarray, n_components: int) -> tuple[float, float]:
    """The error of the top eigenvectors of K between its own rows, and its standard error."""
    n = len(K)
    w, V = eigh(K, driver="evr", subset_by_index=[n - n_components, n - 1])
    squares, kernel_squares = (K - (V * np.maximum(w, 0)) @ V.T) ** 2, K**2
    error = relative_error(off_diagonal_mean(squares), off_diagonal_mean(kernel_squares))
    return error, error * spread_over_rows(squares, kernel_squares)


def _held_out_error(K: np.ndarray, n_components: int) -> float:
    """The error between half of the rows of the best features that the other half has."""
    h = len(K) // 2
    whitening = Whitening(K[:h, :h])
    A = whitening(K[:h, h:].copy())
    Z = A.T @ leading(whitening.lower.T @ whitening.lower, n_components)
    held = K[h:, h:]
    return relative_error(off_diagonal_mean((Z @ Z.T - held) ** 2), off_diagonal_mean(held**2))

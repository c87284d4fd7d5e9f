"""The error of an approximate kernel, predicted or measured, and means over pairs of rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

OVERFLOW = (
    "The squares of the kernel's values overflow on these data: scale X down, or use a larger "
    "lengthscale or a smaller gamma."
)


class Unsuited(ValueError):
    """The features do not suit the kernel, the data, or the number of columns; it says why."""


@dataclass(frozen=True, kw_only=True)
class ExpectedError:
    """The error of an approximate kernel over pairs of distinct rows, and its cost.

    relative_error is √(E(k − k̂)²/E k²); cost is the number of arithmetic operations per row, a
    guide to the time. Where the error is known in closed form, source is "formula", and
    squared_bias + variance is the squared error. Where it is not, source is "measured": features
    were drawn for rows held out, relative_error is the root mean square over draws, standard_error
    that of it, and its two parts are not known (NaN). A formula has no draws and a standard error
    of 0; that the pairs are a sample counts for neither. n_measured is the number of landmarks that
    were measured where X has too few rows for n_components and rows held out: the error is then
    somewhat too large.
    """

    relative_error: float
    squared_bias: float
    variance: float
    cost: float
    max_degree: int | None = None
    source: str = "formula"
    standard_error: float = 0.0
    n_measured: int | None = None

    @property
    def upper_error(self) -> float:
        """The error and twice its standard error: what has to be within a tolerance."""
        return self.relative_error + 2 * self.standard_error


class Measurement(NamedTuple):
    """The root mean square error over draws, its standard error, and the rows fitted to."""

    relative_error: float
    standard_error: float
    n_fitting: int

    def error(self, cost: float, n_measured: int | None = None) -> ExpectedError:
        return ExpectedError(
            relative_error=self.relative_error,
            squared_bias=np.nan,
            variance=np.nan,
            cost=cost,
            source="measured",
            standard_error=self.standard_error,
            n_measured=n_measured,
        )


def root_mean(squares: np.ndarray) -> tuple[float, float]:
    """√(mean of squares), and its standard error by the slope 1 / (2√mean) of the root."""
    mean = float(np.mean(squares))
    if not 0 < mean < np.inf:
        return float(np.sqrt(mean)), 0.0 if mean == 0 else np.inf
    root = float(np.sqrt(mean))
    return root, float(np.std(squares, ddof=1) / np.sqrt(len(squares)) / (2 * root))


def spread_over_rows(squared_errors: np.ndarray, kernel_squares: np.ndarray) -> float:
    """The standard error of √(mean squared_errors / mean kernel_squares), relative to it.

    Means are over pairs of n distinct rows, (n, n) each.
    """
    by_row = []
    for values in (squared_errors, kernel_squares):
        distinct = values.copy()
        np.fill_diagonal(distinct, 0.0)
        by_row.append(distinct.mean(axis=1) / (distinct.mean() or 1.0))
    # A mean over pairs moves twice as much as one over rows, a root half as much as its square
    return float(np.std(by_row[0] - by_row[1]) / np.sqrt(len(squared_errors)))


def relative_error(squared_error: float, kernel_square: float) -> float:
    """√(squared_error / kernel_square), 0 without an error and infinite for a zero kernel."""
    if squared_error == 0:
        return 0.0
    return float(np.sqrt(squared_error / kernel_square)) if kernel_square > 0 else np.inf


def off_diagonal_mean(values: np.ndarray) -> float:
    """The mean over pairs of distinct rows; over all there is where there is one row only."""
    n = len(values)
    if n < 2:
        return float(np.mean(values))
    distinct = values.copy()
    np.fill_diagonal(distinct, 0.0)  # subtracting a large trace would cancel
    return float(np.sum(distinct) / (n * (n - 1)))

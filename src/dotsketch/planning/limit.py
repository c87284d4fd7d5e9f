"""The least error that D columns of any kind can have, from the kernel matrix of a sample."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.linalg import eigh, qr

from .._support.stored import stored
from .._support.threads import suited_blas_threads
from ..features import Study
from ..features.nystrom.whitening import Whitening, leading
from ..features.study import off_diagonal, root_ratio
from ..kernels import Kernel


@stored
@dataclass(frozen=True, kw_only=True)
class BestPossible:
    """The error of the best features with n_components columns, and what it stands on.

    No k̂ of rank D is nearer to the kernel matrix of all N rows than that of its top D eigenvectors.
    `relative_error` estimates its error over pairs of distinct rows from n_rows of them:

    - The top eigenvectors of a sample describe its diagonal too, at the expense of its pairs.
      Where the diagonal is replaced by that of k̂, a few times, they describe the pairs alone.
    - Their error is too small, as they fit the sample: its logarithm by c/n for n rows. The
      sample and its two halves give c, and with it the error with all N rows.
    - What the diagonal costs with N rows is added: in the logarithm it falls as 1/n².

    If the sample is all rows, it is the error itself. The sample brackets it: `lowest` is the
    error of the first kind, `highest` that of the eigenvectors of one half on the other.
    standard_error is from the spread over rows.
    """

    n_components: int
    relative_error: float
    standard_error: float
    lowest: float
    highest: float
    n_rows: int

    def __str__(self) -> str:
        return f"best possible with {self.n_components} columns"


def best_possible(study: Study, n_components: int) -> Callable[[], BestPossible | None]:
    """What computes the limit for so many columns, or None if X has fewer than four rows per
    column, or 2048 rows are fewer. It holds the rows that it needs, and neither X nor the study."""
    least = 4 * n_components  # a sample of fewer rows says too little
    n = min(study.n_rows, max(study.n_pairs_sample or 500, least), 2048)
    rows = study.rows(n) if n >= least else np.empty((0, 0))
    if len(rows) < least:  # wide rows are fewer
        return lambda: None
    return partial(_estimate, study.kernel, rows, n_components, study.n_rows)


def _estimate(
    kernel: Kernel, rows: np.ndarray, n_components: int, n_all: int
) -> BestPossible | None:
    K = kernel(rows)
    n, h = len(K), len(K) // 2
    with suited_blas_threads(n), np.errstate(over="ignore", invalid="ignore"):
        plain, own, deviation = _own_errors(K, n_components)
        highest = _held_out_error(K, n_components)
        if not np.isfinite(plain + own + highest):
            return None
        error = plain
        rounding = 1e-12  # is not extrapolated
        if n < n_all and own > rounding:
            halves = [_own_errors(part, n_components)[1] for part in (K[:h, :h], K[h:, h:])]
            slope = np.log(own) - np.mean(np.log(np.maximum(halves, rounding)))
            share = n / n_all
            error = own * np.exp((1 - share) * slope + share**2 * np.log(plain / own))
    highest = max(plain, highest)
    return BestPossible(
        n_components=n_components,
        relative_error=float(np.clip(error, own, highest)),
        standard_error=deviation,
        lowest=own,
        highest=highest,
        n_rows=n,
    )


def _own_errors(K: np.ndarray, n_components: int) -> tuple[float, float, float]:
    """Between the rows of K: the error of its top eigenvectors, that of the best ones for pairs of
    distinct rows, and its standard error."""
    squares, n = row_sums(K**2), len(K)
    if n > 1024:  # of fewer rows all eigenvectors are computed sooner than a quarter of them
        top = [n - n_components, n - 1]
        w, V = eigh(K, driver="evr", subset_by_index=top, check_finite=False)
    else:
        w, V = (part[..., n - n_components :] for part in eigh(K, driver="evd", check_finite=False))
    plain, _ = root_ratio(row_sums((K - (V * np.maximum(w, 0)) @ V.T) ** 2), squares)
    A = K.copy()
    # One step of subspace iteration follows a small change of the diagonal. More than three change
    # estimates by 2 %
    for _ in range(3):
        A[np.diag_indices(n)] = V**2 @ np.maximum(w, 0)
        Q = qr(A @ V, mode="economic", check_finite=False)[0]
        w, U = eigh(Q.T @ A @ Q, driver="evd", check_finite=False)
        V = Q @ U
    own, deviation = root_ratio(row_sums((K - (V * np.maximum(w, 0)) @ V.T) ** 2), squares)
    return plain, min(plain, own), deviation


def _held_out_error(K: np.ndarray, n_components: int) -> float:
    """The error between half of the rows of the best features that the other half has."""
    h = len(K) // 2
    whitening = Whitening(K[:h, :h])
    own, A = whitening(K[:h, :h]), whitening(K[:h, h:])
    Z = A.T @ leading(own @ own.T, n_components)
    held = K[h:, h:]
    return root_ratio(row_sums((Z @ Z.T - held) ** 2), row_sums(held**2))[0]


def row_sums(values: np.ndarray) -> np.ndarray:  # (n, n) -> (1, n)
    """Sums over the pairs of each row with others."""
    return off_diagonal(values).sum(axis=1)[None]

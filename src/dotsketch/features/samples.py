"""Rows of any array library, looked at on the host: some of them, and their centre."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_array

from .._arrays import (
    Array,
    dense,
    double,
    evenly_spaced,
    host,
    is_foreign,
    is_sparse,
    like,
    namespace,
    share_of_entries,
)
from ..kernels import Kernel
from ..rows import in_memory_sample

MOST_SHARE = 0.1  # of entries that are stored: rows with more are better dense


def check_rows(X: Array) -> Array:
    """X as finite floating rows: NumPy, CSR, or an array of another library.

    Of a collection, such as a Dask array: a sample of its rows.
    """
    X = in_memory_sample(X, 10_000, np.random.default_rng(0))
    if not is_foreign(X):
        return check_array(X, accept_sparse="csr", dtype=[np.float64, np.float32])
    xp = namespace(X)
    if X.ndim != 2 or not xp.isdtype(X.dtype, ("bool", "integral", "real floating")):
        raise ValueError(f"X must be a real matrix; got shape {tuple(X.shape)}, dtype {X.dtype}.")
    X = X if xp.isdtype(X.dtype, "real floating") else double(X)
    if not bool(xp.all(xp.isfinite(X))):
        raise ValueError("X contains NaN or infinity.")
    return X


def sample_rows(X: Array, n_rows: int, rng: np.random.Generator) -> np.ndarray:
    """At most n_rows rows of X (and 32 MiB), drawn without replacement, as float64 on the host."""
    n_rows = min(n_rows, most_rows(X.shape[1]))
    rows = np.arange(X.shape[0])
    if X.shape[0] > n_rows:
        rows = np.sort(rng.choice(X.shape[0], n_rows, replace=False))
    return take_rows(X, rows)


def most_rows(dimension: int) -> int:
    """How many rows take 32 MiB; 50 at least."""
    return max(50, (1 << 22) // dimension)


def keeps_sparse(X: Array) -> bool:
    """Whether rows are sparse enough to stay CSR beside other rows of their kind."""
    return is_sparse(X) and share_of_entries(X) <= MOST_SHARE


def take_or_keep(X: Array, rows: np.ndarray) -> Any:
    """The rows of X of these numbers, in float64: CSR if X `keeps_sparse`, otherwise dense."""
    if not keeps_sparse(X):
        return take_rows(X, rows)
    kept: Any = X[rows]
    return kept.tocsr().astype(np.float64)


def take_rows(X: Array, rows: np.ndarray) -> np.ndarray:
    """The rows of X of these numbers, dense, as float64 on the host."""
    sample = host(X[rows] if is_sparse(X) else namespace(X).take(X, like(rows, X), axis=0))
    return np.asarray(dense(sample), dtype=np.float64)


def column_means(X: Array) -> np.ndarray:
    """Means of the columns, float64 on the host."""
    if is_sparse(X):
        return np.asarray(X.mean(axis=0), dtype=np.float64).ravel()
    return np.asarray(host(namespace(X).mean(X, axis=0)), dtype=np.float64)


def data_centre(X: Array, kernel: Kernel) -> np.ndarray:  # (n, d) -> (d,)
    """What a shift-invariant kernel subtracts: the mean, unless outliers pull it off the rows.

    One cell of 10⁶ among 1000 rows moves the mean by 1000, and the weights exp(−|x − c|²/2l²) of
    all rows underflow. Where half of (an even subsample of) the rows are more than twice as far
    from the mean as from the median of every column, in lengthscales, the median is the centre.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        mean = column_means(X)
        if not kernel.shift_invariant:
            return mean
        rows = evenly_spaced(X.shape[0], 1000)
        sample = np.asarray(dense(host(X)[rows]), dtype=np.float64)
        median = np.median(sample, axis=0)
        scale = kernel.detached().scale
        near, far = (np.median(np.linalg.norm(scale(sample - c), axis=1)) for c in (median, mean))
    return mean if far <= 2 * near else median  # a mean that overflows compares as False

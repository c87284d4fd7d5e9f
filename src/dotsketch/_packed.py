"""Hermitian matrices by one triangle, and the linear algebra that works on it.

A matrix A (D, D) is one vector of D(D+1)/2 numbers in LAPACK's rectangular full packed format:
two triangles and a square laid out so that rank-k updates, Cholesky factors and triangular solves
run as fast as on full matrices, in half the memory. Sums and multiples of matrices are sums and
multiples of the vectors. Everything is float64 or complex128.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.linalg import blas, lapack

FORMAT = {"transr": "N", "uplo": "L"}


def zeros(size: int, dtype: Any) -> np.ndarray:  # -> (size (size + 1) / 2,)
    """The zero matrix of `size` rows."""
    return np.zeros(size * (size + 1) // 2, dtype=dtype)


def size_of(A: np.ndarray) -> int:
    """The number of rows of a packed matrix."""
    return (math.isqrt(8 * len(A) + 1) - 1) // 2


def diagonal(size: int) -> np.ndarray:  # -> (size,)
    """Where the diagonal stands in the vector.

    >>> A = zeros(3, float)
    >>> A[diagonal(3)] = [1, 2, 3]
    >>> unpack(A).diagonal()
    array([1., 2., 3.])
    """
    # Columns of length `rows`; the second triangle lies transposed beside or above the first
    even = 1 - size % 2
    rows, half = size + even, (size + 1) // 2
    first = np.arange(half) * (rows + 1) + even
    second = np.arange(size - half) * (rows + 1) + (0 if even else rows)
    return np.concatenate([first, second])


def pack(A: np.ndarray) -> np.ndarray:  # (D, D) -> packed
    """The lower triangle of a full matrix."""
    A = np.asfortranarray(A, dtype=_accumulator(A.dtype))
    return _checked(_routine("trttf", A)(A, **FORMAT))


def unpack(A: np.ndarray) -> np.ndarray:  # packed -> (D, D)
    """The full matrix with its lower triangle filled and zeros above the diagonal."""
    return np.tril(_checked(_routine("tfttr", A)(size_of(A), A, **FORMAT)))


def add_outer_products(A: np.ndarray, Z: np.ndarray, scale: float = 1.0) -> None:
    """A += scale Σ_i z_i z_iᴴ over the rows of Z (n, D), in place; Z is C-ordered, of A's dtype."""
    name = "hfrk" if np.iscomplexobj(A) else "sfrk"
    n, D = Z.shape
    # Zᵀ is Fortran-ordered: neither Z nor A is copied
    _routine(name, A)(D, n, scale, Z.T, 1.0, A, trans="N", overwrite_c=1, **FORMAT)


def add_multiple(A: np.ndarray, scale: float, B: np.ndarray) -> None:
    """A += scale B, in place, without a temporary."""
    (blas.zaxpy if np.iscomplexobj(A) else blas.daxpy)(B, A, a=scale)


def cholesky(A: np.ndarray) -> np.ndarray | None:  # packed -> packed L, A = L Lᴴ
    """The lower Cholesky factor, or None if A is not positive definite to rounding."""
    factor, info = _routine("pftrf", A)(size_of(A), A, **FORMAT)
    return factor if info == 0 and np.all(np.isfinite(factor[diagonal(size_of(A))])) else None


def solve(factor: np.ndarray, b: np.ndarray) -> np.ndarray:  # packed L, (D, m) -> (D, m)
    """A⁻¹ b from the Cholesky factor of A."""
    b = np.asfortranarray(b, dtype=factor.dtype)
    return _checked(_routine("pftrs", factor)(size_of(factor), factor, b, **FORMAT))


def half_solve(
    factor: np.ndarray, b: np.ndarray, *, adjoint: bool = False
) -> np.ndarray:  # packed L, (D, m) -> (D, m)
    """L⁻¹ b, or L⁻ᴴ b."""
    other = "C" if np.iscomplexobj(factor) else "T"
    b = np.asfortranarray(b, dtype=factor.dtype)
    trans = other if adjoint else "N"
    return _routine("tfsm", factor)(1.0, factor, b, side="L", trans=trans, diag="N", **FORMAT)


def log_determinant(factor: np.ndarray) -> float:
    """log |L Lᴴ|."""
    return 2.0 * float(np.sum(np.log(factor[diagonal(size_of(factor))].real)))


def _routine(name: str, A: np.ndarray) -> Any:
    return getattr(lapack, ("z" if np.iscomplexobj(A) else "d") + name)


def _accumulator(dtype: Any) -> Any:
    return np.complex128 if np.dtype(dtype).kind == "c" else np.float64


def _checked(result: tuple[np.ndarray, int]) -> np.ndarray:
    """The array that LAPACK returned; its `info` reports wrong arguments only."""
    array, info = result
    if info != 0:
        raise ValueError(f"LAPACK refused argument {-info}: the sizes of the arrays do not agree.")
    return array

"""Hermitian matrices by one triangle, and the linear algebra that works on it.

A matrix A (D, D) is one vector of D(D+1)/2 numbers in LAPACK's rectangular full packed format:
two triangles and a square laid out so that rank-k updates, Cholesky factors and triangular solves
run as fast as on full matrices, in half the memory. The layout is known here only. Matrices are
float64 or complex128.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from scipy.linalg import blas, lapack

from .._support.stored import array, stored

FORMAT = {"transr": "N", "uplo": "L"}


@dataclass(frozen=True, eq=False)
class Packed:
    """One triangle of a matrix (D, D): what a matrix and its factor share."""

    values: Annotated[np.ndarray, array("fc", "n")]  # (D (D + 1) / 2,)
    __array_ufunc__ = None  # numbers of NumPy leave `*` to the classes below

    def __post_init__(self) -> None:
        if self.values.ndim != 1 or self.size * (self.size + 1) // 2 != len(self.values):
            raise ValueError(f"{self.values.shape} numbers do not form the triangle of a matrix.")
        if self.values.dtype not in (np.float64, np.complex128):
            raise ValueError(f"A packed matrix is in double precision; got {self.values.dtype}.")

    @property
    def size(self) -> int:
        """The number of rows, D."""
        return (math.isqrt(8 * len(self.values) + 1) - 1) // 2

    @property
    def dtype(self) -> Any:
        return self.values.dtype

    def diagonal(self) -> np.ndarray:  # -> (D,)
        """The diagonal, which is real in both."""
        return self.values[self._diagonal].real

    def lower(self) -> np.ndarray:  # -> (D, D)
        """The lower triangle in full, with zeros above the diagonal."""
        routine = self._routine("tfttr")
        return np.tril(_checked(routine(self.size, self.values, **FORMAT)))

    @property
    def _diagonal(self) -> np.ndarray:  # -> (D,)
        """Where the diagonal stands in the vector."""
        # Columns of length `rows`; the second triangle lies transposed beside or above the first
        size, even = self.size, 1 - self.size % 2
        rows, half = size + even, (size + 1) // 2
        first = np.arange(half) * (rows + 1) + even
        second = np.arange(size - half) * (rows + 1) + (0 if even else rows)
        return np.concatenate([first, second])

    def _routine(self, name: str) -> Any:
        return getattr(lapack, ("z" if np.iscomplexobj(self.values) else "d") + name)


@stored
class PackedMatrix(Packed):
    """A Hermitian matrix. Operators return new matrices; methods that begin with `add` change it.

    >>> A = PackedMatrix.zeros(3, float)
    >>> A.add_to_diagonal([1.0, 2.0, 3.0])
    >>> (2 * A).full().diagonal()
    array([2., 4., 6.])
    """

    @classmethod
    def zeros(cls, size: int, dtype: Any) -> PackedMatrix:
        """The zero matrix of `size` rows."""
        return cls(np.zeros(size * (size + 1) // 2, dtype=dtype))

    @classmethod
    def of(cls, A: np.ndarray) -> PackedMatrix:  # (D, D)
        """The lower triangle of a full matrix."""
        is_complex = np.iscomplexobj(A)
        A = np.asfortranarray(A, dtype=np.complex128 if is_complex else np.float64)
        return cls(_checked((lapack.ztrttf if is_complex else lapack.dtrttf)(A, **FORMAT)))

    def __mul__(self, factor: float) -> PackedMatrix:
        return PackedMatrix(self.values * factor)

    __rmul__ = __mul__

    def __truediv__(self, divisor: float) -> PackedMatrix:
        return PackedMatrix(self.values / divisor)

    def copy(self) -> PackedMatrix:
        return PackedMatrix(self.values.copy())

    def full(self) -> np.ndarray:  # -> (D, D)
        """Both triangles."""
        lower = self.lower()
        return lower + np.tril(lower, -1).conj().T

    def add_outer_products(self, Z: np.ndarray, scale: float = 1.0) -> None:  # (n, D)
        """Add scale Σ_i z_i z_iᴴ over the rows of Z, which is C-ordered and of this dtype."""
        n, D = Z.shape
        if self.size != D:
            raise ValueError(f"Rows of {self.size} columns are expected; got {D}.")
        routine = self._routine("hfrk" if np.iscomplexobj(self.values) else "sfrk")
        # Zᵀ is Fortran-ordered: neither Z nor the vector is copied
        routine(D, n, scale, Z.T, 1.0, self.values, trans="N", overwrite_c=1, **FORMAT)

    def add_multiple(self, scale: float, other: PackedMatrix) -> None:
        """Add scale · other, without a temporary."""
        add = blas.zaxpy if np.iscomplexobj(self.values) else blas.daxpy
        if len(self.values):  # BLAS takes no empty vectors
            add(other.values, self.values, a=scale)

    def add_to_diagonal(self, amounts: Any) -> None:  # number or (D,)
        self.values[self._diagonal] += amounts

    def cholesky(self) -> PackedFactor | None:
        """The lower factor, or None if the matrix is not positive definite to rounding."""
        values, info = self._routine("pftrf")(self.size, self.values, **FORMAT)
        factor = PackedFactor(values)
        return factor if info == 0 and np.all(np.isfinite(factor.diagonal())) else None


@stored
class PackedFactor(Packed):
    """The lower Cholesky factor L of a matrix A = L Lᴴ."""

    def solve(self, b: np.ndarray) -> np.ndarray:  # (D, m) -> (D, m)
        """A⁻¹ b."""
        b = self._columns(b)
        return _checked(self._routine("pftrs")(self.size, self.values, b, **FORMAT))

    def half_solve(self, b: np.ndarray, *, adjoint: bool = False) -> np.ndarray:  # (D, m)
        """L⁻¹ b, or L⁻ᴴ b."""
        other = "C" if np.iscomplexobj(self.values) else "T"
        b = self._columns(b)
        options = {"side": "L", "trans": other if adjoint else "N", "diag": "N", **FORMAT}
        return self._routine("tfsm")(1.0, self.values, b, **options)

    def half_squares(self, Z: np.ndarray) -> np.ndarray:  # (n, D) -> (n,)
        """|L⁻¹ z|² of the rows z of Z: in single precision, and half the time, if Z has it.

        Relative errors are then below 1e-4 for condition numbers of L up to 1e4: the rounding of Z
        itself has an effect of the same order.
        """
        is_complex = np.iscomplexobj(self.values)
        diagonal = self.diagonal()
        # entries, their squares and their inverses are numbers of single precision
        fits = np.min(diagonal) > 1e-15 and np.max(np.abs(self.values)) < 1e15
        if fits and Z.dtype in (np.float32, np.complex64):
            dtype = np.complex64 if is_complex else np.float32
            options = {"side": "L", "trans": "N", "diag": "N", **FORMAT}
            routine = lapack.ctfsm if is_complex else lapack.stfsm
            half = routine(1.0, self.values.astype(dtype), np.asfortranarray(Z.T, dtype), **options)
        else:
            half = self.half_solve(np.ascontiguousarray(Z).T)
        squares = half.real**2 + half.imag**2 if is_complex else half * half
        return np.asarray(np.sum(squares, axis=0, dtype=np.float64))

    def inverse(self) -> np.ndarray:  # -> (D, D)
        """L⁻¹ in full."""
        return self.half_solve(np.eye(self.size))

    def log_determinant(self) -> float:
        """log |A|."""
        return 2.0 * float(np.sum(np.log(self.diagonal())))

    def _columns(self, b: np.ndarray) -> np.ndarray:
        if b.ndim != 2 or len(b) != self.size:
            raise ValueError(f"{self.size} rows are expected on the right; got {b.shape}.")
        return np.asfortranarray(b, dtype=self.dtype)


def _checked(result: tuple[np.ndarray, int]) -> np.ndarray:
    """The array that LAPACK returned; its `info` reports wrong arguments only."""
    array, info = result
    if info != 0:
        raise ValueError(f"LAPACK refused argument {-info}: the sizes of the arrays do not agree.")
    return array

"""The marginal likelihood of a large matrix by its band: A = Q B Qᴴ with B of some diagonals.

A reduction to 64 diagonals is made of matrix products. That to the tridiagonal form of a spectrum
takes as many operations, but half of them are products with vectors: three times as long for 4096
columns. A value of the likelihood is then a Cholesky factor of I + r B, which takes milliseconds.

BLAS keeps to one thread here: calls of NumPy's and of SciPy's alternate, and their threads take the
processors from each other. On two of them, two threads took 3 to 5 times as long as one for 2048
columns and 1.3 times for 8192.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import (
    LinAlgError,
    blas,
    cholesky_banded,
    eigh_tridiagonal,
    lapack,
    solve_triangular,
)

from .._support.threads import single_blas_thread
from .eigenvalues import Spectrum
from .likelihood import Likelihood

WIDTH = 64  # diagonals below the main one
_STEP = 128  # rows of a triangle that are multiplied at a time
MOST_OF_SPECTRUM = 1024  # rows of a matrix whose spectrum is found sooner, or nearly so
MOST_CONDITION = 2e13  # of I + r A: beyond, its determinant would be that of roundings
_LANCZOS_STEPS = 20


@dataclass(frozen=True, kw_only=True)
class Banded(Likelihood):
    """The likelihood from a band of A and the vectors Qᴴb, of features or of a kernel.

    With features A = Σ w z zᴴ, b = Σ w z y, and yᴴ(I + r K̂)⁻¹y = |y|² − r bᴴ(I + r A)⁻¹b; with a
    kernel A = K and b = y.
    """

    band: np.ndarray  # (w + 1, D): diagonals of B, the main one first
    along: np.ndarray  # Qᴴb (D, m)
    squares: float  # |y|²
    of_features: bool

    @property
    def energy(self) -> float:
        return self.squares / self.count

    @cached_property
    def largest(self) -> float:
        return largest_eigenvalue(self.band)

    def measure(self, ratio: float) -> tuple[float, float]:
        if ratio * self.largest > MOST_CONDITION:
            return math.inf, math.inf
        system = ratio * self.band
        # Rounding may make the least eigenvalues negative by about so much
        system[0] += 1 + ratio * self.largest * 8 * np.finfo(np.float64).eps
        try:
            factor = cholesky_banded(system, lower=True, overwrite_ab=True, check_finite=False)
        except LinAlgError:  # or by more
            return math.inf, math.inf
        routine = lapack.ztbtrs if np.iscomplexobj(factor) else lapack.dtbtrs
        half, _ = routine(factor, self.along, uplo="L")
        determinant, square = 2 * float(np.sum(np.log(factor[0].real))), _square(half)
        if self.of_features:
            square = max(self.squares - ratio * square, 0.0)
        return determinant, square


def band_of(
    A: np.ndarray, b: np.ndarray, width: int = WIDTH
) -> tuple[np.ndarray, np.ndarray]:  # (D, D), (D, m) -> (w + 1, D), (D, m)
    """The diagonals of B and Qᴴb with A = Q B Qᴴ, from the lower triangle of A.

    Panels of `width` columns are triangular below the band after a QR decomposition, whose
    reflectors Q = I − V T Vᴴ then multiply the rest from both sides: S ← S − W Vᴴ − V Wᴴ with
    W = Y − ½ V Tᴴ Vᴴ Y and Y = S V T.

    >>> A = np.array([[2.0, 1.0, 1.0], [1.0, 3.0, 0.0], [1.0, 0.0, 4.0]])
    >>> B, along = band_of(A, np.ones((3, 1)), width=1)
    >>> bool(np.isclose(B[0].sum(), 9)), bool(np.isclose(np.sum(along**2), 3))
    (True, True)
    """
    with single_blas_thread():
        return _band_of(np.array(A, order="C"), np.array(b, dtype=np.result_type(A, b)), width)


def _band_of(
    A: np.ndarray, b: np.ndarray, width: int
) -> tuple[np.ndarray, np.ndarray]:  # (D, D), (D, m) -> (w + 1, D), (D, m)
    """The same, from an array that it may overwrite."""
    D = len(A)
    decompose = lapack.zgeqrf if np.iscomplexobj(A) else lapack.dgeqrf
    for start in range(0, D - width, width):
        stop = start + width
        panel, tau, _, _ = decompose(A[stop:, start:stop], lwork=64 * width)
        r = len(tau)  # less than the width at the end
        A[stop : stop + r, start:stop] = np.triu(panel[:r])
        V = np.tril(panel[:, :r], -1)
        V[np.arange(r), np.arange(r)] = 1
        V[:, tau == 0] = 0  # of a column that needs no reflection
        inverse = np.triu(V.conj().T @ V, 1)  # T⁻¹
        inverse[np.diag_indices(r)] = 1 / np.where(tau == 0, 1, tau)
        T = solve_triangular(inverse, np.eye(r))
        S = A[stop:, stop:]
        Y = _product(S, V) @ T
        W = Y - V @ (0.5 * (T.conj().T @ (V.conj().T @ Y)))
        left = np.concatenate([W, V], axis=1)
        right = np.concatenate([V, W], axis=1).conj().T.copy()
        for k in range(0, len(S), _STEP):
            S[k : k + _STEP, : k + _STEP] -= left[k : k + _STEP] @ right[:, : k + _STEP]
        b[stop:] -= V @ (T.conj().T @ (V.conj().T @ b[stop:]))
    band = np.zeros((min(width, D - 1) + 1, D), dtype=A.dtype)
    for k, diagonal in enumerate(band):
        diagonal[: D - k] = np.diagonal(A, -k)
    return band, b


def largest_eigenvalue(band: np.ndarray) -> float:  # (w + 1, D)
    """That of a Hermitian band, to some percent at least: by steps of Lanczos' method."""
    D = band.shape[1]
    multiply = blas.zhbmv if np.iscomplexobj(band) else blas.dsbmv
    rng = np.random.default_rng(0)
    before: np.ndarray = np.zeros(D)
    vector: np.ndarray = rng.standard_normal((D,))
    vector = vector / float(np.linalg.norm(vector))
    beside = 0.0
    diagonals: list[float] = []
    sides: list[float] = []
    for _ in range(min(_LANCZOS_STEPS, D)):
        found = multiply(len(band) - 1, 1.0, band, vector, lower=1)
        diagonals.append(float(np.vdot(vector, found).real))
        found = found - diagonals[-1] * vector - beside * before
        beside = float(np.linalg.norm(found))
        if beside <= np.finfo(np.float64).eps * abs(diagonals[0]):
            break
        sides.append(beside)
        before, vector = vector, found / beside
    values = eigh_tridiagonal(diagonals, sides[: len(diagonals) - 1], eigvals_only=True)
    return max(float(values[-1]), 0.0)


def _product(S: np.ndarray, V: np.ndarray) -> np.ndarray:  # (m, m), (m, r) -> (m, r)
    """S V from the lower triangle of a Hermitian S."""
    Y = np.zeros_like(V)
    for k in range(0, len(S), _STEP):
        rows = slice(k, k + _STEP)
        corner = np.tril(S[rows, rows])
        Y[rows] += corner @ V[rows]
        Y[rows] += np.tril(corner, -1).conj().T @ V[rows]
        Y[rows] += S[rows, :k] @ V[:k]
        Y[:k] += S[rows, :k].conj().T @ V[rows]
    return Y


def _square(values: np.ndarray) -> float:
    return float(np.sum(values.real**2) + np.sum(values.imag**2))


def kernel_likelihood(K: np.ndarray, y: np.ndarray) -> Likelihood:  # (n, n), (n, m)
    """That of targets y whose Gram matrix is K, at all variances."""
    if len(K) <= MOST_OF_SPECTRUM:
        return Spectrum.of_kernel(K, y)
    band, along = band_of(K, y)
    return Banded(
        band=band,
        along=along,
        squares=_square(y),
        of_features=False,
        n=len(K),
        n_outputs=y.shape[1],
    )

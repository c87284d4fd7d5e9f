"""Reductions of a Hermitian matrix that give the likelihood at all variances.

`spectrum_of` is an eigendecomposition. `band_of` stops at 64 diagonals, A = Q B Qᴴ: it is made of
matrix products, and for 4096 columns three times as fast. A value of the likelihood is then a
banded Cholesky factor.

BLAS keeps to one thread in `band_of`: calls of NumPy's and of SciPy's alternate, and their threads
take the processors from each other. On two of them, two threads took 3 to 5 times as long as one.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import blas, eigh, eigh_tridiagonal, lapack, solve_triangular

from .._support.threads import single_blas_thread


def spectrum_of(
    A: np.ndarray, b: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:  # (D, D), (D, m) -> (D,), (D, m)
    """The eigenvalues λ_j of A (its lower triangle), ascending, and |u_jᴴ b|² of every column of b.

    >>> values, energies = spectrum_of(np.diag([2.0, 1.0]), np.array([[3.0], [4.0]]))
    >>> values, energies[:, 0]
    (array([1., 2.]), array([16.,  9.]))
    """
    values, vectors = eigh(A, lower=True, driver="evd")
    return values, np.abs(vectors.conj().T @ b) ** 2


def band_of(
    A: np.ndarray, b: np.ndarray, width: int = 64
) -> tuple[np.ndarray, np.ndarray]:  # (D, D), (D, m) -> (w + 1, D), (D, m)
    """The diagonals of B (the main one first) and Qᴴb with A = Q B Qᴴ, from A's lower triangle.

    Panels of `width` columns are triangular below the band after a QR decomposition, whose
    reflectors Q = I − V T Vᴴ then multiply the rest from both sides: S ← S − W Vᴴ − V Wᴴ with
    W = Y − ½ V Tᴴ Vᴴ Y and Y = S V T.

    >>> A = np.array([[2.0, 1.0, 1.0], [1.0, 3.0, 0.0], [1.0, 0.0, 4.0]])
    >>> B, along = band_of(A, np.ones((3, 1)), width=1)
    >>> bool(np.isclose(B[0].sum(), 9)), bool(np.isclose(np.sum(along**2), 3))
    (True, True)
    """
    A, b = np.array(A, order="C"), np.array(b, dtype=np.result_type(A, b))
    D, step = len(A), 128  # rows of a triangle that are multiplied at a time
    decompose = lapack.zgeqrf if np.iscomplexobj(A) else lapack.dgeqrf
    with single_blas_thread():
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
            Y = _product(S, V, step) @ T
            W = Y - V @ (0.5 * (T.conj().T @ (V.conj().T @ Y)))
            left = np.concatenate([W, V], axis=1)
            right = np.concatenate([V, W], axis=1).conj().T.copy()
            for k in range(0, len(S), step):
                S[k : k + step, : k + step] -= left[k : k + step] @ right[:, : k + step]
            b[stop:] -= V @ (T.conj().T @ (V.conj().T @ b[stop:]))
    band = np.zeros((min(width, D - 1) + 1, D), dtype=A.dtype)
    for k, diagonal in enumerate(band):
        diagonal[: D - k] = np.diagonal(A, -k)
    return band, b


def largest_eigenvalue(band: np.ndarray) -> float:  # (w + 1, D)
    """That of a Hermitian band, to some percent at least: by 20 steps of Lanczos' method."""
    D = band.shape[1]
    multiply = blas.zhbmv if np.iscomplexobj(band) else blas.dsbmv
    before: np.ndarray = np.zeros(D)
    vector: np.ndarray = np.random.default_rng(0).standard_normal((D,))
    vector = vector / float(np.linalg.norm(vector))
    beside = 0.0
    diagonals: list[float] = []
    sides: list[float] = []
    for _ in range(min(20, D)):
        image = multiply(len(band) - 1, 1.0, band, vector, lower=1)
        diagonals.append(float(np.vdot(vector, image).real))
        image = image - diagonals[-1] * vector - beside * before
        beside = float(np.linalg.norm(image))
        if beside <= np.finfo(np.float64).eps * abs(diagonals[0]):
            break
        sides.append(beside)
        before, vector = vector, image / beside
    values = eigh_tridiagonal(diagonals, sides[: len(diagonals) - 1], eigvals_only=True)
    return max(float(values[-1]), 0.0)


def _product(S: np.ndarray, V: np.ndarray, step: int) -> np.ndarray:  # (m, m), (m, r) -> (m, r)
    """S V from the lower triangle of a Hermitian S."""
    Y = np.zeros_like(V)
    for k in range(0, len(S), step):
        rows = slice(k, k + step)
        corner = np.tril(S[rows, rows])
        Y[rows] += corner @ V[rows]
        Y[rows] += np.tril(corner, -1).conj().T @ V[rows]
        Y[rows] += S[rows, :k] @ V[:k]
        Y[:k] += S[rows, :k].conj().T @ V[rows]
    return Y

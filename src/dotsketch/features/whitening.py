"""The features of landmarks: whitened kernel values, and the best D combinations of them.

With landmarks B and K_BB = L Lᵀ, a(x) = L⁻¹ k(B, x) has a(x)·a(y) = k̂(x, y), the kernel that the
landmarks can describe. Of all D orthonormal combinations of a(x) the top eigenvectors of its second
moment have the least mean squared error of k̂ over the rows it was averaged over (Eckart and Young).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from array_api_compat import is_numpy_array
from scipy.linalg import (
    LinAlgError,
    blas,
    cholesky,
    eigh,
    lapack,
    lu,
    qr,
    solve_triangular,
)

from .._arrays import Array, Parts, is_sparse
from .._backends import Prepared
from ..kernels import Kernel

# Added to the diagonal of K_BB, relative to its trace, so that landmarks may be nearly dependent,
# or equal. It is a hundred times the roundings of K_BB, and bounds |L⁻¹|, by which those of k(B, x)
# are enlarged.
JITTER = 1e-13
SINGLE_JITTER = 1e-10  # where k(B, x) is rounded to float32, and 10⁻¹³ bounds too little
_LARGEST_JITTER = 1e-4  # for kernel matrices with larger roundings: distances beside huge norms
_SMALL = 1024  # all eigenvectors are found sooner than a quarter of them up to this size
_ITERATIONS, _MOST_ITERATIONS = 4, 12  # for fewer eigenvectors of more
_CONVERGED, _ROUNDING = 0.01, 1e-14  # of what is left, and of the whole
_BLOCK = 2048  # rows whose values of the kernel are held at once
_COLUMNS = 128  # of a triangular W that are multiplied at once


class Whitening:
    """a(x) = L⁻¹ diag(scales) k(B, x) for the kernel matrix K of the landmarks B.

    Rows of K are scaled to a unit diagonal first: the jitter is then relative to every landmark,
    also where values of the kernel differ by orders of magnitude.

    >>> import numpy as np
    >>> K = np.array([[4.0, 2.0], [2.0, 5.0]])
    >>> np.allclose(Whitening(K)(K).T @ Whitening(K)(K), K)
    True
    """

    def __init__(self, K: np.ndarray, jitter: float = JITTER):  # (m, m)
        diagonal = np.diagonal(K)
        used = diagonal > np.finfo(np.float64).tiny  # of a row where the kernel is zero
        self.scales = np.where(used, 1 / np.sqrt(np.where(used, diagonal, 1.0)), 0.0)
        self.lower = self._factor(K * self.scales[:, None] * self.scales, jitter)

    @staticmethod
    def _factor(K: np.ndarray, jitter: float) -> np.ndarray:  # (m, m) -> (m, m), lower
        while jitter <= _LARGEST_JITTER:
            shifted = np.array(K, order="F")
            shifted[np.diag_indices_from(K)] += jitter * len(K)
            try:
                return cholesky(shifted, lower=True, overwrite_a=True, check_finite=False)
            except LinAlgError:
                jitter *= 100
        raise ValueError(
            "The kernel matrix of the landmarks is not positive definite: values of X may be of "
            "extreme size. Scale its columns."
        )

    def __call__(self, K: np.ndarray) -> np.ndarray:  # k(B, X), (m, n) -> (m, n)
        """a(x) for the columns of k(B, X)."""
        return solve_triangular(
            self.lower, self.scales[:, None] * K, lower=True, overwrite_b=True, check_finite=False
        )

    def own_moment(self) -> np.ndarray:  # -> (m, m)
        """Σ a(b) a(b)ᵀ over the landmarks: up to the jitter, a(b) are columns of Lᵀ diag(1/scales).

        The product of triangular factors takes a third of what that of all a(b) does, and these
        need not be solved for.
        """
        sizes = np.where(self.scales > 0, 1 / np.where(self.scales > 0, self.scales, 1.0), 0.0)
        lower = lapack.dlauum(sizes[:, None] * self.lower, lower=1, overwrite_c=1)[0]
        S = lower + lower.T
        S[np.diag_indices_from(S)] /= 2
        return S

    def inverse(self) -> np.ndarray:  # -> (m, m), upper
        """W with a(x) = Wᵀ k(B, x)."""
        inverse = lapack.dtrtri(self.lower, lower=1)[0]
        return np.ascontiguousarray(self.scales[:, None] * np.tril(inverse).T)

    def combined(self, V: np.ndarray) -> np.ndarray:  # (m, D) -> (m, D)
        """W with Vᵀ a(x) = Wᵀ k(B, x)."""
        W = solve_triangular(self.lower, V, trans="T", lower=True, check_finite=False)
        return np.ascontiguousarray(self.scales[:, None] * W)


def second_moment(
    whitening: Whitening,
    kernel: Kernel,
    landmarks: Any,
    blocks: Iterable[Any],
    *,
    and_landmarks: bool = False,
) -> np.ndarray:  # -> (m, m)
    """Σ a(x) a(x)ᵀ over the rows of all blocks, dense or CSR, and over the landmarks if asked."""
    S = whitening.own_moment() if and_landmarks else np.zeros_like(whitening.lower)
    S = np.asfortranarray(S)
    for rows in blocks:
        # sparse rows may be made dense by the kernel
        step = max(64, min(_BLOCK, (1 << 25) // rows.shape[1])) if is_sparse(rows) else _BLOCK
        for start in range(0, rows.shape[0], step):
            # columns of k(B, X) are contiguous: LAPACK need not copy them
            A = whitening(kernel(rows[start : start + step], landmarks).T)
            S = blas.dsyrk(1.0, A, beta=1.0, c=S, overwrite_c=1, lower=1)  # adds to one half
    S = np.tril(S)
    S += np.tril(S, -1).T
    return S


def leading(S: np.ndarray, n_vectors: int) -> np.ndarray:  # (m, m) -> (m, n_vectors)
    """The eigenvectors of the largest eigenvalues, largest first, largest entries positive.

    Those of few of many are found by subspace iteration, see `_leading_of_many`.
    """
    if 4 * n_vectors <= len(S) and len(S) > _SMALL:
        V = _leading_of_many(S, n_vectors)
    else:
        V = eigh(S, driver="evd", check_finite=False)[1][:, : -n_vectors - 1 : -1]
    largest = np.argmax(np.abs(V), axis=0)
    return V * np.where(V[largest, np.arange(n_vectors)] < 0, -1.0, 1.0)


def _leading_of_many(S: np.ndarray, n_vectors: int) -> np.ndarray:  # (m, m) -> (m, n_vectors)
    """By subspace iteration with a quarter more vectors, 8 at least, from a fixed seed.

    For orthonormal V with VᵀSV = diag w, what is left of |S|², |S|² − Σ w², is the squared error of
    the features over the rows of S. Another iteration lowers it by |SV|² − Σ w² or more; where that
    is less than 1 %, the error was within 1.5 % of the least one on all data sets tried, and within
    some percent for other spectra.
    """
    m, n = len(S), n_vectors + max(n_vectors // 4, 8)
    size = float(np.vdot(S, S))
    Y = S @ np.random.default_rng(0).standard_normal((m, n))
    for _ in range(_ITERATIONS - 1):  # a basis need not be orthonormal until it is checked
        Y = S @ lu(Y, permute_l=True, overwrite_a=True, check_finite=False)[0]
    for _ in range(_MOST_ITERATIONS - _ITERATIONS):
        Q = qr(Y, mode="economic", overwrite_a=True, check_finite=False)[0]
        Y = S @ Q
        w, U = eigh(Q.T @ Y, driver="evd", check_finite=False)
        U, kept = U[:, : -n_vectors - 1 : -1], float(np.sum(w[-n_vectors:] ** 2))
        gain = np.linalg.norm(Y @ U) ** 2 - kept
        if gain <= _CONVERGED * max(size - kept, _ROUNDING * size):
            break
    return Q @ U


def softened(
    W: np.ndarray, diagonal: np.ndarray, jitter: float = SINGLE_JITTER
) -> np.ndarray:  # (m, D), (m,) -> (m, D)
    """W of a K_BB with more on its diagonal, which is given: `jitter` of its trace.

    With Wᵀ K_BB W = 1 and J what is added, Wᵀ(K_BB + J) W = 1 + Wᵀ J W = C Cᵀ, and W C⁻ᵀ whitens
    again. With as many landmarks as columns that is L⁻ᵀ of the other matrix.
    """
    M = (W.T * (jitter * len(W) * diagonal)) @ W
    M[np.diag_indices_from(M)] += 1
    C = cholesky(M, lower=True, overwrite_a=True, check_finite=False)
    return np.ascontiguousarray(solve_triangular(C, W.T, lower=True, check_finite=False).T)


class WhiteningProduct(Prepared):
    """z(x) = Wᵀ k(B, x) for chunks of k(X, B), in the library and the dtype of W.

    With as many landmarks as columns W is upper triangular, and its zeros are left out.
    """

    def __init__(self, W: Array):  # (m, D)
        self.W: Any = W
        self.widest = max(W.shape)
        is_square = W.shape[0] == W.shape[1]
        self.is_triangular = is_square and is_numpy_array(W) and not np.any(np.tril(W, -1))

    def columns(self, rows: Array) -> Parts:  # (n, m) -> (n, D), None
        K: Any = rows
        if not self.is_triangular:
            return K @ self.W, None
        Z = np.empty_like(K)
        for start in range(0, self.widest, _COLUMNS):
            stop = min(start + _COLUMNS, self.widest)
            np.matmul(K[:, :stop], self.W[:stop, start:stop], out=Z[:, start:stop])
        return Z, None

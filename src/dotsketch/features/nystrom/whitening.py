"""The features of landmarks: whitened kernel values, and the best D combinations of them.

With landmarks B and K_BB = L Lᵀ, a(x) = L⁻¹ k(B, x) has a(x)·a(y) = k̂(x, y), the kernel that the
landmarks can describe. Of all D orthonormal combinations of a(x) the top eigenvectors of its second
moment have the least mean squared error of k̂ over the rows it was averaged over (Eckart and Young).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, blas, cholesky, eigh, lapack, solve_triangular

from ..._arrays import is_sparse
from ...kernels import Kernel

# Added to the diagonal of K_BB, relative to its trace, so that landmarks may be nearly dependent,
# or equal. It is a hundred times the roundings of K_BB, and bounds |L⁻¹|, by which those of k(B, x)
# are enlarged. Kernel matrices with larger roundings (distances beside huge norms) need more.
JITTERS = (1e-13, 1e-11, 1e-9, 1e-7, 1e-5)


class Whitening:
    """a(x) = L⁻¹ diag(scales) k(B, x) for the kernel matrix K of the landmarks B.

    Rows of K are scaled to a unit diagonal first: the jitter is then relative to every landmark,
    also where values of the kernel differ by orders of magnitude.

    >>> import numpy as np
    >>> K = np.array([[4.0, 2.0], [2.0, 5.0]])
    >>> np.allclose(Whitening(K)(K).T @ Whitening(K)(K), K)
    True
    """

    def __init__(self, K: np.ndarray):  # (m, m)
        diagonal = np.diagonal(K)
        used = diagonal > np.finfo(np.float64).tiny  # of a row where the kernel is zero
        self.scales = np.where(used, 1 / np.sqrt(np.where(used, diagonal, 1.0)), 0.0)
        self.lower = self._factor(K * self.scales[:, None] * self.scales)

    @staticmethod
    def _factor(K: np.ndarray) -> np.ndarray:  # (m, m) -> (m, m), lower
        for jitter in JITTERS:
            shifted = np.array(K, order="F")
            shifted[np.diag_indices_from(K)] += jitter * len(K)
            try:
                return cholesky(shifted, lower=True, overwrite_a=True, check_finite=False)
            except LinAlgError:
                continue
        raise ValueError(
            "The kernel matrix of the landmarks is not positive definite: values of X may be of "
            "extreme size. Scale its columns."
        )

    def __call__(self, K: np.ndarray) -> np.ndarray:  # k(B, X), (m, n) -> (m, n)
        """a(x) for the columns of k(B, X)."""
        return solve_triangular(
            self.lower, self.scales[:, None] * K, lower=True, overwrite_b=True, check_finite=False
        )

    def inverse(self) -> np.ndarray:  # -> (m, m), upper
        """W with a(x) = Wᵀ k(B, x)."""
        inverse = lapack.dtrtri(self.lower, lower=1)[0]
        return np.ascontiguousarray(self.scales[:, None] * np.tril(inverse).T)

    def combined(self, V: np.ndarray) -> np.ndarray:  # (m, D) -> (m, D)
        """W with Vᵀ a(x) = Wᵀ k(B, x)."""
        W = solve_triangular(self.lower, V, trans="T", lower=True, check_finite=False)
        return np.ascontiguousarray(self.scales[:, None] * W)


def second_moment(
    whitening: Whitening, kernel: Kernel, landmarks: Any, blocks: Iterable[Any]
) -> np.ndarray:  # -> (m, m)
    """Σ a(x) a(x)ᵀ over the rows of all blocks, dense or CSR."""
    S = np.zeros_like(whitening.lower, order="F")
    for rows in blocks:
        # sparse rows may be made dense by the kernel
        step = max(64, min(2048, (1 << 25) // rows.shape[1])) if is_sparse(rows) else 2048
        for start in range(0, rows.shape[0], step):
            # columns of k(B, X) are contiguous: LAPACK need not copy them
            A = whitening(np.asarray(kernel(rows[start : start + step], landmarks)).T)
            S = blas.dsyrk(1.0, A, beta=1.0, c=S, overwrite_c=1, lower=1)  # adds to one half
    return np.tril(S) + np.tril(S, -1).T


def leading(S: np.ndarray, n_vectors: int) -> np.ndarray:  # (m, m) -> (m, n_vectors)
    """The eigenvectors of the largest eigenvalues, largest first, largest entries positive."""
    m = len(S)
    if 2 * n_vectors < m:
        V = eigh(S, subset_by_index=[m - n_vectors, m - 1], check_finite=False)[1][:, ::-1]
    else:  # all of them are found sooner
        V = eigh(S, driver="evd", check_finite=False)[1][:, : -n_vectors - 1 : -1]
    largest = np.argmax(np.abs(V), axis=0)
    return V * np.where(V[largest, np.arange(n_vectors)] < 0, -1.0, 1.0)


def softened(
    W: np.ndarray, diagonal: np.ndarray, jitter: float = 1e-10
) -> np.ndarray:  # (m, D), (m,) -> (m, D)
    """W of a K_BB with more on its diagonal, which is given: `jitter` of its trace.

    For libraries without float64, such as JAX by default: k(B, x) is rounded to float32, and W must
    not enlarge these roundings.

    With Wᵀ K_BB W = 1 and J what is added, Wᵀ(K_BB + J) W = 1 + Wᵀ J W = C Cᵀ, and W C⁻ᵀ whitens
    again. With as many landmarks as columns that is L⁻ᵀ of the other matrix.
    """
    M = (W.T * (jitter * len(W) * diagonal)) @ W
    M[np.diag_indices_from(M)] += 1
    C = cholesky(M, lower=True, overwrite_a=True, check_finite=False)
    return np.ascontiguousarray(solve_triangular(C, W.T, lower=True, check_finite=False).T)

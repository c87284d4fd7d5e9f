"""z(x) = Wᵀ k(B, x) for rows of any library, chunk by chunk."""

from __future__ import annotations

from typing import Any

import numpy as np
from array_api_compat import is_numpy_array
from scipy.sparse import csr_array

from ..._arrays import (
    Array,
    ArrayT,
    Parts,
    dense,
    double,
    is_sparse,
    like,
    namespace,
    share_of_entries,
    square_root,
)
from ..._backends import kept
from ..._backends.chunks import map_rows
from ...kernels import Kernel
from ...kernels.base import MOST_SHARED
from ..whitening import WhiteningProduct, softened
from .basis import Basis, unit_kernel
from .precision import SINGLE_IS_SAFE, check_finite, is_single


class NystromColumns:
    """The columns that a basis has with a kernel, whose parameters may have changed since the fit.

    `whitened_kernel` is the kernel of variance 1 that the matrix of the basis was made for.
    """

    def __init__(self, basis: Basis, kernel: Kernel, whitened_kernel: Kernel):
        self.basis, self.kernel, self.whitened_kernel = basis, kernel, whitened_kernel
        self.unit = unit_kernel(kernel)

    def __call__(self, X: ArrayT, n_jobs: int | None) -> ArrayT:  # (n, d) -> (n, D)
        # A kernel of bounded values and a matrix W that enlarges little: float32 is enough
        is_enough = (
            self.kernel.shift_invariant
            and not self.kernel.is_differentiable
            and self.basis.single_error <= SINGLE_IS_SAFE
        )

        def wide(rows: Array) -> Array:
            return dense(rows) if is_single(rows) and is_enough else double(dense(rows))

        first = wide(X[:1, :])
        product, scale = self._product(first), square_root(self.kernel.variance)
        B: Any = self.basis.rows
        keep = keeps_sparse_rows(B, X)
        landmarks: Any = B.astype(first.dtype, copy=False) if keep else like(dense(B), first)

        def parts(rows: Array) -> Parts:
            # whether sparse rows are multiplied as they are is decided by the kernel
            given: Any = csr_array(rows, dtype=first.dtype) if keep else wide(rows)
            Z, _ = product(self.unit(given, landmarks))
            Z = Z if isinstance(scale, float) and scale == 1 else scale * Z
            return namespace(Z).astype(Z, rows.dtype), None

        (m, d), D = B.shape, self.basis.normalization.shape[1]
        chunk = max(64, (1 << 20) // max(d, m))
        if keep:  # the kernel may make a chunk dense that has more entries than others
            chunk = max(64, min((1 << 20) // m, (1 << 25) // d))
        with np.errstate(over="ignore", invalid="ignore"):  # check_finite raises a clearer error
            Z = map_rows(parts, X, "real", D, chunk, n_jobs=n_jobs)
        return Z if self.kernel.shift_invariant else check_finite(Z, X)

    def _product(self, rows: Array) -> WhiteningProduct:
        """What multiplies values of the kernel with rows like these by W."""

        def make() -> WhiteningProduct:
            return WhiteningProduct(like(self._matrix(rows), rows))

        return make() if self.unit.is_differentiable else kept(self.basis, "product", rows, make)

    def _matrix(self, rows: Array) -> Array:  # -> (m, D)
        """W for rows like these, and the kernel's parameters as they are if they have a gradient.

        The fit has Wᵀ(K_BB + jitter) W = 1. With other parameters this is M = 1 + Wᵀ ΔK_BB W, and
        W C⁻ᵀ with M = C Cᵀ whitens again; its derivative is that of the features.
        """
        B: Any = self.basis.rows
        W: Any = self.basis.normalization
        if is_single(rows) and self.basis.single_error > SINGLE_IS_SAFE:
            # There is no float64, as in JAX by default: W must not enlarge roundings
            diagonal = self.whitened_kernel.diag(B)
            W = kept(self.basis, "softened", B, lambda: softened(W, diagonal))
        if not self.unit.is_differentiable:
            return W
        xp = namespace(rows)
        B, W = like(dense(B), rows), like(W, rows)
        change = self.unit(B) - self.whitened_kernel(B)
        one = like(np.eye(W.shape[1]), rows)
        return xp.linalg.solve(xp.linalg.cholesky(one + W.T @ change @ W), W.T).T


def keeps_sparse_rows(landmarks: Any, X: Any) -> bool:
    """Whether rows are multiplied by sparse landmarks as CSR; dense ones if few are nonzero."""
    if not is_sparse(landmarks) or not is_numpy_array(X):
        return is_sparse(landmarks) and is_sparse(X)
    return bool(np.count_nonzero(X) * share_of_entries(landmarks) <= MOST_SHARED * X.size)

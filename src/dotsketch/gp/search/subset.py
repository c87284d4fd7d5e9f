"""Parameters of a kernel and noise by the exact marginal likelihood of some rows.

With C = K(θ) + σ² I, A = C⁻¹ and a = A y the derivative of −log p(y) with respect to C is
½ (m A − a aᵀ), for m outputs: `Kernel.with_pullback` takes it back to the logarithms of θ. One
evaluation costs n³ operations for all derivatives together, however many parameters there are.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import lapack

from ...spectrum import log_density
from ..evidence import log_density_of_copies

FAILED = 1e30  # the loss where C is not positive definite to rounding: a line search steps back


class SubsetEvidence:
    """−log p(y)/n of targets Y (n, m) at rows X (n, d), a function of logarithms with a gradient.

    The logarithms are those of the kernel and, last, that of the noise variance; there is none of
    the noise if the variances of all rows (n,) are given. A row that counts w times (`counts`) is w
    rows, all told n of them, with one mean of noise σ²/w: see `log_density_of_copies`.
    """

    stage = "subset"
    n_columns: int | None = None  # of features: the kernel is exact

    def __init__(
        self,
        kernel: Any,
        X: np.ndarray,
        Y: np.ndarray,
        noise: np.ndarray | None,
        counts: np.ndarray | None = None,
    ):
        self.kernel, self.X, self.Y, self.noise = kernel, X, Y, noise
        self.counts = np.ones(len(X)) if counts is None else counts
        self.n = float(np.sum(self.counts))

    def parts(self, logarithms: np.ndarray) -> tuple[Any, Any]:
        """The kernel, and the noise variance or variances."""
        if self.noise is not None:
            return self.kernel.with_logarithms(logarithms), self.noise
        return self.kernel.with_logarithms(logarithms[:-1]), float(np.exp(logarithms[-1]))

    def __call__(self, logarithms: np.ndarray) -> tuple[float, np.ndarray]:
        n, m = self.Y.shape
        kernel, noise = self.parts(logarithms)
        with np.errstate(over="ignore", invalid="ignore"):
            K, pullback = kernel.with_pullback(self.X)
        C = K.copy().T  # the pullback holds K; the transpose is in the order of LAPACK
        C[np.diag_indices(n)] += noise / self.counts
        factor, failed = lapack.dpotrf(C, lower=1, overwrite_a=1, clean=1)
        if failed or not np.all(np.isfinite(np.diagonal(factor))):
            return FAILED, np.zeros_like(logarithms)
        determinant = 2 * float(np.sum(np.log(np.diagonal(factor))))
        weights, _ = lapack.dpotrs(factor, self.Y, lower=1)
        density = log_density(m * determinant, float(np.sum(self.Y * weights)), n * m, False)
        density += m * log_density_of_copies(noise, self.counts)
        inverse, _ = lapack.dpotri(factor, lower=1, overwrite_c=1)
        # one triangle of the symmetric inverse; its zeros above the diagonal are filled in
        slopes = inverse + inverse.T
        slopes[np.diag_indices(n)] /= 2
        slopes *= m
        slopes -= weights @ weights.T
        gradient = pullback(slopes)
        if self.noise is None:
            of_noise = np.sum(np.diagonal(slopes) / self.counts) * noise
            gradient = np.append(gradient, of_noise + m * np.sum(self.counts - 1))
        return -float(density) / self.n, gradient / (2 * self.n)

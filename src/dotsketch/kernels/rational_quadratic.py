"""The rational quadratic kernel."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._arrays import ArrayT, FloatArray, host, plain
from .base import Pullback
from .distance import DistanceKernel


class RationalQuadratic(DistanceKernel):
    """variance · (1 + |x − y|² / (2 alpha lengthscale²))^−alpha: many lengthscales at once.

    It is the mean of Gaussian kernels exp(−τ |x − y|² / (2 lengthscale²)) over gamma variables τ of
    shape alpha and mean 1. The smaller alpha is, the wider their lengthscales spread; for large
    alpha it is the Gaussian kernel. Fourier and Nyström features and exact Gaussian processes
    support it.

    Parameters
    ----------
    alpha : float, default=1.0
    lengthscale, variance :
        As for `Gaussian`.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[0.0], [1.0], [3.0]])
    >>> RationalQuadratic(2.0, lengthscale=1.0)(X[:1], X).round(4)
    array([[1.    , 0.64  , 0.0947]])
    """

    searched = ("alpha", "lengthscale", "variance")

    def __init__(self, alpha: float = 1.0, *, lengthscale: Any = "median", variance: float = 1.0):
        self.alpha = alpha
        super().__init__(lengthscale=lengthscale, variance=variance)

    def profile_of_halves(self, halves: ArrayT) -> ArrayT:
        alpha = plain(self.alpha)
        return (1 + halves / alpha) ** -alpha

    def slope_of_halves(self, halves: FloatArray) -> FloatArray:
        alpha = float(host(self.alpha))
        return np.asarray(-((1 + halves / alpha) ** (-alpha - 1)))

    def frequency_factors(self, n: int, rng: np.random.Generator) -> FloatArray:
        """√τ, as the kernel is a mixture of Gaussian kernels."""
        alpha = float(host(self.alpha))
        return np.asarray(np.sqrt(rng.gamma(alpha, size=n) / alpha))

    def range_of(self, name: str, X: FloatArray) -> FloatArray:
        """Beyond 100 it is Gaussian, and at 0.05 hardly falls beyond the lengthscale."""
        return np.array([[0.05, 1.0, 100.0]]) if name == "alpha" else super().range_of(name, X)

    def with_pullback(
        self, X: FloatArray, Y: FloatArray | None = None
    ) -> tuple[FloatArray, Pullback]:
        K, others = super().with_pullback(X, Y)
        alpha, variance = float(host(self.alpha)), float(host(self.variance))

        def pullback(M: FloatArray) -> FloatArray:
            # f = u^−alpha with u = 1 + h/alpha, and ∂f/∂log alpha = f (log f + alpha (1 − 1/u))
            log_f = np.log(np.maximum(K / variance, np.finfo(float).tiny))
            slope = log_f - alpha * np.expm1(log_f / alpha)
            return np.append(np.sum(M * K * slope), others(M))

        return K, pullback

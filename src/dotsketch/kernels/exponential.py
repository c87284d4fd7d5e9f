"""The exponential kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import gammaln

from .._arrays import ArrayT, FloatArray, namespace, plain
from .base import DotProductKernel, Pullback
from .lengthscales import LengthscaleKernel, fixed_if_constant


class Exponential(LengthscaleKernel, DotProductKernel):
    """The kernel of softmax attention, variance · exp(x·y / lengthscale²).

    Parameters
    ----------
    lengthscale : number, or array of shape (d,), default=1.0
    variance : float, default=1.0

    Examples
    --------
    >>> import numpy as np
    >>> Exponential().coefficients(3) * [1, 1, 2, 6]
    array([1., 1., 1., 1.])
    """

    def __init__(self, *, lengthscale: Any = 1.0, variance: float = 1.0):
        self.lengthscale = lengthscale
        self.variance = variance
        self.validate()

    def series(self, max_degree: int) -> FloatArray:
        n = np.arange(max_degree + 1)
        return np.exp(-gammaln(n + 1.0))

    def profile(self, t: ArrayT) -> ArrayT:
        return plain(self.variance) * namespace(t).exp(t)

    def range_of(self, name: str, X: FloatArray) -> FloatArray:
        """Exponents are at most 50² and typically 1 for rows of the usual norm."""
        largest, usual = np.max(np.abs(X), axis=0), np.sqrt(np.mean(X * X, axis=0))
        if self.is_common:
            largest, usual = (np.sqrt([np.sum(size**2)]) for size in (largest, usual))
        else:  # the exponent is a sum over columns
            largest, usual = (np.sqrt(X.shape[1]) * size for size in (largest, usual))
        usual = np.where(usual > 0, usual, 1.0)
        least = np.maximum(largest / 25, 1e-2 * usual)
        typical = np.maximum(usual, least)
        ranges = np.stack([least, typical, 1e3 * typical], axis=1)
        return ranges if self.is_common else fixed_if_constant(ranges, X)

    def with_pullback(
        self, X: FloatArray, Y: FloatArray | None = None
    ) -> tuple[FloatArray, Pullback]:
        S = np.asarray(self.scale(X))
        T = S if Y is None else np.asarray(self.scale(Y))
        K = np.asarray(self(X, Y))

        def pullback(M: FloatArray) -> FloatArray:
            weighted = M * K
            lengthscales = -2 * np.sum(S * (weighted @ T), axis=0)
            return self.slopes(lengthscales, np.sum(weighted))

        return K, pullback

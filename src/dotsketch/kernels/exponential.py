"""The exponential kernel, and the Gaussian kernel: the same series, with other weights."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import gammaln

from .._arrays import ArrayT, FloatArray, namespace, plain
from .base import DotProductKernel, Pullback
from .distance import DistanceKernel, LengthscaleKernel, fixed_if_constant


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
        return inverse_factorials(max_degree)

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


class Gaussian(DistanceKernel, DotProductKernel):
    """variance · exp(−|x − y|² / (2 lengthscale²)).

    Parameters
    ----------
    lengthscale : number, array of shape (d,) (one for every coordinate), or "median"
        "median" is the median distance between rows; estimators resolve it when they are fitted,
        and `resolve(X)` does so by hand.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[0.0], [1.0], [3.0]])
    >>> Gaussian().resolve(X)
    Gaussian(lengthscale=2.0)
    >>> Gaussian(lengthscale=1.0)(X[:1], X[1:]).round(4)
    array([[0.6065, 0.0111]])
    """

    # -- as a function of the distance: products of weights and series overflow for large norms --

    def profile_of_halves(self, halves: ArrayT) -> ArrayT:
        return namespace(halves).exp(-halves)

    def fill_profile(self, halves: FloatArray) -> None:
        np.negative(halves, out=halves)
        np.exp(halves, out=halves)

    def slope_of_halves(self, halves: FloatArray) -> FloatArray:
        return -np.exp(-halves)

    def frequency_factors(self, n: int, rng: np.random.Generator) -> FloatArray:
        return np.ones(n)

    # -- as a series of the dot product ----------------------------------------------------------

    decay = 0.5

    def series(self, max_degree: int) -> FloatArray:
        return inverse_factorials(max_degree)

    def profile(self, t: ArrayT) -> ArrayT:
        return plain(self.variance) * namespace(t).exp(t)

    def value(self, t: ArrayT, log_weights: ArrayT) -> ArrayT:
        return self.variance * namespace(t).exp(log_weights + t)


def inverse_factorials(max_degree: int) -> FloatArray:  # -> (max_degree + 1,)
    """1/n!, the coefficients of exp(t)."""
    return np.asarray(np.exp(-gammaln(np.arange(max_degree + 1) + 1.0)))

"""The Gaussian kernel."""

from __future__ import annotations

import numpy as np

from .._arrays import ArrayT, FloatArray, namespace, plain
from .base import DotProductKernel
from .distance import DistanceKernel
from .exponential import Exponential


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
        return Exponential().series(max_degree)

    def profile(self, t: ArrayT) -> ArrayT:
        return plain(self.variance) * namespace(t).exp(t)

    def value(self, t: ArrayT, log_weights: ArrayT) -> ArrayT:
        return self.variance * namespace(t).exp(log_weights + t)

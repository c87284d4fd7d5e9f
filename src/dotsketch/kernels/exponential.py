"""The exponential kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import gammaln

from .._arrays import Array, namespace, plain
from .base import DotProductKernel, check_positive, inverse_square, lengthscale_of


class Exponential(DotProductKernel):
    """variance · exp(x·y / lengthscale²), the kernel of softmax attention.

    >>> import numpy as np
    >>> Exponential().coefficients(3) * [1, 1, 2, 6]
    array([1., 1., 1., 1.])
    """

    def __init__(self, *, lengthscale: Any = 1.0, variance: float = 1.0):
        self.lengthscale = lengthscale
        self.variance = variance
        self.validate()

    def validate(self) -> None:
        check_positive("lengthscale", self.lengthscale, most_dimensions=1)
        check_positive("variance", self.variance)

    @property
    def metric(self) -> tuple[str, Any]:
        return "rows", inverse_square(self.lengthscale)

    def scale(self, X: Array) -> Array:
        return X / lengthscale_of(self.lengthscale, X)

    def series(self, max_degree: int) -> np.ndarray:
        n = np.arange(max_degree + 1)
        return np.exp(-gammaln(n + 1.0))

    def profile(self, t: Array) -> Array:
        return plain(self.variance) * namespace(t).exp(t)

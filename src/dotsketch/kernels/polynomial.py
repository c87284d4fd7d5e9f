"""The polynomial kernel."""

from __future__ import annotations

import math
from typing import Annotated

import numpy as np

from .._arrays import ArrayT, FloatArray, host, plain
from .._support.parameters import positive_integer
from .._support.stored import MOST_DEGREE, Count
from .base import check_number
from .gamma import GammaKernel


class Polynomial(GammaKernel):
    """The polynomial kernel, variance · (gamma x·y + coef0)^degree.

    Parameters
    ----------
    degree : int, default=3
    gamma, coef0, variance : float, default=1.0

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[1.0, 2.0], [0.0, 1.0]])
    >>> Polynomial(2)(X)
    array([[36.,  9.],
           [ 9.,  4.]])
    >>> Polynomial(2).coefficients(3)
    array([1., 2., 1., 0.])
    """

    degree: Annotated[int, Count(MOST_DEGREE)]

    constants = ("coef0",)

    def __init__(
        self, degree: int = 3, *, gamma: float = 1.0, coef0: float = 1.0, variance: float = 1.0
    ):
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.variance = variance
        self.validate()

    def validate(self) -> None:
        positive_integer("degree", self.degree)
        check_number("gamma", self.gamma)
        check_number("variance", self.variance)
        why = "a negative coef0 gives negative coefficients"
        check_number("coef0", self.coef0, not_negative=why)

    @property
    def searched(self) -> tuple[str, ...]:  # type: ignore[override]
        """Only gamma/coef0 and the scale of the kernel matter: coef0 stays as it is."""
        return ("gamma", "variance") if float(host(self.coef0)) > 0 else ("variance",)

    @property
    def last_degree(self) -> int:
        return int(self.degree)

    def series(self, max_degree: int) -> FloatArray:
        n = np.arange(max_degree + 1)
        binomial = np.array([float(math.comb(self.degree, int(k))) for k in n])
        coef0 = float(host(self.coef0))
        powers = np.where(n <= self.degree, coef0 ** np.maximum(self.degree - n, 0), 0)
        return binomial * powers

    def profile(self, t: ArrayT) -> ArrayT:
        return plain(self.variance) * _integer_power(t + plain(self.coef0), self.degree)

    def times_slope(self, t: FloatArray) -> FloatArray:
        power = (t + plain(self.coef0)) ** (self.degree - 1)
        return plain(self.variance) * self.degree * t * power


def _integer_power(t: ArrayT, n: int) -> ArrayT:
    """tⁿ for n ≥ 1 by squaring: a few products, where a general power is slow."""
    if n == 1:
        return t
    half = _integer_power(t, n // 2)
    return half * half * t if n % 2 else half * half

"""Kernels that are a function of gamma x·y: the polynomial kernel, and the linear one."""

from __future__ import annotations

import math
from typing import Annotated, Any

import numpy as np

from .._arrays import ArrayT, FloatArray, host, plain, square_root
from .._support.parameters import positive_integer
from .._support.stored import MOST_DEGREE, Count
from .base import DotProductKernel, Pullback, check_number


class GammaKernel(DotProductKernel):
    """variance · f(gamma x·y): a subclass says what f is and what t f′(t) is."""

    gamma: Any

    def times_slope(self, t: FloatArray) -> FloatArray:
        """t times the derivative of `profile`."""
        raise self.lacks("times_slope(t)", "t times the derivative of profile, for a search")

    @property
    def metric(self) -> tuple[str, Any]:
        return "rows", self.gamma

    def scale(self, X: ArrayT) -> ArrayT:
        is_one = isinstance(self.gamma, (int, float)) and self.gamma == 1
        return X if is_one else X * square_root(self.gamma)

    def range_of(self, name: str, X: FloatArray) -> FloatArray:
        """gamma x·x is typically 1."""
        level = float(np.mean(np.sum(X * X, axis=1)))
        typical = 1 / level if 0 < level < np.inf else float(host(self.gamma))
        return typical * np.array([[1e-3, 1.0, 1e3]])

    def with_pullback(
        self, X: FloatArray, Y: FloatArray | None = None
    ) -> tuple[FloatArray, Pullback]:
        if "gamma" not in self.searched:
            return super().with_pullback(X, Y)
        S = np.asarray(self.scale(X))
        t = S @ (S if Y is None else np.asarray(self.scale(Y))).T
        K = np.asarray(self.profile(t))
        return K, lambda M: np.array([np.sum(M * self.times_slope(t)), np.sum(M * K)])


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


class Linear(Polynomial):
    """variance · (gamma x·y + coef0): `Polynomial(degree=1)`, without an offset by default.

    Its functions are linear: a trend, as in `Linear().on("year") + Matern()`. Without an offset
    they are zero at x = 0.

    Parameters
    ----------
    gamma, variance : float, default=1.0
    coef0 : float, default=0.0

    Examples
    --------
    >>> import numpy as np
    >>> Linear(variance=2.0)(np.array([[1.0, 2.0], [0.0, 1.0]]))
    array([[10.,  4.],
           [ 4.,  2.]])
    """

    def __init__(self, *, gamma: float = 1.0, coef0: float = 0.0, variance: float = 1.0):
        super().__init__(1, gamma=gamma, coef0=coef0, variance=variance)


def _integer_power(t: ArrayT, n: int) -> ArrayT:
    """tⁿ for n ≥ 1 by squaring: a few products, where a general power is slow."""
    if n == 1:
        return t
    half = _integer_power(t, n // 2)
    return half * half * t if n % 2 else half * half

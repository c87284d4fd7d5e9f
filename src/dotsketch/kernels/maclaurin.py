"""A kernel given by the coefficients of its series."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._arrays import ArrayT, FloatArray, plain
from .polynomial import GammaKernel


class Maclaurin(GammaKernel):
    """A dot product kernel of given coefficients, variance · Σ_n a_n (gamma x·y)ⁿ.

    Parameters
    ----------
    coefficients : list of nonnegative numbers a_0, a_1, …
    gamma, variance : float, default=1.0

    Examples
    --------
    >>> import numpy as np
    >>> Maclaurin([1, 0, 0.5])(np.array([[2.0]]))
    array([[9.]])
    """

    searched = ("gamma", "variance")

    def __init__(self, coefficients: Any, *, gamma: float = 1.0, variance: float = 1.0):
        # `coefficients` is the name of a method too, so the list has a name of its own
        self._list = coefficients
        self.gamma = gamma
        self.variance = variance
        self.validate()

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        return {"coefficients": self._list, "gamma": self.gamma, "variance": self.variance}

    def set_params(self, **params: Any) -> Maclaurin:
        self._list = params.pop("coefficients", self._list)
        super().set_params(**params)
        return self

    def validate(self) -> None:
        try:
            a = np.asarray(self._list, dtype=float)
        except (TypeError, ValueError):
            a = np.empty(0)
        if a.ndim != 1 or a.size == 0 or not np.all(np.isfinite(a)):
            raise ValueError(
                f"coefficients must be a list of finite numbers a_0, a_1, …; got {self._list!r}."
            )
        if np.any(a < 0):
            n = int(np.argmax(a < 0))
            raise ValueError(
                f"coefficients must be nonnegative, or the kernel is not positive definite; "
                f"got a_{n} = {a[n]}."
            )
        super().validate()

    @property
    def last_degree(self) -> int:
        return int(np.flatnonzero(np.asarray(self._list, dtype=float)).max(initial=0))

    def series(self, max_degree: int) -> FloatArray:
        a = np.zeros(max_degree + 1)
        start = np.asarray(self._list, dtype=float)[: max_degree + 1]
        a[: len(start)] = start
        return a

    def profile(self, t: ArrayT) -> ArrayT:
        return plain(self.variance) * _polynomial(np.asarray(self._list, dtype=float), t)

    def times_slope(self, t: FloatArray) -> FloatArray:
        a = np.asarray(self._list, dtype=float)
        return plain(self.variance) * _polynomial(np.arange(len(a)) * a, t)


def _polynomial(a: FloatArray, t: ArrayT) -> ArrayT:
    """Σ_n a_n tⁿ by Horner's rule."""
    total = 0 * t
    for coefficient in reversed(a.tolist()):
        total = total * t + coefficient
    return total

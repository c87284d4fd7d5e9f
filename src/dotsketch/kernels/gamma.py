"""Kernels that are a function of gamma x·y."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._arrays import ArrayT, FloatArray, host, square_root
from .base import DotProductKernel, Pullback


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

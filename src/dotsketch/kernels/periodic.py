"""The periodic kernel."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .._arrays import ArrayT, FloatArray, host, namespace, plain
from .base import Kernel, Pullback
from .distance import lengthscale_of
from .exponential import Gaussian
from .inputs import matching, zero_per_row


class Periodic(Kernel):
    """variance · exp(−2 Σ_k sin²(π (x_k − y_k) / period) / lengthscale²).

    Every input is a place on a circle, u = (cos, sin)(2π x_k / period); the kernel is the Gaussian
    one of these places. A kernel of time alone is `Periodic(period=24.0).on("hour")`, and a
    pattern that changes slowly `Periodic(period=1.0) * Gaussian(lengthscale=10.0)`. Nyström
    features and exact Gaussian processes support it.

    Parameters
    ----------
    period : number, or array of shape (d,) (one for every input), default=1.0
        A search changes it by 5 % at most: it has to be known.
    lengthscale : number, or array of shape (d,), default=1.0
        The smaller, the more the function varies within a period; it has no unit.
    variance : float, default=1.0

    Examples
    --------
    >>> import numpy as np
    >>> Periodic(period=2.0)(np.array([[0.0], [1.0], [2.0]])).round(4)
    array([[1.    , 0.1353, 1.    ],
           [0.1353, 1.    , 0.1353],
           [1.    , 0.1353, 1.    ]])
    """

    shift_invariant = True
    searched = ("period", "lengthscale", "variance")
    per_input = ("period", "lengthscale")

    def __init__(self, period: Any = 1.0, *, lengthscale: Any = 1.0, variance: float = 1.0):
        self.period = period
        self.lengthscale = lengthscale
        self.variance = variance
        self.validate()

    def places(self, X: ArrayT) -> ArrayT:  # (n, d) -> (n, 2 d)
        """The places of all inputs on their circles, over their lengthscales."""
        xp = namespace(X)
        angles = X * (2 * math.pi) / lengthscale_of(self.period, X, "period")
        lengthscale = lengthscale_of(self.lengthscale, X)
        return xp.concat([xp.cos(angles) / lengthscale, xp.sin(angles) / lengthscale], axis=1)

    def __call__(self, X: ArrayT, Y: ArrayT | None = None) -> ArrayT:
        X, Y = matching(X, Y)
        gaussian = Gaussian(lengthscale=1.0, variance=self.variance)
        return gaussian(self.places(X), None if Y is None else self.places(Y))

    def diag(self, X: ArrayT) -> ArrayT:
        return plain(self.variance) * (zero_per_row(matching(X, None)[0]) + 1)

    def per_column(self, dimension: int) -> Any:
        values = np.broadcast_to(host(self.lengthscale), (dimension,)).astype(float)
        return self.changed(lengthscale=values)

    def range_of(self, name: str, X: FloatArray) -> FloatArray:
        """A period that is far off has no slope towards the right one."""
        values = np.ravel(host(getattr(self, name))).astype(float)
        if name == "period":
            return values[:, None] * np.array([[1 / 1.05, 1.0, 1.05]])
        return np.ones((len(values), 1)) * math.sqrt(X.shape[1]) * np.array([[0.05, 1.0, 100.0]])

    def with_pullback(
        self, X: FloatArray, Y: FloatArray | None = None
    ) -> tuple[FloatArray, Pullback]:
        d = X.shape[1]
        U = np.asarray(self.places(X))
        V = U if Y is None else np.asarray(self.places(Y))
        T = X if Y is None else Y
        gaussian = Gaussian(lengthscale=np.ones(2 * d), variance=self.variance)
        K, of_places = gaussian.with_pullback(U, None if Y is None else V)
        period = np.broadcast_to(host(self.period), (d,)).astype(float)

        def pullback(M: FloatArray) -> FloatArray:
            slopes = of_places(M)
            # ∂ log k/∂ log p = 2π (x − y)/p · sin(2π (x − y)/p)/l², the sine from the places
            periods = np.empty(d)
            for k in range(d):
                G = M * K * (X[:, k, None] - T[:, k]) * (2 * math.pi / period[k])
                periods[k] = U[:, d + k] @ G @ V[:, k] - U[:, k] @ G @ V[:, d + k]
            parts = [
                values if np.ndim(host(parameter)) else values.sum(keepdims=True)
                for values, parameter in (
                    (periods, self.period),
                    (slopes[:d] + slopes[d:-1], self.lengthscale),
                )
            ]
            return np.concatenate([*parts, slopes[-1:]])

        return K, pullback

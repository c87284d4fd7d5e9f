"""The arc-cosine kernels."""

from __future__ import annotations

import math
from typing import Annotated, Any

import numpy as np
from scipy.special import gammaln

from .._arrays import ArrayT, FloatArray, namespace, plain
from .._support.stored import MOST_DEGREE, Count
from .base import DotProductKernel
from .inputs import directions


class ArcCosine(DotProductKernel):
    """Arc-cosine kernels of order 0 and 1 (Cho and Saul) on normalised inputs.

    With t = cos θ of the angle between x and y (0 if either is zero):
    order 0: 1 − θ/π = 1/2 + (1/π) Σ_k C(2k, k)/(4ᵏ(2k+1)) t^(2k+1);
    order 1: (sin θ + (π − θ) cos θ)/π, whose derivative in t is the one of order 0.
    They are the kernels of infinitely wide networks of step functions and of ReLUs.

    Parameters
    ----------
    order : 0 or 1, default=1
    variance : float, default=1.0

    Examples
    --------
    >>> import numpy as np
    >>> ArcCosine(0)(np.array([[1.0, 0.0], [3.0, 3.0]])).round(4)
    array([[1.  , 0.75],
           [0.75, 1.  ]])
    """

    order: Annotated[int, Count(MOST_DEGREE)]

    def __init__(self, order: int = 1, *, variance: float = 1.0):
        self.order = order
        self.variance = variance
        self.validate()

    def validate(self) -> None:
        if self.order not in (0, 1) or isinstance(self.order, bool):
            raise ValueError(f"order must be 0 or 1; got {self.order!r}.")
        super().validate()

    @property
    def metric(self) -> tuple[str, Any]:
        return "directions", 1.0

    def scale(self, X: ArrayT) -> ArrayT:
        return directions(X)[0]

    def series(self, max_degree: int) -> FloatArray:
        a = np.zeros(max_degree + 2)
        k = np.arange(max_degree // 2 + 1)
        # C(2k, k)/4ᵏ in logarithms: exact enough and without overflow for any k
        central = np.exp(gammaln(2 * k + 1.0) - 2 * gammaln(k + 1.0) - k * math.log(4))
        odd = central / (np.pi * (2 * k + 1))
        if self.order == 0:
            a[0] = 0.5
            a[2 * k + 1] = odd
        else:
            a[0], a[1] = 1 / np.pi, 0.5
            even = (2 * k + 2)[2 * k + 2 < len(a)]
            a[even] = (odd / (2 * k + 2))[: len(even)]
        return a[: max_degree + 1]

    def profile(self, t: ArrayT) -> ArrayT:
        xp = namespace(t)
        ones = xp.ones_like(t)
        t = xp.minimum(xp.maximum(t, -ones), ones)
        # acos and √ have infinite derivatives at ±1; the angle of a row with itself has none
        inside = xp.abs(t) < 1
        safe = xp.where(inside, t, 0 * ones)
        angle = xp.where(inside, xp.acos(safe), xp.where(t > 0, 0 * ones, math.pi * ones))
        if self.order == 0:
            return plain(self.variance) * (1 - angle / math.pi)
        sine = xp.where(inside, xp.sqrt((1 - safe) * (1 + safe)), 0 * ones)
        return plain(self.variance) * (sine + (math.pi - angle) * t) / math.pi

"""Matérn kernels of half-integer smoothness."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._arrays import ArrayT, FloatArray, namespace
from .distance import DistanceKernel


class Matern(DistanceKernel):
    """The Matérn kernel of a process that is ⌈nu⌉ − 1 times differentiable.

    With r = √(2 nu) |x − y| / lengthscale it is variance · exp(−r) for nu = 0.5,
    variance · (1 + r) exp(−r) for 1.5, and variance · (1 + r + r²/3) exp(−r) for 2.5. It is not a
    dot product kernel (it has no Maclaurin series in x·y): Fourier and Nyström features
    approximate it, and exact Gaussian processes use it directly.

    Parameters
    ----------
    nu : 0.5, 1.5 or 2.5, default=1.5
        The larger, the smoother; the Gaussian kernel is the limit.
    lengthscale : number, array of shape (d,) (one for every coordinate), or "median"
        "median" is the median distance between rows, set when an estimator is fitted.
    variance : number

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[0.0], [1.0], [3.0]])
    >>> Matern(1.5, lengthscale=2.0)(X[:1], X).round(4)
    array([[1.    , 0.7849, 0.2678]])
    """

    needs_small_distances = True
    nu: float

    def __init__(self, nu: float = 1.5, *, lengthscale: Any = "median", variance: float = 1.0):
        self.nu = nu
        self.lengthscale = lengthscale
        self.variance = variance
        self.validate()

    def validate(self) -> None:
        if self.nu not in (0.5, 1.5, 2.5):
            raise ValueError(f"nu must be 0.5, 1.5 or 2.5; got {self.nu!r}.")
        super().validate()

    def frequency_factors(self, n: int, rng: np.random.Generator) -> FloatArray:
        """A Gaussian frequency over √(χ²/2ν), a multivariate Student distribution."""
        return np.sqrt(2 * self.nu / rng.chisquare(2 * self.nu, n))

    def profile_of_halves(self, halves: ArrayT) -> ArrayT:
        xp = namespace(halves)
        squares = 4 * self.nu * halves
        # The root has no derivative at 0, the kernel has one (0, but for nu = 0.5)
        positive = squares > 0
        r = xp.where(positive, xp.sqrt(xp.where(positive, squares, xp.ones_like(squares))), 0.0)
        factor = 1.0 if self.nu == 0.5 else 1 + r if self.nu == 1.5 else 1 + r + squares / 3
        return factor * xp.exp(-r)

    def fill_profile(self, halves: FloatArray) -> None:
        halves *= 4 * self.nu
        np.sqrt(halves, out=halves)
        decay = np.exp(-halves)
        if self.nu == 2.5:
            halves += halves * halves / 3
        if self.nu == 0.5:
            halves[...] = decay
        else:
            halves += 1
            halves *= decay

    def slope_of_halves(self, halves: FloatArray) -> FloatArray:
        r = np.sqrt(4 * self.nu * halves)
        if self.nu == 0.5:  # 0 at equal rows, where the lengthscale does not matter
            return np.divide(-np.exp(-r), r, out=np.zeros_like(r), where=r > 0)
        return -np.exp(-r) * (3 if self.nu == 1.5 else 5 / 3 * (1 + r))

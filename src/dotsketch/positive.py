"""Positive random features of the exponential kernel exp(x·y), and of the Gaussian kernel.

exp(x·y) = E[exp(ωᵀx − |x|²/2) · exp(ωᵀy − |y|²/2)] over Gaussian ω (Choromanski et al., 2021,
FAVOR+): features that are never negative, so that attention weights made of them are none either.
The relative variance is exp(|x + y|²) − 1: small where the kernel is small, huge where |x + y| is.

`PositiveMap` is the description; inputs are already scaled by the kernel. The estimator is
`dotsketch.PositiveFeatures`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ._arrays import Array, join, map_rows, namespace
from .frequencies import Frequencies, orthogonal_covariance


@dataclass(frozen=True)
class PositiveMap:
    """A random feature map z > 0 with E[z(x)·z(y)] = exp(x·y).

    Parameters
    ----------
    n_components : D ≥ 1, the number of columns
    projection : "independent", "orthogonal" or "sorf", see `Frequencies`
    hyperbolic : bool
        Use every frequency twice, as ω and −ω: half as many products, and less variance for
        the same number of columns (D must be even).

    Examples
    --------
    >>> import numpy as np
    >>> positive = PositiveMap(4000)
    >>> weights = positive.sample(2, np.random.default_rng(0))
    >>> x, y = np.array([[0.3, 0.1]]), np.array([[0.5, -0.2]])
    >>> estimate = np.exp(positive.log_features(x, weights) + positive.log_features(y, weights))
    >>> bool(abs(estimate.sum() - np.exp(x @ y.T)) < 0.1)
    True
    """

    n_components: int
    projection: str = "orthogonal"
    hyperbolic: bool = False

    def __post_init__(self) -> None:
        if self.hyperbolic and self.n_components % 2:
            raise ValueError(
                f"hyperbolic features come in pairs: n_components={self.n_components} must be "
                f"even; use {self.n_components + 1}."
            )
        _ = self.frequencies  # refuses what has no meaning

    @cached_property
    def frequencies(self) -> Frequencies:
        return Frequencies(self.n_components // (1 + self.hyperbolic), self.projection)

    def sample(self, dimension: int, rng: np.random.Generator) -> Any:
        """Weights of one map on R^dimension."""
        return self.frequencies.sample(dimension, rng)

    def log_features(
        self,
        X: Array,
        weights: Any,
        *,
        preprocess: Callable[[Array], tuple[Array, Array]] | None = None,
        function: Callable[[Array], Array] | None = None,
        n_jobs: int | None = None,
    ) -> Array:  # (n, d) -> (n, n_components)
        """log z(x) = ωᵀx − |x|²/2 − log(D)/2 of all rows, in chunks: finite for any finite row.

        `preprocess` maps rows to inputs and a number (n,) that is added to all their logarithms;
        `function` is applied to every chunk.
        """
        prepared = self.frequencies.prepare(weights, X)

        def logarithms(rows: Array) -> tuple[Array, None]:
            inputs, offset = (rows, 0) if preprocess is None else preprocess(rows)
            xp = namespace(inputs)
            products = self.frequencies.apply(inputs, prepared)
            if self.hyperbolic:
                products = join((products, -products), "complex_to_real")
            offset = offset - xp.sum(inputs * inputs, axis=1) / 2
            found = products + (offset - math.log(self.n_components) / 2)[:, None]
            return (found if function is None else function(found)), None

        width = max(X.shape[1], self.n_components)
        chunk = max(16, (1 << 23) // (8 * width))
        return map_rows(logarithms, X, "real", self.n_components, chunk, n_jobs=n_jobs)

    def relative_variance(self, squared_sum: Any, dimension: int) -> np.ndarray:
        """Var[k̂]/k² from s = |x + y|² (an array of any shape), on the host.

        One frequency has e^s − 1, or (e^s − 1)² e^(−s)/2 if it is used with both signs; two of
        one block have the covariance `orthogonal_covariance` ≤ 0, relative to k² too. For "sorf"
        this is the expression for orthogonal frequencies in R^p, an approximation. It becomes
        infinite where it leaves the range of floating numbers, from s = 709 on.
        """
        s = np.asarray(squared_sum, dtype=np.float64)
        frequencies = self.frequencies
        share = np.full(frequencies.n_frequencies, 1 / frequencies.n_frequencies)
        squares, pairs = frequencies.pair_sums(share, dimension)
        with np.errstate(over="ignore"):
            single = np.expm1(-s) ** 2 * np.exp(s) / 2 if self.hyperbolic else np.expm1(s)
        total = squares * single
        if pairs:
            ambient = frequencies.ambient_dimension(dimension)
            total = total + pairs * orthogonal_covariance(s / 2, ambient, sign=1)
        return np.maximum(total, 0)

    def cost(self, dimension: int) -> float:
        """About how many arithmetic operations the features of one row take."""
        return self.frequencies.cost(dimension) + 20.0 * self.n_components

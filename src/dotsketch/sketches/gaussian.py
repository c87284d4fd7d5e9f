"""The Gaussian sketch: normal weights, real or complex."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from .._arrays import Array
from .._backends import Prepared, dense_product
from .independent import IndependentSketch


class GaussianWeights(NamedTuple):
    values: np.ndarray  # (p, 1 or 2, D, d): real and imaginary parts


@dataclass(frozen=True)
class GaussianSketch(IndependentSketch):
    """Independent N(0, 1) weights; complex ones are (v + i w)/√2.

    Variance ((|x|²|y|² + 2s²)ⁿ − s²ⁿ)/D, and with s² in place of 2s² for complex weights: always
    less for complex ones, always more than for Rademacher weights.
    """

    @property
    def m4(self) -> float:
        return 2.0 if self.is_complex else 3.0

    def sample(self, dimension: int, rng: np.random.Generator) -> GaussianWeights:
        n_parts = 2 if self.is_complex else 1
        values = rng.standard_normal((self.degree, n_parts, self.n_projections, dimension))
        return GaussianWeights(values / math.sqrt(n_parts))

    def prepare(self, weights: GaussianWeights, rows: Array) -> Prepared:
        values = weights.values
        imaginary = values[:, 1, :, :] if self.is_complex else None
        return dense_product(values[:, 0, :, :], imaginary, scale=self.scale, rows=rows)

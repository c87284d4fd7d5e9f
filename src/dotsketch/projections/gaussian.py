"""Dense normal weights, real or complex."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, NamedTuple

import numpy as np

from .._arrays import Array
from .._backends import Prepared, backend_of, keeps_prepared
from .._support.stored import array
from .base import Projection


@keeps_prepared
class GaussianWeights(NamedTuple):
    # real and imaginary parts
    values: Annotated[np.ndarray, array("f", "p", "parts", "D", "d")]


@dataclass(frozen=True)
class GaussianProjection(Projection):
    """Independent N(0, 1) weights; complex ones are (v + i w)/√2."""

    draws = (GaussianWeights,)

    @property
    def m4(self) -> float:
        return 2.0 if self.is_complex else 3.0

    def sample(
        self, copies: int, n_rows: int, dimension: int, rng: np.random.Generator
    ) -> GaussianWeights:
        n_parts = 2 if self.is_complex else 1
        values = rng.standard_normal((copies, n_parts, n_rows, dimension))
        return GaussianWeights(values / math.sqrt(n_parts))

    def prepare(
        self, weights: GaussianWeights, n_rows: int, *, scale: float = 1.0, rows: Array
    ) -> Prepared:
        values = weights.values
        imaginary = values[:, 1, :, :] if self.is_complex else None
        return backend_of(rows).dense_product(values[:, 0, :, :], imaginary, scale, rows)

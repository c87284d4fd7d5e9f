"""TensorSRHT: products of projections by randomly signed, permuted Hadamard matrices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from .._arrays import Array
from .._backends import Prepared, hadamard_product, power_of_two
from .independent import ProductSketch
from .rademacher import sample_turns


class SRHTWeights(NamedTuple):
    turns: np.ndarray  # (p, B, d) int8: weights i**turns
    places: np.ndarray  # (p, B, d) int32: column l of a block takes coordinate places[l]


@dataclass(frozen=True)
class TensorSRHT(ProductSketch):
    """Algorithm 1 of the paper: O(p D log d) a row, and less variance for odd degrees.

    Blocks of d projections (d padded to a power of two) share their signs; signs **and
    permutation** are drawn anew for every degree and block. With a shared permutation the
    variance formula would not hold. For degree 1 and D a multiple of the padded d the sketch is
    exact.
    """

    def block(self, dimension: int) -> int:
        return power_of_two(dimension)

    def sample(self, dimension: int, rng: np.random.Generator) -> SRHTWeights:
        return sample_srht(self.degree, self.n_projections, dimension, self.is_complex, rng)

    def prepare(self, weights: SRHTWeights, rows: Array) -> Prepared:
        return hadamard_product(
            *weights, self.n_projections, is_complex=self.is_complex, scale=self.scale, rows=rows
        )

    def cost(self, dimension: int) -> float:
        d = power_of_two(dimension)
        n_blocks = -(-self.n_projections // d)
        transforms = self.degree * n_blocks * d * (d.bit_length() + 1)
        return transforms * (2 if self.is_complex else 1)


def sample_srht(
    degree: int, n_projections: int, dimension: int, is_complex: bool, rng: np.random.Generator
) -> SRHTWeights:
    """Independent signs and permutations for every degree and block."""
    d = power_of_two(dimension)
    shape = (degree, -(-n_projections // d), d)
    turns = sample_turns(rng, shape, is_complex)
    places = rng.permuted(np.broadcast_to(np.arange(d, dtype=np.int32), shape), axis=2)
    return SRHTWeights(turns, np.ascontiguousarray(places))

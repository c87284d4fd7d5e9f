"""Randomly signed, permuted Hadamard matrices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, NamedTuple

import numpy as np

from .._arrays import Array
from .._backends import Prepared, backend_of, keeps_prepared, power_of_two
from .._support.stored import array
from .base import Projection
from .rademacher import sample_turns


@keeps_prepared
class SRHTWeights(NamedTuple):
    # weights i**turns; column l of a block takes coordinate places[l]
    turns: Annotated[np.ndarray, array("i", "p", "B", "padded", below=4)]
    places: Annotated[np.ndarray, array("i", "p", "B", "padded", below="padded")]

    def check_stored(self) -> None:
        if np.any(np.sort(self.places, axis=2) != np.arange(self.places.shape[2])):
            raise ValueError("SRHTWeights.places are not permutations.")


@dataclass(frozen=True)
class HadamardProjection(Projection):
    """Blocks of d rows (d padded to a power of two) that share their signs and are orthogonal.

    Signs **and permutation** are drawn anew for every copy and block: with a shared permutation
    the variance formulas would not hold.
    """

    draws = (SRHTWeights,)

    def block(self, dimension: int) -> int:
        return power_of_two(dimension)

    def cost(self, n_rows: int, dimension: int) -> float:
        d = power_of_two(dimension)
        return -(-n_rows // d) * d * (d.bit_length() + 1) * (2 if self.is_complex else 1)

    def sample(
        self, copies: int, n_rows: int, dimension: int, rng: np.random.Generator
    ) -> SRHTWeights:
        d = power_of_two(dimension)
        shape = (copies, -(-n_rows // d), d)
        turns = sample_turns(rng, shape, self.is_complex)
        places = rng.permuted(np.broadcast_to(np.arange(d, dtype=np.int32), shape), axis=2)
        return SRHTWeights(turns, np.ascontiguousarray(places))

    def prepare(
        self, weights: SRHTWeights, n_rows: int, *, scale: float = 1.0, rows: Array
    ) -> Prepared:
        backend, is_complex = backend_of(rows), self.is_complex
        return backend.hadamard_product(*weights, n_rows, is_complex, scale, rows)

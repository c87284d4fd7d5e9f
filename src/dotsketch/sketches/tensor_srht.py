"""TensorSRHT: products of projections by randomly signed, permuted Hadamard matrices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from .._arrays import Array, Parts, like
from .._transforms import (
    columns,
    empty_parts,
    multiply,
    power_of_two,
    srht,
    tensor_srht_into,
    transposed,
    uses_fast_hadamard,
)
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

    compiled_chunk_factor: ClassVar[int] = 16

    def block(self, dimension: int) -> int:
        return power_of_two(dimension)

    def sample(self, dimension: int, rng: np.random.Generator) -> SRHTWeights:
        return sample_srht(self.degree, self.n_projections, dimension, self.is_complex, rng)

    def prepare(self, weights: SRHTWeights, X: Array) -> Any:
        if uses_fast_hadamard(X, weights.turns.shape[2]):
            return weights
        return hadamard_tables(weights, self.n_projections, X)

    def parts(self, X: Array, prepared: Any) -> Parts:
        if isinstance(prepared, SRHTWeights):
            out = empty_parts(X.shape[0], self.n_projections, X.dtype, self.is_complex)
            self.write(X, prepared, out)
            return out
        A = columns(X, prepared[0][0].shape[1])
        product: Parts | None = None
        for turns, places in prepared:
            projected = srht(A, turns, places, self.is_complex)
            product = projected if product is None else multiply(product, projected)
        assert product is not None
        return transposed(product, self.scale)

    def write(
        self, X: np.ndarray, prepared: Any, out: Parts, row_scale: np.ndarray | None = None
    ) -> None:
        if isinstance(prepared, SRHTWeights):
            tensor_srht_into(X, prepared.turns, prepared.places, self.scale, out, row_scale)
        else:
            super().write(X, prepared, out, row_scale)

    def cost(self, dimension: int) -> float:
        d = power_of_two(dimension)
        n_blocks = -(-self.n_projections // d)
        transforms = self.degree * n_blocks * d * (d.bit_length() + 1)
        return transforms * (2 if self.is_complex else 1)

    def chunk_rows(self, dimension: int) -> int:
        return super().chunk_rows(power_of_two(dimension))


def sample_srht(
    degree: int, n_projections: int, dimension: int, is_complex: bool, rng: np.random.Generator
) -> SRHTWeights:
    """Independent signs and permutations for every degree and block."""
    d = power_of_two(dimension)
    shape = (degree, -(-n_projections // d), d)
    turns = sample_turns(rng, shape, is_complex)
    places = rng.permuted(np.broadcast_to(np.arange(d, dtype=np.int32), shape), axis=2)
    return SRHTWeights(turns, np.ascontiguousarray(places))


def hadamard_tables(weights: SRHTWeights, n_projections: int, X: Array) -> list:
    """The projections one by one, for `project_hadamard` on arrays like X."""
    if uses_fast_hadamard(X, weights.turns.shape[2]):
        return [SRHTWeights(*(w[i : i + 1] for w in weights)) for i in range(len(weights.turns))]
    turns = like(weights.turns, X)
    places = like(flat_places(weights.places, n_projections), X)
    return [(turns[i, :, :], places[i, :]) for i in range(turns.shape[0])]


def project_hadamard(X: Array, table: Any, n_projections: int, is_complex: bool) -> Parts:
    """One projection by signed, permuted Hadamard blocks, (n, d) -> (D, n) parts."""
    if isinstance(table, SRHTWeights):
        out = empty_parts(X.shape[0], n_projections, X.dtype, is_complex)
        tensor_srht_into(X, *table, 1.0, out)
        return transposed(out)
    turns, places = table
    return srht(columns(X, turns.shape[1]), turns, places, is_complex)


def flat_places(places: np.ndarray, n_projections: int) -> np.ndarray:  # (p, B, d) -> (p, D)
    """Places counted over all blocks laid end to end, for the D projections that are kept."""
    degree, n_blocks, d = places.shape
    offsets = d * np.arange(n_blocks)[:, None]
    return (places + offsets).reshape(degree, n_blocks * d)[:, :n_projections]

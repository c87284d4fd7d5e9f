"""Exact features of degree 1 and 2: the coordinates themselves, and their products."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from .._arrays import Array, Parts, like, namespace
from .._backends import Prepared
from ..pairs import PairStatistics
from .base import Sketch


class MonomialWeights(NamedTuple):
    """Column l is factor[l] · x[first[l]] · x[second[l]] (no second factor for degree 1)."""

    first: np.ndarray
    second: np.ndarray
    factor: np.ndarray


@dataclass(frozen=True)
class MonomialSketch(Sketch):
    """All d coordinates (degree 1), or all d(d+1)/2 products (degree 2): no variance at all.

    With `packed`, two real columns are one complex feature: the real part of the kernel is exact,
    at half the number of projections. Build it with `MonomialSketch.of(degree, dimension, …)`.
    """

    packed: bool = False

    @classmethod
    def of(
        cls, degree: int, dimension: int, field: str = "real", packed: bool = False
    ) -> MonomialSketch:
        return cls(degree, monomial_projections(degree, dimension, packed), field, packed)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.degree > 2:
            raise ValueError(f"Exact monomials are for degree 1 and 2; got {self.degree}.")
        if self.packed and not self.is_complex:
            raise ValueError('Packed monomials are pairs of real columns: use field="complex".')

    def sample(self, dimension: int, rng: np.random.Generator) -> MonomialWeights:
        """The columns; nothing is random."""
        expected = monomial_projections(self.degree, dimension, self.packed)
        if self.n_projections != expected:
            raise ValueError(
                f"Degree {self.degree} in {dimension} dimensions has {expected} exact projections, "
                f"not {self.n_projections}."
            )
        if self.degree == 1:
            first = np.arange(dimension)
            return MonomialWeights(first, first[:0], np.ones(dimension))
        first, second = np.triu_indices(dimension)
        return MonomialWeights(first, second, np.where(first == second, 1.0, math.sqrt(2)))

    def prepare(self, weights: MonomialWeights, rows: Array) -> Prepared:
        return PreparedMonomials(self, weights, rows)

    def variance(self, pairs: PairStatistics) -> Array:
        if self.packed:
            raise NotImplementedError("Packed monomials are exact in the real part only.")
        return 0 * pairs.dot

    def pseudo_variance(self, pairs: PairStatistics) -> Array:
        return self.variance(pairs)

    def real_part_variance(self, pairs: PairStatistics) -> Array:
        return 0 * pairs.dot


class PreparedMonomials(Prepared):
    """The columns of a `MonomialSketch`, gathered from chunks of rows."""

    depends_on_chunk = False

    def __init__(self, sketch: MonomialSketch, weights: MonomialWeights, rows: Array):
        self.sketch = sketch
        self.weights = MonomialWeights(*(like(array, rows) for array in weights))
        self.widest = max(weights.first.shape[0], 1)

    def columns(self, rows: Array) -> Parts:
        xp = namespace(rows)
        columns, sketch = rows, self.sketch
        if sketch.degree == 2:
            first, second, factor = self.weights
            columns = xp.take(rows, first, axis=1) * xp.take(rows, second, axis=1) * factor
        if not sketch.is_complex:
            return columns, None
        if not sketch.packed:
            return columns, xp.zeros_like(columns)
        half = sketch.n_projections
        imaginary = columns[:, half:]
        if imaginary.shape[1] < half:
            imaginary = xp.concat([imaginary, xp.zeros_like(rows[:, :1])], axis=1)
        return columns[:, :half], imaginary


def monomial_projections(degree: int, dimension: int, packed: bool = False) -> int:
    """How many projections the exact monomials of that degree take."""
    count = dimension if degree == 1 else dimension * (dimension + 1) // 2
    return -(-count // 2) if packed else count

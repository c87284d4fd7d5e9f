"""Exact features: all monomials of one degree, each computed from one of the degree below.

The monomials x_{i₁} ⋯ x_{i_p} with i₁ ≤ … ≤ i_p are ordered by their last index first, so that
those of degree p − 1 with indices up to j are the first ones, and the block of degree p that ends
in j is these times x_j: one product per column, and nothing is gathered.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import numpy as np
from array_api_compat import is_numpy_array

from .._arrays import Array, ArrayT, Parts, like, namespace
from .._backends import Prepared, keeps_prepared
from .._support.stored import array, check_lengths
from ..pairs import PairStatistics
from .base import Sketch


@keeps_prepared
class MonomialWeights(NamedTuple):
    """The roots of the multinomial coefficients, one for every monomial."""

    factor: Annotated[np.ndarray, array("f", "monomials")]


@dataclass(frozen=True)
class MonomialSketch(Sketch):
    """All C(d + p − 1, p) monomials of degree p: no variance at all.

    ⟨x, y⟩ᵖ = Σ p!/(n₁! ⋯ n_d!) xⁿ yⁿ over all exponents n with Σ n_k = p (multinomial theorem).
    With `packed`, two real columns are one complex feature: the real part of the kernel is exact,
    at half the number of projections. Build it with `MonomialSketch.of(degree, dimension, …)`.

    >>> import numpy as np
    >>> sketch = MonomialSketch.of(3, 2)
    >>> weights = sketch.sample(2, np.random.default_rng(0))
    >>> sketch.apply(np.array([[1.0, 2.0]]), weights) ** 2  # of (1 + 4)³
    array([[ 1., 12., 48., 64.]])
    """

    packed: bool = False

    @classmethod
    def of(
        cls, degree: int, dimension: int, field: str = "real", packed: bool = False
    ) -> MonomialSketch:
        return cls(degree, monomial_projections(degree, dimension, packed), field, packed)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.packed and not self.is_complex:
            raise ValueError('Packed monomials are pairs of real columns: use field="complex".')

    def n_monomials(self, dimension: int) -> int:
        if self.n_projections != monomial_projections(self.degree, dimension, self.packed):
            raise ValueError(f"{self} does not fit {dimension} dimensions: use MonomialSketch.of.")
        return monomial_projections(self.degree, dimension)

    def check_weights(self, weights: MonomialWeights, dimension: int) -> None:
        check_lengths(weights, (MonomialWeights,), monomials=self.n_monomials(dimension))

    def sample(self, dimension: int, rng: np.random.Generator) -> MonomialWeights:
        """The columns; nothing is random."""
        self.n_monomials(dimension)  # refuses another number of projections
        coefficients = np.ones(dimension)
        repeats = np.ones(dimension)  # of the last index
        for degree in range(2, self.degree + 1):
            parents, lasts = _parents(degree, dimension)
            ends = np.cumsum(_counts(degree - 1, dimension)) - 1  # the last monomial of each block
            same = parents > np.append(-1, ends)[lasts]  # the parent ends in the same index
            repeats = np.where(same, repeats[parents] + 1, 1.0)
            coefficients = coefficients[parents] * degree / repeats
        return MonomialWeights(np.sqrt(coefficients))

    def prepare(self, weights: MonomialWeights, rows: Array) -> Prepared:
        factor = like(weights.factor, rows)
        steps: list[Any] = []
        if not is_numpy_array(factor):  # two gathers per degree: a tracer sees few operations
            dimension = int(rows.shape[1])  # a symbol while torch.compile records
            steps = [_parents(degree, dimension) for degree in range(2, self.degree + 1)]
            steps = [(like(parents, rows), like(lasts, rows)) for parents, lasts in steps]

        def columns(rows: Any) -> Parts:
            xp = namespace(rows)
            values = _monomials(rows, self.degree) if is_numpy_array(rows) else rows
            for parents, lasts in steps:
                values = xp.take(values, parents, axis=1) * xp.take(rows, lasts, axis=1)
            if self.degree > 1:
                values = values * factor
            if not self.is_complex:
                return values, None
            if not self.packed:
                return values, xp.zeros_like(values)
            half = self.n_projections
            imaginary = values[:, half:]
            if imaginary.shape[1] < half:
                imaginary = xp.concat([imaginary, xp.zeros_like(rows[:, :1])], axis=1)
            return values[:, :half], imaginary

        return Prepared(columns, max(weights.factor.shape[0], 1), depends_on_chunk=False)

    def variance(self, pairs: PairStatistics[ArrayT]) -> ArrayT:
        if self.packed:
            raise NotImplementedError("Packed monomials are exact in the real part only.")
        return 0 * pairs.dot

    def pseudo_variance(self, pairs: PairStatistics[ArrayT]) -> ArrayT:
        return self.variance(pairs)

    def real_part_variance(self, pairs: PairStatistics[ArrayT]) -> ArrayT:
        return 0 * pairs.dot


def monomial_projections(degree: int, dimension: int, packed: bool = False) -> int:
    """How many projections the exact monomials of that degree take."""
    count = math.comb(dimension + degree - 1, degree)
    return -(-count // 2) if packed else count


def _counts(degree: int, dimension: int) -> list[int]:
    """How many monomials of this degree have j for their last index, j = 0 … dimension − 1."""
    return [monomial_projections(degree - 1, j + 1) for j in range(dimension)]


def _parents(degree: int, dimension: int) -> tuple[np.ndarray, np.ndarray]:
    """For every monomial that of one degree less, and its last index."""
    counts = _counts(degree, dimension)
    parents = np.concatenate([np.arange(count) for count in counts])
    return parents, np.repeat(np.arange(dimension), counts)


def _monomials(rows: np.ndarray, degree: int) -> np.ndarray:
    """All monomials of the rows (n, d), without factors."""
    n, d = rows.shape
    below = rows
    for p in range(2, degree + 1):
        columns = np.empty((n, monomial_projections(p, d)), dtype=rows.dtype)
        start = 0
        for j, count in enumerate(_counts(p, d)):
            stop = start + count
            np.multiply(below[:, :count], rows[:, j : j + 1], out=columns[:, start:stop])
            start = stop
        below = columns
    return below

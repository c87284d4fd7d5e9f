"""The interface of a sketch, and the laws it obeys.

A sketch is a distribution over feature maps z with E[z(x) · conj z(y)] = ⟨x, y⟩ᵖ. It is an
immutable description; `sample` draws the weights of one map, `apply` evaluates it, and
`variance` says in closed form how far z(x) · conj z(y) is from ⟨x, y⟩ᵖ, for any pair, before
anything is drawn.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import numpy as np

from .._arrays import Array, ArrayT, from_host, nonnegative
from .._backends import Prepared, backend_of, host_view, kept
from .._support.parameters import one_of, positive_integer
from .._support.stored import MOST_COLUMNS, MOST_DEGREE, Count
from ..pairs import PairStatistics
from .moments import VectorMoments

FIELDS = ("real", "complex")


class PairSumTerms(NamedTuple):
    """What sums over pairs need to know about a sketch (`_backends.pair_terms`)."""

    straight: np.ndarray  # (1 or 2, 4): weights of β, γ and S, and whether to clip at zero
    crossed: np.ndarray | None = None  # the same shape, for terms expanded in ρ up to `order`
    shared: float = 0.0
    order: int = 0
    n_terms: int = 2  # of those that are summed, the first ones are those of `terms`


@dataclass(frozen=True)
class Sketch:
    """A random feature map of the homogeneous polynomial kernel ⟨x, y⟩ᵖ.

    Parameters
    ----------
    degree : p ≥ 1
    n_projections : D ≥ 1, the number of features (complex numbers if the field is complex)
    field : "real" or "complex", where the random weights live

    Laws, checked for every sketch by the tests: E[k̂] = ⟨x, y⟩ᵖ, Var[k̂] = `variance`, and
    E[(k̂ − k)²] = `pseudo_variance`, where k̂ = Σ_l z_l(x) conj z_l(y).
    """

    degree: Annotated[int, Count(MOST_DEGREE)]
    n_projections: Annotated[int, Count(MOST_COLUMNS)]
    field: str = "real"

    def __post_init__(self) -> None:
        for name in ("degree", "n_projections"):
            object.__setattr__(self, name, positive_integer(name, getattr(self, name)))
        one_of("field", self.field, FIELDS)

    @property
    def is_complex(self) -> bool:
        return self.field == "complex"

    @property
    def kappa2(self) -> float:
        """κ² = |E z²|² of one random weight: 1 for real weights, 0 for complex ones."""
        return 0.0 if self.is_complex else 1.0

    # -- what a family defines ---------------------------------------------------------------

    def sample(self, dimension: int, rng: np.random.Generator) -> Any:
        """Weights of one feature map on R^dimension: a named tuple of NumPy arrays."""
        raise NotImplementedError

    def check_weights(self, weights: Any, dimension: int) -> None:
        """Raise ValueError unless `sample` could have drawn these weights."""
        raise NotImplementedError

    def prepare(self, weights: Any, rows: Array) -> Prepared:
        """The weights as a function of chunks of rows like these: done once for all chunks.

        `rows` tell library, dtype and device. The chunks may have another number of columns, as
        inputs are scaled or extended first: take the dimension from a chunk.
        """
        raise NotImplementedError

    def moments(self, pairs: PairStatistics[ArrayT]) -> VectorMoments:
        """Second moments of the features as a random vector, for sketches of sketches."""
        raise NotImplementedError(f"No closed-form moments are known for {self}.")

    def variance(self, pairs: PairStatistics[ArrayT]) -> ArrayT:
        """E|k̂ − ⟨x, y⟩ᵖ|², in the shape of the pairs."""
        return nonnegative(self.moments(pairs).overlap - pairs.dot ** (2 * self.degree))

    def pseudo_variance(self, pairs: PairStatistics[ArrayT]) -> ArrayT:
        """E(k̂ − ⟨x, y⟩ᵖ)² without the modulus; it is the variance itself for real features."""
        if not self.is_complex:
            return self.variance(pairs)
        return self.moments(pairs).pseudo_overlap - pairs.dot ** (2 * self.degree)

    # -- what every family shares ------------------------------------------------------------

    def real_part_variance(self, pairs: PairStatistics[ArrayT]) -> ArrayT:
        """Var Re k̂ = (variance + Re pseudo_variance)/2: what remains when Im k̂ is dropped."""
        return nonnegative((self.variance(pairs) + self.pseudo_variance(pairs)) / 2)

    def apply(
        self, X: ArrayT, weights: Any, *, output: str | None = None, n_jobs: int | None = None
    ) -> ArrayT:  # (n, d) -> (n, D), or (n, 2D) for "complex_to_real"
        """Features of all rows, computed in chunks.

        `output` is "real" or "complex" after the field, or "complex_to_real" for [Re, Im]. On
        NumPy rows `n_jobs` threads work, and the result is the same for any number of them: to
        the bit where compiled kernels compute it, to rounding where BLAS does.
        """
        memory = host_view(X)
        if memory is not None:
            return from_host(self.apply(memory, weights, output=output, n_jobs=n_jobs))
        prepared = self.prepared(weights, X)
        return prepared.map(X, output or self.field, self.n_projections, n_jobs=n_jobs)

    def prepared(self, weights: Any, rows: Array) -> Prepared:
        """What `prepare` makes, kept with the weights: it is made at the first call only."""
        return kept(weights, (self, backend_of(rows)), rows, lambda: self.prepare(weights, rows))

    def cost(self, dimension: int) -> float:
        """About how many arithmetic operations the features of one row take."""
        raise NotImplementedError

    def log_largest(self, log_sum: float) -> float:
        """Logarithm of a bound on every number in the features of rows with |x|₁ ≤ exp(log_sum).

        No Gaussian weight exceeds 8, and sketches of sketches add up D products: (8 D |x|₁)ᵖ.
        """
        return self.degree * (log_sum + math.log(8 * self.n_projections))

    @property
    def scale(self) -> float:
        """1/√D, so that the dot product of features is a mean over projections."""
        return 1 / math.sqrt(self.n_projections)


class SeparableSketch(Sketch):
    """A sketch whose variance is a sum of functions of the pair times functions of D.

    `terms` gives the functions of the pair, degree by degree; `combine` puts them together for a
    number of projections. Both give the variance of a pair and, since `combine` is linear, the
    mean variance over many pairs for every D at once.
    """

    def terms(
        self,
        pairs: PairStatistics[ArrayT],
        max_degree: int,
        part: str,
        *,
        every_budget: bool = False,
    ) -> Iterator[list[ArrayT]]:
        """Terms of the degrees 1 … max_degree, in the shape of the pairs.

        `part` is "complex" for the variance, "pseudo" for the pseudo-variance, and "real" for
        their mean, the variance of the real part. With `every_budget` they can be combined for
        any number of projections, otherwise (at less cost) for that of this sketch.
        """
        if part != "real" or not self.is_complex:
            pseudo = self.is_complex and part == "pseudo"
            yield from self._terms(pairs, max_degree, pseudo, every_budget)
            return
        straight = self._terms(pairs, max_degree, False, every_budget)
        pseudo_terms = self._terms(pairs, max_degree, True, every_budget)
        for terms in zip(straight, pseudo_terms, strict=True):
            yield [(a + b) / 2 for a, b in zip(*terms, strict=True)]

    def _terms(
        self, pairs: PairStatistics[ArrayT], max_degree: int, pseudo: bool, every_budget: bool
    ) -> Iterator[list[ArrayT]]:
        raise NotImplementedError

    def combine(self, terms: list[Any], n_projections: Any, dimension: int) -> Any:
        """The variance with that many projections (a number, or an array of them)."""
        raise NotImplementedError

    def pair_sum_terms(self, part: str, dimension: int, max_degree: int) -> PairSumTerms:
        """The terms of every budget for `_backends.pair_terms`."""
        raise NotImplementedError

    def surrogate(self, terms: list[Any], n_projections: Any, dimension: int) -> Any:
        """A convex, decreasing stand-in for `combine`, for the allocation of a budget."""
        return self.combine(terms, n_projections, dimension)

    def variance(self, pairs: PairStatistics[ArrayT]) -> ArrayT:
        return nonnegative(self._combined(pairs, "complex"))

    def pseudo_variance(self, pairs: PairStatistics[ArrayT]) -> ArrayT:
        return self._combined(pairs, "pseudo") if self.is_complex else self.variance(pairs)

    def _combined(self, pairs: PairStatistics[ArrayT], part: str) -> ArrayT:
        *_, terms = self.terms(pairs, self.degree, part)
        return self.combine(terms, self.n_projections, pairs.dimension)


def power_differences(
    a: ArrayT, b: ArrayT, difference: ArrayT, max_degree: int
) -> Iterator[ArrayT]:
    """aⁿ − bⁿ for n = 1 … max_degree, without cancellation; `difference` is a − b.

    aⁿ⁺¹ − bⁿ⁺¹ = a (aⁿ − bⁿ) + (a − b) bⁿ.
    """
    total, power = difference, b
    yield total
    for _ in range(max_degree - 1):
        total = a * total + difference * power
        power = power * b
        yield total

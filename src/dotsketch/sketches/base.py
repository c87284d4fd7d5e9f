"""The interface of a sketch, and the laws it obeys.

A sketch is a distribution over feature maps z with E[z(x) · conj z(y)] = ⟨x, y⟩ᵖ. It is an
immutable description; `sample` draws the weights of one map, `apply` evaluates it, and
`variance` says in closed form how far z(x) · conj z(y) is from ⟨x, y⟩ᵖ, for any pair, before
anything is drawn.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from .._arrays import (
    Array,
    Parts,
    fill,
    from_host,
    host_twin,
    is_sparse,
    like,
    map_rows,
    namespace,
    positive_integer,
)
from .._transforms import scaled, uses_fast
from ..pairs import PairStatistics
from .moments import VectorMoments

FIELDS = ("real", "complex")


class PairSumTerms(NamedTuple):
    """What the compiled sums over pairs need to know of a sketch (`_fast.pair_terms`)."""

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

    degree: int
    n_projections: int
    field: str = "real"

    accepts_sparse: ClassVar[bool] = False  # whether `parts` takes CSR rows as they are
    chunk_bytes: ClassVar[int] = 1 << 19  # an array of one chunk: about an L2 cache
    # How many times larger where compiled kernels do a row by itself and without temporaries
    compiled_chunk_factor: ClassVar[int] = 1

    def __post_init__(self) -> None:
        for name in ("degree", "n_projections"):
            object.__setattr__(self, name, positive_integer(name, getattr(self, name)))
        if self.field not in FIELDS:
            raise ValueError(f'field must be "real" or "complex"; got {self.field!r}.')

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

    def parts(self, X: Array, prepared: Any) -> Parts:  # (n, d) -> (n, D), (n, D) | None
        """Real and imaginary part of the features of a chunk of rows; pure array code."""
        raise NotImplementedError

    def moments(self, pairs: PairStatistics) -> VectorMoments:
        """Second moments of the features as a random vector, for sketches of sketches."""
        raise NotImplementedError(f"No closed-form moments are known for {self}.")

    def variance(self, pairs: PairStatistics) -> Array:
        """E|k̂ − ⟨x, y⟩ᵖ|², in the shape of the pairs."""
        xp = namespace(pairs.dot)
        excess = self.moments(pairs).overlap - pairs.dot ** (2 * self.degree)
        return xp.maximum(excess, xp.zeros_like(excess))

    def pseudo_variance(self, pairs: PairStatistics) -> Array:
        """E(k̂ − ⟨x, y⟩ᵖ)² without the modulus; it is the variance itself for real features."""
        if not self.is_complex:
            return self.variance(pairs)
        return self.moments(pairs).pseudo_overlap - pairs.dot ** (2 * self.degree)

    # -- what every family shares ------------------------------------------------------------

    def real_part_variance(self, pairs: PairStatistics) -> Array:
        """Var Re k̂ = (variance + Re pseudo_variance)/2: what remains when Im k̂ is dropped."""
        xp = namespace(pairs.dot)
        half = (self.variance(pairs) + self.pseudo_variance(pairs)) / 2
        return xp.maximum(half, xp.zeros_like(half))

    def prepare(self, weights: Any, X: Array) -> Any:
        """Weights in the library, dtype and device of X: done once for all chunks."""
        return type(weights)(*(like(array, X) for array in weights))

    def write(
        self, X: np.ndarray, prepared: Any, out: Parts, row_scale: np.ndarray | None = None
    ) -> None:
        """Features of NumPy (or CSR) rows, times row_scale (n, 1), into views of a result."""
        parts = self.parts(X, prepared)
        if row_scale is not None:
            parts = scaled(parts, row_scale)
        fill(out, parts)

    def apply(
        self,
        X: Array,
        weights: Any,
        *,
        output: str | None = None,
        preprocess: Callable[[Array], Array] | None = None,
        n_jobs: int | None = None,
    ) -> Array:  # (n, d) -> (n, D), or (n, 2D) for "complex_to_real"
        """Features of all rows, computed in chunks.

        `output` is "real" or "complex" after the field, or "complex_to_real" for [Re, Im];
        `preprocess` maps a chunk of rows of X to the inputs of the sketch; `n_jobs` threads work
        on NumPy rows; the result is the same for any number of them: to the bit where compiled
        kernels compute it, to rounding where BLAS does.
        """
        twin = host_twin(X) if preprocess is None else None
        if twin is not None and uses_fast(twin):
            return from_host(self.apply(twin, weights, output=output, n_jobs=n_jobs))
        prepared = self.prepare(weights, X)
        chunk_factor = self.compiled_chunk_factor if uses_fast(X) else 1

        def inputs(rows: Array) -> Array:
            if is_sparse(rows) and not self.accepts_sparse:
                rows = rows.toarray()
            return rows if preprocess is None else preprocess(rows)

        return map_rows(
            lambda rows: self.parts(inputs(rows), prepared),
            X,
            output or self.field,
            self.n_projections,
            self.chunk_rows(X.shape[1]) * chunk_factor,
            write=lambda rows, out: self.write(inputs(rows), prepared, out),
            n_jobs=n_jobs,
            may_split=chunk_factor > 1,
        )

    def chunk_rows(self, dimension: int) -> int:
        """How many rows to work on at a time so that the temporaries stay small."""
        width = max(dimension, self.n_projections) * (2 if self.is_complex else 1)
        return max(16, self.chunk_bytes // (8 * width))

    def cost(self, dimension: int) -> float:
        """About how many arithmetic operations the features of one row take."""
        raise NotImplementedError

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
        self, pairs: PairStatistics, max_degree: int, part: str, *, every_budget: bool = False
    ) -> Iterator[list[Array]]:
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
        for one, other in zip(straight, pseudo_terms, strict=True):
            yield [(a + b) / 2 for a, b in zip(one, other, strict=True)]

    def _terms(
        self, pairs: PairStatistics, max_degree: int, pseudo: bool, every_budget: bool
    ) -> Iterator[list[Array]]:
        raise NotImplementedError

    def combine(self, terms: list[Array], n_projections: Any, dimension: int) -> Array:
        """The variance with that many projections (a number, or an array of them)."""
        raise NotImplementedError

    def pair_sum_terms(self, part: str, dimension: int, max_degree: int) -> PairSumTerms | None:
        """The terms of every budget as the compiled pair sums know them, or None if they do not."""
        return None

    def surrogate(self, terms: list[Array], n_projections: Any, dimension: int) -> Array:
        """A convex, decreasing stand-in for `combine`, for the allocation of a budget."""
        return self.combine(terms, n_projections, dimension)

    def variance(self, pairs: PairStatistics) -> Array:
        xp = namespace(pairs.dot)
        variance = self._combined(pairs, "complex")
        return xp.maximum(variance, xp.zeros_like(variance))

    def pseudo_variance(self, pairs: PairStatistics) -> Array:
        return self._combined(pairs, "pseudo") if self.is_complex else self.variance(pairs)

    def _combined(self, pairs: PairStatistics, part: str) -> Array:
        *_, terms = self.terms(pairs, self.degree, part)
        return self.combine(terms, self.n_projections, pairs.dimension)


def power_differences(a: Array, b: Array, difference: Array, max_degree: int) -> Iterator[Array]:
    """aⁿ − bⁿ for n = 1 … max_degree, without cancellation; `difference` is a − b.

    aⁿ⁺¹ − bⁿ⁺¹ = a (aⁿ − bⁿ) + (a − b) bⁿ.
    """
    total, power = difference, b
    yield total
    for _ in range(max_degree - 1):
        total = a * total + difference * power
        power = power * b
        yield total

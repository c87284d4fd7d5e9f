"""TensorSketch: count sketches of x, convolved by the fast Fourier transform."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import numpy as np

from .._arrays import Array, ArrayT
from .._backends import Prepared, backend_of, keeps_prepared
from .._support.stored import array, check_lengths
from ..pairs import PairStatistics
from ..projections.rademacher import sample_turns
from .base import PairSumTerms, SeparableSketch, power_differences


@keeps_prepared
class HashWeights(NamedTuple):
    # the bucket of every coordinate, and its sign i**turns
    buckets: Annotated[np.ndarray, array("i", "p", "d", below="D")]
    turns: Annotated[np.ndarray, array("i", "p", "d", below=4)]


@dataclass(frozen=True)
class TensorSketch(SeparableSketch):
    """Pham and Pagh's sketch with uniform hashes and signs ±1, or {1, −1, i, −i} if complex.

    With δ = P(h(a) = h(b)) for two coordinates, ρ = (1 − δD)/(D − 1) (0 for uniform hashes),
    g = 2 for even D and 1 for odd, e = s², and κ²γ in place of γ for complex signs:

        V = [g(e+β+γ)ⁿ + (D−g)((e+β−ργ)ⁿ + (e−ρβ+γ)ⁿ) + (D²−2D+g)(e−ρ(β+γ))ⁿ]/D² − eⁿ.

    A Fourier coefficient f of the hashes has E[ω^{f(h(a)−h(b))}] = 1 at f = 0 and −ρ elsewhere;
    g counts the f with 2f = 0. The pseudo-variance has β and γ exchanged.
    """

    def sample(self, dimension: int, rng: np.random.Generator) -> HashWeights:
        shape = (self.degree, dimension)
        buckets = np.stack([self.hash(dimension, rng) for _ in range(self.degree)])
        return HashWeights(buckets, sample_turns(rng, shape, self.is_complex))

    def check_weights(self, weights: Any, dimension: int) -> None:
        check_lengths(weights, (HashWeights,), p=self.degree, D=self.n_projections, d=dimension)

    def hash(self, dimension: int, rng: np.random.Generator) -> np.ndarray:
        """A random bucket for every coordinate."""
        return rng.integers(0, self.n_projections, dimension, dtype=np.int32)

    def prepare(self, weights: HashWeights, rows: Array) -> Prepared:
        n, is_complex = self.n_projections, self.is_complex
        return backend_of(rows).count_product(*weights, n, is_complex, rows)

    def cost(self, dimension: int) -> float:
        D = self.n_projections
        transform = 2.5 * D * max(D.bit_length(), 1) * (2 if self.is_complex else 1)
        return self.degree * (2 * dimension + transform) + transform

    def log_largest(self, log_sum: float) -> float:
        """Spectra are at most |x|₁, and the transform back adds up D of their products."""
        return self.degree * (log_sum + math.log(2)) + math.log(4 * self.n_projections)

    def collision(self, n_projections: Any, dimension: int) -> Any:
        """ρ, how much rarer two coordinates collide than under uniform hashing."""
        return 0.0 * n_projections

    def order(self, dimension: int, max_degree: int) -> int:
        """Up to which power of ρ the terms of every budget are expanded: 0 where ρ = 0."""
        return 0

    def _terms(
        self, pairs: PairStatistics[ArrayT], max_degree: int, pseudo: bool, every_budget: bool
    ) -> Iterator[list[ArrayT]]:
        straight, crossed = (pairs.gamma, pairs.beta) if pseudo else (pairs.beta, pairs.gamma)
        crossed = self.kappa2 * crossed
        e = pairs.dot * pairs.dot
        if every_budget:
            order = self.order(pairs.dimension, max_degree)
            yield from _expansions(e, straight, crossed, max_degree, order)
            return

        def excess(difference: ArrayT) -> Iterator[ArrayT]:
            return power_differences(e + difference, e, difference, max_degree)

        D = self.n_projections
        rho = float(self.collision(D, pairs.dimension))
        both = excess(straight + crossed)
        one_equal = excess(straight - rho * crossed), excess(crossed - rho * straight)
        none_equal = excess(-rho * (straight + crossed))
        for a, b, c, d in zip(both, *one_equal, none_equal, strict=True):
            yield [self._weighted(a, b + c, d, D)]

    def combine(self, terms: list[Any], n_projections: Any, dimension: int) -> Any:
        if len(terms) == 1:  # for the number of projections of this sketch, put together already
            return terms[0]
        D = n_projections
        order = len(terms) // 2 - 1
        rho = self.collision(D, dimension)
        one_equal = terms[1] + 0.0 * D
        none_equal = 0.0 * D
        for k in range(1, order + 1):
            one_equal = one_equal + rho**k * terms[1 + k]
            none_equal = none_equal + rho**k * terms[1 + order + k]
        return self._weighted(terms[0], one_equal, none_equal, D)

    @staticmethod
    def _weighted(both: Any, one_equal: Any, none_equal: Any, n_projections: Any) -> Any:
        """The variance, from what the powers in it exceed eⁿ by."""
        D = n_projections
        g = 2 - D % 2
        return (g * both + (D - g) * one_equal + (D * D - 2 * D + g) * none_equal) / (D * D)

    def pair_sum_terms(self, part: str, dimension: int, max_degree: int) -> PairSumTerms:
        kappa2 = self.kappa2
        straight = [(1.0, 0.0, 0.0, 0.0), (0.0, 1.0, 0.0, 0.0)]  # β, and γ for the pseudo-variance
        crossed = [(0.0, kappa2, 0.0, 0.0), (kappa2, 0.0, 0.0, 0.0)]
        rows = slice(0, 1)
        if self.is_complex and part != "complex":
            rows = slice(1, 2) if part == "pseudo" else slice(0, 2)
        order = self.order(dimension, max_degree)
        return PairSumTerms(
            np.array(straight[rows]), np.array(crossed[rows]), order=order, n_terms=2 + 2 * order
        )


@dataclass(frozen=True)
class BalancedTensorSketch(TensorSketch):
    """TensorSketch whose hash spreads the coordinates evenly over the buckets.

    A random injection if d ≤ D, otherwise equal loads (up to one) in random order. At degree 1 it
    is exact for every D ≥ d; it needs no padding and has no block effects.
    """

    def hash(self, dimension: int, rng: np.random.Generator) -> np.ndarray:
        D = self.n_projections
        labels = rng.permutation(D).astype(np.int32)
        return rng.permutation(np.resize(labels, dimension))

    def collision(self, n_projections: Any, dimension: int) -> Any:
        D, d = n_projections, dimension
        load, rest = d // D, d % D
        colliding = rest * (load + 1) * load + (D - rest) * load * (load - 1)
        return (1 - D * colliding / max(d * (d - 1), 1)) / np.maximum(D - 1, 1)

    def order(self, dimension: int, max_degree: int) -> int:
        """The terms left out are below 1e-7 of (Aⁿ − eⁿ)/D; from max_degree on there are none.

        With A = e + β and ρ ≤ 1/(d − 1), the coefficients of ρᵏ in (e+β−ργ)ⁿ and (e−ρβ+γ)ⁿ are at
        most (n over k) βAⁿ⁻¹ since |γ| ≤ β ≤ A, and those in (e−ρ(β+γ))ⁿ, which weigh D times as
        much, 2ᵏ as large. Where V is nearly 0 (D ≥ d) this is not small beside V itself.
        """
        rho = 1 / max(dimension - 1, 1)
        for K in range(1, max_degree):
            left_out = math.comb(max_degree, K + 1) * rho ** (K + 1) + 2 * (2 * rho) ** K
            if left_out < 1e-7:
                return K
        return max_degree


def _expansions(
    e: ArrayT, straight: ArrayT, crossed: ArrayT, max_degree: int, order: int
) -> Iterator[list[ArrayT]]:
    """For n = 1, 2, …: (e+β+γ)ⁿ − eⁿ and the coefficients of the powers of ρ in the others.

    Those of ρ⁰, …, ρᴷ in (e+β−ργ)ⁿ + (e−ρβ+γ)ⁿ − 2eⁿ, and those of ρ¹, …, ρᴷ in (e−ρ(β+γ))ⁿ.
    """
    total = straight + crossed
    first_base, second_base = e + straight, e + crossed
    both = power_differences(e + total, e, total, max_degree)
    constants = (
        power_differences(first_base, e, straight, max_degree),
        power_differences(second_base, e, crossed, max_degree),
    )
    # γᵏ(e+β)ⁿ⁻ᵏ, βᵏ(e+γ)ⁿ⁻ᵏ, (β+γ)ᵏeⁿ⁻ᵏ for k ≥ 1
    running: list[tuple[ArrayT, ArrayT, ArrayT]] = []
    last = (crossed, straight, total)  # those with k = n
    for n, (first, a, b) in enumerate(zip(both, *constants, strict=True), start=1):
        running = [(u * first_base, v * second_base, w * e) for u, v, w in running]
        if n <= order:
            if n > 1:
                u, v, w = last
                last = (u * crossed, v * straight, w * total)
            running.append(last)
        factors = [(-1.0) ** k * math.comb(n, k) for k in range(1, len(running) + 1)]
        missing = [0.0 * first] * (order - len(running))  # powers beyond n
        yield [
            first,
            a + b,
            *(f * (u + v) for f, (u, v, _) in zip(factors, running, strict=True)),
            *missing,
            *(f * w for f, (_, _, w) in zip(factors, running, strict=True)),
            *missing,
        ]

"""Independent projections: z_l(x) = D^(−1/2) Π_i w_{i,l}·x with independent random weights."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._arrays import Array, namespace
from ..pairs import PairStatistics
from .base import PairSumTerms, SeparableSketch, power_differences
from .moments import VectorMoments, correlated_pairs, projection_moments


@dataclass(frozen=True)
class ProductSketch(SeparableSketch):
    """Products of random projections whose rows are independent, or share blocks of d rows.

    The variance depends on the weights only through m4 = E|z|⁴ and κ = E z²:

        V = (V⁽ⁿ⁾ + c(D, d)/D · Cov)/D,   V⁽ⁿ⁾ = (s² + V₁)ⁿ − s²ⁿ,   Cov = (s² − V₁/(d−1))ⁿ − s²ⁿ

    with V₁ = (m4 − 1)S + β + κ²γ and c = 0 for independent rows. The pseudo-variance has γ and β
    exchanged. Theorems on the variance of complex polynomial sketches and of TensorSRHT
    (Sections 3.3 and 4). For d = 1 and unit weights it is zero.
    """

    @property
    def m4(self) -> float:
        return 1.0

    def block(self, dimension: int) -> int:
        """How many rows share their randomness."""
        return 1

    def _terms(
        self, pairs: PairStatistics, max_degree: int, pseudo: bool, every_budget: bool
    ) -> Iterator[list[Array]]:
        beta, gamma, squares, clip = self.excess_weights("pseudo" if pseudo else "complex")[0]
        excess = beta * pairs.beta + gamma * pairs.gamma + squares * pairs.squares
        if clip:
            xp = namespace(excess)
            excess = xp.maximum(excess, xp.zeros_like(excess))
        squared_dot = pairs.dot * pairs.dot
        singles = power_differences(squared_dot + excess, squared_dot, excess, max_degree)
        block = self.block(pairs.dimension)
        if block == 1:
            yield from ([single] for single in singles)
            return
        shared = excess / (block - 1)
        covariances = power_differences(squared_dot - shared, squared_dot, -shared, max_degree)
        yield from map(list, zip(singles, covariances, strict=True))

    def excess_weights(self, part: str) -> list[tuple[float, float, float, bool]]:
        """V₁ as weights of β, γ and S, and whether to clip it; two of them for the real part.

        V₁ is a sum of squares, so what is below zero is rounding; its pseudo twin is not.
        """
        straight = (1.0, self.kappa2, self.m4 - 1, True)
        pseudo = (self.kappa2, 1.0, self.m4 - 1, False)
        if not self.is_complex or part == "complex":
            return [straight]
        return [pseudo] if part == "pseudo" else [straight, pseudo]

    def pair_sum_terms(self, part: str, dimension: int, max_degree: int) -> PairSumTerms:
        block = self.block(dimension)
        return PairSumTerms(
            np.array(self.excess_weights(part), dtype=np.float64),
            shared=1 / (block - 1) if block > 1 else 0.0,
            n_terms=2 if block > 1 else 1,
        )

    def combine(self, terms: list[Array], n_projections: Any, dimension: int) -> Array:
        total = terms[0]
        if len(terms) > 1:
            pairs = correlated_pairs(n_projections, self.block(dimension))
            total = total + pairs / n_projections * terms[1]
        return total / n_projections

    def surrogate(self, terms: list[Array], n_projections: Any, dimension: int) -> Array:
        """For blocks: the convex surrogate of Appendix C, the case split made on the sums."""
        if len(terms) == 1:
            return self.combine(terms, n_projections, dimension)
        single, covariance = terms
        d = self.block(dimension)
        beyond = (single + (d - 1) * covariance) / n_projections
        if covariance > 0:
            return beyond
        return np.where(
            n_projections > d, beyond, (single - covariance) / n_projections + covariance
        )

    def moments(self, pairs: PairStatistics) -> VectorMoments:
        block = self.block(pairs.dimension)
        inputs = VectorMoments.of_inputs(pairs)
        one = projection_moments(inputs, kappa2=self.kappa2, m4=self.m4, block=block)
        return (one**self.degree).vector(self.n_projections, block)


@dataclass(frozen=True)
class IndependentSketch(ProductSketch):
    """Dense weights, one (D, d) matrix per degree: O(p d D) per row by matrix products."""

    def cost(self, dimension: int) -> float:
        return self.degree * self.n_projections * 2 * dimension * (2 if self.is_complex else 1)

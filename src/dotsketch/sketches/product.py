"""Products of random projections: z_l(x) = D^(−1/2) Π_i w_{i,l}·x, one sketch per projection."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from .._arrays import Array, ArrayT, nonnegative
from .._backends import Prepared
from ..pairs import PairStatistics
from ..projections import (
    GaussianProjection,
    HadamardProjection,
    Projection,
    RademacherProjection,
)
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
    def projection(self) -> Projection:
        """The random linear map of every factor."""
        raise NotImplementedError

    @property
    def kappa2(self) -> float:
        return self.projection.kappa2

    @property
    def m4(self) -> float:
        return self.projection.m4

    def block(self, dimension: int) -> int:
        """How many projections share their randomness."""
        return self.projection.block(dimension)

    def sample(self, dimension: int, rng: np.random.Generator) -> Any:
        return self.projection.sample(self.degree, self.n_projections, dimension, rng)

    def check_weights(self, weights: Any, dimension: int) -> None:
        self.projection.check_weights(weights, self.degree, self.n_projections, dimension)

    def prepare(self, weights: Any, rows: Array) -> Prepared:
        return self.projection.prepare(weights, self.n_projections, scale=self.scale, rows=rows)

    def cost(self, dimension: int) -> float:
        return self.degree * self.projection.cost(self.n_projections, dimension)

    def log_largest(self, log_sum: float) -> float:
        """For weights of modulus one (2 |x|₁)ᵖ, with room for the sum of two parts."""
        if self.m4 > 1:  # and E|z|² = 1: moduli differ
            return super().log_largest(log_sum)
        return self.degree * (log_sum + math.log(2))

    def _terms(
        self, pairs: PairStatistics[ArrayT], max_degree: int, pseudo: bool, every_budget: bool
    ) -> Iterator[list[ArrayT]]:
        beta, gamma, squares, clip = self.excess_weights("pseudo" if pseudo else "complex")[0]
        excess = beta * pairs.beta + gamma * pairs.gamma + squares * pairs.squares
        if clip:
            excess = nonnegative(excess)
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

    def combine(self, terms: list[Any], n_projections: Any, dimension: int) -> Any:
        total = terms[0]
        if len(terms) > 1:
            pairs = correlated_pairs(n_projections, self.block(dimension))
            total = total + pairs / n_projections * terms[1]
        return total / n_projections

    def surrogate(self, terms: list[Any], n_projections: Any, dimension: int) -> Any:
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

    def moments(self, pairs: PairStatistics[ArrayT]) -> VectorMoments:
        inputs = VectorMoments.of_inputs(pairs)
        factor = projection_moments(inputs, self.projection, pairs.dimension)
        return (factor**self.degree).vector(self.n_projections, self.block(pairs.dimension))


@dataclass(frozen=True)
class GaussianSketch(ProductSketch):
    """Independent N(0, 1) weights; complex ones are (v + i w)/√2.

    Variance ((|x|²|y|² + 2s²)ⁿ − s²ⁿ)/D, and with s² in place of 2s² for complex weights: always
    less for complex ones, always more than for Rademacher weights.
    """

    @property
    def projection(self) -> GaussianProjection:
        return GaussianProjection(self.is_complex)


@dataclass(frozen=True)
class RademacherSketch(ProductSketch):
    """Independent weights with |z| = 1: the least variance that independent weights can have.

    Parameters
    ----------
    weights : "rademacher", "circle" or a number q in [0, 1]
        "rademacher": ±1 for the real field, uniform on {1, −1, i, −i} for the complex one.
        "circle": uniform on the complex unit circle (same variance, not the same sketch).
        q: ±1 with probability q and ±i otherwise (complex field); κ² = (2q − 1)² leads from the
        complex sketch (q = 1/2) to the real one (q = 1).
    """

    weights: str | float = "rademacher"

    def __post_init__(self) -> None:
        super().__post_init__()
        is_q = isinstance(self.weights, Real) and not isinstance(self.weights, bool)
        if is_q and not 0 <= self.weights <= 1:  # type: ignore[operator]
            raise ValueError(f"weights=q is a probability in [0, 1]; got {self.weights!r}.")
        if not is_q and self.weights not in ("rademacher", "circle"):
            raise ValueError(
                f'weights must be "rademacher", "circle" or a number q; got {self.weights!r}.'
            )
        if self.weights != "rademacher" and self.weights != 1 and not self.is_complex:
            raise ValueError(
                f'weights={self.weights!r} are complex: use field="complex" '
                '(output="complex" or "complex_to_real").'
            )

    @property
    def projection(self) -> RademacherProjection:
        return RademacherProjection(self.is_complex, self.weights)


@dataclass(frozen=True)
class TensorSRHT(ProductSketch):
    """Algorithm 1 of the paper: O(p D log d) per row, and less variance for odd degrees.

    Blocks of d projections (d padded to a power of two) share their signs; signs **and
    permutation** are drawn anew for every degree and block. With a shared permutation the
    variance formula would not hold. For degree 1 and D a multiple of the padded d the sketch is
    exact.
    """

    @property
    def projection(self) -> HadamardProjection:
        return HadamardProjection(self.is_complex)

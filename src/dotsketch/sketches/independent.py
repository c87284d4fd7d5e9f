"""Independent projections: z_l(x) = D^(−1/2) Π_i w_{i,l}·x with independent random weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from .._arrays import Array, Parts, namespace
from .._transforms import multiply, project, transposed
from ..pairs import PairStatistics
from .base import Sketch, power_difference
from .moments import VectorMoments, correlated_pairs, projection_moments


@dataclass(frozen=True)
class ProductSketch(Sketch):
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

    def variance(self, pairs: PairStatistics) -> Array:
        excess = self.kappa2 * pairs.gamma + pairs.beta + (self.m4 - 1) * pairs.squares
        xp = namespace(pairs.dot)
        # V₁ is a sum of squares: what is below zero is rounding
        variance = self._product_variance(pairs, xp.maximum(excess, xp.zeros_like(excess)))
        return xp.maximum(variance, xp.zeros_like(variance))

    def pseudo_variance(self, pairs: PairStatistics) -> Array:
        if not self.is_complex:
            return self.variance(pairs)
        excess = self.kappa2 * pairs.beta + pairs.gamma + (self.m4 - 1) * pairs.squares
        return self._product_variance(pairs, excess)

    def _product_variance(self, pairs: PairStatistics, excess: Array) -> Array:
        D, n = self.n_projections, self.degree
        squared_dot = pairs.dot * pairs.dot
        total = power_difference(squared_dot + excess, squared_dot, excess, n)
        block = self.block(pairs.dimension)
        if block > 1:
            shared = excess / (block - 1)
            covariance = power_difference(squared_dot - shared, squared_dot, -shared, n)
            total = total + correlated_pairs(D, block) / D * covariance
        return total / D

    def moments(self, pairs: PairStatistics) -> VectorMoments:
        block = self.block(pairs.dimension)
        inputs = VectorMoments.of_inputs(pairs)
        one = projection_moments(inputs, kappa2=self.kappa2, m4=self.m4, block=block)
        return (one**self.degree).vector(self.n_projections, block)


@dataclass(frozen=True)
class IndependentSketch(ProductSketch):
    """Dense weights, one (D, d) matrix a degree: O(p d D) a row by matrix products."""

    accepts_sparse: ClassVar[bool] = True
    chunk_bytes: ClassVar[int] = 1 << 25

    def parts(self, X: Array, prepared: Any) -> Parts:
        product: Parts | None = None
        for real, imaginary in zip(*self.dense_weights(prepared, X), strict=True):
            projected = project(X, real, imaginary)
            product = projected if product is None else multiply(product, projected)
        assert product is not None
        return transposed(product, self.scale)

    def dense_weights(self, prepared: Any, X: Array) -> tuple[list, list]:
        """Real and imaginary (or None) weight matrices, (D, d), one for every degree."""
        raise NotImplementedError

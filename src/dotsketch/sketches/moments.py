"""Second moments of random projections, as they pass through a sketch.

A pair of vectors u = u(x), v = u(y), random or not, enters the variance of any further random
projection only through seven expectations (`VectorMoments`). A projection w_l·u of it, l = 1 … D,
has moments for one row l and for two distinct rows (`ProjectionMoments`); features are products
of independent projections, so their moments multiply; and D features laid out as a vector have
`VectorMoments` again. One rule thus covers independent weights, TensorSRHT, trees and every
composition.

Weights have E z = 0, E|z|² = 1, E z² = κ and E|z|⁴ = m4. Rows within one block of a signed
Hadamard matrix are correlated: for distinct columns k ≠ l of a random pair of its rows,
E[h_k h_l h'_k h'_l] = −1/(d−1).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from .._arrays import Array, ArrayT
from ..pairs import PairStatistics
from ..projections import Projection


class VectorMoments(NamedTuple):
    """Expectations over the random vectors u = u(x) and v = u(y) in C^D."""

    overlap: Array  # |Σ u v̄|²
    norms: Array  # |u|² |v|²
    squares: Array  # Σ |u|² |v|²
    transpose: Array  # |Σ u v|²
    pseudo_overlap: Array  # (Σ u v̄)²
    pseudo_squares: Array  # Σ (u v̄)²
    pseudo_norms: Array  # Σ u² · conj Σ v²

    @classmethod
    def of_inputs(cls, pairs: PairStatistics[ArrayT]) -> VectorMoments:
        """The inputs themselves: real and not random."""
        squared_dot = pairs.dot * pairs.dot
        return cls(
            overlap=squared_dot,
            norms=pairs.norms,
            squares=pairs.squares,
            transpose=squared_dot,
            pseudo_overlap=squared_dot,
            pseudo_squares=pairs.squares,
            pseudo_norms=pairs.norms,
        )


class ProjectionMoments(NamedTuple):
    """Moments of D projections in blocks: of one row X = w·u, Y = w·v, and of two distinct rows,
    with X' = w'·u, Y' = w'·v, in one block (near) or in two, which are independent (far)."""

    single: Array  # |X|² |Y|²
    pseudo_single: Array  # (X Ȳ)²
    near_overlap: Array  # X Ȳ conj(X' Ȳ')
    near_norms: Array  # |X|² |Y'|²
    near_transpose: Array  # X Y conj(X' Y')
    near_pseudo_overlap: Array  # X Ȳ X' Ȳ'
    near_pseudo_norms: Array  # X² conj(Y'²)
    far_overlap: Array
    far_norms: Array
    far_transpose: Array
    far_pseudo_overlap: Array
    far_pseudo_norms: Array

    def __mul__(self, other: ProjectionMoments) -> ProjectionMoments:  # type: ignore[override]
        """Moments of the product with an independent projection."""
        return ProjectionMoments(*(a * b for a, b in zip(self, other, strict=True)))

    def __pow__(self, degree: int) -> ProjectionMoments:
        """Moments of the product of `degree` independent projections of the same kind."""
        return ProjectionMoments(*(a**degree for a in self))

    def vector(self, n_rows: int, block: int = 1) -> VectorMoments:
        """Moments of the vector of D = n_rows projections over √D, in blocks of that size."""
        single = 1 / n_rows
        within = correlated_pairs(n_rows, block) / n_rows**2
        across = 1 - single - within

        def mix(diagonal: Array, name: str) -> Array:
            near, far = getattr(self, f"near_{name}"), getattr(self, f"far_{name}")
            return single * diagonal + within * near + across * far

        return VectorMoments(
            overlap=mix(self.single, "overlap"),
            norms=mix(self.single, "norms"),
            squares=single * self.single,
            transpose=mix(self.single, "transpose"),
            pseudo_overlap=mix(self.pseudo_single, "pseudo_overlap"),
            pseudo_squares=single * self.pseudo_single,
            pseudo_norms=mix(self.pseudo_single, "pseudo_norms"),
        )


def correlated_pairs(n_rows: Any, block: int) -> Any:
    """c(D, d) = ⌊D/d⌋ d(d−1) + r(r−1), r = D mod d: ordered pairs of rows that share a block."""
    full, rest = n_rows // block, n_rows % block
    return full * block * (block - 1) + rest * (rest - 1)


def projection_moments(
    u: VectorMoments, projection: Projection, dimension: int
) -> ProjectionMoments:
    """Moments of random projections of u: independent rows, or signed Hadamard blocks (m4 = 1).

    With u = x not random: single = m4·S + β + (1 + κ²)γ, and within a block the overlap is
    s² − V₁/(d−1) with V₁ = β + κ²γ, the theorem on the variance of TensorSRHT.
    """
    kappa2, m4, block = projection.kappa2, projection.m4, projection.block(dimension)
    beta = u.norms - u.squares
    gamma = u.overlap - u.squares
    delta = kappa2 * (u.transpose - u.squares)
    pseudo_gamma = u.pseudo_overlap - u.pseudo_squares
    pseudo_beta = kappa2 * (u.pseudo_norms - u.pseudo_squares)
    r = 1 / (block - 1) if block > 1 else 0.0
    return ProjectionMoments(
        single=m4 * u.squares + beta + gamma + delta,
        pseudo_single=m4 * u.pseudo_squares + 2 * pseudo_gamma + pseudo_beta,
        near_overlap=u.overlap - r * (beta + delta),
        near_norms=u.norms - r * (gamma + delta),
        near_transpose=u.squares + delta - r * (beta + gamma),
        near_pseudo_overlap=u.pseudo_overlap - r * (pseudo_gamma + pseudo_beta),
        near_pseudo_norms=u.pseudo_squares + pseudo_beta - 2 * r * pseudo_gamma,
        far_overlap=u.overlap,
        far_norms=u.norms,
        far_transpose=kappa2 * u.transpose,
        far_pseudo_overlap=u.pseudo_overlap,
        far_pseudo_norms=kappa2 * u.pseudo_norms,
    )

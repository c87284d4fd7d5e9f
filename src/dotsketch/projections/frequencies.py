"""Random frequencies: the rows ω of a (D, d) matrix with isotropic directions and given norms.

Random Fourier, positive and spherical features are functions of the products ωᵀx. How the ω are
drawn decides cost and variance:

- "independent": standard Gaussian rows; D·d operations per row of X.
- "orthogonal": blocks of d rows that are exactly orthogonal, uniformly (Haar) distributed, with
  independent norms. Each ω is distributed as before, so means are the same; within a block the
  rows repel each other, which lowers the variance. D·d operations.
- "sorf": blocks of rows of H D₃ H D₂ H D₁ (Walsh–Hadamard matrices and random signs), orthogonal
  too, in D·log d operations. X is padded with zeros to p coordinates, a power of two. The
  directions are only nearly uniform, so means are slightly biased: see docs/fourier.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, NamedTuple

import numpy as np

from .._arrays import Array
from .._backends import (
    Prepared,
    backend_of,
    keeps_prepared,
    kept,
    power_of_two,
)
from .._support.parameters import one_of, positive_integer
from .._support.stored import array, check_lengths

PROJECTIONS = ("independent", "orthogonal", "sorf")


@keeps_prepared
class DenseFrequencies(NamedTuple):
    matrix: Annotated[np.ndarray, array("f", "D", "d")]


@keeps_prepared
class StructuredFrequencies(NamedTuple):
    signs: Annotated[np.ndarray, array("i", "B", 3, "padded", least=-1, below=2)]
    # norms over p^(3/2), the norm of a row of H D₃ H D₂ H D₁ in p padded dimensions
    scales: Annotated[np.ndarray, array("f", "D")]


@dataclass(frozen=True)
class Frequencies:
    """A distribution of D random frequencies in R^d; `sample` draws them, `apply` is ωᵀx.

    Parameters
    ----------
    n_frequencies : D ≥ 1, any number (blocks may be incomplete)
    projection : "independent", "orthogonal" or "sorf"

    Laws, checked by the tests: for "independent" and "orthogonal" without given radii every row
    is N(0, I); the rows of a block of "orthogonal" and of "sorf" (the latter in R^p) are
    orthogonal; E[ωωᵀ] = I for all.

    Examples
    --------
    >>> import numpy as np
    >>> frequencies = Frequencies(6, "orthogonal")
    >>> weights = frequencies.sample(3, np.random.default_rng(0), radii=np.ones(6))
    >>> P = frequencies.apply(np.eye(3), weights)  # the transposed frequencies
    >>> P.shape
    (3, 6)
    >>> bool(np.allclose(P[:, :3].T @ P[:, :3], np.eye(3)))
    True
    """

    n_frequencies: int
    projection: str = "orthogonal"

    def __post_init__(self) -> None:
        positive_integer("n_frequencies", self.n_frequencies)
        one_of("projection", self.projection, PROJECTIONS)

    def ambient_dimension(self, dimension: int) -> int:
        """Where the directions live: R^d, or R^p with p the next power of two for "sorf"."""
        return power_of_two(dimension) if self.projection == "sorf" else dimension

    def sample(
        self, dimension: int, rng: np.random.Generator, radii: np.ndarray | None = None
    ) -> Any:
        """Weights of frequencies in R^dimension: a named tuple of NumPy arrays.

        `radii` (D,) are the norms of the ω; None draws those of standard Gaussian vectors (chi
        distributed). Both are in R^`ambient_dimension(dimension)`: for "sorf", x is padded with
        zeros, and ω has its norm in all p coordinates.
        """
        D = self.n_frequencies
        ambient = self.ambient_dimension(dimension)
        if radii is not None:
            radii = np.asarray(radii, dtype=np.float64)
            if radii.shape != (D,):
                raise ValueError(
                    f"radii must be one number a frequency, shape ({D},); got {radii.shape}."
                )
        elif self.projection != "independent":
            radii = np.sqrt(rng.chisquare(ambient, D))
        if self.projection == "sorf":
            assert radii is not None
            n_blocks = -(-D // ambient)
            signs = 1 - 2 * rng.integers(2, size=(n_blocks, 3, ambient), dtype=np.int8)
            return StructuredFrequencies(signs, radii / ambient**1.5)
        if self.projection == "orthogonal":
            assert radii is not None
            return DenseFrequencies(radii[:, None] * _orthogonal_rows(D, dimension, rng))
        matrix = rng.standard_normal((D, dimension))
        if radii is not None:
            matrix *= (radii / np.linalg.norm(matrix, axis=1))[:, None]
        return DenseFrequencies(matrix)

    def check_weights(self, weights: Any, dimension: int) -> None:
        """Raise ValueError unless `sample` could have drawn these weights."""
        D, p = self.n_frequencies, self.ambient_dimension(dimension)
        kind = StructuredFrequencies if self.projection == "sorf" else DenseFrequencies
        check_lengths(weights, (kind,), D=D, d=dimension, padded=p, B=-(-D // p))

    def prepare(self, weights: Any, rows: Array) -> Prepared:
        """The weights as a function of chunks of rows like these: done once for all chunks."""
        if self.projection == "sorf":
            return backend_of(rows).sorf(weights.signs, weights.scales, rows)
        return backend_of(rows).linear(weights.matrix, rows)

    def prepared(self, weights: Any, rows: Array) -> Prepared:
        """What `prepare` makes, kept with the weights: it is made at the first call only."""
        return kept(weights, (self, backend_of(rows)), rows, lambda: self.prepare(weights, rows))

    def apply(self, X: Array, weights: Any) -> Array:  # (n, d) -> (n, D)
        """The products ωᵀx of every row of X with every frequency."""
        return self.prepared(weights, X)(X)[0]

    def block_sizes(self, dimension: int) -> np.ndarray:  # -> (blocks,)
        """How many frequencies each block of mutually orthogonal ones has; 1 if independent."""
        D = self.n_frequencies
        if self.projection == "independent":
            return np.ones(D, dtype=int)
        ambient = self.ambient_dimension(dimension)
        return np.diff(np.append(np.arange(0, D, ambient), D))

    def pair_sums(self, weights: np.ndarray, dimension: int) -> tuple[float, float]:
        """Σ w_i², and Σ w_i w_j over pairs i ≠ j of one block, for weights (D,).

        They turn the variance of one function of ωᵀx, and the covariance of two within a block,
        into the variance of the sum Σ w_i f(ω_iᵀx).
        """
        starts = np.cumsum(self.block_sizes(dimension)) - self.block_sizes(dimension)
        squares = float(np.sum(weights**2))
        return squares, float(np.sum(np.add.reduceat(weights, starts) ** 2)) - squares

    def cost(self, dimension: int) -> float:
        """About how many arithmetic operations the products of one row of X take.

        A step of a transform counts as four, for it moves data: both take the same time at d = 32.
        """
        if self.projection != "sorf":
            return 2.0 * self.n_frequencies * dimension
        p = self.ambient_dimension(dimension)
        n_blocks = -(-self.n_frequencies // p)
        return 4 * 3.0 * n_blocks * p * max(1, p.bit_length() - 1) + self.n_frequencies


def orthogonal_covariance(half_squared: Any, dimension: int, *, sign: int) -> np.ndarray:
    """How much two orthogonal frequencies ω₁, ω₂ of one block repel each other, exactly.

    Both ω₁ ± ω₂ have a uniform direction and the squared norm χ²_2d, hence with t = `half_squared`
    = |x|²/2 (an array of numbers ≥ 0)

        sign = −1: E[cos ω₁ᵀx cos ω₂ᵀx] − E[cos ωᵀx]² = ₁F₁(d; d/2; −t) − e^(−2t)
        sign = +1: (E[exp(ω₁ᵀx + ω₂ᵀx)] − E[exp ωᵀx]²) e^(−2t) = ₁F₁(d; d/2; t) e^(−2t) − 1

    By Kummer's transformation both are E[signᴺ (ρ_N − 1)] of a Poisson variable N with mean t,
    where ρ_n = Π_{j<n} (d/2 − j)/(d/2 + j): a sum without cancellation, −2t²/(d + 2) to leading
    order. For sign = +1 it is never positive. Means above 700 are taken as 700 (their Poisson
    weights leave the range of floating numbers).

    >>> orthogonal_covariance(0.5, 2, sign=-1).round(6)  # e^(−t)(1 − t) − e^(−2t)
    np.float64(-0.064614)
    """
    t = np.minimum(np.asarray(half_squared, dtype=np.float64), 700.0)
    largest = float(t.max(initial=0.0))
    n_terms = int(largest + 10 * np.sqrt(largest)) + 25
    poisson = np.exp(-t)
    total, ratio = np.zeros_like(t), 1.0
    for n in range(1, n_terms):
        poisson = poisson * (t / n)
        ratio *= (dimension / 2 - n + 1) / (dimension / 2 + n - 1)
        if n > 1:  # ρ_1 = 1, exactly
            total = total + sign**n * (ratio - 1) * poisson
    return total


_legendre = lru_cache(maxsize=64)(np.polynomial.legendre.leggauss)


def sphere_mean(r: np.ndarray, dimension: int) -> np.ndarray:
    """Ω_d(r) = ₀F₁(; d/2; −r²/4) = E cos(r u₁) for u uniform on the unit sphere of R^d.

    With u₁ = sin φ it is ∫ cos(r sin φ) cos^{d−2} φ dφ over [−π/2, π/2], normalised. The integrand
    is entire, so Gauss–Legendre converges geometrically, and nothing overflows: the error is below
    1e-12 for every d, where Γ(d/2) (2/r)^{d/2−1} J_{d/2−1}(r) would be ∞ · 0. Ω_1 = cos.

    >>> sphere_mean(np.array([0.0, np.pi]), 3).round(12) + 0.0  # sin(r)/r
    array([1., 0.])
    """
    if dimension == 1:
        return np.cos(r)
    # beyond 9.5/√d the weight cos^{d−2} is below 1e-19
    span = min(math.pi / 2, 9.5 / math.sqrt(dimension))
    largest = float(np.max(r, initial=0.0))
    degree = int(largest * math.sin(span) / 2) + 50
    if np.size(r) <= 8 * degree or not 0 < largest < np.inf:
        return _sphere_quadrature(r, dimension, span)
    # One function of one variable, whose frequencies are at most sin(span): for many values its
    # Chebyshev series has the same digits, and multiplications in the place of cosines
    series = np.polynomial.Chebyshev.interpolate(
        lambda nodes: _sphere_quadrature(nodes, dimension, span), degree, [0.0, largest]
    )
    return series(np.asarray(r, dtype=np.float64))


def _sphere_quadrature(r: np.ndarray, dimension: int, span: float) -> np.ndarray:
    n_nodes = int(np.max(r, initial=0.0) * span / 4) + 60
    nodes, weights = _legendre(n_nodes)
    angles = span * (nodes + 1) / 2
    weights = weights * np.cos(angles) ** (dimension - 2)
    weights /= weights.sum()
    total = np.zeros(np.shape(r))
    for weight, sine in zip(weights.tolist(), np.sin(angles).tolist(), strict=True):
        total += weight * np.cos(sine * r)
    return total


def _orthogonal_rows(n: int, dimension: int, rng: np.random.Generator) -> np.ndarray:  # -> (n, d)
    """Unit rows, orthogonal within blocks of d, each block uniform on such matrices."""
    rows = np.empty((n, dimension))
    for start in range(0, n, dimension):
        size = min(dimension, n - start)
        Q, R = np.linalg.qr(rng.standard_normal((dimension, size)))
        # QR fixes signs by convention; with the diagonal of R positive, Q is Haar distributed
        rows[start : start + size] = (Q * np.where(np.diagonal(R) < 0, -1.0, 1.0)).T
    return rows

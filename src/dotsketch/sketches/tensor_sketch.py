"""TensorSketch: count sketches of x, convolved by the fast Fourier transform."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from .._arrays import Array, Parts, namespace
from .._transforms import CountTable, count_sketch, fourier, inverse_fourier
from ..pairs import PairStatistics
from .base import Sketch, power_difference
from .rademacher import sample_turns


class HashWeights(NamedTuple):
    buckets: np.ndarray  # (p, d) int32: the bucket of every coordinate
    turns: np.ndarray  # (p, d) int8: its sign i**turns


@dataclass(frozen=True)
class TensorSketch(Sketch):
    """Pham and Pagh's sketch with uniform hashes and signs ±1, or {1, −1, i, −i} if complex.

    With δ = P(h(a) = h(b)) for two coordinates, ρ = (1 − δD)/(D − 1) (0 for uniform hashes),
    g = 2 for even D and 1 for odd, e = s², and κ²γ in place of γ for complex signs:

        V = [g(e+β+γ)ⁿ + (D−g)((e+β−ργ)ⁿ + (e−ρβ+γ)ⁿ) + (D²−2D+g)(e−ρ(β+γ))ⁿ]/D² − eⁿ.

    A Fourier coefficient f of the hashes has E[ω^{f(h(a)−h(b))}] = 1 at f = 0 and −ρ elsewhere;
    g counts the f with 2f = 0. The pseudo-variance has β and γ exchanged.
    """

    accepts_sparse: ClassVar[bool] = True

    def sample(self, dimension: int, rng: np.random.Generator) -> HashWeights:
        shape = (self.degree, dimension)
        buckets = np.stack([self.hash(dimension, rng) for _ in range(self.degree)])
        return HashWeights(buckets, sample_turns(rng, shape, self.is_complex))

    def hash(self, dimension: int, rng: np.random.Generator) -> np.ndarray:
        """A random bucket for every coordinate."""
        return rng.integers(0, self.n_projections, dimension, dtype=np.int32)

    def prepare(self, weights: HashWeights, X: Array) -> list[CountTable]:
        return [
            CountTable(buckets, turns, self.n_projections, X)
            for buckets, turns in zip(weights.buckets, weights.turns, strict=True)
        ]

    def parts(self, X: Array, prepared: list[CountTable]) -> Parts:
        spectrum: Any = None
        for table in prepared:
            transformed = fourier(count_sketch(X, table, self.is_complex))
            spectrum = transformed if spectrum is None else spectrum * transformed
        real, imaginary = inverse_fourier(spectrum, self.n_projections, self.is_complex)
        return real.T, None if imaginary is None else imaginary.T

    def collision(self, dimension: int) -> float:
        """ρ, the excess of non-collisions over uniform hashing."""
        return 0.0

    def variance(self, pairs: PairStatistics) -> Array:
        xp = namespace(pairs.dot)
        variance = self._fourier_variance(pairs, pairs.beta, self.kappa2 * pairs.gamma)
        return xp.maximum(variance, xp.zeros_like(variance))

    def pseudo_variance(self, pairs: PairStatistics) -> Array:
        if not self.is_complex:
            return self.variance(pairs)
        return self._fourier_variance(pairs, pairs.gamma, self.kappa2 * pairs.beta)

    def _fourier_variance(self, pairs: PairStatistics, straight: Array, crossed: Array) -> Array:
        """Mean over frequencies (f, f') of (e + straight·r(f−f') + crossed·r(f+f'))ⁿ − eⁿ."""
        D, n = self.n_projections, self.degree
        rho = self.collision(pairs.dimension)
        g = 2 if D % 2 == 0 else 1
        e = pairs.dot * pairs.dot

        def excess(difference: Array) -> Array:
            return power_difference(e + difference, e, difference, n)

        one_equal = excess(straight - rho * crossed) + excess(crossed - rho * straight)
        total = g * excess(straight + crossed) + (D - g) * one_equal
        total = total + (D * D - 2 * D + g) * excess(-rho * (straight + crossed))
        return total / D**2


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

    def collision(self, dimension: int) -> float:
        D, d = self.n_projections, dimension
        if D == 1 or d == 1:
            return 0.0
        load, rest = divmod(d, D)
        colliding = rest * (load + 1) * load + (D - rest) * load * (load - 1)
        return (1 - D * colliding / (d * (d - 1))) / (D - 1)

"""TensorSketch: count sketches of x, convolved by the fast Fourier transform."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from .._arrays import Array, Parts, is_sparse
from .._transforms import (
    CountTable,
    count_sketch,
    count_sketch_rows,
    empty_parts,
    fourier,
    has_fast_convolution,
    inverse_fourier,
    tensor_sketch_into,
    transposed,
    uses_fast,
)
from ..pairs import PairStatistics
from .base import SeparableSketch, power_differences
from .rademacher import sample_turns


class HashWeights(NamedTuple):
    buckets: np.ndarray  # (p, d) int32: the bucket of every coordinate
    turns: np.ndarray  # (p, d) int8: its sign i**turns


@dataclass(frozen=True)
class TensorSketch(SeparableSketch):
    """Pham and Pagh's sketch with uniform hashes and signs ±1, or {1, −1, i, −i} if complex.

    With δ = P(h(a) = h(b)) for two coordinates, ρ = (1 − δD)/(D − 1) (0 for uniform hashes),
    g = 2 for even D and 1 for odd, e = s², and κ²γ in place of γ for complex signs:

        V = [g(e+β+γ)ⁿ + (D−g)((e+β−ργ)ⁿ + (e−ρβ+γ)ⁿ) + (D²−2D+g)(e−ρ(β+γ))ⁿ]/D² − eⁿ.

    A Fourier coefficient f of the hashes has E[ω^{f(h(a)−h(b))}] = 1 at f = 0 and −ρ elsewhere;
    g counts the f with 2f = 0. The pseudo-variance has β and γ exchanged.
    """

    accepts_sparse: ClassVar[bool] = True

    @property
    def compiled_chunk_factor(self) -> int:  # type: ignore[override]
        return 16 if has_fast_convolution(self.n_projections) else 1

    def sample(self, dimension: int, rng: np.random.Generator) -> HashWeights:
        shape = (self.degree, dimension)
        buckets = np.stack([self.hash(dimension, rng) for _ in range(self.degree)])
        return HashWeights(buckets, sample_turns(rng, shape, self.is_complex))

    def hash(self, dimension: int, rng: np.random.Generator) -> np.ndarray:
        """A random bucket for every coordinate."""
        return rng.integers(0, self.n_projections, dimension, dtype=np.int32)

    def prepare(self, weights: HashWeights, X: Array) -> Any:
        if uses_fast(X) and not is_sparse(X):
            return weights
        return [
            CountTable(buckets, turns, self.n_projections, X)
            for buckets, turns in zip(weights.buckets, weights.turns, strict=True)
        ]

    def parts(self, X: Array, prepared: Any) -> Parts:
        if isinstance(prepared, HashWeights):
            if not has_fast_convolution(self.n_projections):
                return self._row_parts(X, prepared)
            out = empty_parts(X.shape[0], self.n_projections, X.dtype, self.is_complex)
            tensor_sketch_into(X, prepared.buckets, prepared.turns, out)
            return out
        spectrum: Any = None
        for table in prepared:
            transformed = fourier(count_sketch(X, table, self.is_complex))
            spectrum = transformed if spectrum is None else spectrum * transformed
        return transposed(inverse_fourier(spectrum, self.n_projections, self.is_complex))

    def _row_parts(self, X: np.ndarray, weights: HashWeights) -> Parts:
        """Compiled count sketches and SciPy's transforms, for D with a large prime factor."""
        spectrum: Any = None
        for buckets, turns in zip(*weights, strict=True):
            counts = count_sketch_rows(X, buckets, turns, self.n_projections, self.is_complex)
            transformed = fourier(counts, axis=1)
            if spectrum is None:
                spectrum = transformed
            else:
                spectrum *= transformed
        return inverse_fourier(spectrum, self.n_projections, self.is_complex, axis=1)

    def write(
        self, X: np.ndarray, prepared: Any, out: Parts, row_scale: np.ndarray | None = None
    ) -> None:
        if isinstance(prepared, HashWeights) and has_fast_convolution(self.n_projections):
            tensor_sketch_into(X, prepared.buckets, prepared.turns, out, row_scale)
        else:
            super().write(X, prepared, out, row_scale)

    def cost(self, dimension: int) -> float:
        D = self.n_projections
        transform = 2.5 * D * max(D.bit_length(), 1) * (2 if self.is_complex else 1)
        return self.degree * (2 * dimension + transform) + transform

    def collision(self, n_projections: Any, dimension: int) -> Any:
        """ρ, how much rarer two coordinates collide than under uniform hashing."""
        return 0.0 * n_projections

    def nodes(self, dimension: int, count: int) -> np.ndarray:
        """Values of ρ from which `combine` interpolates, 0 the first of them."""
        return np.zeros(1)

    def _terms(
        self, pairs: PairStatistics, max_degree: int, pseudo: bool, every_budget: bool
    ) -> Iterator[list[Array]]:
        straight, crossed = (pairs.gamma, pairs.beta) if pseudo else (pairs.beta, pairs.gamma)
        crossed = self.kappa2 * crossed
        e = pairs.dot * pairs.dot

        def excess(difference: Array) -> Iterator[Array]:
            return power_differences(e + difference, e, difference, max_degree)

        d = pairs.dimension
        # The terms are polynomials in ρ; in high dimension ρ < 1/(d−1) and few nodes are enough
        count = 4 if d > 16 else max_degree + 1
        at = self.nodes(d, count) if every_budget else self.collision(self.n_projections, d)
        nodes = np.ravel(at).tolist()  # Python numbers, which every array library takes
        both = excess(straight + crossed)
        one_equal = [
            (excess(straight - rho * crossed), excess(crossed - rho * straight)) for rho in nodes
        ]
        none_equal = [excess(-rho * (straight + crossed)) for rho in nodes]
        for first in both:
            yield [
                first,
                *(next(a) + next(b) for a, b in one_equal),
                *(next(a) for a in none_equal),
            ]

    def combine(self, terms: list[Array], n_projections: Any, dimension: int) -> Array:
        D = n_projections
        g = 2 - D % 2
        count = (len(terms) - 1) // 2
        basis: Any = [1.0]
        if count > 1:
            basis = _lagrange(self.nodes(dimension, count), self.collision(D, dimension))
        one_equal = sum(b * term for b, term in zip(basis, terms[1 : count + 1], strict=True))
        none_equal = sum(b * term for b, term in zip(basis, terms[count + 1 :], strict=True))
        total = g * terms[0] + (D - g) * one_equal + (D * D - 2 * D + g) * none_equal
        return total / (D * D)


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

    def nodes(self, dimension: int, count: int) -> np.ndarray:
        largest = np.max(self.collision(np.arange(2, max(dimension, 2) + 1), dimension))
        return largest * (1 - np.cos(np.pi * np.arange(count) / (count - 1))) / 2


def _lagrange(nodes: np.ndarray, at: Any) -> list[Any]:
    """The Lagrange polynomials of the nodes, evaluated at a number or an array."""
    basis = []
    for k, node in enumerate(nodes):
        others = np.delete(nodes, k)
        factors = [(at - other) / (node - other) for other in others]
        basis.append(np.prod(np.stack(np.broadcast_arrays(*factors)), axis=0))
    return basis

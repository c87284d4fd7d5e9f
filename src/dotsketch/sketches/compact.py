"""Compact projections (Hamid et al.): sketch to many features, then project them down."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from .._arrays import Array, Parts
from .._transforms import linear_on_parts, power_of_two, transposed
from ..pairs import PairStatistics
from .base import Sketch
from .moments import VectorMoments, projection_moments
from .tensor_srht import SRHTWeights, hadamard_tables, project_hadamard, sample_srht


class CompactWeights(NamedTuple):
    up: Any  # weights of the inner sketch
    down: SRHTWeights  # one signed Hadamard projection of its features


@dataclass(frozen=True)
class CompactSketch(Sketch):
    """An inner sketch with more projections, followed by an SRHT to D of them.

    Build it with `CompactSketch.of(inner, n_projections)`. Its variance is known wherever the
    moments of the inner features are: independent weights, TensorSRHT and trees; for
    TensorSketch none is known and `variance` raises NotImplementedError. For independent inner
    weights it is V_inner + f·(1 − 1/E)(Nⁿ + κ²s²ⁿ), E the inner number of projections and
    f = 1/D − c(D, E)/(D²(E − 1)): never below the inner variance.
    """

    inner: Sketch | None = None

    @classmethod
    def of(cls, inner: Sketch, n_projections: int) -> CompactSketch:
        return cls(inner.degree, n_projections, inner.field, inner)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.inner is None or (self.inner.degree, self.inner.field) != (self.degree, self.field):
            raise ValueError("Build a compact sketch with CompactSketch.of(inner, n_projections).")
        if self.inner.n_projections < self.n_projections:
            raise ValueError(
                f"The inner sketch has {self.inner.n_projections} projections, fewer than "
                f"n_projections={self.n_projections}: a compact sketch projects down."
            )

    @property
    def up(self) -> Sketch:
        assert self.inner is not None
        return self.inner

    @property
    def accepts_sparse(self) -> bool:  # type: ignore[override]
        return self.up.accepts_sparse

    def sample(self, dimension: int, rng: np.random.Generator) -> CompactWeights:
        D, E = self.n_projections, self.up.n_projections
        return CompactWeights(
            self.up.sample(dimension, rng), sample_srht(1, D, E, self.is_complex, rng)
        )

    def prepare(self, weights: CompactWeights, X: Array) -> Any:
        [down] = hadamard_tables(weights.down, self.n_projections, X)
        return self.up.prepare(weights.up, X), down

    def parts(self, X: Array, prepared: Any) -> Parts:
        up, down = prepared
        projected = linear_on_parts(
            lambda part: project_hadamard(part, down, self.n_projections, self.is_complex),
            self.up.parts(X, up),
        )
        return transposed(projected, self.scale)

    def moments(self, pairs: PairStatistics) -> VectorMoments:
        block = power_of_two(self.up.n_projections)
        kappa2 = 0.0 if self.is_complex else 1.0
        features = self.up.moments(pairs)
        down = projection_moments(features, kappa2=kappa2, block=block)
        return down.vector(self.n_projections, block)

    def chunk_rows(self, dimension: int) -> int:
        return self.up.chunk_rows(dimension)

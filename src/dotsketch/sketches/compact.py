"""Compact projections (Hamid et al.): sketch to many features, then project them down."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from .._arrays import Array, ArrayT
from .._backends import Prepared, dense_like, keeps_prepared, linear_on_parts, scaled
from ..pairs import PairStatistics
from ..projections import HadamardProjection
from ..projections.hadamard import SRHTWeights
from .base import Sketch
from .moments import VectorMoments, projection_moments


@keeps_prepared
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
            raise ValueError("n_projections is too large: a compact sketch projects down.")

    @property
    def up(self) -> Sketch:
        assert self.inner is not None
        return self.inner

    @property
    def down(self) -> HadamardProjection:
        return HadamardProjection(self.is_complex)

    def sample(self, dimension: int, rng: np.random.Generator) -> CompactWeights:
        D, E = self.n_projections, self.up.n_projections
        return CompactWeights(self.up.sample(dimension, rng), self.down.sample(1, D, E, rng))

    def check_weights(self, weights: CompactWeights, dimension: int) -> None:
        self.up.check_weights(weights.up, dimension)
        self.down.check_weights(weights.down, 1, self.n_projections, self.up.n_projections)

    def prepare(self, weights: CompactWeights, rows: Array) -> Prepared:
        """The inner features of a chunk of rows, projected down."""
        up = self.up.prepare(weights.up, rows)
        down = self.down.prepare(weights.down, self.n_projections, rows=dense_like(rows))
        return Prepared(
            lambda rows: scaled(linear_on_parts(down, up(rows)), self.scale),
            up.widest,
            accepts_sparse=up.accepts_sparse,
            depends_on_chunk=up.depends_on_chunk or down.depends_on_chunk,
            chunk_bytes=up.chunk_bytes,
        )

    def cost(self, dimension: int) -> float:
        E = self.up.n_projections
        return self.up.cost(dimension) + self.down.cost(self.n_projections, E)

    def log_largest(self, log_sum: float) -> float:
        return self.up.log_largest(log_sum) + math.log(self.up.n_projections)

    def moments(self, pairs: PairStatistics[ArrayT]) -> VectorMoments:
        E = self.up.n_projections
        down = projection_moments(self.up.moments(pairs), self.down, E)
        return down.vector(self.n_projections, self.down.block(E))

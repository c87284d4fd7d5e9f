"""The tree of Ahle et al.: sketches of degree two, joined pairwise up to the root."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import device

from .._arrays import Array, ArrayT, Parts, namespace
from .._backends import (
    Prepared,
    dense_like,
    keeps_prepared,
    linear_on_parts,
    multiply,
    power_of_two,
    scaled,
)
from ..pairs import PairStatistics
from ..projections import HadamardProjection, Projection, RademacherProjection
from .base import Sketch
from .moments import VectorMoments, projection_moments


@keeps_prepared
class TreeWeights(NamedTuple):
    """Arrays of the leaves' projections, then of all inner projections from the bottom up."""

    leaves: Any  # weights of q = 2^⌈log₂ p⌉ projections
    nodes: Any  # the same with projections of D inputs, the root's last; None without any


@dataclass(frozen=True)
class TreeSketch(Sketch):
    """A binary tree of products: variance grows with log p levels and not with 2ᵖ.

    The leaves are random projections of x; q = 2^⌈log₂ p⌉ of them, those beyond p of the first
    unit vector. A join multiplies two children; below the root every product is projected again
    (D → D) before it is joined. For p ≤ 2 it is the plain sketch. Variance and pseudo-variance
    follow from the moments passed from level to level, for every kind of projection.

    `projects_root` projects the product of the root too, which only adds variance: the authors'
    published results are of such trees.
    """

    projects_root: bool = False

    @property
    def projection(self) -> Projection:
        """The random linear map of every leaf and node."""
        raise NotImplementedError

    def sample(self, dimension: int, rng: np.random.Generator) -> TreeWeights:
        n_leaves = power_of_two(self.degree)
        leaves = self.projection.sample(n_leaves, self.n_projections, dimension, rng)
        D, inner = self.n_projections, self._inner_projections
        return TreeWeights(leaves, self.projection.sample(inner, D, D, rng) if inner else None)

    def check_weights(self, weights: TreeWeights, dimension: int) -> None:
        D, inner = self.n_projections, self._inner_projections
        self.projection.check_weights(weights.leaves, power_of_two(self.degree), D, dimension)
        if inner or weights.nodes is not None:
            self.projection.check_weights(weights.nodes, inner, D, D)

    def prepare(self, weights: TreeWeights, rows: Array) -> Prepared:
        kind, degree, D, scale = self.projection, self.degree, self.n_projections, self.scale
        rows = dense_like(rows)
        leaves, nodes = (
            [
                kind.prepare(type(group)(*(w[i : i + 1] for w in group)), D, rows=rows)
                for i in range(len(group[0]) if group is not None else 0)
            ]
            for group in weights
        )
        n_leaves = len(leaves)
        n_levels = n_leaves.bit_length() - 1

        def columns(rows: Any) -> Parts:
            first = namespace(rows).eye(1, rows.shape[1], dtype=rows.dtype, device=device(rows))
            unit = rows[:1, :] * 0 + first

            def vector(level: int, place: int) -> Parts:
                """A vector of a level, leaves being level 0: depth first, so that few are kept."""
                if level == 0:
                    return leaves[place](rows if place < degree else unit)
                node = multiply(*(vector(level - 1, child) for child in (2 * place, 2 * place + 1)))
                if level == n_levels:
                    return node
                below = n_leaves - (n_leaves >> (level - 1))  # nodes of the lower levels
                return linear_on_parts(nodes[below + place], scaled(node, scale))

            root = vector(n_levels, 0)
            if self.projects_root:
                root = linear_on_parts(nodes[-1], scaled(root, scale))
            return scaled(root, scale)

        return Prepared(
            columns,
            max(rows.shape[1], D) * (1 + self.is_complex),
            depends_on_chunk=any(step.depends_on_chunk for step in (*leaves, *nodes)),
            # temporaries stay in the cache, unless D² weights are read for every chunk
            chunk_bytes=1 << (23 if kind.block(D) == 1 else 19),
        )

    def moments(self, pairs: PairStatistics[ArrayT]) -> VectorMoments:
        first = PairStatistics(*(1 + 0 * pairs.dot,) * 3, pairs.dimension)  # the unit vector
        leaf, padding = (
            projection_moments(VectorMoments.of_inputs(p), self.projection, p.dimension)
            for p in (pairs, first)
        )
        D, block = self.n_projections, self.projection.block(pairs.dimension)
        n_leaves = power_of_two(self.degree)
        level = [leaf] * self.degree + [padding] * (n_leaves - self.degree)
        while len(level) > 1:
            joined = [level[i] * level[i + 1] for i in range(0, len(level), 2)]
            if len(joined) == 1:
                level = joined
                break
            level = [
                projection_moments(node.vector(D, block), self.projection, D) for node in joined
            ]
            block = self.projection.block(D)
        root = level[0].vector(D, block)
        if not self.projects_root:
            return root
        again = projection_moments(root, self.projection, D)
        return again.vector(D, self.projection.block(D))

    @property
    def _inner_projections(self) -> int:
        """Projections of products."""
        return max(power_of_two(self.degree) - 2, 0) + self.projects_root

    def cost(self, dimension: int) -> float:
        D, of = self.n_projections, self.projection.cost
        return power_of_two(self.degree) * of(D, dimension) + self._inner_projections * of(D, D)


@dataclass(frozen=True)
class RademacherTree(TreeSketch):
    """The tree with dense Rademacher projections as nodes: O(p D²) per row."""

    @property
    def projection(self) -> RademacherProjection:
        return RademacherProjection(self.is_complex)


@dataclass(frozen=True)
class SRHTTree(TreeSketch):
    """The tree with signed, permuted Hadamard blocks as nodes: O(p D log D) per row."""

    @property
    def projection(self) -> HadamardProjection:
        return HadamardProjection(self.is_complex)

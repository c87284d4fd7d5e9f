"""The tree of Ahle et al.: sketches of degree two, joined pairwise up to the root."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from .._arrays import Array, Parts, like
from .._transforms import (
    empty_parts,
    linear_on_parts,
    multiply,
    power_of_two,
    project,
    scaled,
    sign_projection_into,
    signs,
    transposed,
    uses_fast,
)
from ..pairs import PairStatistics
from .base import Sketch
from .moments import ProjectionMoments, VectorMoments, projection_moments
from .rademacher import RademacherSketch, TurnWeights, sample_turns
from .tensor_srht import SRHTWeights, TensorSRHT, hadamard_tables, project_hadamard, sample_srht


class TreeWeights(NamedTuple):
    """Arrays of the leaves' projections, then of all inner projections from the bottom up."""

    leaves: Any  # TurnWeights or SRHTWeights with q = 2^⌈log₂ p⌉ projections
    nodes: Any  # the same with projections of D inputs, the root's last; None without any


@dataclass(frozen=True)
class TreeSketch(Sketch):
    """A binary tree of products: variance grows with log p levels and not with 2ᵖ.

    The leaves are random projections of x; q = 2^⌈log₂ p⌉ of them, those beyond p of the first
    unit vector. A join multiplies two children; below the root every product is projected again
    (D → D) before it is joined. For p ≤ 2 it is the plain sketch. Variance and pseudo-variance
    follow from the moments passed from level to level, for Rademacher and for SRHT nodes.

    `projects_root` projects the product of the root too, which only adds variance: the authors'
    published results are of such trees.
    """

    projects_root: bool = False

    def sample(self, dimension: int, rng: np.random.Generator) -> TreeWeights:
        n_leaves = power_of_two(self.degree)
        leaves = self.sample_projections(n_leaves, dimension, rng)
        inner = self._inner_projections
        nodes = self.sample_projections(inner, self.n_projections, rng) if inner else None
        return TreeWeights(leaves, nodes)

    def prepare(self, weights: TreeWeights, X: Array) -> TreeWeights:
        nodes = None if weights.nodes is None else self.prepare_projections(weights.nodes, X)
        return TreeWeights(self.prepare_projections(weights.leaves, X), nodes)

    def parts(self, X: Array, prepared: TreeWeights) -> Parts:
        leaves, nodes = prepared
        n_leaves = len(leaves)
        n_levels = n_leaves.bit_length() - 1
        unit = X.T[:, :1] * 0 + like(np.eye(X.shape[1], 1), X)

        def vector(level: int, place: int) -> Parts:
            """A vector of a level, leaves being level 0: depth first, so that few are kept."""
            if level == 0:
                return self.project((X.T if place < self.degree else unit, None), leaves[place])
            node = multiply(*(vector(level - 1, child) for child in (2 * place, 2 * place + 1)))
            if level == n_levels:
                return node
            below = n_leaves - (n_leaves >> (level - 1))  # nodes of the lower levels
            return self.project(scaled(node, self.scale), nodes[below + place])

        root = vector(n_levels, 0)
        if self.projects_root:
            root = self.project(scaled(root, self.scale), nodes[-1])
        return transposed(root, self.scale)

    def moments(self, pairs: PairStatistics) -> VectorMoments:
        first = PairStatistics(*(1 + 0 * pairs.dot,) * 3, pairs.dimension)  # the unit vector
        leaf, padding = (
            self.project_moments(VectorMoments.of_inputs(p), p.dimension) for p in (pairs, first)
        )
        D, block = self.n_projections, self.block(pairs.dimension)
        n_leaves = power_of_two(self.degree)
        level = [leaf] * self.degree + [padding] * (n_leaves - self.degree)
        while len(level) > 1:
            joined = [level[i] * level[i + 1] for i in range(0, len(level), 2)]
            if len(joined) == 1:
                level = joined
                break
            level = [self.project_moments(node.vector(D, block), D) for node in joined]
            block = self.block(D)
        root = level[0].vector(D, block)
        if not self.projects_root:
            return root
        return self.project_moments(root, D).vector(D, self.block(D))

    @property
    def _inner_projections(self) -> int:
        """Projections of products."""
        return max(power_of_two(self.degree) - 2, 0) + self.projects_root

    def project_moments(self, u: VectorMoments, dimension: int) -> ProjectionMoments:
        return projection_moments(u, kappa2=self.kappa2, block=self.block(dimension))

    def cost(self, dimension: int) -> float:
        n_leaves = power_of_two(self.degree)
        inner = self._inner_projections * self.projection_cost(self.n_projections)
        return n_leaves * self.projection_cost(dimension) + inner

    # -- the kind of node --------------------------------------------------------------------

    def block(self, dimension: int) -> int:
        raise NotImplementedError

    def projection_cost(self, dimension: int) -> float:
        raise NotImplementedError

    def sample_projections(self, count: int, dimension: int, rng: np.random.Generator) -> Any:
        raise NotImplementedError

    def prepare_projections(self, weights: Any, X: Array) -> list:
        raise NotImplementedError

    def project(self, A: Parts, projection: Any) -> Parts:  # (d, n) -> (D, n)
        raise NotImplementedError


@dataclass(frozen=True)
class RademacherTree(TreeSketch):
    """The tree with dense Rademacher projections as nodes: O(p D²) a row."""

    # D² weights are read for every chunk: many rows share that
    chunk_bytes: ClassVar[int] = 1 << 23
    compiled_chunk_factor: ClassVar[int] = 2

    def block(self, dimension: int) -> int:
        return 1

    def projection_cost(self, dimension: int) -> float:
        return RademacherSketch(1, self.n_projections, self.field).cost(dimension)

    def sample_projections(self, count: int, dimension: int, rng: np.random.Generator) -> Any:
        return TurnWeights(
            sample_turns(rng, (count, self.n_projections, dimension), self.is_complex)
        )

    def prepare_projections(self, weights: TurnWeights, X: Array) -> list:
        if uses_fast(X):
            return [weights.turns[i : i + 1] for i in range(len(weights.turns))]
        pairs = [signs(like(turns, X), X) for turns in weights.turns]
        return [(real, imaginary if self.is_complex else None) for real, imaginary in pairs]

    def project(self, A: Parts, projection: Any) -> Parts:
        if not isinstance(projection, np.ndarray):
            return linear_on_parts(lambda part: project(part.T, *projection), A)

        def compiled(part: np.ndarray) -> Parts:
            n = part.shape[1]
            out = empty_parts(n, self.n_projections, part.dtype, self.is_complex)
            sign_projection_into(part.T, projection, 1.0, out)
            return transposed(out)

        return linear_on_parts(compiled, A)


@dataclass(frozen=True)
class SRHTTree(TreeSketch):
    """The tree with signed, permuted Hadamard blocks as nodes: O(p D log D) a row."""

    def block(self, dimension: int) -> int:
        return power_of_two(dimension)

    def projection_cost(self, dimension: int) -> float:
        return TensorSRHT(1, self.n_projections, self.field).cost(dimension)

    def sample_projections(self, count: int, dimension: int, rng: np.random.Generator) -> Any:
        return sample_srht(count, self.n_projections, dimension, self.is_complex, rng)

    def prepare_projections(self, weights: SRHTWeights, X: Array) -> list:
        return hadamard_tables(weights, self.n_projections, X)

    def project(self, A: Parts, projection: Any) -> Parts:
        D = self.n_projections
        return linear_on_parts(
            lambda part: project_hadamard(part.T, projection, D, self.is_complex), A
        )

"""Expansions whose coefficients depend on both rows, written in eigenfunctions over the data.

A kernel f(⟨s(x), s(y)⟩, p(x) + p(y)) (`ExpandedKernel`) has the Taylor coefficients c_j(t, p + p').
With the mean direction m split off, x = α m + x_⊥ (α = 0 without a split),

    k(x, y) = Σ_j c_j(αα', p + p') (x_⊥·y_⊥)ʲ,

and every c_j is a positive definite function of the two numbers (α, p) of a row. A few of its
eigenfunctions over the rows of a sample are enough, as it is smooth: each is a block. Rows with
other (α, p) than the sample has get their weights by Nyström's formula: the approximate
coefficient is c_j(·, nodes) c_j(nodes, nodes)⁻¹ c_j(nodes, ·), cut off, which is never above c_j on
the diagonal and exact at the nodes.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Generic, NamedTuple

import numpy as np

from ..._arrays import ArrayT, double, is_sparse, like, namespace, square_root
from ..._support.stored import MOST_DEGREE, Count, array, stored
from ...kernels import ExpandedKernel, directions
from ..errors import OVERFLOW, off_diagonal_mean

_MOST_NODES = 32
_NODE_PRECISION = 1e-6  # of c(x, x) that the nodes leave at any row of the sample
_CUT = 1e-7  # eigenvalues of the nodes below this share of the largest are left out
_NEGLIGIBLE = 1e-4  # of the kernel's root mean square: blocks below are left out
_JUDGES = 256  # rows whose pairs tell how large a block is


class Inputs(NamedTuple, Generic[ArrayT]):
    """What an expansion makes of n rows."""

    unit: ArrayT  # u(x), (n, d)
    weights: ArrayT  # ω_b(x), (n, n_blocks)
    radius: ArrayT  # (n,): s(x)·s(y) = offset_x offset_y + radius_x radius_y u(x)·u(y)
    offset: ArrayT | None  # (n,) or None for zeros
    trait: ArrayT  # p(x) of the kernel, (n,)


@stored
@dataclass(frozen=True)
class EigenExpansion:
    """The Taylor series in x_⊥·y_⊥, its coefficients written in eigenfunctions."""

    kernel: ExpandedKernel
    direction: Annotated[
        np.ndarray | None, array("f", "d")
    ]  # unit, or None if nothing is split off
    degrees: Annotated[tuple[int, ...], Count(MOST_DEGREE)]
    nodes: Annotated[np.ndarray, array("f", "nodes", 2)]  # α and p
    # ω_b(x) = |x_⊥|ʲ Σ_i functions[b, i] c_j(x, node i)
    functions: Annotated[np.ndarray, array("f", "blocks", "nodes")]

    @classmethod
    def fit(
        cls,
        kernel: ExpandedKernel,
        max_degree: int,
        X: np.ndarray,
        *,
        mean_split: bool = False,
        share: float = 1e-3,
    ) -> EigenExpansion:
        """Eigenfunctions on the rows of X that carry more than `share` of their degree."""
        S = kernel.scale(X)
        direction = mean_direction(S) if mean_split else None
        _, radius, alpha = _split(S, direction)
        places = np.column_stack([alpha, kernel.trait(S)])
        used = np.any(S != 0, axis=1)  # zero rows have no direction, and weigh nothing
        places, radius = places[used], radius[used]
        if not len(places):
            raise ValueError("All rows that the expansion looks at are zero.")
        nodes = _nodes(kernel, places, min(max_degree, 10))
        degrees: list[int] = []
        functions = []
        for degree in range(max_degree + 1):
            values = _coefficients(kernel, degree, places, nodes) * (radius**degree)[:, None]
            inner = _coefficients(kernel, degree, nodes, nodes)
            if not np.all(np.isfinite(values)):
                raise ValueError(OVERFLOW)
            if not np.any(values):
                continue
            for function, eigenvalue in _eigenfunctions(inner, values):
                # a block of degree 0 costs one exact column: keep more of them
                if not degrees or degrees[-1] != degree:
                    least = (share**2 if degree == 0 else share) * eigenvalue
                if eigenvalue > least:
                    degrees.append(degree)
                    functions.append(function)
        found = cls(kernel, direction, tuple(degrees), nodes, np.array(functions))
        return found._without_negligible(X[used][:_JUDGES])

    def _without_negligible(self, X: np.ndarray) -> EigenExpansion:
        """Without the blocks that are next to nothing between the rows of X."""
        inputs = self.inputs(X)
        cosines = inputs.unit @ inputs.unit.T
        kept = []
        least = _NEGLIGIBLE**2 * off_diagonal_mean(self.kernel(X) ** 2)
        for b, degree in enumerate(self.degrees):
            squares = inputs.weights[:, b] ** 2
            size = off_diagonal_mean(squares[:, None] * cosines ** (2 * degree) * squares)
            if size > least:
                kept.append(b)
        if not kept:  # rows without a common entry say nothing about products
            return self
        degrees = tuple(self.degrees[b] for b in kept)
        return replace(self, degrees=degrees, functions=self.functions[kept])

    @property
    def keeps_sparse(self) -> bool:
        return self.direction is None

    def inputs(self, X: ArrayT, blocks: Sequence[int] | None = None) -> Inputs[ArrayT]:
        """X (n, d) is CSR only if it stays so; weights are those of all blocks, or of these."""
        used = list(range(len(self.degrees)) if blocks is None else blocks)
        S = self.kernel.scale(X)
        unit, radius, alpha = _split(S, self.direction)
        trait = self.kernel.trait(S)
        xp = namespace(trait)
        # Weights in double precision: nodes are near each other, and functions alternate in sign
        places = double(xp.stack([alpha, trait], axis=1))
        nodes, functions = like(self.nodes, places), like(self.functions[used], places)
        length = double(xp.where(radius > 0, radius, xp.ones_like(radius)))[:, None]
        columns = []
        start = 0
        for degree, group in itertools.groupby(self.degrees[b] for b in used):
            stop = start + len(list(group))
            values = _coefficients(self.kernel, degree, places, nodes)
            columns.append(values @ functions[start:stop, :].T * length**degree)
            start = stop
        weights = square_root(self.kernel.variance) * xp.concat(columns, axis=1)
        return Inputs(
            unit,
            xp.astype(weights, trait.dtype),
            radius,
            None if self.direction is None else alpha,
            trait,
        )


def mean_direction(S: np.ndarray) -> np.ndarray:  # (n, d) -> (d,)
    """The direction of the mean; the first axis if it is zero."""
    average = S.mean(axis=0)
    length = np.linalg.norm(average)
    return average / length if length > 0 else np.eye(S.shape[1])[0]


def _split(S: ArrayT, direction: np.ndarray | None) -> tuple[ArrayT, ArrayT, ArrayT]:
    """u, |x_⊥| and α of x = α m + |x_⊥| u; α = 0 without a direction."""
    if direction is None:
        unit, radius = _sparse_directions(S) if is_sparse(S) else directions(S)
        return unit, radius, 0 * radius
    m = like(direction, S)
    alpha = S @ m
    return *directions(S - alpha[:, None] * m[None, :]), alpha


def _sparse_directions(S: Any) -> tuple[Any, Any]:
    """`directions` of CSR rows, which stay so."""
    counts = np.diff(S.indptr)
    owners = np.repeat(np.arange(S.shape[0]), counts)
    squares = np.bincount(owners, weights=S.data.astype(np.float64) ** 2, minlength=S.shape[0])
    radius = np.sqrt(squares).astype(S.dtype)
    unit = S.copy()
    unit.data /= np.where(radius > 0, radius, 1)[owners]
    return unit, radius


def _coefficients(kernel: ExpandedKernel, degree: int, places: ArrayT, nodes: ArrayT) -> ArrayT:
    """c_j between rows and nodes given by (α, p): (n, 2), (m, 2) -> (n, m)."""
    t = places[:, :1] * nodes[None, :, 0]
    return kernel.taylor(degree, t, places[:, 1:] + nodes[None, :, 1])


def _nodes(kernel: ExpandedKernel, places: np.ndarray, degree: int) -> np.ndarray:
    """Places that determine c_j at all others: pivots of a Cholesky factor, the largest first.

    c_j is normalised to one on the diagonal, so that all norms count alike.
    """
    places = np.unique(places, axis=0)
    root = np.sqrt([_coefficients(kernel, degree, p[None], p[None])[0, 0] for p in places])
    left = np.ones(len(places))
    factor = np.empty((len(places), 0))
    chosen: list[int] = []
    while len(chosen) < min(_MOST_NODES, len(places)) and left.max() > _NODE_PRECISION:
        i = int(np.argmax(left))
        column = _coefficients(kernel, degree, places, places[i : i + 1])[:, 0] / (root * root[i])
        column = (column - factor @ factor[i]) / np.sqrt(left[i])
        factor = np.column_stack([factor, column])
        left = np.maximum(left - column**2, 0)
        chosen.append(i)
    return places[chosen]


def _eigenfunctions(inner: np.ndarray, values: np.ndarray) -> list[tuple[np.ndarray, float]]:
    """Functions of the nodes and their mean squares over the rows, the largest first.

    `inner` (m, m) is the kernel between nodes and `values` (n, m) that between rows and nodes.
    """
    size = np.sqrt(np.diag(inner))
    size = np.where(size > 0, size, 1.0)
    w, V = np.linalg.eigh(inner / np.outer(size, size))
    kept = w > _CUT * w[-1]
    whitening = V[:, kept] / np.sqrt(w[kept]) / size[:, None]
    white = values @ whitening  # (n, k), white whiteᵀ is the kernel of the rows
    eigenvalues, vectors = np.linalg.eigh(white.T @ white / len(values))
    found = []
    for k in reversed(range(len(eigenvalues))):
        sign = 1.0 if np.sum(white @ vectors[:, k]) >= 0 else -1.0
        found.append((sign * whitening @ vectors[:, k], float(eigenvalues[k])))
    return found

"""A kernel as a sum of powers of one dot product, each with a weight of its own.

    k(x, y) ≈ Σ_b ω_b(x) ω_b(y) ⟨u(x), u(y)⟩^{n_b},   |u| = 1 (or 0)

A block b has a degree n_b ≥ 0 and a weight function ω_b. The Maclaurin series is one expansion
(one block per degree); the split along the mean direction is another; kernels whose coefficients
depend on both rows have a third. The directions u are normalised and the weights computed in
logarithms, ω_n(x) = √a_n w(x) |s(x)|ⁿ, so that no norm and no lengthscale overflows: for the
Gaussian kernel ω_n² is the Poisson weight of |x/l|².
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Generic, NamedTuple

import numpy as np
from scipy.special import gammaln

from ..._arrays import Array, ArrayT, double, like, namespace, square_root
from ..._support.stored import MOST_DEGREE, Count, array, stored
from ...kernels import DotProductKernel, ExpandedKernel, directions
from ..design import Unsuited
from ..study import OVERFLOW, off_diagonal_mean


class Inputs(NamedTuple, Generic[ArrayT]):
    """What an expansion makes of n rows."""

    unit: ArrayT  # u(x), (n, d)
    weights: ArrayT  # ω_b(x), (n, n_blocks)
    radius: ArrayT  # (n,): s(x)·s(y) = offset_x offset_y + radius_x radius_y u(x)·u(y)
    offset: ArrayT | None  # (n,) or None for zeros
    trait: ArrayT  # p(x) of the kernel, (n,)


@stored
@dataclass(frozen=True)
class MaclaurinExpansion:
    """The Maclaurin series, one block for every degree with a_n > 0."""

    kernel: DotProductKernel
    degrees: Annotated[tuple[int, ...], Count(MOST_DEGREE)]
    # what a shift-invariant kernel subtracts first
    centre: Annotated[np.ndarray | None, array("f", "d")] = None

    @property
    def keeps_sparse(self) -> bool:
        """Whether `inputs` takes CSR rows and returns some."""
        return self.centre is None

    def inputs(self, X: Array, blocks: Sequence[int] | None = None) -> Inputs[np.ndarray]:  # (n, d)
        """What the expansion makes of rows; the weights of these blocks only, if some are given."""
        used = self.degrees if blocks is None else [self.degrees[b] for b in blocks]
        S = self.kernel.scale(X if self.centre is None else X - like(self.centre, X))
        unit, radius = directions(S)
        log_weight = self.kernel.log_weight(S)
        logs = np.log(self.kernel.series(max(self.degrees))[list(used)])
        xp = namespace(radius)
        log_radius = xp.log(xp.where(radius > 0, radius, xp.ones_like(radius)))
        powers = like(np.array(used, dtype=float), radius)
        exponent = like(logs, radius)[None, :] / 2 + log_weight[:, None]
        exponent = exponent + powers[None, :] * log_radius[:, None]
        # A zero row has u = 0, so its weight of a positive degree does not matter
        weights = square_root(self.kernel.variance) * xp.exp(exponent)
        return Inputs(unit, weights, radius, None, log_weight)


@stored
@dataclass(frozen=True)
class MeanSplitExpansion:
    """The series in x_⊥·y_⊥ after the part along the mean direction m is split off.

    With x = α m + x_⊥, (αα' + x_⊥·y_⊥)ⁿ summed over n gives Σ_j κ_j(α, α') (x_⊥·y_⊥)ʲ with
    κ_j(α, α') = Σ_n a_{n+j} C(n+j, j) (αα')ⁿ, a kernel of one variable. It is written in its
    eigenfunctions over the data, of which one or two are enough when α varies little: every
    eigenfunction kept is a block. Only x_⊥ is sketched, which is small for raw nonnegative data.
    """

    keeps_sparse: ClassVar[bool] = False
    kernel: DotProductKernel
    direction: Annotated[np.ndarray, array("f", "d")]  # unit
    degrees: Annotated[tuple[int, ...], Count(MOST_DEGREE)]
    # φ_b(α) = Σ_n functions[b, n] (α/reach)ⁿ
    functions: Annotated[np.ndarray, array("f", "blocks", "n")]
    reach: float

    @classmethod
    def fit(
        cls, kernel: DotProductKernel, max_degree: int, X: np.ndarray, *, share: float = 1e-3
    ) -> MeanSplitExpansion:
        """Eigenfunctions on the rows of X that carry more than `share` of their degree."""
        S = kernel.scale(X)
        direction = mean_direction(S)
        alpha = S @ direction
        radius = np.linalg.norm(S - alpha[:, None] * direction, axis=1)
        reach = float(np.abs(alpha).max()) or 1.0
        weight = np.exp(kernel.log_weight(S))
        last = kernel.last_degree
        n_series = max_degree + 40 if last is None else max(last, max_degree)
        with np.errstate(divide="ignore"):
            log_a = np.log(kernel.series(n_series))
        degrees, functions = [], []
        powers = (alpha / reach)[:, None] ** np.arange(n_series + 1)
        for degree in range(max_degree + 1):
            n = np.arange(n_series + 1 - degree)
            log_binomial = gammaln(n + degree + 1.0) - gammaln(n + 1.0) - gammaln(degree + 1.0)
            # in logarithms: 0 · ∞ where the series has ended
            roots = np.exp((log_a[degree:] + log_binomial) / 2 + n * math.log(reach))
            values = powers[:, : len(n)] * roots * (weight * radius**degree)[:, None]
            gram = values.T @ values
            if not np.all(np.isfinite(gram)):
                raise ValueError(OVERFLOW)
            eigenvalues, vectors = np.linalg.eigh(gram)
            # a block of degree 0 costs one exact column: keep more of them
            least = (share**2 if degree == 0 else share) * eigenvalues[-1]
            for k in np.flatnonzero(eigenvalues > max(least, 0))[::-1]:
                sign = 1.0 if np.sum(values @ vectors[:, k]) >= 0 else -1.0
                degrees.append(degree)
                functions.append(np.pad(sign * roots * vectors[:, k], (0, degree)))
        return cls(kernel, direction, tuple(degrees), np.array(functions), reach)

    def inputs(self, X: Array, blocks: Sequence[int] | None = None) -> Inputs[np.ndarray]:
        used = list(range(len(self.degrees)) if blocks is None else blocks)
        S = self.kernel.scale(X)
        xp = namespace(X)
        unit, radius, alpha = _split(S, self.direction)
        log_weight = self.kernel.log_weight(S)
        place = (alpha / self.reach)[:, None]
        functions = like(self.functions[used], X)
        weights = 0 * place
        for n in reversed(range(functions.shape[1])):  # Horner's rule: JAX has no gradient of 0⁰
            weights = weights * place + functions[None, :, n]
        degrees = like(np.array(self.degrees, dtype=float)[used], X)
        # where u = 0 the weight of a positive degree does not matter, but for gradients
        length = xp.where(radius > 0, radius, xp.ones_like(radius))
        scale = length[:, None] ** degrees[None, :] * xp.exp(log_weight)[:, None]
        scale = scale * square_root(self.kernel.variance)
        return Inputs(unit, weights * scale, radius, alpha, log_weight)


@stored
@dataclass(frozen=True)
class EigenExpansion:
    """The Taylor series in x_⊥·y_⊥, its coefficients written in eigenfunctions over the data.

    A kernel f(⟨s(x), s(y)⟩, p(x) + p(y)) (`ExpandedKernel`) has Taylor coefficients c_j(t, p + p').
    With the mean direction m split off, x = α m + x_⊥ (α = 0 without a split),

        k(x, y) = Σ_j c_j(αα', p + p') (x_⊥·y_⊥)ʲ,

    and every c_j is a positive definite function of the two numbers (α, p) of a row. A few of its
    eigenfunctions over the rows of a sample are enough, as it is smooth: each is a block. Rows with
    other (α, p) than the sample has get their weights by Nyström's formula: the approximate
    coefficient is c_j(·, nodes) c_j(nodes, nodes)⁻¹ c_j(nodes, ·), cut off, which is never above
    c_j on the diagonal and exact at the nodes.
    """

    kernel: ExpandedKernel
    # unit, or None if nothing is split off
    direction: Annotated[np.ndarray | None, array("f", "d")]
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
        every = cls(kernel, direction, tuple(degrees), nodes, np.array(functions))
        return every._without_negligible(X[used][:256])

    def _without_negligible(self, X: np.ndarray) -> EigenExpansion:
        """Without the blocks that are next to nothing between the rows of X."""
        inputs = self.inputs(X)
        cosines = inputs.unit @ inputs.unit.T
        kept = []
        # below 10⁻⁴ of the kernel's root mean square
        least = 1e-8 * off_diagonal_mean(self.kernel(X) ** 2)
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
        unit, radius = directions(S)
        return unit, radius, 0 * radius
    m = like(direction, S)
    alpha = S @ m
    return *directions(S - alpha[:, None] * m[None, :]), alpha


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
    # until 10⁻⁶ of c_j(x, x) is left at most: about ten nodes for the kernels there are
    while len(chosen) < min(32, len(places)) and left.max() > 1e-6:
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
    kept = w > 1e-7 * w[-1]  # others are rounding
    whitening = V[:, kept] / np.sqrt(w[kept]) / size[:, None]
    white = values @ whitening  # (n, k), white whiteᵀ is the kernel of the rows
    eigenvalues, vectors = np.linalg.eigh(white.T @ white / len(values))
    functions = []
    for k in reversed(range(len(eigenvalues))):
        sign = 1.0 if np.sum(white @ vectors[:, k]) >= 0 else -1.0
        functions.append((sign * whitening @ vectors[:, k], float(eigenvalues[k])))
    return functions


Expansion = MaclaurinExpansion | MeanSplitExpansion | EigenExpansion


def expand(
    kernel: ExpandedKernel,
    max_degree: int,
    sample: np.ndarray,
    centre: np.ndarray | None,
    *,
    mean_split: bool = False,
) -> Expansion:
    """The expansion of a resolved kernel, for data with that sample (m, d) and centre (d,)."""
    if not kernel.has_terms(max_degree):
        raise Unsuited(
            f"{kernel} has no term up to max_degree={max_degree}: raise max_degree to its first"
        )
    if not isinstance(kernel, DotProductKernel):  # its coefficients depend on both rows
        return EigenExpansion.fit(kernel, max_degree, sample, mean_split=mean_split)
    if mean_split and not kernel.shift_invariant:  # centred data have no mean to split off
        split = MeanSplitExpansion.fit(kernel, max_degree, sample)
        if split.degrees:  # none where the kernel is zero on the sample
            return split
    degrees = tuple(np.flatnonzero(kernel.series(max_degree) > 0).tolist())
    return MaclaurinExpansion(kernel, degrees, centre if kernel.shift_invariant else None)

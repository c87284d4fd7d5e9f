"""Averages over pairs of rows that decide how a budget is best spent.

The mean squared error of an approximate kernel over pairs of data is squared bias plus variance.
Both depend on the data only through a few averages over pairs, which are collected here in one
blocked pass (compiled where the sketch has `pair_sum_terms`); `allocation` then optimises without
looking at the data again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from ..._backends import backend_of
from ...kernels import ExpandedKernel
from ...pairs import PairStatistics
from ...sketches import SeparableSketch
from ...sketches.monomials import monomial_projections
from ..study import OVERFLOW
from .expansion import Inputs


@dataclass(frozen=True)
class ExpansionMoments:
    """Averages over pairs of distinct rows (U-statistics) that decide an allocation.

    gram[b, c] = E[t_b t_c]; tail[b] = E[t_b R] and tail_square = E[R²] for the part R of the
    kernel that the expansion leaves out; kernel_square = E[k²]; terms[b] the mean variance terms
    of block b (`SeparableSketch.terms`, empty for degree 0).
    """

    degrees: np.ndarray
    gram: np.ndarray
    tail: np.ndarray
    tail_square: float
    kernel_square: float
    terms: list[list[float]]
    dimension: int
    sketch: SeparableSketch
    packed: bool
    _curves: dict[int, np.ndarray] = field(default_factory=dict, repr=False)

    @classmethod
    def of(
        cls,
        inputs: Inputs[np.ndarray],
        degrees: tuple[int, ...],
        kernel: ExpandedKernel,
        sketch: SeparableSketch,
        part: str,
        block_size: int = 256,
    ) -> ExpansionMoments:
        """One pass over the pairs of m rows, for a sketch and a part (real or complex).

        Works block by block: memory is a few times block_size · 4 block_size numbers per degree.
        """
        n_blocks = len(degrees)
        gram, tail, rest_and_kernel = (
            np.zeros((n_blocks, n_blocks)),
            np.zeros(n_blocks),
            np.zeros(2),
        )
        terms: list[Any] = [0.0] * n_blocks
        count = 0.0
        numbers = np.array(degrees)
        squared_unit = inputs.unit**2
        lengths = squared_unit.sum(axis=1)  # 1, or 0 for a zero row
        weights = np.ascontiguousarray(inputs.weights)
        with np.errstate(over="ignore", invalid="ignore"):  # a clearer error follows below
            for block in _pair_blocks(len(inputs.unit), block_size):
                rows, columns = block.rows, block.columns
                pairs = PairStatistics(
                    dot=inputs.unit[rows] @ inputs.unit[columns].T,
                    norms=lengths[rows, None] * lengths[None, columns],
                    squares=squared_unit[rows] @ squared_unit[columns].T,
                    dimension=inputs.unit.shape[1],
                )
                n, m = pairs.dot.shape
                count += block.weight * (n * m - (n if block.skips_diagonal else 0))
                values = _kernel_values(kernel, inputs, rows, columns, pairs.dot)
                left, right = weights[rows], weights[columns]
                sums = backend_of(pairs.dot).pair_gram(
                    pairs.dot, values, left, right, numbers, block.skips_diagonal
                )
                for total, more in zip((gram, tail, rest_and_kernel), sums, strict=True):
                    total += block.weight * more
                both = (left, right), (lengths[rows], lengths[columns])
                for b, more in _variance_terms(sketch, part, pairs, block, numbers, *both):
                    terms[b] = terms[b] + more
        if not all(np.all(np.isfinite(total)) for total in (gram, rest_and_kernel)):
            raise ValueError(OVERFLOW)
        last = kernel.last_degree
        # Eigenfunctions of a mean split are cut off, so that they leave out a part even then
        is_complete = inputs.offset is None and last is not None and last <= max(degrees)
        return cls(
            degrees=numbers,
            gram=gram / count,
            tail=0 * tail if is_complete else tail / count,
            tail_square=0.0 if is_complete else rest_and_kernel[0] / count,
            kernel_square=rest_and_kernel[1] / count,
            terms=[list(np.atleast_1d(total) / count) for total in terms],
            dimension=inputs.unit.shape[1],
            sketch=sketch,
            packed=sketch.is_complex and part == "real",
        )

    def variance(self, b: int, n_projections: Any) -> Any:
        """Mean variance of block b at θ = 1 with that many projections (a number or an array)."""
        # np.max of a number takes longer than all the rest
        largest = n_projections if isinstance(n_projections, int) else int(np.max(n_projections))
        if len(self._curves.get(b, ())) < largest:
            D = np.arange(1, 1 << largest.bit_length())
            curve = self.sketch.combine(self.terms[b], D, self.dimension)
            self._curves[b] = np.maximum(curve, 0.0)
        return self._curves[b][n_projections - 1]

    def squared_bias(self, theta: np.ndarray) -> float:
        """E (k − Σ θ_b t_b)²: no cancellation where θ is near 1."""
        missing = 1 - theta
        value = self.tail_square + 2 * missing @ self.tail + missing @ self.gram @ missing
        return max(float(value), 0.0)

    def exact_projections(self, degree: int) -> int:
        return monomial_projections(degree, self.dimension, self.packed)


class PairBlock(NamedTuple):
    """The pairs of some rows and some columns, all counted `weight` times."""

    rows: slice
    columns: slice
    weight: float
    skips_diagonal: bool  # a square block on the diagonal, without the pairs i = i


def _pair_blocks(m: int, size: int) -> Iterator[PairBlock]:
    """Blocks that cover every ordered pair i ≠ j: squares, and rectangles that count twice.

    A single row has no pair; then the pair of the row with itself stands in.
    """
    for start in range(0, m, size):
        rows = slice(start, min(start + size, m))
        yield PairBlock(rows, rows, 1.0, m > 1)
        for left in range(rows.stop, m, 4 * size):
            yield PairBlock(rows, slice(left, min(left + 4 * size, m)), 2.0, False)


def _variance_terms(
    sketch: SeparableSketch,
    part: str,
    pairs: PairStatistics[np.ndarray],
    block: PairBlock,
    degrees: np.ndarray,
    weights: tuple[np.ndarray, np.ndarray],
    lengths: tuple[np.ndarray, np.ndarray],
) -> Iterator[tuple[int, np.ndarray]]:
    """Sums of the variance terms of every block times ω² ω², by compiled code where there is
    some."""
    highest = int(degrees.max())
    if highest == 0:
        return
    sums = sketch.pair_sum_terms(part, pairs.dimension, highest)
    if sums is not None:
        table = backend_of(pairs.dot).pair_terms(
            pairs.dot,
            pairs.squares,
            *weights,
            degrees,
            *lengths,
            *(sums.straight, sums.crossed, sums.shared, sums.order),
            block.skips_diagonal,
            shape=(len(degrees), max(sums.n_terms, 2)),
        )
        if table is not None:  # the backend sums these
            for b in np.flatnonzero(degrees > 0).tolist():
                yield b, block.weight * table[b, : sums.n_terms]
            return
    every_degree = sketch.terms(pairs, highest, part, every_budget=True)
    for n, terms in enumerate(every_degree, start=1):
        weighted = [block.weight * term for term in terms]
        for term in weighted if block.skips_diagonal else ():
            np.fill_diagonal(term, 0.0)
        for b in np.flatnonzero(degrees == n).tolist():
            u, v = (side[:, b] ** 2 for side in weights)
            yield b, np.array([u @ term @ v for term in weighted])


def _kernel_values(
    kernel: ExpandedKernel,
    inputs: Inputs[np.ndarray],
    rows: slice,
    columns: slice,
    cosines: np.ndarray,
) -> np.ndarray:
    t = inputs.radius[rows, None] * inputs.radius[None, columns] * cosines
    if inputs.offset is not None:
        t = t + inputs.offset[rows, None] * inputs.offset[None, columns]
    return kernel.value(t, inputs.trait[rows, None] + inputs.trait[None, columns])

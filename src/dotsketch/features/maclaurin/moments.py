"""Averages over pairs of rows that decide how a budget is best spent.

The mean squared error of an approximate kernel over pairs of data is squared bias plus variance.
Both depend on the data only through a few averages over pairs, which are collected here in one
blocked pass (compiled where the sketch has `pair_sum_terms`); `allocation` then
optimises without looking at the data again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from ..._backends import backend_of
from ...kernels import ExpandedKernel
from ...pairs import PairStatistics
from ...sketches.base import PairSumTerms, SeparableSketch
from ...sketches.monomials import monomial_projections
from ..errors import OVERFLOW
from .eigenfunctions import Inputs


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
    searched: dict[Any, Any] = field(default_factory=dict, repr=False, compare=False)  # allocations

    @classmethod
    def of(
        cls,
        inputs: Inputs[np.ndarray],
        degrees: tuple[int, ...],
        kernel: ExpandedKernel,
        sketches: list[tuple[SeparableSketch, str]],
        block_size: int = 256,
    ) -> list[ExpansionMoments]:
        """One pass over the pairs of m rows for several sketches (and parts: real or complex).

        Works block by block: memory is a few times block_size · 4 block_size numbers a degree.
        """
        with np.errstate(over="ignore", invalid="ignore"):  # a clearer error follows below
            sums = _PairSums(inputs, np.array(degrees), len(sketches))
            for block in _pair_blocks(len(inputs.unit), block_size):
                sums.add(kernel, sketches, block)
        if not all(np.all(np.isfinite(total)) for total in (sums.gram, sums.rest_and_kernel)):
            raise ValueError(OVERFLOW)
        last = kernel.last_degree
        # Eigenfunctions of a mean split are cut off, so that they leave out a part even then
        is_series = inputs.offset is None
        complete = is_series and last is not None and last <= max(degrees)
        return [
            cls(
                degrees=np.array(degrees),
                gram=sums.gram / sums.count,
                tail=0 * sums.tail if complete else sums.tail / sums.count,
                tail_square=0.0 if complete else sums.rest_and_kernel[0] / sums.count,
                kernel_square=sums.rest_and_kernel[1] / sums.count,
                terms=[list(np.atleast_1d(total) / sums.count) for total in totals],
                dimension=inputs.unit.shape[1],
                sketch=sketch,
                packed=sketch.is_complex and part == "real",
            )
            for (sketch, part), totals in zip(sketches, sums.terms, strict=True)
        ]

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


class _Block(NamedTuple):
    """The pairs of some rows and some columns, all counted `weight` times."""

    rows: slice
    columns: slice
    weight: float
    skips_diagonal: bool  # a square block on the diagonal, without the pairs i = i

    @property
    def shape(self) -> tuple[int, int]:
        return self.rows.stop - self.rows.start, self.columns.stop - self.columns.start

    def masked(self, values: np.ndarray) -> np.ndarray:
        """Values of the pairs times their weight, zero where a pair is skipped."""
        values = self.weight * values
        if self.skips_diagonal:
            np.fill_diagonal(values, 0.0)
        return values


def _pair_blocks(m: int, size: int) -> Iterator[_Block]:
    """Blocks that cover every ordered pair i ≠ j: squares, and rectangles that count twice.

    A single row has no pair; then the pair of the row with itself stands in.
    """
    for start in range(0, m, size):
        stop = min(start + size, m)
        yield _Block(slice(start, stop), slice(start, stop), 1.0, skips_diagonal=m > 1)
        for left in range(stop, m, 4 * size):
            yield _Block(
                slice(start, stop), slice(left, min(left + 4 * size, m)), 2.0, skips_diagonal=False
            )


class _PairSums:
    """Running sums over pairs, in float64."""

    def __init__(self, inputs: Inputs[np.ndarray], degrees: np.ndarray, n_sketches: int):
        B = len(degrees)
        self.inputs = inputs
        self.degrees = degrees
        self.weights = np.ascontiguousarray(inputs.weights)
        self.squared_weights = inputs.weights**2
        self.squared_unit = inputs.unit**2
        self.lengths = self.squared_unit.sum(axis=1)  # 1, or 0 for a zero row
        self.count = 0.0
        self.gram, self.tail = np.zeros((B, B)), np.zeros(B)
        self.rest_and_kernel = np.zeros(2)  # Σ R², Σ k²
        self.terms: list[list[Any]] = [[0.0] * B for _ in range(n_sketches)]

    def add(
        self,
        kernel: ExpandedKernel,
        sketches: list[tuple[SeparableSketch, str]],
        block: _Block,
    ) -> None:
        """Add the pairs of a block, for all sketches."""
        rows, columns, *_ = block
        unit = self.inputs.unit
        pairs = PairStatistics(
            dot=unit[rows] @ unit[columns].T,
            norms=self.lengths[rows, None] * self.lengths[None, columns],
            squares=self.squared_unit[rows] @ self.squared_unit[columns].T,
            dimension=unit.shape[1],
        )
        values = _kernel_values(kernel, self.inputs, rows, columns, pairs.dot)
        n, m = block.shape
        self.count += block.weight * (n * m - (n if block.skips_diagonal else 0))
        self._add_powers(pairs.dot, values, block)
        max_degree = int(self.degrees.max())
        for (sketch, part), totals in zip(sketches, self.terms, strict=True):
            known = sketch.pair_sum_terms(part, pairs.dimension, max_degree)
            if known is None or not self._add_known_terms(known, pairs, block, totals):
                self._add_terms(sketch, part, pairs, block, totals)

    def _add_powers(self, dot: np.ndarray, values: np.ndarray, block: _Block) -> None:
        """Add the sums of t t', t R, R² and k²."""
        left, right = self.weights[block.rows], self.weights[block.columns]
        sums = backend_of(dot).pair_gram(
            dot, values, left, right, self.degrees, block.skips_diagonal
        )
        for total, found in zip((self.gram, self.tail, self.rest_and_kernel), sums, strict=True):
            total += block.weight * found

    def _add_terms(
        self,
        sketch: SeparableSketch,
        part: str,
        pairs: PairStatistics[np.ndarray],
        block: _Block,
        totals: list[Any],
    ) -> None:
        """Add the variance terms of one sketch, times the weights ω² ω²."""
        max_degree = int(self.degrees.max())
        if max_degree == 0:
            return
        every = sketch.terms(pairs, max_degree, part, every_budget=True)
        for n, terms in enumerate(every, start=1):
            for b in np.flatnonzero(self.degrees == n):
                u = self.squared_weights[block.rows, b]
                v = self.squared_weights[block.columns, b]
                totals[b] = totals[b] + np.array([u @ block.masked(t) @ v for t in terms])

    def _add_known_terms(
        self,
        known: PairSumTerms,
        pairs: PairStatistics[np.ndarray],
        block: _Block,
        totals: list[Any],
    ) -> bool:
        """The same from a description of the terms; False where no backend sums these."""
        found = backend_of(pairs.dot).pair_terms(
            pairs.dot,
            pairs.squares,
            self.weights[block.rows],
            self.weights[block.columns],
            self.degrees,
            self.lengths[block.rows],
            self.lengths[block.columns],
            known.straight,
            known.crossed,
            known.shared,
            known.order,
            block.skips_diagonal,
            shape=(len(self.degrees), max(known.n_terms, 2)),
        )
        if found is None:
            return False
        for b in np.flatnonzero(self.degrees > 0):
            totals[b] = totals[b] + block.weight * found[b, : known.n_terms]
        return True


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

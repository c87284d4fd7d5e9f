"""Averages over pairs of rows that decide how a budget is best spent.

The mean squared error of an approximate kernel over pairs of data is squared bias plus variance.
Both depend on the data only through a few averages over pairs, which are collected here in one
blocked pass (compiled where the sketch has `pair_sum_terms`); `allocation` then optimises without
looking at the data again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from sklearn.isotonic import isotonic_regression

from ..._backends import backend_of
from ...kernels import ExpandedKernel
from ...pairs import PairStatistics
from ...sketches import SeparableSketch, monomial_projections
from ..study import OVERFLOW
from .expansion import Inputs


@dataclass(frozen=True)
class ExpansionMoments:
    """Averages over pairs of distinct rows (U-statistics) that decide an allocation.

    gram[b, c] = E[t_b t_c]; tail[b] = E[t_b R] and tail_square = E[R²] for the part R of the
    kernel that the expansion leaves out; kernel_square = E[k²].

    For a budget of projections: variances[b, D − 1], the mean variance of block b at θ = 1 with D
    of them (zero for degree 0); gains[b, D − 1], by how much the convex stand-in for that falls
    with one more; and exact_projections[b], how many all monomials take (budget + 1 if more).
    """

    degrees: np.ndarray
    gram: np.ndarray
    tail: np.ndarray
    tail_square: float
    kernel_square: float
    budget: int
    variances: np.ndarray
    gains: np.ndarray
    exact_projections: np.ndarray

    @classmethod
    def of(
        cls,
        inputs: Inputs[np.ndarray],
        degrees: tuple[int, ...],
        kernel: ExpandedKernel,
        sketch: SeparableSketch,
        part: str,
        budget: int,
        *,
        block_size: int = 256,
    ) -> ExpansionMoments:
        """One pass over the pairs of m rows, for a sketch and a part (real or complex).

        Works block by block: memory is a few times block_size · 4 block_size numbers per degree.
        """
        n_blocks, numbers, d = len(degrees), np.array(degrees), inputs.unit.shape[1]
        gram, tail = np.zeros((n_blocks, n_blocks)), np.zeros(n_blocks)
        rest_and_kernel, count = np.zeros(2), 0.0
        squared_unit = inputs.unit**2
        lengths = squared_unit.sum(axis=1)  # 1, or 0 for a zero row
        weights = np.ascontiguousarray(inputs.weights)
        highest = max(degrees)
        sums = sketch.pair_sum_terms(part, d, highest)
        terms = np.zeros((n_blocks, max(sums.n_terms, 2)))  # `SeparableSketch.terms`
        with np.errstate(over="ignore", invalid="ignore"):  # a clearer error follows below
            for rows, columns, weight, skips_diagonal in _pair_blocks(len(weights), block_size):
                pairs = PairStatistics(
                    dot=inputs.unit[rows] @ inputs.unit[columns].T,
                    norms=lengths[rows, None] * lengths[None, columns],
                    squares=squared_unit[rows] @ squared_unit[columns].T,
                    dimension=d,
                )
                n, m = pairs.dot.shape
                count += weight * (n * m - (n if skips_diagonal else 0))
                values = _kernel_values(kernel, inputs, rows, columns, pairs.dot)
                left, right = weights[rows], weights[columns]
                backend = backend_of(pairs.dot)
                more = backend.pair_gram(pairs.dot, values, left, right, numbers, skips_diagonal)
                for total, part_of_it in zip((gram, tail, rest_and_kernel), more, strict=True):
                    total += weight * part_of_it
                if not highest:
                    continue
                table = backend.pair_terms(
                    *(pairs.dot, pairs.squares, left, right, numbers),
                    *(lengths[rows], lengths[columns]),
                    *(sums.straight, sums.crossed, sums.shared, sums.order),
                    skips_diagonal,
                    shape=terms.shape,
                )
                if table is None:
                    every_degree = sketch.terms(pairs, highest, part, every_budget=True)
                    table = _sums(every_degree, left, right, numbers, skips_diagonal, terms.shape)
                terms += weight * table
        if not all(np.all(np.isfinite(total)) for total in (gram, rest_and_kernel)):
            raise ValueError(OVERFLOW)
        last = kernel.last_degree
        # Eigenfunctions of a mean split are cut off, so that they leave out a part even then
        is_complete = inputs.offset is None and last is not None and last <= highest
        means = terms[:, : sums.n_terms] / count
        variances, gains = _curves(sketch, means, numbers, d, budget)
        packed = sketch.is_complex and part == "real"
        exact = [min(monomial_projections(n, d, packed), budget + 1) for n in degrees]
        return cls(
            degrees=numbers,
            gram=gram / count,
            tail=0 * tail if is_complete else tail / count,
            tail_square=0.0 if is_complete else rest_and_kernel[0] / count,
            kernel_square=rest_and_kernel[1] / count,
            budget=budget,
            variances=variances,
            gains=gains,
            exact_projections=np.array(exact),
        )


def _sums(
    every_degree: Iterator[list[np.ndarray]],
    left: np.ndarray,
    right: np.ndarray,
    degrees: np.ndarray,
    skips_diagonal: bool,
    shape: tuple[int, int],
) -> np.ndarray:  # (n, n_blocks), (m, n_blocks) -> (n_blocks, n_terms)
    """Sums of the terms of every block over a block of pairs, where the backend has none."""
    table = np.zeros(shape)
    for degree, terms in enumerate(every_degree, start=1):
        for term in terms if skips_diagonal else ():
            np.fill_diagonal(term, 0.0)
        for b in np.flatnonzero(degrees == degree).tolist():
            u, v = left[:, b] ** 2, right[:, b] ** 2
            table[b, : len(terms)] = [u @ term @ v for term in terms]
    return table


def _curves(
    sketch: SeparableSketch,
    terms: np.ndarray,
    degrees: np.ndarray,
    dimension: int,
    budget: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Variances of every block for 1, …, budget projections, and gains of their stand-ins."""
    D = np.arange(1, max(budget, 1) + 1)
    variances, gains = np.zeros((len(degrees), len(D))), np.zeros((len(degrees), len(D) - 1))
    for b in np.flatnonzero(degrees).tolist():
        of_block = terms[b].tolist()
        variances[b] = np.maximum(sketch.combine(of_block, D, dimension), 0.0)
        surrogate = sketch.surrogate(of_block, D, dimension)
        if len(D) > 1:
            # isotonic gains are the slopes of the largest convex curve below the surrogate
            falls = np.maximum(surrogate[:-1] - surrogate[1:], 0)
            gains[b] = isotonic_regression(falls, increasing=False)
    return variances, gains


def _pair_blocks(m: int, size: int) -> Iterator[tuple[slice, slice, float, bool]]:
    """Blocks that cover every ordered pair i ≠ j: rows, columns, how often their pairs count, and
    whether the pairs i = i are left out.

    Squares on the diagonal, and rectangles that count twice. A single row has no pair; then the
    pair of the row with itself stands in.
    """
    for start in range(0, m, size):
        rows = slice(start, min(start + size, m))
        yield rows, rows, 1.0, m > 1
        for left in range(rows.stop, m, 4 * size):
            yield rows, slice(left, min(left + 4 * size, m)), 2.0, False


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

"""The blocks of an expansion with their random feature maps, and the columns they make of rows."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from array_api_compat import is_numpy_array

from ..._arrays import Array, HostParts, Parts, dense, namespace
from ..._backends import dense_like
from ..._backends.chunks import column_views, fill
from ..._support.stored import stored
from ...sketches import MonomialSketch, Sketch, make_sketch
from .allocation import Allocation
from .series import Expansion


@stored
class SketchedBlock(NamedTuple):
    """One block of an expansion with its random feature map; no sketch for a constant."""

    number: int  # which weight function of the expansion
    root: float  # √θ
    sketch: Sketch | None
    weights: Any

    @property
    def degree(self) -> int:
        return 0 if self.sketch is None else self.sketch.degree


def draw_blocks(
    table: Allocation,
    sketch: str,
    dimension: int,
    output: str,
    rng: np.random.Generator,
) -> list[SketchedBlock]:
    """Sketches and weights of the blocks in use, one random stream each."""
    field = "real" if output == "real" else "complex"
    blocks = []
    for b, stream in zip(
        np.flatnonzero(table.projections), rng.spawn(len(table.degrees)), strict=False
    ):
        degree, D = int(table.degrees[b]), int(table.projections[b])
        root = float(np.sqrt(table.coefficients[b]))
        if degree == 0:
            blocks.append(SketchedBlock(int(b), root, None, ()))
            continue
        chosen: Sketch
        if table.exact[b]:
            packed = output == "complex_to_real"
            chosen = MonomialSketch.of(degree, dimension, field, packed)
        else:
            chosen = make_sketch(sketch, degree, D, field)
        blocks.append(SketchedBlock(int(b), root, chosen, chosen.sample(dimension, stream)))
    return blocks


def blocks_cost(table: Allocation, sketch: str, output: str, dimension: int) -> float:
    """About how many arithmetic operations the sketches of one row take."""
    field = "real" if output == "real" else "complex"
    sketched = (table.degrees > 0) & (table.projections > 0) & ~table.exact
    counts = zip(table.degrees[sketched], table.projections[sketched], strict=True)
    costs = (make_sketch(sketch, int(n), int(D), field).cost(dimension) for n, D in counts)
    return float(sum(costs))


def blocks_diagonal(
    expansion: Expansion, blocks: list[SketchedBlock], X: Array
) -> np.ndarray:  # (n, d) -> (n,)
    """Σ over the blocks of coefficient · ω(x)² |u(x)|²ⁿ, in float64."""
    numbers = [block.number for block in blocks]
    degrees = np.array([block.degree for block in blocks])
    roots = np.array([block.root for block in blocks])
    total = np.empty(X.shape[0])
    step = 1 + (1 << 19) // X.shape[1]
    for start in range(0, len(total), step):  # sparse rows are made dense a few at a time
        rows = np.asarray(dense(X[start : start + step]), dtype=np.float64)
        inputs = expansion.inputs(rows, numbers)
        lengths = np.sum(inputs.unit**2, axis=1)  # one, or zero for a zero row
        squares = (roots * inputs.weights) ** 2
        total[start : start + step] = np.sum(squares * lengths[:, None] ** degrees, axis=1)
    return total


class BlockColumns:
    """The columns of all blocks of rows like X, and zeros for what is left of the budget.

    It is a function of a chunk of rows: `columns(rows)` returns new arrays, `columns(rows, out)`
    fills views of a NumPy result.
    """

    def __init__(
        self,
        expansion: Expansion,
        blocks: list[SketchedBlock],
        unused: int,
        is_complex: bool,
        X: Array,
    ):
        self.expansion, self.blocks, self.unused = expansion, blocks, unused
        self.dtype = X.dtype
        units = X if expansion.keeps_sparse else dense_like(X)
        self.prepared: list[Any] = [
            _Constant(1, is_complex)
            if block.sketch is None
            else block.sketch.prepared(block.weights, units)
            for block in blocks
        ]
        self.widths = [1 if b.sketch is None else b.sketch.n_projections for b in blocks]
        if unused:
            self.prepared.append(_Constant(unused, is_complex))
            self.widths.append(unused)

    def __call__(self, rows: Array, out: HostParts | None = None) -> Parts:
        unit, scales = self._inputs(rows)
        found: list[Any] = []
        start = 0
        for prepared, width, scale in zip(self.prepared, self.widths, scales, strict=True):
            views = None if out is None else column_views(out, start, start + width)
            found.append(prepared(unit, row_scale=scale, out=views))
            start += width
        if out is not None:
            return out
        real, imaginary = zip(*found, strict=True)
        xp = namespace(real[0])
        is_real = imaginary[0] is None
        return xp.concat(real, axis=1), None if is_real else xp.concat(imaginary, axis=1)

    def _inputs(self, rows: Array) -> tuple[Array, list[Array]]:
        """The inputs of the sketches, and the weights (n, 1) of their columns."""
        numbers = [block.number for block in self.blocks]
        with np.errstate(over="ignore", invalid="ignore"):  # an error follows
            inputs = self.expansion.inputs(
                rows if self.expansion.keeps_sparse else dense(rows), numbers
            )
        columns = (inputs.weights[:, i : i + 1] for i in range(len(numbers)))
        scales = [b.root * w for b, w in zip(self.blocks, columns, strict=True)]
        check_weights(scales, self.blocks, self.dtype)
        if self.unused:
            scales.append(0 * scales[0])
        return inputs.unit, scales


class _Constant:
    """Columns of a block without a sketch: the weights of the rows themselves."""

    def __init__(self, width: int, is_complex: bool):
        self.width, self.is_complex = width, is_complex

    def __call__(self, rows: Array, *, row_scale: Array, out: HostParts | None) -> Parts:
        if out is not None:
            fill(out, (row_scale, 0.0))
            return out
        real = namespace(row_scale).broadcast_to(row_scale, (row_scale.shape[0], self.width))
        return real, 0 * real if self.is_complex else None


def check_weights(scales: list[Array], blocks: list[SketchedBlock], dtype: Any) -> None:
    """Raise if features may leave the range of their dtype: weights times √d to the degree."""
    for scale, block in zip(scales, blocks, strict=True):
        if not is_numpy_array(scale) or not scale.size:
            continue
        largest = float(np.max(np.abs(scale)))  # NaN stays NaN
        if not np.log(max(largest, 1e-300)) + 4 * block.degree < np.log(np.finfo(dtype).max):
            raise ValueError(
                f"The features overflow {dtype}: scale X down, use a larger lengthscale or a "
                "smaller gamma, or use float64."
            )

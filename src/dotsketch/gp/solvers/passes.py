"""Passes over rows: products with ZᵀWZ that hold neither this matrix nor all of Z.

Several systems share the rows and differ in their weights, (ZᵀW_sZ + I/s) V = ZᵀW_sY: one for each
class, or a single one for a regression. A pass multiplies columns of all of them. The features of a
block of rows are computed, multiplied and forgotten, unless those of all rows fit into `memory`.

Most passes multiply in single precision, and add a few blocks in it; all other sums over blocks are
in double precision. An exact pass computes the features from the rows as they are given and works
in double precision.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import Any, NamedTuple

import numpy as np

from ..._backends import add_adjoint
from ..._support.threads import run_strips, threads_for_features
from ...rows import Rows
from ...rows.fold import most_states
from ...rows.sources import Block
from ..packed import PackedMatrix

BLOCK_BYTES = 1 << 24  # of features in single precision: a block stays near the caches
LEAST_ROWS, MOST_ROWS = 64, 4096  # of a block
GROUP_ROWS = 1 << 16  # whose sums start at zero: few, since they may be large
# Blocks of some passes have a quarter of the rows: of exact ones, for twice the bytes of each, and
# of those that multiply few columns, which would otherwise wait for memory
PARTS = 4
PART_BLOCKS = 8  # whose products are added in single precision
FEW_COLUMNS = 3  # are multiplied faster one by one
STRIP = 1024  # features, about, for a thread
MANY_COLUMNS = 64  # are left to the threads of BLAS


class RowBlock(NamedTuple):
    """What a block of b rows says to S systems with m outputs each."""

    features: np.ndarray  # Z (b, D)
    targets: np.ndarray  # (b, S, m)
    weights: np.ndarray  # (b, S)


@dataclass(eq=False)
class RowSystems:
    """The rows and weights of S systems.

    `block(columns, exact)` computes the features, targets and weights of a block of rows; unless
    `exact`, in single precision where that is safe. Passes are folds over the rows, so that they
    run where the rows are.
    """

    rows: Rows
    block: Callable[[Block, bool], RowBlock]
    n_features: int
    n_systems: int
    n_outputs: int
    block_rows: int
    memory: int  # bytes; features are kept if they take no more
    verbose: bool = False
    group_blocks: int = 1
    n_passes: int = 0
    n_rows: int | None = None  # those of the rows, unless a stream does not know it
    share: float = 1.0  # of all rows, if these are a sample of them

    def __post_init__(self) -> None:
        self._row_bytes = 4 * (self.n_features + self.n_systems * (self.n_outputs + 1))
        n = self.n_rows = self.rows.n_rows or self.n_rows
        # rows that cannot be kept are not kept until they are too many
        kept = self.memory if n is None or self._row_bytes * n <= self.memory else 0
        self._parts = PARTS if self.block_rows % PARTS == 0 else 1  # groups have the same rows
        self._passes = {
            (exact, parts): self.rows.mapped(
                partial(_row_block, self.block, exact),
                block_rows=self.block_rows // parts,
                row_bytes=self._row_bytes,
                memory=kept if parts == 1 and not exact else 0,
            )
            for exact, parts in {(False, 1), (False, self._parts), (True, self._parts)}
        }

    def sampled(self, size: int) -> RowSystems:
        """Systems of `size` rows that stand for all of them, or these where they are few."""
        n = self.n_rows
        if n is None or n < 2 * size:
            return self
        # Rows of weight zero are left out. The first rows of a stream may be unlike the others
        is_stream = self.rows.n_rows is None
        rows = Rows(self.rows.spread(size, n) if is_stream else self.rows.sample(size))
        return replace(
            self,
            rows=rows,
            n_rows=None,
            block=partial(_scaled, self.block, n / size),
            share=self.share * size / n,
            memory=0,  # they are read once
        )

    def energies(self) -> np.ndarray:  # -> (D,)
        """Σ w z² of every column, with the largest weights of any system."""

        def add(total: np.ndarray, block: RowBlock, first: int) -> np.ndarray:
            with np.errstate(over="ignore"):  # it is found below
                total += block.weights.max(axis=1) @ np.square(block.features)
            return total

        return finite(self._sum(partial(np.zeros, self.n_features), add, False, "columns"))

    def column_moment(self, places: np.ndarray, factors: np.ndarray) -> np.ndarray:  # -> (s, s)
        """Σ w z zᵀ of the columns at these places, times factors, with the same weights."""
        low = factors.astype(np.float32)

        def add(total: AdjointSum, block: RowBlock, first: int) -> AdjointSum:
            Z = block.features[:, places] * low
            total.add(Z, Z * block.weights.max(axis=1, keepdims=True))
            return total

        shape = len(places), len(places)
        return finite(self._sum(partial(AdjointSum, shape), add, False, "columns").settled())

    @property
    def keeps_features(self) -> bool:
        """Whether the features of all rows are in memory, after a pass over them or before it."""
        n = self.n_rows
        return self._passes[False, 1].is_kept if n is None else self._row_bytes * n <= self.memory

    def adjoint(
        self,
        columns: Callable[[RowBlock, int], np.ndarray],
        width: int,
        *,
        exact: bool = False,
        small: bool = False,
        what: str = "pass",
    ) -> np.ndarray:  # -> (D, width)
        """Σ Zᵀ columns(block, first) over all blocks, which may be `small`.

        `first` is the number of the first row of a block.
        """

        def add(total: AdjointSum, block: RowBlock, first: int) -> AdjointSum:
            total.add(block.features, columns(block, first))
            return total

        zero = partial(AdjointSum, (self.n_features, width))
        return finite(self._sum(zero, add, exact, what, small).settled())

    def products(
        self, V: np.ndarray, owners: np.ndarray, *, what: str = "pass"
    ) -> np.ndarray:  # (D, c), (c,) -> (D, c)
        """ZᵀWZ V; column j has the weights of system owners[j]."""
        low, scales = single(V)

        def columns(block: RowBlock, first: int) -> np.ndarray:
            return times(block.features, low) * block.weights[:, owners]

        width = V.shape[1]
        found = self.adjoint(columns, width, small=width <= FEW_COLUMNS, what=what)
        found *= scales
        return found

    def cores(
        self,
        basis: np.ndarray,
        columns: Callable[[RowBlock, int], np.ndarray] | None = None,
        width: int = 0,
    ) -> tuple[np.ndarray, np.ndarray]:  # (D, r) -> (S, r (r + 1) / 2), (r, width)
        """UᵀZᵀW_sZU of every system, packed and side by side, and Σ UᵀZᵀ columns(block, first).

        Weights that all systems have in common are summed once. What a system adds to them is often
        on few rows: those of its class.
        """
        r, S = basis.shape[1], self.n_systems
        # The basis of the whole space is the identity, and the preconditioner the system itself:
        # single precision would not see directions in which the features are dependent
        whole = r == self.n_features
        project = None if whole else basis
        triangles = (S + 1) * (r * (r + 1) // 2)

        def add(total: np.ndarray, block: RowBlock, first: int) -> np.ndarray:
            Z, _, weights = block
            T = np.asarray(Z if project is None else times(Z, project), dtype=np.float64)
            least = weights.min(axis=1, keepdims=True)
            own = np.concatenate([weights - least, least], axis=1)
            for packed, extra in zip(total[:triangles].reshape(S + 1, -1), own.T, strict=True):
                rows = np.flatnonzero(extra)
                if len(rows):
                    PackedMatrix(packed).add_outer_products(T[rows] * np.sqrt(extra[rows])[:, None])
            if columns is not None:
                total[triangles:].reshape(r, width)[:] += T.T @ columns(block, first)
            return total

        total = self._sum(partial(np.zeros, triangles + r * width), add, whole, "subspace")
        moments = total[:triangles].reshape(S + 1, -1)
        moments[:S] += moments[S]
        return moments[:S], total[triangles:].reshape(r, width)

    def core_bytes(self, r: int) -> int:
        """What `cores` takes in memory: triangles of double precision, of a group of rows and of
        the sums of groups that are not yet added."""
        return 4 * r * r * (self.n_systems + 1) * self.n_states(self.n_rows)

    def n_states(self, n_rows: int | None) -> int:
        """How many sums a pass over so many rows holds at once."""
        rows = self.block_rows * self.group_blocks
        return most_states(None if n_rows is None else -(-n_rows // rows))

    def _sum(
        self,
        zero: Callable[[], Any],
        add: Callable[[Any, RowBlock, int], Any],
        exact: bool,
        what: str,
        small: bool = False,
    ) -> Any:
        """One pass: what `add` makes of all blocks, in a fixed order."""
        self.n_passes += 1
        parts = self._parts if exact or (small and not self.keeps_features) else 1
        return self._passes[exact, parts].fold(
            zero,
            add,
            group_blocks=self.group_blocks * parts,
            progress=what if self.verbose else None,
        )


def finite(sums: np.ndarray) -> np.ndarray:
    """Sums over the features, all of them finite."""
    if np.all(np.isfinite(sums)):
        return sums
    raise ValueError(
        "The sums over the features overflow or are not finite: scale the features down, or use a "
        "larger noise variance."
    )


class AdjointSum:
    """Σ ZᵀR over blocks; products of a few blocks of single precision are added in it."""

    def __init__(self, shape: tuple[int, int]):
        self._rows = np.zeros(shape[::-1])  # (c, D)
        self._part: np.ndarray | None = None
        self._blocks = 0  # that are in the part

    def add(self, Z: np.ndarray, R: np.ndarray) -> None:  # (b, D), (b, c)
        if R.shape[1] <= FEW_COLUMNS:
            for row, right in zip(self._rows, R.T, strict=True):
                row += right @ Z
            return
        R = R.astype(Z.dtype, copy=False)
        if Z.dtype != np.float32:
            self._rows += R.T @ Z
            return
        if self._part is None:
            self._part = np.zeros_like(self._rows, dtype=np.float32)
        part = self._part
        if len(part) > MANY_COLUMNS:
            add_adjoint(Z, R, part)
        else:
            run_strips(lambda own: add_adjoint(Z[:, own], R, part[:, own]), len(part.T), STRIP)
        self._blocks += 1
        if self._blocks == PART_BLOCKS:
            self._rows += self._part
            self._part[:], self._blocks = 0, 0

    def settled(self) -> np.ndarray:  # -> (D, c)
        """The sum so far."""
        if self._part is not None:
            self._rows += self._part
            self._part, self._blocks = None, 0
        return self._rows.T

    def __iadd__(self, other: AdjointSum) -> AdjointSum:
        self.settled()
        self._rows += other.settled().T
        return self

    def __add__(self, other: AdjointSum) -> AdjointSum:
        found = AdjointSum((0, 0))
        found._rows = (self.settled() + other.settled()).T
        return found


def times(Z: np.ndarray, V: np.ndarray) -> np.ndarray:  # (b, D), (D, c) -> (b, c)
    """Z V."""
    if 0 < V.shape[1] <= FEW_COLUMNS:
        return np.stack([Z @ column for column in np.ascontiguousarray(V.T)], axis=1)
    found: dict[int, np.ndarray] = {}
    run_strips(lambda own: found.update({own.start: Z[:, own] @ V[own]}), len(V), STRIP)
    return reduce(np.add, (found[first] for first in sorted(found)))


def multiplier(V: np.ndarray, exact: bool) -> Callable[[np.ndarray], np.ndarray]:  # (D, c)
    """The function Z ↦ Z V, for blocks of double precision if `exact` and of single precision else.

    Its values are in double precision.
    """
    if exact:
        return partial(times, V=V)
    low, scales = single(V)
    return lambda Z: times(Z, low) * scales


def _scaled(
    block: Callable[[Block, bool], RowBlock], factor: float, columns: Block, exact: bool
) -> RowBlock:
    """A block whose rows count `factor` times as much."""
    found = block(columns, exact)
    return found._replace(weights=found.weights * factor)


def _row_block(block: Callable[[Block, bool], RowBlock], exact: bool, columns: Block) -> RowBlock:
    dtype = np.float64 if exact else np.float32
    with threads_for_features():
        return RowBlock(*(np.asarray(part, dtype=dtype) for part in block(columns, exact)))


def single(V: np.ndarray) -> tuple[np.ndarray, np.ndarray]:  # (D, c) -> (D, c), (c,)
    """Columns in single precision, scaled to a largest entry of one, and their scales."""
    scales = np.maximum(V.max(axis=0, initial=0.0), -V.min(axis=0, initial=0.0)).astype(np.float64)
    scales = np.where(scales > 0, scales, 1.0)
    low = np.empty(V.shape, dtype=np.float32)
    for k in range(0, len(V), MOST_ROWS):  # no temporary of the size of V: it may be large
        low[k : k + MOST_ROWS] = V[k : k + MOST_ROWS] / scales
    return low, scales


def block_rows(n_features: int) -> int:
    """Rows of a block: enough for matrix products, few enough for the caches."""
    rows = int(np.clip(BLOCK_BYTES // (4 * n_features), LEAST_ROWS, MOST_ROWS))
    return rows - rows % PARTS

"""Passes over rows: products with ZᵀWZ that hold neither this matrix nor all of Z.

Several systems share the rows and differ in their weights, (ZᵀW_sZ + I/s) V = ZᵀW_sY: one for each
class, or a single one for a regression. A pass multiplies columns of all of them. The features of a
block of rows are computed, multiplied and forgotten, unless those of all rows fit into `memory`.

Most passes multiply in single precision; sums over blocks are always in double precision. An exact
pass computes the features from the rows as they are given and multiplies in double precision.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from ...rows import Rows
from ...rows.fold import most_states
from ...rows.sources import Block
from ..packed import PackedMatrix

BLOCK_BYTES = 1 << 24  # of features in single precision: a block stays near the caches
LEAST_ROWS, MOST_ROWS = 64, 4096  # of a block
GROUP_ROWS = 1 << 16  # whose sums start at zero: few, since they may be large


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

    def __post_init__(self) -> None:
        numbers = self.n_features + self.n_systems * (self.n_outputs + 1)
        self._passes = {
            exact: self.rows.mapped(
                partial(_row_block, self.block, exact),
                block_rows=self.block_rows,
                row_bytes=4 * numbers,
                memory=0 if exact else self.memory,
            )
            for exact in (False, True)
        }

    @property
    def keeps_features(self) -> bool:
        """Whether the features of all rows are in memory."""
        return self._passes[False].is_kept

    def adjoint(
        self,
        columns: Callable[[RowBlock, int], np.ndarray],
        width: int,
        *,
        exact: bool = False,
        what: str = "pass",
    ) -> np.ndarray:  # -> (D, width)
        """Σ Zᵀ columns(block, first) over all blocks; `first` is the number of their first row."""

        def add(total: np.ndarray, block: RowBlock, first: int) -> np.ndarray:
            total += block.features.T @ columns(block, first)
            return total

        total = self._sum((self.n_features, width), add, exact, what)
        if not np.all(np.isfinite(total)):
            raise ValueError(
                "The sums over the features overflow or are not finite: scale the features down, "
                "or use a larger noise variance."
            )
        return total

    def products(
        self, V: np.ndarray, owners: np.ndarray | None = None, *, what: str = "pass"
    ) -> np.ndarray:  # (D, c), (c,) -> (D, c)
        """ZᵀWZ V; column j has the weights of system owners[j], or the largest of all systems."""
        low, scales = single(V)

        def columns(block: RowBlock, first: int) -> np.ndarray:
            weights = block.weights
            weights = weights.max(axis=1, keepdims=True) if owners is None else weights[:, owners]
            return (block.features @ low) * weights

        return self.adjoint(columns, V.shape[1], what=what) * scales

    def cores(self, basis: np.ndarray) -> np.ndarray:  # (D, r) -> (S, r (r + 1) / 2)
        """UᵀZᵀW_sZU of every system: packed matrices, side by side.

        Weights that all systems have in common are summed once. What a system adds to them is often
        on few rows: those of its class.
        """
        r, S = basis.shape[1], self.n_systems
        # The basis of the whole space is the identity, and the preconditioner the system itself:
        # single precision would not see directions in which the features are dependent
        whole = r == self.n_features
        project = None if whole else basis

        def add(total: np.ndarray, block: RowBlock, first: int) -> np.ndarray:
            Z, _, weights = block
            T = np.asarray(Z if project is None else Z @ project, dtype=np.float64)
            least = weights.min(axis=1, keepdims=True)
            own = np.concatenate([weights - least, least], axis=1)
            for packed, extra in zip(total, own.T, strict=True):
                rows = np.flatnonzero(extra)
                if len(rows):
                    PackedMatrix(packed).add_outer_products(T[rows] * np.sqrt(extra[rows])[:, None])
            return total

        total = self._sum((S + 1, r * (r + 1) // 2), add, whole, "subspace")
        total[:S] += total[S]
        return total[:S]

    def core_bytes(self, r: int) -> int:
        """What `cores` takes in memory: triangles of double precision, of a group of rows and of
        the sums of groups that are not yet added."""
        n = self.rows.n_rows
        groups = None if n is None else -(-n // (self.block_rows * self.group_blocks))
        return 4 * r * r * (self.n_systems + 1) * most_states(groups)

    def _sum(
        self,
        shape: tuple[int, ...],
        add: Callable[[np.ndarray, RowBlock, int], np.ndarray],
        exact: bool,
        what: str,
    ) -> np.ndarray:
        """One pass: what `add` makes of all blocks, in a fixed order."""
        self.n_passes += 1
        return self._passes[exact].fold(
            partial(np.zeros, shape),
            add,
            group_blocks=self.group_blocks,
            progress=what if self.verbose else None,
        )


def _row_block(block: Callable[[Block, bool], RowBlock], exact: bool, columns: Block) -> RowBlock:
    dtype = np.float64 if exact else np.float32
    return RowBlock(*(np.asarray(part, dtype=dtype) for part in block(columns, exact)))


def single(V: np.ndarray) -> tuple[np.ndarray, np.ndarray]:  # (D, c) -> (D, c), (c,)
    """Columns in single precision, scaled to a largest entry of one, and their scales."""
    scales = np.abs(V).max(axis=0, initial=0.0)
    scales = np.where(scales > 0, scales, 1.0)
    return (V / scales).astype(np.float32), scales


def block_rows(n_features: int) -> int:
    """Rows of a block: enough for matrix products, few enough for the caches."""
    return int(np.clip(BLOCK_BYTES // (4 * n_features), LEAST_ROWS, MOST_ROWS))

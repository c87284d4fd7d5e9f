"""Rows of Dask collections: the fold of `fold`, computed where the rows are.

Every partition is one group of the fold. Its state is computed by one task (`dotsketch-sums`), on
any worker, and states are added (`dotsketch-reduce`) as the nodes of a `Tree`, whose order does not
depend on workers: neither do the bits of the result, which are those of the local loop over the
same groups. Only the last node comes to the client. Lost tasks are computed again by Dask.

What the tasks share, such as the fitted features, is in the graph once. It is sent with the graph
and not scattered, so that it survives the loss of any worker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import accumulate
from typing import Any

import numpy as np

from .._arrays import evenly_spaced
from .checkpoint import Checkpoint
from .dask_columns import aligned, is_frame, narrow, partitions, row_bytes
from .dask_run import computed, memory_of_workers, persisted, shared, well_placed
from .dask_tasks import (
    Fold,
    blocks_of,
    counted_rows,
    distinct,
    folded,
    picked,
    results_of,
    sizes_of,
    tasks,
)
from .mapped import MappedRows
from .sources import Block, Rows, counted, join, len_of, regroup, sample_weights

KEPT_SHARE = 0.25  # of the memory of all workers: rows that take no more are kept there


class DaskRows(Rows):
    """Columns of rows in Dask arrays (chunks of rows) or data frames; see `Rows`.

    Columns beside X may be in memory. Partitions may have any lengths, known or not.
    """

    def __init__(self, columns: Block):
        self.columns = None
        self._collections = aligned(columns)
        self._parts = partitions(self._collections)
        self._sizes: list[tuple[int, int]] | None = None
        self._samples: dict[int, Block] = {}
        self._keeps = False

    def __getstate__(self) -> dict[str, Any]:
        """Functions that are sent to workers may know the rows; these do not travel with them."""
        return {}

    @property
    def n_rows(self) -> int:
        return sum(n for n, _ in self._counts())

    @property
    def repeatable(self) -> bool:
        return True

    def keep(self) -> None:
        """The first sample keeps the rows on the workers, if they fit there."""
        self._keeps = True

    def _hold(self) -> None:
        """Read the rows once, and not for the sample and again for every fold."""
        self._keeps = False
        given = [column for column in self._collections if column is not None]
        if self.n_rows * sum(map(row_bytes, given)) <= KEPT_SHARE * memory_of_workers():
            self._parts = persisted(self._parts)

    def _counts(self) -> list[tuple[int, int]]:
        """The number of rows of every partition, and of those whose weight is not zero."""
        if self._sizes is None:
            X, weights = self._collections[0], sample_weights(self._collections)
            is_known = not is_frame(X) and not np.isnan(X.chunks[0]).any()
            if weights is None and is_known:
                self._sizes = [(n, n) for n in X.chunks[0]]
            else:
                # Weights are as long as known chunks: X need not be read
                parts = partitions((weights if is_known else narrow(X), None, None, weights))
                self._sizes = computed(self._mapped(sizes_of, "count", parts))
            if not any(n for n, _ in self._sizes):
                raise ValueError("The data have no rows: Found array with 0 sample(s).")
            if not any(kept for _, kept in self._sizes):
                raise ValueError("All weights of the rows are zero: there are no rows.")
        return self._sizes

    def blocks(self, size: int) -> Iterator[Block]:
        """All rows in blocks of `size`, which come to the client one partition after the other."""

        def batches() -> Iterator[Block]:
            for (n, _), task in zip(
                self._counts(), self._mapped(counted_rows, "read"), strict=True
            ):
                if n:
                    yield well_placed(computed([task])[0])

        yield from regroup(batches(), size)

    def sample(self, size: int) -> Block:
        """At most `size` rows, evenly spaced over all partitions."""
        if size not in self._samples:
            self._samples[size] = self._drawn(size)
        return self._samples[size]

    def _drawn(self, size: int) -> Block:
        if self._keeps:
            self._hold()
        starts = np.array([0, *accumulate(n for n, _ in self._counts())])
        n = int(starts[-1])
        places = evenly_spaced(n, size)
        bounds = np.searchsorted(places, starts)
        parts = [
            (number, columns, places[a:b] - start)
            for number, (columns, a, b, start) in enumerate(
                zip(self._parts, bounds[:-1], bounds[1:], starts[:-1], strict=True)
            )
            if a < b
        ]
        found = computed(tasks(picked, "sample", parts))
        block = counted(join(well_placed(found)))
        if len_of(block[0]) == 0:  # all of them may have a weight of zero
            return next(self.blocks(size))
        return block

    def distinct(self, column: int) -> np.ndarray:
        parts = partitions((self._collections[column],))
        found = computed(self._mapped(distinct, "labels", parts))
        return np.unique(np.concatenate([values for values in found if values is not None]))

    def fold(
        self,
        zero: Callable[[], Any],
        add: Callable[[Any, Block, int], Any],
        *,
        block_rows: int,
        group_blocks: int = 1,
        checkpoint: Checkpoint | None = None,
        progress: str | None = None,
    ) -> Any:
        """As `Rows.fold`, but a partition is a group: `group_blocks` does not count."""
        if checkpoint is not None:
            raise ValueError(
                "A checkpoint of sums needs rows that one process reads in order. Dask computes "
                "again what a lost worker had done: leave checkpoint out. (That of solver='cg' "
                "holds iterations, and works with Dask.)"
            )
        blocks = partial(blocks_of, block_rows, None)
        return folded(self.numbered_parts(), Fold(zero, add), blocks, progress)

    def mapped(
        self, function: Callable[[Block], Block], *, block_rows: int, row_bytes: int, memory: int
    ) -> MappedRows:
        """As `Rows.mapped`; results are kept on the workers."""
        n = sum(kept for _, kept in self._counts())
        return MappedDaskRows(self, function, block_rows, n * row_bytes <= memory)

    def numbered_parts(self) -> list[tuple[int, Any, int]]:
        """The number of every partition with rows, its columns, and the number of its first row."""
        kept = [kept for _, kept in self._counts()]
        found = zip(range(len(kept)), self._parts, accumulate(kept, initial=0), strict=False)
        return [part for part, n in zip(found, kept, strict=True) if n]

    def _mapped(self, function: Callable[..., Any], name: str, parts: Any = None) -> list[Any]:
        """The tasks function(columns) of all partitions, or of the columns that are given."""
        return tasks(function, name, list(enumerate(self._parts if parts is None else parts)))


class MappedDaskRows(MappedRows):
    """Results of a function of blocks, on the workers.

    The function is sent to them once, whatever the number of folds.
    """

    def __init__(
        self, rows: DaskRows, function: Callable[[Block], Block], block_rows: int, keeps: bool
    ):
        [self._blocks] = persisted([shared(partial(blocks_of, block_rows, function))])
        self._parts = rows.numbered_parts()
        self._n_rows = rows.n_rows
        self.keeps = keeps
        if keeps:
            places = [(number, columns) for number, columns, _ in self._parts]
            kept = persisted(tasks(results_of, "features", places, self._blocks))
            self._parts = [
                (number, task, first)
                for task, (number, _, first) in zip(kept, self._parts, strict=True)
            ]

    @property
    def n_rows(self) -> int:
        return self._n_rows

    @property
    def is_kept(self) -> bool:
        return self.keeps

    def fold(
        self,
        zero: Callable[[], Any],
        add: Callable[[Any, Any, int], Any],
        *,
        progress: str | None = None,
        **options: Any,
    ) -> Any:
        blocks = iter if self.keeps else self._blocks
        return folded(self._parts, Fold(zero, add), blocks, progress)

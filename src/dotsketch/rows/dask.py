"""Rows of Dask collections: the fold of `fold`, computed where the rows are.

Every partition is one group of the fold. Its state is computed by one task (`dotsketch-sums`), on
any worker, and states are added (`dotsketch-reduce`) as the nodes of a `Tree`, whose order does not
depend on workers: neither do the bits of the result, which are those of the local loop over the
same groups. Only the last node comes to the client. Lost tasks are computed again by Dask.

What the tasks share, such as the fitted features, is in the graph once. It is sent with the graph
and not scattered, so that it survives the loss of any worker.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np

from .._arrays import is_sparse
from .._support.threads import single_blas_thread
from .dask_columns import aligned, is_frame, narrow, partitions
from .dask_run import computed, numbered
from .fold import FAN_IN, Checkpoint
from .sources import COLUMNS, Block, Rows, counted, join, len_of, pick, regroup

AT_ONCE = 4  # states that one task adds: more would have to be in the memory of one worker


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

    def __getstate__(self) -> dict[str, Any]:
        """Functions that are sent to workers may know the rows; these do not travel with them."""
        return {}

    @property
    def n_rows(self) -> int:
        return sum(n for n, _ in self._counts())

    @property
    def repeatable(self) -> bool:
        return True

    def _counts(self) -> list[tuple[int, int]]:
        """The number of rows of every partition, and of those whose weight is not zero."""
        if self._sizes is None:
            X, weights = self._collections[0], _column(self._collections, 3)
            if weights is None and not is_frame(X) and not np.isnan(X.chunks[0]).any():
                self._sizes = [(n, n) for n in X.chunks[0]]
            else:
                parts = partitions((narrow(X), None, None, weights))
                self._sizes = computed(self._mapped(_size, "count", parts))
            if not any(n for n, _ in self._sizes):
                raise ValueError("The data have no rows: Found array with 0 sample(s).")
            if not any(kept for _, kept in self._sizes):
                raise ValueError("All weights of the rows are zero: there are no rows.")
        return self._sizes

    def blocks(self, size: int) -> Iterator[Block]:
        """All rows in blocks of `size`, which come to the client one partition after the other."""

        def batches() -> Iterator[Block]:
            for (n, _), task in zip(self._counts(), self._mapped(_block, "read"), strict=True):
                if n:
                    [block] = computed([task])
                    yield block

        yield from regroup(batches(), size)

    def sample(self, size: int) -> Block:
        """At most `size` rows, evenly spaced over all partitions."""
        if size not in self._samples:
            self._samples[size] = self._drawn(size)
        return self._samples[size]

    def _drawn(self, size: int) -> Block:
        starts = np.array([0, *accumulate(n for n, _ in self._counts())])
        n = int(starts[-1])
        places = np.unique(np.linspace(0, n - 1, min(size, n)).round().astype(int))
        bounds = np.searchsorted(places, starts)
        parts = [
            (number, columns, places[a:b] - start)
            for number, (columns, a, b, start) in enumerate(
                zip(self._parts, bounds[:-1], bounds[1:], starts[:-1], strict=True)
            )
            if a < b
        ]
        found = computed(_tasks(_picked, "sample", parts))
        block = counted(join(found))
        if len_of(block[0]) == 0:  # all of them may have a weight of zero
            return next(self.blocks(size))
        return block

    def distinct(self, column: int) -> np.ndarray:
        parts = partitions((self._collections[column],))
        found = computed(self._mapped(_distinct, "labels", parts))
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
                "A checkpoint needs rows that one process reads in order. Dask computes again what "
                "a lost worker had done: leave checkpoint out."
            )
        firsts = [0, *accumulate(kept for _, kept in self._counts())]
        parts = [
            (number, columns, first)
            for number, (columns, (_, kept), first) in enumerate(
                zip(self._parts, self._counts(), firsts[:-1], strict=True)
            )
            if kept
        ]
        states = _tasks(_state, "sums", parts, Job(zero, add, block_rows))
        [total] = computed([_reduced(states)], progress)
        return total

    def _mapped(self, function: Callable[..., Any], name: str, parts: Any = None) -> list[Any]:
        """The tasks function(columns) of all partitions, or of the columns that are given."""
        return _tasks(function, name, list(enumerate(self._parts if parts is None else parts)))


@dataclass(frozen=True, eq=False)
class Job:
    """What all tasks of a fold share."""

    zero: Callable[[], Any]
    add: Callable[[Any, Block, int], Any]
    block_rows: int


def _tasks(
    function: Callable[..., Any], name: str, parts: list[tuple[Any, ...]], shared: Any = None
) -> list[Any]:
    """The tasks function(columns, …, shared) of (number, columns, …), named `dotsketch-name`."""
    import dask

    token = uuid.uuid4().hex
    call = dask.delayed(_in_partition, pure=False)
    once = []
    if shared is not None:
        once.append(dask.delayed(shared, f"dotsketch-job-{token}", traverse=False))
    return [
        call(
            function,
            number,
            columns,
            *others,
            *once,
            dask_key_name=f"dotsketch-{name}-{token}-{number}",
        )
        for number, columns, *others in parts
    ]


def _reduced(states: list[Any]) -> Any:
    """The task of the sum of all states, as `Tree` adds them."""
    import dask

    token, count = uuid.uuid4().hex, 0
    while len(states) > 1:
        nodes = []
        for start in range(0, len(states), FAN_IN):
            node, *others = states[start : start + FAN_IN]
            for k in range(0, len(others), AT_ONCE):
                node = dask.delayed(_sum, pure=False)(
                    [node, *others[k : k + AT_ONCE]],
                    dask_key_name=f"dotsketch-reduce-{token}-{count}",
                )
                count += 1
            nodes.append(node)
        states = nodes
    return states[0]


def _in_partition(function: Callable[..., Any], number: int, columns: Any, *others: Any) -> Any:
    """function(columns, …); an error names the partition."""
    with numbered(number), single_blas_thread():
        return function(_checked(columns), *others)


def _checked(columns: Any) -> Block:
    lengths = {len_of(c) for c in columns if c is not None}
    if len(lengths) > 1:
        raise ValueError(f"X, y and the other columns have {sorted(lengths)} rows.")
    return tuple(columns)


def _state(columns: Block, first: int, job: Job) -> Any:
    """The state of a partition, of which some rows have weights."""
    state = job.zero()
    for block in Rows(columns).blocks(job.block_rows):
        state = job.add(state, block, first)
        first += len_of(block[0])
    return state


def _sum(states: list[Any]) -> Any:
    """The sum in order; the states stay as they are, since a worker may need them again."""
    total = states[0] + states[1]
    for state in states[2:]:
        total += state
    return total


def _size(columns: Block) -> tuple[int, int]:
    weights = _column(columns, 3)
    n = len_of(columns[0])
    return n, n if weights is None else int(np.count_nonzero(np.asarray(weights)))


def _block(columns: Block) -> Block:
    return counted(columns)


def _picked(columns: Block, places: np.ndarray) -> Block:
    """Some rows of a partition, whose numbers are finite: a sample has no number of partitions."""
    found = tuple(None if c is None else pick(c, places) for c in columns)
    for name, column in zip(COLUMNS, found, strict=False):
        if column is None:
            continue
        values = column.data if is_sparse(column) else np.asarray(column)
        if values.dtype.kind == "f" and not np.isfinite(values).all():
            what = "NaN" if np.isnan(values).any() else "infinity"
            raise ValueError(
                f"Input {name} contains {what}: leave such rows out (`dropna` of a data frame), or "
                "fill in numbers."
            )
    return found


def _distinct(columns: Block) -> np.ndarray | None:
    values = np.asarray(columns[-1])
    return np.unique(values) if len(values) else None


def _column(columns: Block, index: int) -> Any:
    return columns[index] if len(columns) > index else None

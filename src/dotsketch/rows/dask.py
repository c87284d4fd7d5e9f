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
from functools import partial
from itertools import accumulate
from typing import Any

import numpy as np

from .._arrays import evenly_spaced, is_sparse
from .._support.threads import single_blas_thread
from .dask_columns import aligned, is_frame, narrow, partitions, row_bytes
from .dask_run import (
    Shared,
    computed,
    memory_of_workers,
    numbered,
    persisted,
    shared,
    well_placed,
)
from .fold import FAN_IN, Checkpoint
from .mapped import MappedRows
from .sources import (
    COLUMNS,
    Block,
    Rows,
    check_lengths,
    counted,
    each,
    join,
    len_of,
    pick,
    regroup,
    sample_weights,
)

KEPT_SHARE = 0.25  # of the memory of all workers: rows that take no more are kept there
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
        found = computed(_tasks(_picked, "sample", parts))
        block = counted(join(well_placed(found)))
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
                "A checkpoint of sums needs rows that one process reads in order. Dask computes "
                "again what a lost worker had done: leave checkpoint out. (That of solver='cg' "
                "holds iterations, and works with Dask.)"
            )
        blocks = partial(_blocks, block_rows, None)
        return _folded(self.numbered_parts(), Fold(zero, add), blocks, progress)

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
        return _tasks(function, name, list(enumerate(self._parts if parts is None else parts)))


@dataclass(frozen=True, eq=False)
class Fold:
    """What `Rows.fold` is given."""

    zero: Callable[[], Any]
    add: Callable[[Any, Block, int], Any]


class MappedDaskRows(MappedRows):
    """Results of a function of blocks, on the workers.

    The function is sent to them once, whatever the number of folds.
    """

    def __init__(
        self, rows: DaskRows, function: Callable[[Block], Block], block_rows: int, keeps: bool
    ):
        [self._blocks] = persisted([shared(partial(_blocks, block_rows, function))])
        self._parts = rows.numbered_parts()
        self._n_rows = rows.n_rows
        self.keeps = keeps
        if keeps:
            places = [(number, columns) for number, columns, _ in self._parts]
            tasks = persisted(_tasks(_results, "features", places, self._blocks))
            self._parts = [
                (number, task, first)
                for task, (number, _, first) in zip(tasks, self._parts, strict=True)
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
        return _folded(self._parts, Fold(zero, add), blocks, progress)


def _folded(
    parts: list[tuple[int, Any, int]], fold: Fold, blocks: Any, progress: str | None
) -> Any:
    """The sum of the states of all partitions; `blocks` is that of `_state`, or its task."""
    import dask

    states = _tasks(_state, "sums", parts, shared(fold), blocks)
    result = dask.delayed(Shared, pure=False)(
        _reduced(states), dask_key_name=f"dotsketch-result-{uuid.uuid4().hex}"
    )
    return computed([result], progress)[0].value


def _tasks(function: Callable[..., Any], name: str, parts: list[Any], *once: Any) -> list[Any]:
    """The tasks function(columns, …, *once) of (number, columns, …), named `dotsketch-name`."""
    import dask

    token = uuid.uuid4().hex
    call = dask.delayed(_in_partition, pure=False)
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
        given = (one.value if isinstance(one, Shared) else one for one in others)
        return function(well_placed(columns), *given)


def _checked(columns: Any) -> Block:
    """The columns of a partition, of one length."""
    check_lengths(columns)
    return tuple(columns)


def _blocks(
    block_rows: int, function: Callable[[Block], Block] | None, columns: Any
) -> Iterator[Block]:
    """The rows of a partition, of which some have weights, or what the function makes of them."""
    blocks = Rows(_checked(columns)).blocks(block_rows)
    return blocks if function is None else map(function, blocks)


def _results(columns: Any, blocks: Callable[[Any], Iterator[Block]]) -> list[Block]:
    return list(blocks(columns))


def _state(columns: Any, first: int, fold: Fold, blocks: Callable[[Any], Iterator[Block]]) -> Any:
    """The state of a partition, whose blocks are blocks(columns)."""
    state = fold.zero()
    for block in blocks(columns):
        state = fold.add(state, block, first)
        first += len_of(block[0])
    return state


def _sum(states: list[Any]) -> Any:
    """The sum in order; the states stay as they are, since a worker may need them again."""
    total = states[0] + states[1]
    for state in states[2:]:
        total += state
    return total


def _size(columns: Any) -> tuple[int, int]:
    weights = sample_weights(columns)
    n = len_of(columns[0])
    return n, n if weights is None else int(np.count_nonzero(np.asarray(weights)))


def _block(columns: Any) -> Block:
    return counted(_checked(columns))


def _picked(columns: Any, places: np.ndarray) -> Block:
    """Some rows of a partition, whose numbers are finite: a sample has no number of partitions."""
    found = each(_checked(columns), pick, places)
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


def _distinct(columns: Any) -> np.ndarray | None:
    values = np.asarray(columns[-1])
    return np.unique(values) if len(values) else None

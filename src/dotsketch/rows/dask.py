"""Rows of Dask collections: the fold of `fold`, computed where the rows are, and lazy results.

Every partition is one group of the fold. One task computes its state (`dotsketch-sums`), on any
worker, and states are added in the order of the partitions (`dotsketch-reduce`): the result has the
bits of the local loop over the same groups, whatever the workers. Only the total comes to the
client. Dask computes again what a lost worker had computed.

What the tasks share, such as fitted features, is in the graph once. It is sent with the graph and
not scattered, so that it survives the loss of any worker.
"""

from __future__ import annotations

import pickle
import uuid
import warnings
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from copy import copy
from functools import partial
from itertools import accumulate
from typing import Any

import numpy as np

from .._arrays import is_sparse
from .._support.threads import single_blas_thread
from . import sources
from .fold import Add, Zero
from .sources import Block, OfBlock, Rows, counted, length


class DaskRows(Rows):
    """Columns in Dask arrays (chunks of rows) or data frames; see `Rows`.

    Partitions may have any lengths, known or not.
    """

    n_rows: int
    _blocks: Any = None  # a task for the function that makes blocks of a partition

    def __init__(self, columns: Block):
        X = columns[0] if _is_frame(columns[0]) else columns[0].rechunk({1: -1})
        self._columns = (X, *(None if c is None else _like(X, c) for c in columns[1:]))
        self._partitions = _partitions(self._columns)
        weights = self._columns[3]
        is_known = not _is_frame(X) and not np.isnan(X.chunks[0]).any()
        if is_known and weights is None:
            lengths = list(X.chunks[0])
        else:  # weights are as long as known chunks: X need not be read
            first = weights if is_known else X[list(X.columns[:1])] if _is_frame(X) else X
            lengths = _computed(_tasks("count", length, _partitions((first, None, None, weights))))
        self.n_rows = sum(lengths)
        self._firsts = list(accumulate(lengths[:-1], initial=0))  # rows of the partitions

    def blocks(self, size: int) -> Iterator[Block]:
        """All rows in blocks of `size`; one partition after the other comes to the client."""
        reads = _tasks("read", counted, self._partitions)
        return sources.regroup((_computed([read])[0] for read in reads), size)

    def sample(self, size: int, rng: np.random.Generator) -> Block:
        numbers = sources.drawn_numbers(self.n_rows, size, rng)
        drawn = np.split(numbers, np.searchsorted(numbers, self._firsts[1:]))
        places = [own - first for own, first in zip(drawn, self._firsts, strict=True)]
        tasks = _tasks("sample", sources.take, self._partitions, places)
        drawn_from = [task for task, own in zip(tasks, drawn, strict=True) if len(own)]
        return sources.join(_computed(drawn_from))

    def fold(
        self, zero: Zero, add: Add, *, checkpoint: Any = None, progress: Any = None, **options: Any
    ) -> Any:
        """As `Rows.fold`, but a partition is a group: `group_blocks` has no effect."""
        if checkpoint is not None:
            raise ValueError("Dask computes again what a lost worker did: leave checkpoint out.")
        blocks = self._blocks
        if blocks is None:
            blocks = _shared(partial(_blocks, options["block_rows"], counted))
        once = [blocks, _shared((zero, add))]
        total, *states = _tasks("sums", _state, self._partitions, self._firsts, once=once)
        for state in states:
            total = _task("reduce", _plus, total, state)
        return _computed([total], progress)[0]

    def mapped(self, function: OfBlock, *, block_rows: int, row_bytes: int, memory: int) -> Any:
        """As `Rows.mapped`; the function is sent to the workers once for all folds."""
        import dask

        mapped = copy(self)
        [mapped._blocks] = dask.persist(_shared(partial(_blocks, block_rows, function)))
        if self.n_rows <= memory // row_bytes:
            results = _tasks("features", _listed, self._partitions, once=[mapped._blocks])
            mapped._partitions, mapped._blocks = list(dask.persist(*results)), _shared(iter)
        return mapped


Rows.of_collections = DaskRows


def lazy(function: OfBlock, X: Any, *, dtypes: list[Any], names: list[Any]) -> tuple[Any, ...]:
    """function(rows) of every partition of the Dask collection X, as collections.

    Parameters
    ----------
    function : callable
        From a block of rows to an array, or a tuple of arrays, (n,) or (n, k). It is in the graph
        once, with the fitted model that it refers to.
    X : Dask array or data frame
        An array gives arrays; a data frame gives series and data frames with the same index.
    dtypes : list
        Of each array that the function returns.
    names : list
        For each array, the names of its k columns, or None if it is (n,).
    """
    empty = tuple(
        np.empty(0 if columns is None else (0, len(columns)), dtype)
        for dtype, columns in zip(dtypes, names, strict=True)
    )
    shared = _shared(function)
    if _is_frame(X):
        options = {"meta": X._meta, "enforce_metadata": False, "token": "dotsketch-map"}
        results = X.map_partitions(_called, shared, empty, **options)
        return tuple(
            results.map_partitions(_framed, k, columns, meta=_framed((empty, None), k, columns))
            for k, columns in enumerate(names)
        )
    X = X.rechunk({1: -1})
    options = {"drop_axis": 1, "meta": np.empty(0), "token": "dotsketch-map"}
    results = X.map_blocks(_called, shared, empty, **options)
    return tuple(
        results.map_blocks(
            lambda result, k: result[0][k],
            k,
            meta=array,
            chunks=(X.chunks[0], *array.shape[1:]),
            new_axis=[*range(1, array.ndim)] or None,
        )
        for k, array in enumerate(empty)
    )


def _called(X: Any, function: Shared, empty: Any) -> tuple[Any, Any]:
    """The arrays that the function returns of a partition, and its index."""
    result = empty
    if X.shape[0]:
        with single_blas_thread():
            result = function.value(_well_placed(X))
    return (result if isinstance(result, tuple) else (result,)), getattr(X, "index", None)


def _framed(result: tuple[Any, Any], k: int, columns: list[str] | None) -> Any:
    """One of the arrays of a partition as a series or data frame."""
    import pandas

    arrays, index = result
    if columns is None:
        return pandas.Series(arrays[k], index=index)
    return pandas.DataFrame(arrays[k], index=index, columns=columns)


def _is_frame(collection: Any) -> bool:
    """Whether a collection is a data frame or a series, not an array."""
    return hasattr(collection, "npartitions") and not hasattr(collection, "chunks")


def _like(X: Any, column: Any) -> Any:
    """A column with the partitions of X."""
    import dask.array

    if not sources.is_collection(column):
        column = dask.array.from_array(np.asarray(column))
    arrays = not _is_frame(X) and not _is_frame(column)
    if arrays and not np.isnan([*X.chunks[0], *column.chunks[0]]).any():
        sources.check_lengths((X, column))
        return column.rechunk((X.chunks[0], *column.shape[1:]))
    n, n_other = (c.npartitions if _is_frame(c) else c.numblocks[0] for c in (X, column))
    if n != n_other:
        raise ValueError(f"X has {n} partitions, another column {n_other}: repartition them alike.")
    return column


def _partitions(columns: Block) -> list[Any]:
    """The columns of every partition as a list of delayed values, or as one delayed tuple.

    Columns of data frames are read together: they often come from the same file.
    """
    import dask

    present = [column for column in columns if column is not None]
    packed = partial(_packed, [column is not None for column in columns])
    # Dask would join partitions of which few columns are read, and their numbers would not agree
    with dask.config.set({"optimization.tune.active": False}):
        if all(map(_is_frame, present)):
            options = {"enforce_metadata": False, "align_dataframes": False}
            first, *others = present
            frames = first.map_partitions(packed, *others, meta=first._meta, **options)
            return list(frames.to_delayed())
        split = [np.asarray(column.to_delayed(), dtype=object).ravel() for column in present]
    return [packed(*parts) for parts in zip(*split, strict=True)]


def _packed(is_there: list[bool], *columns: Any) -> Block:
    """The columns, with None in the place of those that are not there."""
    left = iter(columns)
    return tuple(next(left) if there else None for there in is_there)


class Shared:
    """A value of a task, or one that tasks share, whose arrays are aligned wherever it arrives.

    A message of a cluster may put arrays at any address, and NumPy multiplies matrices that are not
    at multiples of their numbers' size without BLAS: slowly, and with other last digits. Within the
    bytes of a pickle arrays are copied when it is read.
    """

    def __init__(self, value: Any):
        self.value = value

    def __getstate__(self) -> bytes:
        import cloudpickle

        return bytes(cloudpickle.dumps(self.value))

    def __setstate__(self, data: bytes) -> None:
        self.value = pickle.loads(data)


def _shared(value: Any) -> Any:
    """A task for a `Shared` value, which is in the graph once, whatever the number of its users."""
    import dask

    key = f"dotsketch-shared-{uuid.uuid4().hex}"  # a hash of all arrays would take longer
    return dask.delayed(Shared(value), key, traverse=False)


def _well_placed(column: Any) -> Any:
    """A column with its arrays at multiples of their numbers' size; see `Shared`."""
    if column is None or (not is_sparse(column) and np.asarray(column).flags.aligned):
        return column
    return column.copy()


def _task(name: str, function: Any, *arguments: Any) -> Any:
    """The task function(*arguments), whose name a dashboard shows."""
    import dask

    key = f"dotsketch-{name}-{uuid.uuid4().hex}"  # a hash of all arguments would take longer
    return dask.delayed(function, pure=False)(*arguments, dask_key_name=key)


def _tasks(name: str, function: Any, partitions: list[Any], *lists: Any, once: Any = ()) -> Any:
    """The tasks function(columns, *arguments, *once), with an argument of every list."""
    return [
        _task(name, _in_partition, function, number, *arguments, *once)
        for number, arguments in enumerate(zip(partitions, *lists, strict=True))
    ]


def _in_partition(function: Callable[..., Any], number: int, columns: Any, *others: Any) -> Shared:
    """The value of a task, of columns or of kept results; an error names the partition."""
    others = tuple(other.value if isinstance(other, Shared) else other for other in others)
    try:
        if isinstance(columns, Shared):
            block = columns.value
        else:
            block = counted(sources.as_block(*map(_well_placed, columns)))
        with single_blas_thread():
            return Shared(function(block, *others))
    except Exception as error:
        error.add_note(f"Partition {number} (counted from 0)")
        raise


def _blocks(size: int, function: OfBlock, block: Block) -> Iterator[Any]:
    """What the function makes of the blocks of a partition."""
    return map(function, sources.regroup([block], size))


def _listed(block: Block, blocks: OfBlock) -> list[Any]:
    """The results of a partition, which are kept where it is."""
    return list(blocks(block))


def _state(columns: Any, first: int, blocks: OfBlock, fold: Any) -> Any:
    """The state of a partition, whose blocks are blocks(columns)."""
    zero, add = fold
    state = zero()
    for block in blocks(columns):
        state = add(state, block, first)
        first += length(block)
    return state


def _plus(total: Shared, state: Shared) -> Shared:
    return Shared(total.value + state.value)  # both stay as they are: a worker may need them again


def _computed(tasks: list[Any], progress: str | None = None) -> list[Any]:
    """The values of all tasks; a cluster shows their progress on its dashboard."""
    import dask
    from dask.diagnostics import ProgressBar

    with warnings.catch_warnings(), ProgressBar() if progress is not None else nullcontext():
        # Fitted features may be large, and they are in the graph once
        warnings.filterwarnings("ignore", "Sending large graph")
        return [shared.value for shared in dask.compute(*tasks)]

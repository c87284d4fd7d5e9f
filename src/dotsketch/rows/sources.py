"""Rows from anywhere, in blocks of one size: arrays, memory maps, data sets on disk, generators.

`Rows` hides where data come from. Blocks have the same rows however the data arrive, so that a sum
over blocks is the same for an array, a memory map of it, and a generator of any batches, up to the
rounding of the BLAS that computes it.
"""

from __future__ import annotations

import inspect
import itertools
import mmap
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

from .._arrays import Array, evenly_spaced, host, is_sparse
from .._typing import Block as Block
from .fold import Foldable
from .mapped import MappedRows

COLUMNS = ("X", "y", "noise_variance", "sample_weight")
LIBRARIES = ("dask",)  # that compute with rows where they are: see `collections`
SAMPLE_ROWS = 10_000  # features are fitted on so many rows of data that are not in memory


class Output(NamedTuple):
    """An array that a method returns of rows (n, d): (n,), or (n, columns) with their names."""

    label: str
    dtype: Any
    names: list[str] | None = None

    @property
    def width(self) -> int | None:
        return None if self.names is None else len(self.names)

    def empty(self) -> np.ndarray:
        """The array of no rows."""
        shape = (0,) if self.names is None else (0, len(self.names))
        return np.empty(shape, dtype=self.dtype)


class Rows(Foldable):
    """Columns of rows, such as (X, y): arrays of one length, or a stream of batches of them.

    Parameters
    ----------
    columns : tuple of arrays, or of anything with `shape` and slices
        h5py and zarr data sets, `np.memmap`, CSR matrices, data frames.
    stream : callable that returns an iterator of batches (tuples as `columns`, or dictionaries with
        names of `COLUMNS`), or an iterator
        An iterator allows one pass only, a callable as many as are asked for.
    """

    def __init__(self, columns: Block | None = None, stream: Any = None):
        if (columns is None) == (stream is None):
            raise ValueError("Give either columns or a stream.")
        self.columns = None if columns is None else each(columns, _sliceable)
        self._stream = stream
        self._taken = False
        # The generator that a repeatable stream returned last, if it still exists; its rows
        self._given: weakref.ref[Any] | None = None
        self._n_given: int | None = None
        if self.columns is not None:
            if any(c is not None and c.shape == () for c in self.columns):
                raise ValueError("A number was given where one for every row is needed.")
            check_lengths(self.columns)
            if self.n_rows == 0:
                raise ValueError("The data have no rows: Found array with 0 sample(s).")
            if not is_on_disk(self.columns[0]):
                self.columns = counted(self.columns)
                if self.n_rows == 0:
                    raise ValueError("All weights of the rows are zero: there are no rows.")

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_given": None}

    @property
    def n_rows(self) -> int | None:
        return None if self.columns is None else self.columns[0].shape[0]

    @property
    def in_memory(self) -> bool:
        """Whether all rows are at hand, in `columns`."""
        return self.columns is not None and not is_on_disk(self.columns[0])

    @property
    def repeatable(self) -> bool:
        """Whether the rows can be read more than once."""
        return self.columns is not None or callable(self._stream)

    def keep(self) -> None:
        """Rows are read repeatedly from here on: they may be kept where they are read."""

    def blocks(self, size: int) -> Iterator[Block]:
        if self.columns is None:
            yield from regroup(self._batches(), size)
            return
        for start in range(0, self.columns[0].shape[0], size):
            block = counted(each(self.columns, _rows, start, start + size))
            if block[0].shape[0]:
                yield block
            for column in self.columns:
                release_pages(column)

    def sample(self, size: int) -> Block:
        """At most `size` rows: evenly spaced ones, or the first of a stream (which keeps them)."""
        if self.columns is not None:
            n = self.columns[0].shape[0]
            if n <= size:
                return _first(self.blocks(max(n, 1)))
            places = evenly_spaced(n, size)
            found = counted(each(self.columns, pick, places))
            # all of them may have a weight of zero
            return found if found[0].shape[0] else _first(self.blocks(size))
        batches = self._batches()
        kept: list[Block] = []
        while sum(len_of(batch[0]) for batch in kept) < size:
            batch = next(batches, None)
            if batch is None:
                break
            kept.append(batch)
        if not kept:
            raise ValueError("The stream has no rows: Found array with 0 sample(s).")
        if not callable(self._stream):
            self._stream, self._taken = itertools.chain(kept, batches), False
        return _first(regroup(iter(kept), size))

    def spread(self, size: int, n_rows: int) -> Block:
        """Evenly spaced rows of a stream of so many, in one pass over it."""
        places, first, kept = evenly_spaced(n_rows, size), 0, []
        for batch in self._batches():
            last = first + len_of(batch[0])
            own = places[slice(*np.searchsorted(places, (first, last)))] - first
            if len(own):
                kept.append(each(batch, pick, own))
            first = last
        return join(kept)

    def distinct(self, column: int) -> np.ndarray | None:
        """The different values of a column, in order; None for a stream."""
        return None if self.columns is None else np.unique(self.columns[column])

    def mapped(
        self, function: Callable[[Block], Block], *, block_rows: int, row_bytes: int, memory: int
    ) -> MappedRows:
        """Rows whose blocks are function(block), for many folds.

        Results are kept after the first fold if they take no more than `memory` bytes; `row_bytes`
        is what those of a row take.
        """
        return MappedRows(self, function, block_rows, memory)

    def _batches(self) -> Iterator[Block]:
        if callable(self._stream):
            return self._repeated()
        if self._taken:
            raise ValueError(
                "The iterator is used up, and this takes another pass over the rows: give a "
                "function that returns a fresh iterator instead."
            )
        self._taken = True
        return map(as_batch, self._stream)

    def _repeated(self) -> Iterator[Block]:
        """The batches of a repeatable stream, which are the same in every pass."""
        given, n = self._stream(), 0
        if inspect.isgenerator(given):  # others may start again
            if self._given is not None and self._given() is given:
                raise ValueError(
                    "The function returns the same iterator every time, which gives its rows only "
                    "once: return a fresh iterator from every call."
                )
            self._given = weakref.ref(given)
        for batch in map(as_batch, given):
            n += len_of(batch[0])
            yield batch
        if self._n_given not in (None, n):
            raise ValueError(
                f"The function gave {self._n_given} rows in one pass and {n} in another: return "
                "all rows, in the same order, from every call."
            )
        self._n_given = n


def _first(blocks: Iterator[Block]) -> Block:
    for block in blocks:
        return block
    raise ValueError("All weights of the rows are zero: there are no rows.")


def regroup(batches: Iterator[Block], size: int) -> Iterator[Block]:
    """Batches of any lengths as blocks of `size` rows."""
    waiting: list[Block] = []
    count = 0
    for batch in batches:
        waiting.append(batch)
        count += len_of(batch[0])
        if count < size:
            continue
        joined = join(waiting)
        for start in range(0, count - size + 1, size):
            yield each(joined, _rows, start, start + size)
        done = count - count % size
        waiting = [each(joined, _rows, done, count)]
        count -= done
    if count:
        yield join(waiting)


def as_batch(batch: Any) -> Block:
    """A batch of a stream as a tuple of arrays of one length, without rows of weight zero."""
    if isinstance(batch, Mapping):
        unknown = [name for name in batch if name not in COLUMNS]
        if unknown or not {"X", "y"} <= set(batch):
            raise ValueError(f"A batch has columns {COLUMNS}, X and y at least; got {[*batch]}.")
        batch = tuple(batch.get(name) for name in COLUMNS)
    if not isinstance(batch, (tuple, list)) or len(batch) < 2:
        raise TypeError(
            "A stream gives batches (X, y), (X, y, noise_variance) or dictionaries of columns "
            f"{COLUMNS}; got {type(batch).__name__}."
        )
    if batch[0] is None or batch[1] is None:
        raise ValueError("A batch has rows X and targets y; got None in place of one of them.")
    columns = each(batch, _sliceable)
    check_lengths(columns)
    return counted(columns)


def each(columns: Iterable[Any], function: Callable[..., Any], *arguments: Any) -> Block:
    """function(column, …) of every column that there is."""
    return tuple(None if column is None else function(column, *arguments) for column in columns)


def check_lengths(columns: Iterable[Any]) -> None:
    """Raise unless all columns have as many rows."""
    lengths = {len_of(column) for column in columns if column is not None}
    if len(lengths) > 1:
        raise ValueError(
            f"Found input variables with inconsistent numbers of samples: {sorted(lengths)}."
        )


def sample_weights(block: Block) -> np.ndarray | None:
    """How often the rows of a block count, or None if each counts once."""
    return block[3] if len(block) > 3 else None


def counted(block: Block) -> Block:
    """The rows whose weight is not zero: a row of weight 3 is three rows, one of weight 0 none."""
    if sample_weights(block) is None:
        return block
    weights = np.asarray(block[3], dtype=np.float64)
    if weights.shape != (len_of(block[0]),) or not np.all((weights >= 0) & (weights < np.inf)):
        raise ValueError(
            "sample_weight must hold one number for every row, none of them negative, NaN or "
            f"infinite; its shape is {weights.shape} for {len_of(block[0])} rows."
        )
    kept, block = np.flatnonzero(weights), (*block[:3], weights)
    if len(kept) == 0:
        return each(block, lambda column: column[:0])
    return block if len(kept) == len(weights) else each(block, pick, kept)


def is_stream(X: Any) -> bool:
    """Whether X is an iterator of batches, or a function that returns one."""
    return hasattr(X, "__next__") or (callable(X) and not hasattr(X, "shape"))


def is_on_disk(X: Any) -> bool:
    """Whether reading all of X at once is to be avoided: a memory map, a data set of a file, or a
    collection of another library, whose rows may be anywhere."""
    if isinstance(X, np.ndarray):
        return _map_of(X) is not None
    if is_collection(X):
        return True
    return hasattr(X, "shape") and hasattr(X, "chunks") and hasattr(X, "dtype")


def is_collection(X: Any) -> bool:
    """Whether X is a collection of a library that computes with rows where they are."""
    return type(X).__module__.partition(".")[0] in LIBRARIES


def float_type(X: Any) -> np.dtype[Any]:
    """The type of the rows of X as they are validated: float32 if all of it is that."""
    types = [X.dtype] if hasattr(X, "dtype") else list(X.dtypes)
    return np.dtype("float32" if all(t == np.float32 for t in types) else "float64")


def release_pages(X: Any) -> None:
    """Let go of the pages of a read-only memory map: they count as this process's memory."""
    source = _map_of(X) if isinstance(X, np.ndarray) else None
    if source is None or not hasattr(source, "madvise") or X.flags.writeable:
        return
    source.madvise(mmap.MADV_DONTNEED)


def len_of(column: Array) -> int:
    return column.shape[0]


def _map_of(X: Any) -> mmap.mmap | None:
    """The memory map that an array looks into, if any."""
    while isinstance(X, np.ndarray):
        X = X.base
    return X if isinstance(X, mmap.mmap) else None


def _sliceable(column: Any) -> Any:
    if is_on_disk(column):
        return column
    if is_sparse(column):
        return column.tocsr()
    column = host(column)
    return column if hasattr(column, "shape") else np.asarray(column)


def _rows(column: Any, start: int, stop: int) -> Any:
    if hasattr(column, "iloc"):
        return column.iloc[start:stop]
    part = column[start:stop]
    # rows of a memory map are copied, so that its pages can be let go
    return np.array(part) if is_on_disk(part) else part


def pick(column: Any, places: np.ndarray) -> Any:
    """Some rows of a column, in memory."""
    if hasattr(column, "iloc"):
        return column.iloc[places]
    if not isinstance(column, np.ndarray) or not is_on_disk(column):
        part = column[places]
        return np.array(part) if is_on_disk(part) else part
    parts = []
    for start in range(0, len(places), 256):  # a page brings its neighbours: let go in between
        parts.append(np.array(column[places[start : start + 256]]))
        release_pages(column)
    return np.concatenate(parts)


def join(batches: list[Block]) -> Block:
    """Batches one below the other."""
    if len(batches) == 1:
        return batches[0]
    if len({len(batch) for batch in batches}) > 1:
        raise ValueError("All batches must be (X, y), or all (X, y, noise_variance).")
    joined: list[Any] = []
    for columns in zip(*batches, strict=True):
        shapes = {None if c is None else c.shape[1:] for c in columns}
        if len(shapes) > 1:
            raise ValueError(f"The rows of all batches must be of one shape; got {shapes}.")
        if all(c is None for c in columns):
            joined.append(None)
        elif any(is_sparse(c) for c in columns):
            joined.append(scipy.sparse.vstack(columns, format="csr"))
        elif all(hasattr(c, "iloc") for c in columns):
            joined.append(_join_frames(columns))
        else:
            joined.append(np.concatenate([np.asarray(c) for c in columns]))
    return tuple(joined)


def _join_frames(frames: Any) -> Any:
    """Data frames one below the other, with the names of their columns."""
    import pandas

    names = [list(frame) if frame.ndim == 2 else [frame.name] for frame in frames]
    for other in names[1:]:
        if other != names[0]:
            raise ValueError(f"The batches have different columns: {names[0]} and {other}.")
    return pandas.concat(frames)

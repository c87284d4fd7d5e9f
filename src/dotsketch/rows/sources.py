"""Rows (X, y, noise_variance, sample_weight) of arrays, files and streams, in blocks.

A block is a tuple of these four columns, of which all but X may be None. Blocks hold the same rows
however the data arrive, and so does a sample: a sum over blocks is the same for an array, a memory
map of it, and a generator of any batches, up to the rounding of the BLAS that computes it. Rows
whose `sample_weight` is 0 are left out before anything else.
"""

from __future__ import annotations

import itertools
import mmap
from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar

import numpy as np
import scipy.sparse

from .._arrays import host, is_sparse
from .._typing import Block as Block
from .fold import Add, Zero, fold

OfBlock = Callable[[Any], Any]

NO_ROWS = "The data have no rows whose weight is not zero: Found array with 0 sample(s)."


class Rows:
    """Columns of rows; `Rows.of` returns the right kind.

    Attributes
    ----------
    n_rows : int or None
        None for a stream that has not been read.
    columns : tuple or None
        The columns if they are in memory or can be sliced (then with rows of weight 0), else None.
    in_memory : bool
    repeatable : bool
        Whether the rows can be read more than once: False for an iterator only.
    """

    n_rows: int | None = None
    columns: Block | None = None
    in_memory = False
    repeatable = True
    of_collections: ClassVar[Callable[[Block], Rows]]  # set by `dask`

    @staticmethod
    def of(X: Any, y: Any = None, noise_variance: Any = None, sample_weight: Any = None) -> Rows:
        """The rows of X (n, d) and of other columns of n numbers or labels each.

        Parameters
        ----------
        X : array, CSR matrix, data frame, memory map, h5py or zarr data set; a Dask array or data
            frame; an iterator of batches, or a function that returns one
            A batch is (X, y), (X, y, noise_variance) or (X, y, noise_variance, sample_weight), with
            None for a column that is not there. The other arguments are then None.
        y, noise_variance, sample_weight : arrays (n,), y also (n, outputs), or None
        """
        columns = (X, y, noise_variance, sample_weight)
        if is_collection(X):
            return Rows.of_collections(columns)
        if not is_stream(X):
            return ArrayRows(columns)
        if any(column is not None for column in columns[1:]):
            raise ValueError("A stream gives y, noise_variance and sample_weight: leave them out.")
        return StreamRows(X)

    def blocks(self, size: int) -> Iterator[Block]:
        """All rows in blocks of `size` (the last may be shorter)."""
        raise NotImplementedError

    def sample(self, size: int, rng: np.random.Generator) -> Block:
        """At most `size` rows, drawn at random without replacement, in ascending order.

        The same rows are drawn however the data arrive, with one exception: those of an iterator,
        which gives its rows once, are its first rows; `blocks` returns them again. A function that
        returns an iterator is read once more.
        """
        raise NotImplementedError

    fold = fold

    def mapped(self, function: OfBlock, *, block_rows: int, row_bytes: int, memory: int) -> Any:
        """The results function(block) of all blocks, for many folds: rows as well, whose blocks and
        groups are those of the results.

        They are kept after the first fold if they take at most `memory` bytes, `row_bytes` for each
        row; otherwise every fold computes them again.
        """
        return MappedRows(self, function, block_rows, memory // row_bytes)


class ArrayRows(Rows):
    """Columns that can be sliced, in memory or in a file."""

    columns: Block
    n_rows: int

    def __init__(self, columns: Block):
        columns = as_block(*columns)
        self.in_memory = not is_on_disk(columns[0])
        self.columns = counted(columns) if self.in_memory else columns
        self._numbers = None  # of the rows that count, where others are in a file
        if columns[3] is not None and not self.in_memory:
            self._numbers = counted((np.arange(length(columns)), None, None, columns[3]))[0]
        self.n_rows = length(self.columns if self._numbers is None else (self._numbers,))
        if self.n_rows == 0:
            raise ValueError(NO_ROWS)

    def blocks(self, size: int) -> Iterator[Block]:
        return regroup(self._slices(size), size)

    def _slices(self, size: int) -> Iterator[Block]:
        for start in range(0, length(self.columns), size):
            yield counted(take(self.columns, slice(start, start + size)))
            each(self.columns, release_pages)

    def sample(self, size: int, rng: np.random.Generator) -> Block:
        numbers = drawn_numbers(self.n_rows, size, rng)
        if self.in_memory and len(numbers) == self.n_rows:
            return self.columns
        return take(self.columns, numbers if self._numbers is None else self._numbers[numbers])


class StreamRows(Rows):
    """Batches of an iterator, or of a function that returns a fresh one for every pass."""

    def __init__(self, stream: Any):
        self.repeatable = not hasattr(stream, "__next__")
        self._stream = stream
        self._is_read = False

    def blocks(self, size: int) -> Iterator[Block]:
        return regroup(self._batches(), size)

    def sample(self, size: int, rng: np.random.Generator) -> Block:
        if self.repeatable:
            return smallest_keys(self.blocks(size), size, rng)
        batches, first = self._batches(), list[Block]()
        while sum(length(b) for b in first) < size and (batch := next(batches, None)) is not None:
            first.append(batch)
        self._stream, self._is_read = itertools.chain(first, batches), False
        return take(join(first), slice(size))

    def _batches(self) -> Iterator[Block]:
        if self._is_read and not self.repeatable:
            raise ValueError("The iterator is used up: give a function that returns a fresh one.")
        self._is_read, n = True, 0
        for batch in map(_as_batch, self._stream() if self.repeatable else self._stream):
            n += length(batch)
            yield batch
        if self.n_rows not in (None, n):
            raise ValueError(f"{n} rows now, {self.n_rows} before: return a fresh iterator.")
        self.n_rows = n


class MappedRows(Rows):
    """Results of a function of blocks of other rows."""

    def __init__(self, rows: Rows, function: OfBlock, size: int, most_rows: int):
        self._rows, self._function, self._size = rows, function, size
        self._most_rows = most_rows  # whose results are kept
        self._kept: list[Any] | None = None

    def fold(self, zero: Zero, add: Add, *, progress: str | None = None, **_: Any) -> Any:
        self.n_rows = self._rows.n_rows
        return super().fold(zero, add, block_rows=self._size, progress=progress)

    def blocks(self, size: int) -> Iterator[Any]:
        if self._kept is not None:
            return iter(self._kept)
        results = map(self._function, self._rows.blocks(size))
        if self.n_rows is None or self.n_rows > self._most_rows:
            return results
        self._kept = list(results)
        return iter(self._kept)


def is_stream(X: Any) -> bool:
    """Whether X is an iterator of batches, or a function that returns one."""
    return hasattr(X, "__next__") or (callable(X) and not hasattr(X, "shape"))


def is_collection(X: Any) -> bool:
    """Whether X is a Dask collection, whose rows may be anywhere."""
    return hasattr(X, "__dask_graph__")


def is_on_disk(X: Any) -> bool:
    """Whether X is a memory map or a data set of a file, which are read block by block."""
    return _map_of(X) is not None or all(hasattr(X, a) for a in ("shape", "chunks", "dtype"))


def float_type(X: Any) -> np.dtype[Any]:
    """The type of the rows of X as they are validated: float32 if all of it is that."""
    types = [X.dtype] if hasattr(X, "dtype") else list(X.dtypes)
    return np.dtype("float32" if all(t == np.float32 for t in types) else "float64")


def split_target(X: Any, y: Any, target: Any) -> tuple[Any, Any]:
    """X and y, where `target` may name the column (or a list of columns) of a frame X that is y."""
    if target is None:
        return X, y
    if y is not None:
        raise ValueError("Give y, or the name of its column in X as target=, not both.")
    names = list(getattr(X, "columns", ()))
    if not set(target if isinstance(target, list) else [target]) <= set(names):
        raise ValueError(f"X must be a data frame with a column {target!r}; it has {names}.")
    return X.drop(columns=target), X[target]


# -- blocks ------------------------------------------------------------------------------------


def each(columns: Iterable[Any], function: Callable[[Any], Any]) -> Block:
    """function(column) of every column that there is."""
    return tuple(None if column is None else function(column) for column in columns)


def length(block: Block) -> int:
    return int(block[0].shape[0])


def as_block(X: Any, y: Any = None, noise_variance: Any = None, sample_weight: Any = None) -> Block:
    """Columns that can be sliced, of one length."""
    columns = each((X, y, noise_variance, sample_weight), _sliceable)
    check_lengths(columns)
    return columns


def check_lengths(columns: Iterable[Any]) -> None:
    """Raise unless all columns have as many rows."""
    lengths = sorted({column.shape[0] for column in columns if column is not None})
    if len(lengths) > 1:
        raise ValueError(f"Found columns with inconsistent numbers of samples: {lengths}.")


def counted(block: Block) -> Block:
    """The rows of a block whose weight is not zero."""
    if block[3] is None:
        return block
    weights = np.asarray(block[3], dtype=np.float64)
    least = np.sqrt(np.finfo(float).tiny)  # squares of smaller weights vanish
    if weights.ndim != 1 or not np.all((weights == 0) | (weights > least) & (weights < np.inf)):
        raise ValueError(
            "sample_weight must be one number for every row, finite and at least 0 (and not below "
            f"{least:.0e} but for 0)."
        )
    block, numbers = (*block[:3], weights), np.flatnonzero(weights)
    return block if len(numbers) == len(weights) else take(block, numbers)


def take(block: Block, rows: slice | np.ndarray) -> Block:
    """Some rows of a block, in memory: a slice, or their numbers in ascending order."""
    return each(block, lambda column: _taken(column, rows))


def _taken(column: Any, rows: slice | np.ndarray) -> Any:
    if hasattr(column, "iloc"):
        return column.iloc[rows]
    if _map_of(column) is None:
        return column[rows]
    if isinstance(rows, slice):
        return np.array(column[rows])  # so that its pages can be released
    parts = []
    for start in range(0, len(rows), 256):  # a page brings its neighbours: released in between
        parts.append(np.array(column[rows[start : start + 256]]))
        release_pages(column)
    return np.concatenate(parts)


def join(batches: list[Block]) -> Block:
    """Batches one below the other."""
    if not batches:
        raise ValueError(NO_ROWS)
    return batches[0] if len(batches) == 1 else tuple(map(_joined, zip(*batches, strict=True)))


def _joined(columns: tuple[Any, ...]) -> Any:
    kinds = {None if column is None else column.shape[1:] for column in columns}
    if all(hasattr(column, "columns") for column in columns):
        kinds = {tuple(frame.columns) for frame in columns}
    if len(kinds) > 1:
        raise ValueError(f"Batches have different columns or shapes of rows: {kinds}.")
    if columns[0] is None:
        return None
    if any(map(is_sparse, columns)):
        return scipy.sparse.vstack(columns, format="csr")
    if all(hasattr(column, "iloc") for column in columns):
        import pandas

        return pandas.concat(columns)
    arrays = [np.asarray(column) for column in columns]
    if {"U"} < {array.dtype.kind for array in arrays} <= set("Ubiuf"):  # NumPy would make texts
        raise ValueError("Labels must not mix strings and numbers, as these batches do.")
    return np.concatenate(arrays)


def regroup(batches: Iterable[Block], size: int) -> Iterator[Block]:
    """Batches of any lengths as blocks of `size` rows."""
    waiting, count = list[Block](), 0
    for batch in filter(length, batches):
        waiting.append(batch)
        count += length(batch)
        if count >= size:
            joined, whole = join(waiting), count - count % size
            for start in range(0, whole, size):
                yield take(joined, slice(start, start + size))
            count -= whole
            waiting = [take(joined, slice(whole, None))] if count else []
    if count:
        yield join(waiting)


def smallest_keys(batches: Iterable[Block], size: int, rng: np.random.Generator) -> Block:
    """`size` random rows of all batches, in order: those with the smallest of random keys.

    This takes one pass, and the lengths of the batches do not matter.
    """
    kept, keys = list[Block](), np.empty(0)
    for batch in batches:
        kept.append(batch)
        keys = np.concatenate([keys, rng.random(length(batch))])
        if len(keys) > size:
            places = np.sort(np.argpartition(keys, size - 1)[:size])
            kept, keys = [take(join(kept), places)], keys[places]
    return join(kept)


def drawn_numbers(n: int, size: int, rng: np.random.Generator) -> np.ndarray:
    """The numbers of the rows that `smallest_keys` draws of n rows."""
    step = 1 << 16  # half a megabyte of keys at a time
    numbers = ((np.arange(a, min(a + step, n)),) for a in range(0, n, step))
    return np.asarray(smallest_keys(numbers, size, rng)[0])


def release_pages(X: Any) -> None:
    """Release the pages of a read-only memory map: they count as this process's memory."""
    source = _map_of(X)
    if source is not None and hasattr(source, "madvise") and not X.flags.writeable:
        source.madvise(mmap.MADV_DONTNEED)


def _map_of(X: Any) -> mmap.mmap | None:
    """The memory map that an array looks into, if any."""
    while isinstance(X, np.ndarray):
        X = X.base
    return X if isinstance(X, mmap.mmap) else None


def _sliceable(column: Any) -> Any:
    column = column.tocsr() if is_sparse(column) else host(column)
    if not hasattr(column, "shape") or is_collection(column):
        column = np.asarray(column)
    if column.shape == ():
        raise ValueError(f"One number for every row is needed; got {column}.")
    return column


def _as_batch(batch: Any) -> Block:
    """A batch of a stream as a block, without rows of weight zero."""
    if not isinstance(batch, (tuple, list)) or not 2 <= len(batch) <= 4:
        raise TypeError(f"A stream gives batches (X, y) of arrays; got {type(batch).__name__}.")
    if batch[0] is None or batch[1] is None:
        raise ValueError("A batch has rows X and targets y; got None instead of one of them.")
    return counted(as_block(*batch))

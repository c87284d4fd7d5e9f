"""One sum over blocks of rows in a fixed order, which can be resumed from a checkpoint.

Blocks are added to the state of their group, which starts at zero; groups are added one after the
other. The result does not depend on where the rows come from or where groups are computed.
After every group a checkpoint holds the total and a digest of its rows. The next run with the same
path reads these rows again, compares the digest, and continues with the first missing row.
"""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Callable, Iterable
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np

from .._arrays import is_sparse
from .._support.files import atomic_write
from .._support.progress import progress as progress_bar
from .._typing import Block

Zero = Callable[[], Any]
Add = Callable[[Any, Any, int], Any]


class Checkpoint:
    """A file with the state of a fold, or of an iteration over the same rows.

    Parameters
    ----------
    path : path of the file
    restore : callable
        From the arrays of a state to the state; the state has a method `arrays`.
    fingerprint : bytes
        Identifies the configuration; a file of another one raises ValueError.

    `Rows.fold` takes a checkpoint as an argument. A solver that reads the rows many times uses it
    directly: `checkpoint.begin(digest(rows, block_rows))` is the state in the file, or None if
    there is no file, and `checkpoint.write(state)` replaces it.
    """

    def __init__(self, path: Any, restore: Any, *, fingerprint: bytes = b""):
        self.path = Path(path)
        self._restore = restore
        self._fingerprint = fingerprint

    def begin(self, rows_digest: bytes) -> Any:
        """The state in the file if it belongs to rows with this digest; None without a file."""
        is_there = self.open(()) > 0
        self._digest = rows_digest
        return self.restored() if is_there else None

    def open(self, layout: tuple[int, ...]) -> int:
        """The number of blocks in the file, if it has the same configuration and layout."""
        if not self.path.parent.is_dir():
            raise FileNotFoundError(f"There is no folder {self.path.parent} for the checkpoint.")
        self._configuration = self._digest = fingerprint([self._fingerprint, layout])
        if not self.path.exists():
            return 0
        self._saved = _read(self.path)
        if self._saved.pop("configuration").tobytes() != self._configuration:
            raise ValueError(
                f"{self.path} belongs to another configuration of features, seed, chunks or data: "
                "delete it to start over, and give the features a random_state."
            )
        return int(self._saved.pop("blocks"))

    def follow(self, block: Block) -> None:
        """Take note of the next block, whether the file holds it or not."""
        self._digest = _hash(self._digest + _block_digest(block))

    def restored(self) -> Any:
        """The state in the file, if it belongs to the rows so far."""
        if self._saved.pop("digest").tobytes() != self._digest:
            raise ValueError(f"{self.path} was written for other rows: delete it to start over.")
        return self._restore(self._saved)

    def write(self, state: Any, n_blocks: int = 1) -> None:
        """Replace the file by this state of the rows so far."""
        with atomic_write(self.path) as file:
            np.savez(
                file,
                configuration=np.frombuffer(self._configuration, dtype=np.uint8),
                digest=np.frombuffer(self._digest, dtype=np.uint8),
                blocks=n_blocks,
                **state.arrays(),
            )


def fold(
    rows: Any,
    zero: Zero,
    add: Add,
    *,
    block_rows: int,
    group_blocks: int = 1,
    checkpoint: Checkpoint | None = None,
    progress: str | None = None,
) -> Any:
    """The sum of what `add` makes of all blocks of rows, in a fixed order: `Rows.fold`.

    Parameters
    ----------
    zero : callable
        `zero()` is a state of no rows. States have `+`, and `+=` if they add up in place.
    add : callable
        `add(state, block, first)` is the state with the rows of the block, of which `first` is
        the number of the first; it may change the state in place.
    block_rows, group_blocks : int
        Rows of a block, and blocks of a group. Every group starts at `zero()`, and groups are
        added one after the other.
    checkpoint : Checkpoint or None
        Written after every group.
    progress : str or None
        What a progress bar counts; None for no bar.
    """
    n_done = 0 if checkpoint is None else checkpoint.open((block_rows, group_blocks))
    number, first, total = 0, 0, None
    blocks = rows.blocks(block_rows)
    with progress_bar(progress or "", rows.n_rows, progress is not None) as advance:
        for start in blocks:
            group = None
            for block in chain([start], islice(blocks, group_blocks - 1)):
                if number >= n_done:
                    group = add(zero() if group is None else group, block, first)
                number, first = number + 1, first + block[0].shape[0]
                if checkpoint is not None:
                    checkpoint.follow(block)
                    if number == n_done:
                        total = checkpoint.restored()
                advance(block[0].shape[0])
            if group is None:
                continue
            if total is None:
                total = group
            else:
                total += group  # in place if the state can: only the fold refers to it
            if checkpoint is not None:
                checkpoint.write(total, number)
    if checkpoint is not None and number < n_done:
        raise ValueError(f"The checkpoint {checkpoint.path} has more rows than the data.")
    return zero() if total is None else total


def digest(rows: Any, block_rows: int) -> bytes:
    """A digest of all rows in blocks of this size, computed where the rows are."""

    def add(digests: bytes, block: Block, first: int) -> bytes:
        return digests + _block_digest(block)

    return _hash(rows.fold(bytes, add, block_rows=block_rows))


def fingerprint(parts: Iterable[Any]) -> bytes:
    """A digest of plain values that identifies a configuration."""
    return _hash(repr(list(parts)).encode())


def _block_digest(block: Block) -> bytes:
    """A digest of the values of all columns."""
    arrays: list[np.ndarray] = []
    for column in block:
        if is_sparse(column):
            arrays += [column.indptr - column.indptr[0], column.indices, column.data]
        else:
            values = np.asarray(column)  # of objects: labels, or None
            arrays.append(np.array(repr(values.tolist())) if values.dtype.hasobject else values)
    return _hash(b"".join(repr(a.shape).encode() + a.tobytes() for a in arrays))


def _hash(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()


def _read(path: Path) -> dict[str, np.ndarray]:
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
        # np.savez does not compress: no member is larger than the file, so no file is a bomb
        is_stored = all(member.compress_type == zipfile.ZIP_STORED for member in members)
        if not is_stored or sum(member.file_size for member in members) > path.stat().st_size:
            raise ValueError("its members are compressed or overlap")
        with np.load(path, allow_pickle=False) as file:
            saved = dict(file)
    except Exception as error:
        raise ValueError(f"{path} is not a checkpoint that can be read: {error}.") from error
    if not {"configuration", "blocks", "digest"} <= saved.keys():
        raise ValueError(f"{path} is not a checkpoint of dotsketch.")
    return saved

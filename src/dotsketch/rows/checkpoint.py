"""The state of a fold in a file, beside a digest of the rows that it holds.

After every group of blocks what there is of the sums is written. The next run with the same path
reads those rows again, compares the digest, and goes on with the first row that is missing.
"""

from __future__ import annotations

import hashlib
import os
import zipfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from .._arrays import is_sparse
from .._support.files import atomic_write
from .._typing import Block


class Checkpoint:
    """A file with the state of a fold, for one run of it.

    Parameters
    ----------
    path : path of the file
    restore : callable
        From the arrays of a state to the state; the state has a method `arrays`.
    fingerprint : bytes
        Identifies the configuration; a file of another one raises ValueError.
    probe : array or None
        Numbers that belong to the configuration but are computed, so that they are the same only to
        rounding (BLAS rounds differently with other threads or on another CPU).
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        restore: Callable[[dict[str, np.ndarray]], Any],
        *,
        fingerprint: bytes = b"",
        probe: np.ndarray | None = None,
    ):
        self.path = Path(path)
        self.restore = restore
        self._fingerprint = fingerprint
        self._probe = np.zeros(0) if probe is None else probe

    def begin(self, layout: list[int]) -> int:
        """How many blocks the file holds, if it is of the same configuration and layout."""
        if not self.path.parent.is_dir():
            raise FileNotFoundError(f"There is no folder {self.path.parent} for the checkpoint.")
        self._configuration = fingerprint([self._fingerprint, layout])
        self._digest = self._configuration
        self._saved = _read(self.path)
        if self._saved is None:
            return 0
        same = self._saved.pop("configuration").tobytes() == self._configuration
        if not _agree(self._saved.pop("probe"), self._probe) or not same:
            raise ValueError(
                f"The checkpoint {self.path} belongs to another configuration (features, seed, "
                "size of chunks, or the shape or mean of the data). Delete it to start over, and "
                "give the features a random_state, so that the next run draws the same ones."
            )
        return int(self._saved.pop("blocks"))

    def follow(self, block: Block) -> None:
        """Take note of a block, whether the file holds it or not."""
        self._digest = chained(self._digest, block)

    def follow_all(self, digest: bytes) -> None:
        """Take note of all rows at once, by the digest of a `Followed` state."""
        self._digest = fingerprint([self._configuration, digest])

    def restored(self) -> Any:
        """The state in the file, if it is that of the blocks so far."""
        return self.restore(self.saved())

    def saved(self) -> dict[str, Any]:
        """The arrays of that state."""
        saved, self._saved = self._saved or {}, None
        if saved.pop("digest").tobytes() != self._digest:
            raise ValueError(
                f"The checkpoint {self.path} holds other rows than the data given now. Delete it "
                "to start over."
            )
        return saved

    def write(self, state: Any, blocks: int) -> None:
        """Replace the file by the state of the blocks so far, at once."""
        with atomic_write(self.path) as file:
            np.savez(
                file,
                configuration=np.frombuffer(self._configuration, dtype=np.uint8),
                digest=np.frombuffer(self._digest, dtype=np.uint8),
                blocks=blocks,
                probe=self._probe,
                **state.arrays(),
            )


class Followed:
    """A state of a fold beside a digest of its rows.

    Both add up in the order of the tree, wherever groups of rows are computed.
    """

    def __init__(self, state: Any, digest: bytes = b""):
        self.state, self.digest = state, digest

    def follow(self, block: Block) -> None:
        """Take note of a block that the state holds by now."""
        self.digest = chained(self.digest, block)

    def __add__(self, other: Followed) -> Followed:
        return Followed(self.state + other.state, fingerprint([self.digest, other.digest]))

    def __iadd__(self, other: Followed) -> Followed:
        self.state += other.state
        self.digest = fingerprint([self.digest, other.digest])
        return self


def _agree(saved: np.ndarray, probe: np.ndarray) -> bool:
    """Whether both are the same to rounding: to half of the digits, relative to the largest entry.

    Features of another seed or kernel differ in the first digit.
    """
    if saved.shape != probe.shape or saved.dtype != probe.dtype:
        return False
    digits = np.sqrt(np.finfo(probe.dtype).eps) if probe.dtype.kind in "fc" else 0.0
    return bool(np.all(np.abs(saved - probe) <= digits * np.max(np.abs(probe), initial=0)))


def _read(path: Path) -> dict[str, np.ndarray] | None:
    if not path.exists():
        return None
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            # np.savez does not compress: no member is larger than the file, so no file is a bomb
            if (
                any(member.compress_type != zipfile.ZIP_STORED for member in members)
                or sum(member.file_size for member in members) > path.stat().st_size
            ):
                raise ValueError("its members are compressed or overlap")
        with np.load(path, allow_pickle=False) as file:
            saved = dict(file)
    except Exception as error:
        raise ValueError(f"{path} is no checkpoint that can be read: {error}.") from error
    if not {"configuration", "probe", "blocks", "digest"} <= saved.keys():
        raise ValueError(f"{path} is no checkpoint of dotsketch.")
    return saved


def chained(digest: bytes, block: Block) -> bytes:
    """A digest of the rows so far from the one before this block."""
    found = hashlib.blake2b(digest, digest_size=16)
    for column in block:
        for part in _parts(column):
            found.update(part)
    return found.digest()


def _parts(column: Any) -> Iterator[Any]:
    if column is None:
        return
    if is_sparse(column):
        for part in (column.indptr - column.indptr[0], column.indices, column.data):
            yield np.ascontiguousarray(part)
        return
    values = np.asarray(column)
    if values.dtype.kind == "O":
        yield "\0".join(map(repr, values.ravel().tolist())).encode()
    else:
        # strings have no buffer of their own: all are hashed as bytes
        yield np.ascontiguousarray(values).view(np.uint8) if values.size else b""


def fingerprint(parts: Iterable[Any]) -> bytes:
    """A digest of plain values that identifies a configuration."""
    return hashlib.blake2b(repr(list(parts)).encode(), digest_size=16).digest()

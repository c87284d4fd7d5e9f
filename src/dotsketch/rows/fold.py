"""One map-and-reduce over blocks of rows, which survives being killed.

Blocks are added to the state of their group, and groups to each other as a `Tree` says: the result
does not depend on where the rows come from, on how many machines compute it or, to the rounding of
BLAS, on an interruption. After every group what there is of the tree is written to a file, beside a
digest of all rows that it holds. The next run with the same path reads those rows again, compares
the digest, and goes on with the first row that is missing.
"""

from __future__ import annotations

import hashlib
import os
import zipfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from .._arrays import is_sparse
from .._support.files import atomic_write
from .._support.progress import progress as progress_bar

Block: TypeAlias = tuple[Any, ...]  # columns of one block of rows: (X, y), or more of `COLUMNS`
FAN_IN = 16  # nodes of a tree that are added to one of the next level


class Foldable:
    """What comes in blocks of rows, and can be summed over them."""

    @property
    def n_rows(self) -> int | None:
        """The number of rows, or None if it is not known."""
        raise NotImplementedError

    def blocks(self, size: int) -> Iterator[Block]:
        """All rows in blocks of `size` (the last may be shorter)."""
        raise NotImplementedError

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
        """The sum of what `add` makes of all blocks, in a fixed order.

        Parameters
        ----------
        zero : callable
            `zero()` is a state of no rows. States are added by `+` (by `+=` where they have it).
        add : callable
            `add(state, block, first)` is the state with the rows of the block, of which `first` is
            the number of the first; it may change the state in place.
        block_rows, group_blocks : int
            Rows of a block, and blocks of a group. Every group starts at `zero()`, so that groups
            can be computed elsewhere with the same result.
        checkpoint : Checkpoint or None
            Written after every group.
        progress : str or None
            What a progress bar counts; None for no bar.
        """
        done = 0 if checkpoint is None else checkpoint.begin([block_rows, group_blocks, FAN_IN])
        tree = Tree()
        group: Any = None
        number = first = 0
        with progress_bar(progress or "", self.n_rows, progress is not None) as advance:
            for number, block in enumerate(self.blocks(block_rows), start=1):
                if checkpoint is not None:
                    checkpoint.follow(block)
                if number > done:
                    group = add(zero() if group is None else group, block, first)
                    if number % group_blocks == 0:
                        tree.add(group)
                        group = None
                        if checkpoint is not None:
                            checkpoint.write(tree, number)
                elif number == done and checkpoint is not None:
                    tree = Tree.restored(checkpoint.saved(), checkpoint.restore)
                first += block[0].shape[0]
                advance(block[0].shape[0])
        if checkpoint is not None and number < done:
            raise ValueError(
                f"The checkpoint {checkpoint.path} holds more rows than the data given now."
            )
        if group is not None:
            tree.add(group)
            if checkpoint is not None:
                checkpoint.write(tree, number)
        total = tree.total()
        return zero() if total is None else total


def most_states(n_groups: int | None) -> int:
    """How many states a fold holds at once: that of a group, and a sum of every level of the tree.

    A single group is its own sum. An unknown number counts as one of two levels.
    """
    if n_groups is not None and n_groups <= 1:
        return 1
    levels, reached = 1, FAN_IN
    while reached < (FAN_IN**2 if n_groups is None else n_groups):
        levels, reached = levels + 1, reached * FAN_IN
    return 1 + levels


class Tree:
    """States added in the order of a tree: every node is the sum of 16 nodes below it, in order.

    The tree depends on the number of states alone, so that its nodes can be computed anywhere (see
    `dask`). Here states come one after the other, and one unfinished node of every level is held.
    """

    def __init__(self) -> None:
        self.counts: list[int] = []  # of the unfinished nodes, from below
        self.sums: list[Any] = []

    def add(self, state: Any) -> None:
        """Add the next state, which becomes the tree's own."""
        for level in range(len(self.counts) + 1):
            if level == len(self.counts):
                self.counts.append(0)
                self.sums.append(None)
            self.counts[level] += 1
            self.sums[level] = _joined(self.sums[level], state)
            if self.counts[level] < FAN_IN:
                return
            state, self.counts[level], self.sums[level] = self.sums[level], 0, None

    def total(self) -> Any:
        """The sum of all states, or None without any; the tree is used up."""
        total: Any = None
        for node in self.sums:
            total = total if node is None else node if total is None else _joined(node, total)
        return total

    def arrays(self) -> dict[str, Any]:
        """All of it by name, for a checkpoint."""
        found: dict[str, Any] = {"counts": np.array(self.counts)}
        for level, node in enumerate(self.sums):
            if node is not None:
                found |= {f"{level}.{name}": value for name, value in node.arrays().items()}
        return found

    @classmethod
    def restored(cls, arrays: dict[str, Any], restore: Callable[[dict[str, Any]], Any]) -> Tree:
        """The way back from `arrays`; `restore` is that of a state."""
        tree = cls()
        tree.counts = arrays.pop("counts").tolist()
        nodes: list[dict[str, Any]] = [{} for _ in tree.counts]
        for key, value in arrays.items():
            level, name = key.split(".", 1)
            nodes[int(level)][name] = value
        tree.sums = [restore(node) if node else None for node in nodes]
        return tree


def _joined(total: Any, state: Any) -> Any:
    if total is None:
        return state
    total += state  # in place where the state can: it may be large, and the fold alone knows it
    return total


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

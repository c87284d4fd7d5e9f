"""Sums over blocks of rows that survive being killed.

After every chunk the sums are written to a file, beside a digest of all rows that they hold. The
next run with the same path reads those rows again, compares the digest, and goes on with the first
row that is missing: the sums are those of an uninterrupted run, to the rounding of BLAS.
"""

from __future__ import annotations

import hashlib
import os
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from .._arrays import is_sparse
from .._support.files import atomic_write
from .._support.progress import progress
from .sources import Block, Rows, len_of


class Sums(Protocol):
    """What is summed: it takes blocks, and it can be written as arrays and read back."""

    def add(self, block: Block) -> None: ...

    def arrays(self) -> dict[str, Any]: ...

    def restore(self, arrays: dict[str, np.ndarray]) -> None: ...


def accumulate(
    rows: Rows,
    sums: Sums,
    *,
    block_rows: int,
    chunk_blocks: int = 1,
    checkpoint: str | os.PathLike | None = None,
    fingerprint: bytes = b"",
    probe: np.ndarray | None = None,
    verbose: bool = False,
) -> None:
    """Add all rows to the sums, in blocks; every `chunk_blocks` of them the checkpoint is written.

    `fingerprint` tells the configuration, and `probe` holds numbers that belong to it but are
    computed, so that they are the same only to rounding (BLAS rounds differently with other threads
    or on another CPU). A checkpoint of another configuration raises ValueError.
    """
    path = None if checkpoint is None else Path(checkpoint)
    if path is not None and not path.parent.is_dir():
        raise FileNotFoundError(f"There is no folder {path.parent} for the checkpoint.")
    saved = None if path is None else _read(path)
    digest = hashlib.blake2b(fingerprint + str(block_rows).encode(), digest_size=16).digest()
    probe = np.zeros(0) if probe is None else probe
    done = 0
    if saved is not None:
        same = saved.pop("configuration").tobytes() == digest
        if not _agree(saved.pop("probe"), probe) or not same:
            raise ValueError(
                f"The checkpoint {path} belongs to another configuration (features, seed, size of "
                "chunks, or the shape or mean of the data). Delete it to start anew, and give the "
                "features a random_state, so that the next run draws the same ones."
            )
        done = int(saved.pop("blocks"))
    configuration, total = digest, done
    number = 0
    with progress("rows", rows.n_rows, verbose) as advance:
        for number, block in enumerate(rows.blocks(block_rows), start=1):
            if path is not None:
                digest = _chained(digest, block)
            if number > done:
                sums.add(block)
            elif number == done and saved is not None:
                if saved.pop("digest").tobytes() != digest:
                    raise ValueError(
                        f"The checkpoint {path} holds other rows than the data given now. Delete "
                        "it to start anew."
                    )
                sums.restore(saved)
            if path is not None and number - total >= chunk_blocks:
                _write(path, sums, configuration, probe, number, digest)
                total = number
            advance(len_of(block[0]))
    if number < done:
        raise ValueError(f"The checkpoint {path} holds more rows than the data given now.")
    if path is not None and number > total:
        _write(path, sums, configuration, probe, number, digest)


def _agree(saved: np.ndarray, probe: np.ndarray) -> bool:
    """Whether both are the same to rounding: to half of the digits, relative to the largest entry.

    Features of another seed or kernel differ in the first digit.
    """
    if saved.shape != probe.shape or saved.dtype != probe.dtype:
        return False
    digits = np.sqrt(np.finfo(probe.dtype).eps) if probe.dtype.kind in "fc" else 0.0
    return bool(np.all(np.abs(saved - probe) <= digits * np.max(np.abs(probe), initial=0)))


def _write(
    path: Path, sums: Sums, configuration: bytes, probe: np.ndarray, blocks: int, digest: bytes
) -> None:
    with atomic_write(path) as file:
        np.savez(
            file,
            configuration=np.frombuffer(configuration, dtype=np.uint8),
            digest=np.frombuffer(digest, dtype=np.uint8),
            blocks=blocks,
            probe=probe,
            **sums.arrays(),
        )


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


def _chained(digest: bytes, block: Block) -> bytes:
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
    """A digest of plain values that tells configurations apart."""
    return hashlib.blake2b(repr(list(parts)).encode(), digest_size=16).digest()

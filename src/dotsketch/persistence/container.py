"""The file: an ordinary zip, stored without compression, sealed by its comment.

    model.json        versions and the tree of values
    arrays/0.npy …    the arrays
    comment           "dotsketch-model format=0001 sha256=<of all bytes before these 64 digits>"

Without compression no member can be larger than the file, so that no file can ask for more memory
than a few times its own size; sizes are compared before anything is allocated. The checksum finds
accidents before anything is parsed. It is no signature: a file made on purpose passes it, and then
meets the checks of every part. A file is read once, so that what was checked is what is used, and
has no byte outside of its members, headers, directory and comment. docs/persistence.md specifies
the format.

The bytes depend on the values alone (no times), and appear under the name whole or not at all.
"""

from __future__ import annotations

import errno
import hashlib
import io
import json
import math
import os
import re
import struct
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from .._support.files import atomic_write


class PersistenceError(ValueError):
    """A value that cannot be saved, or a file that cannot be trusted; the message is one line."""


FORMAT = 1
TREE = "model.json"
MAX_TREE_BYTES = 1 << 27
# Values in the tree, counted by the commas and brackets of its text: so many in any file, and one
# more for so many bytes of the file
MAX_NODES = 1 << 20
BYTES_PER_NODE = 16
DIGITS = 64
# No long double, no objects, no structures
DTYPES = {"b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16"}
EPOCH = (1980, 1, 1, 0, 0, 0)
SEAL = re.compile(rb"dotsketch-model format=([0-9]{4}) sha256=([0-9a-f]{64})\Z")
SEAL_BYTES = len("dotsketch-model format=0001 sha256=") + DIGITS
# The headers of a zip: before a member, in the directory, and at its end (32 and 64 bit)
LOCAL = struct.Struct("<4s5H3L2H")
DIRECTORY_BYTES, END_BYTES, END64_BYTES = 46, 22, 76
LARGE = b"\x01\x00"  # the one extra field of a header: sizes of 64 bits


def write(path: str | os.PathLike[str], tree: dict[str, Any], arrays: list[np.ndarray]) -> None:
    """Write tree and arrays to a file that replaces `path` once it is complete and on the disk."""
    target = Path(os.path.realpath(path))  # a link stays one
    if target.exists() and not target.is_file() and not target.is_dir():
        raise OSError(errno.EINVAL, "A model is saved to a regular file only", str(path))
    with atomic_write(target) as file:
        write_to(file, tree, arrays)


def write_to(file: BinaryIO, tree: dict[str, Any], arrays: list[np.ndarray]) -> None:
    """Write tree and arrays to an empty file that is open for reading and writing."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        text = json.dumps(tree, allow_nan=False, separators=(",", ":"))
        _check_tree_size(text.encode(), len(text) + sum(array.nbytes for array in arrays))
        archive.writestr(zipfile.ZipInfo(TREE, EPOCH), text.encode())
        for number, array in enumerate(arrays):
            member = zipfile.ZipInfo(_array_name(number), EPOCH)
            with archive.open(member, "w", force_zip64=array.nbytes >= 1 << 31) as out:
                np.lib.format.write_array(out, array, version=(1, 0), allow_pickle=False)
        archive.comment = b"dotsketch-model format=%04d sha256=" % FORMAT + b"0" * DIGITS
    size = file.seek(0, os.SEEK_END)
    digest = _digest_of_file(file, size - DIGITS)
    file.seek(size - DIGITS)
    file.write(digest.encode())


def read(data: bytes) -> tuple[dict[str, Any], Callable[[Any], np.ndarray]]:
    """The tree in the bytes of a file, and the function that gives an array by its number."""
    _check_seal(data)
    archive = zipfile.ZipFile(io.BytesIO(data))
    members = archive.infolist()
    names = [member.filename for member in members]
    for member in members:
        if member.compress_type != zipfile.ZIP_STORED or member.flag_bits & 0x1:
            raise PersistenceError(f"The member {member.filename!r} is compressed.")
    if len(set(names)) != len(names) or sum(m.file_size for m in members) > len(data):
        raise PersistenceError("Members of the file overlap, or one is there twice.")
    expected = [TREE, *(_array_name(number) for number in range(len(members) - 1))]
    if names != expected:
        raise PersistenceError(f"The members are not those of a model: {names[:5]!r}….")
    _check_layout(data, archive)
    # a list of names would be searched once per array
    return _read_tree(archive, len(data)), partial(_read_array, archive, frozenset(names))


def _read_tree(archive: zipfile.ZipFile, size: int) -> dict[str, Any]:
    if archive.getinfo(TREE).file_size > MAX_TREE_BYTES:
        raise PersistenceError(f"{TREE} has more than {MAX_TREE_BYTES} bytes.")
    data = archive.read(TREE)
    _check_tree_size(data, size)
    tree = json.loads(data.decode(), object_pairs_hook=_unique, parse_constant=_no_constant)
    if not isinstance(tree, dict):
        raise PersistenceError(f"{TREE} is no object.")
    return tree


def _read_array(archive: zipfile.ZipFile, names: frozenset[str], number: Any) -> np.ndarray:
    name = _array_name(number)
    if name not in names:
        raise PersistenceError(f"There is no array {number!r}.")
    data = archive.read(name)
    stream = io.BytesIO(data)
    if np.lib.format.read_magic(stream) != (1, 0):
        raise PersistenceError(f"{name} is of an unknown version of npy.")
    shape, fortran, dtype = np.lib.format.read_array_header_1_0(stream)
    start = stream.tell()
    if not is_storable(dtype) or math.prod(shape) * dtype.itemsize != len(data) - start:
        raise PersistenceError(f"{name} claims the shape {shape} and the dtype {dtype}.")
    flat = np.frombuffer(data, dtype=dtype, offset=start)
    array = flat.reshape(shape, order="F" if fortran else "C")
    return array.astype(dtype.newbyteorder("="), order="K")  # a copy, which can be written to


def _check_seal(data: bytes) -> None:
    """Raise unless the checksum is right and the format is known."""
    seal = SEAL.match(data[-SEAL_BYTES:])
    if seal is None:
        raise PersistenceError("It is no model file of dotsketch, or its end is missing.")
    found = int(seal[1])
    if found != FORMAT:
        raise PersistenceError(
            f"It is of format {found}, and this version of dotsketch reads format {FORMAT}"
            + ("; update dotsketch." if found > FORMAT else ".")
        )
    if hashlib.sha256(memoryview(data)[:-DIGITS]).hexdigest() != seal[2].decode():
        raise PersistenceError("Its checksum is wrong: the file was damaged or changed.")


def _check_layout(data: bytes, archive: zipfile.ZipFile) -> None:
    """Raise unless headers, members, directory and seal follow each other without a gap.

    A zip may have bytes before, between and behind its members, which makes files that are valid
    in two formats at once.
    """
    at, directory = 0, 0
    for member in archive.infolist():
        *_, name_bytes, extra_bytes = LOCAL.unpack_from(data, member.header_offset)
        begin = member.header_offset + LOCAL.size
        extra = data[begin + name_bytes : begin + name_bytes + extra_bytes]
        if member.header_offset != at or member.comment or member.flag_bits & 0x8:
            raise PersistenceError(f"There are bytes before or beside {member.filename!r}.")
        if not (_holds_sizes_only(extra) and _holds_sizes_only(member.extra)):
            raise PersistenceError(f"The header of {member.filename!r} holds other data.")
        at = begin + name_bytes + extra_bytes + member.compress_size
        directory += DIRECTORY_BYTES + len(member.filename.encode()) + len(member.extra)
    behind = len(data) - SEAL_BYTES - archive.start_dir - directory
    if archive.start_dir != at or behind not in (END_BYTES, END_BYTES + END64_BYTES):
        raise PersistenceError("There are bytes before or behind the directory of the file.")


def _holds_sizes_only(extra: bytes) -> bool:
    """Whether the extra field of a header is empty, or one record of sizes beyond 4 GiB."""
    is_record = extra[:2] == LARGE and len(extra) == 4 + int.from_bytes(extra[2:4], "little")
    return not extra or (is_record and len(extra) <= 4 + 3 * 8)


def _digest_of_file(file: BinaryIO, stop: int) -> str:
    """sha256 of the bytes before `stop`."""
    found = hashlib.sha256()
    file.seek(0)
    while stop > 0:
        block = file.read(min(stop, 1 << 20))
        found.update(block)
        stop -= len(block)
    return found.hexdigest()


def _check_tree_size(text: bytes, size: int) -> None:
    """Raise for more values than a file of this size may have: `[]` takes 56 bytes in memory."""
    count = sum(text.count(mark) for mark in (b",", b"[", b"{"))
    largest = MAX_NODES + size // BYTES_PER_NODE
    if count > largest:
        raise PersistenceError(f"{TREE} has {count} values, more than the {largest} of its size.")


def is_storable(dtype: np.dtype) -> bool:
    """Whether arrays of a dtype are stored as `.npy`: the same on every machine, and no objects."""
    return dtype.str[1:] in DTYPES or (dtype.kind in "US" and dtype.itemsize > 0)


def _array_name(number: int) -> str:
    return f"arrays/{number}.npy"


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise PersistenceError(f"{TREE} has a name twice.")
    return found


def _no_constant(name: str) -> Any:
    raise PersistenceError(f"{TREE} has a number {name}.")

"""Members of the archive that share their bytes, so that a small file has large contents.

Sizes of all members together are compared with that of the file, and each begins where the one
before it ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from .forging import ARRAY, forge, npy, sealed, tree_of
from .harness import show


def overlapping(data: bytes) -> bytes:
    """The archive with a directory that gives its first member the size of the whole file."""
    result = bytearray(data)
    first = result.index(b"PK\x01\x02")
    for offset in (20, 24):
        result[first + offset : first + offset + 4] = len(result).to_bytes(4, "little")
    return bytes(result)


def files(path: Path) -> Iterator[str]:
    forge(path, [("model.json", tree_of(ARRAY)), ("arrays/0.npy", npy(np.zeros(4000)))])
    path.write_bytes(sealed(overlapping(path.read_bytes())))
    yield "the first member is the whole file"


if __name__ == "__main__":
    show("overlapping_members")

"""A small compressed archive that grows a thousand times.

Compressed members are refused, so that no member is larger than the file.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from .forging import ARRAY, forge, npy, tree_of
from .harness import show


def files(path: Path) -> Iterator[str]:
    zeros = npy(np.zeros(1 << 25))
    members = [("model.json", tree_of(ARRAY)), ("arrays/0.npy", zeros)]
    forge(path, members, compression=zipfile.ZIP_DEFLATED)
    yield f"256 MiB in {path.stat().st_size >> 10} KiB"


if __name__ == "__main__":
    show("zip_bomb")

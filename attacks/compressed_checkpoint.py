"""A checkpoint of a fit, compressed, that grows a thousand times.

Checkpoints are read without pickle, and compressed ones are refused.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from dotsketch.rows import Checkpoint, Rows

from .forging import npy
from .harness import show


def files(path: Path) -> Iterator[str]:
    zeros = npy(np.zeros(1 << 25))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("state.npy", zeros)
    yield f"256 MiB in {path.stat().st_size >> 10} KiB"


def attempt(path: Path) -> str:
    rows, checkpoint = Rows.of(np.zeros((10, 3))), Checkpoint(path, dict)
    rows.fold(dict, lambda state, block, first: state, block_rows=5, checkpoint=checkpoint)
    return "used"


if __name__ == "__main__":
    show("compressed_checkpoint")

"""Arrays that claim more bytes than the file has, or have a dtype of no size.

Sizes are compared before anything is allocated.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from .forging import ARRAY, forge, npy, tree_of
from .harness import show


def files(path: Path) -> Iterator[str]:
    numbers = np.zeros((6, 5))
    for label, changes in {
        "8 EiB of zeros": {"shape": (1 << 40, 1 << 20)},
        "negative lengths": {"shape": (-6, -5)},
        "strings of length 0": {"descr": "<U0", "shape": (1 << 60,)},
        "objects": {"descr": "|O"},
    }.items():
        forge(path, [("model.json", tree_of(ARRAY)), ("arrays/0.npy", npy(numbers, **changes))])
        yield label


if __name__ == "__main__":
    show("claimed_array")

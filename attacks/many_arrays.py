"""Twenty thousand arrays of one number.

Each was searched for in a list of names: 34 s. The names are a set now, and the file is read.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from .forging import write
from .harness import show


def files(path: Path) -> Iterator[str]:
    write(path, [np.zeros(1) for _ in range(20_000)])
    yield "20,000 arrays"


if __name__ == "__main__":
    show("many_arrays")

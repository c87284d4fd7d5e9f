"""Twenty megabytes of `[]`, each of which takes 56 bytes in memory.

The values are counted in the text, before it is parsed. It took 1 GB.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from .forging import forge, tree_of
from .harness import show


def files(path: Path) -> Iterator[str]:
    text = tree_of(1).replace(b'"value": 1', b'"value": [' + b"[]," * 7_000_000 + b"1]")
    forge(path, [("model.json", text)])
    yield "7 million lists"


if __name__ == "__main__":
    show("many_values")

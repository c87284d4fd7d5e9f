"""Keys with the same hash: each is compared with all before it.

Multiples of 2⁶¹ − 1 have the hash 0. More than 16 keys with one hash are refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from .forging import write_tree
from .harness import show


def files(path: Path) -> Iterator[str]:
    keys = [n * (2**61 - 1) for n in range(50_000)]
    write_tree(path, {"kind": "dict", "items": [[key, 1] for key in keys]})
    yield "a dictionary of 50,000"


if __name__ == "__main__":
    show("colliding_keys")

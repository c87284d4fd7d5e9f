"""Values nested so deeply that a parser overflows its stack, and integers of thousands of digits.

At most 60 levels are accepted; whatever the parser raises is a refusal.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from .forging import forge
from .harness import show


def files(path: Path) -> Iterator[str]:
    for label, value in {
        "100 lists in each other": b"[" * 100 + b"]" * 100,
        "200,000 open brackets": b"[" * 200_000,
        "5000 digits": b"9" * 5000,
    }.items():
        text = b'{"versions": {}, "classes": [], "value": ' + value + b"}"
        forge(path, [("model.json", text)])
        yield label


if __name__ == "__main__":
    show("nested_values")

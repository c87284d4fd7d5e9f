"""Damage: a flipped bit, a lost end, bytes behind the end, a format of the future.

The checksum is compared before anything is parsed.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from dotsketch import Gaussian, save

from .forging import sealed
from .harness import show


def files(path: Path) -> Iterator[str]:
    save(Gaussian(lengthscale=2.0), path)
    data = path.read_bytes()
    flipped = bytearray(data)
    flipped[len(data) // 2] ^= 1
    for label, changed in {
        "a flipped bit": bytes(flipped),
        "a lost end": data[:-1],
        "a byte behind the end": data + b"x",
        "a newer format": sealed(data.replace(b"format=0001", b"format=0002")),
    }.items():
        path.write_bytes(changed)
        yield label


if __name__ == "__main__":
    show("damage")

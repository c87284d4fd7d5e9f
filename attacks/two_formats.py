"""A file that is a model and something else, too: bytes before, between or behind the members.

Headers, members, directory and seal follow each other without a gap.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from .forging import ARRAY, forge, npy, sealed, tree_of
from .harness import show


def hidden_before(data: bytes) -> bytes:
    """A shell script that is a zip, too."""
    return b"#!/bin/sh\n" + data


def hidden_between(data: bytes) -> bytes:
    """Bytes between the last member and the directory, which the end of the file points to."""
    start = data.index(b"PK\x01\x02")
    moved = bytearray(data[:start] + b"hidden" + data[start:])
    end = moved.rindex(b"PK\x05\x06")
    moved[end + 16 : end + 20] = (start + 6).to_bytes(4, "little")
    return bytes(moved)


def hidden_in_a_gap(data: bytes) -> bytes:
    """Bytes between two members: the directory knows where the second begins."""
    second = data.index(b"PK\x03\x04", 4)
    moved = bytearray(data[:second] + b"hidden" + data[second:])
    entry = moved.rindex(b"PK\x01\x02")
    moved[entry + 42 : entry + 46] = (second + 6).to_bytes(4, "little")
    end = moved.rindex(b"PK\x05\x06")
    start = int.from_bytes(moved[end + 16 : end + 20], "little") + 6
    moved[end + 16 : end + 20] = start.to_bytes(4, "little")
    return bytes(moved)


def hidden_in_the_comment(data: bytes) -> bytes:
    """Bytes before the seal, which is the end of a longer comment."""
    end = data.rindex(b"PK\x05\x06")
    length = int.from_bytes(data[end + 20 : end + 22], "little") + 6
    return data[: end + 20] + length.to_bytes(2, "little") + b"hidden" + data[end + 22 :]


def files(path: Path) -> Iterator[str]:
    forge(path, [("model.json", tree_of(ARRAY)), ("arrays/0.npy", npy(np.zeros(4)))])
    data = path.read_bytes()
    for hide in (hidden_before, hidden_between, hidden_in_a_gap, hidden_in_the_comment):
        path.write_bytes(sealed(hide(data)))
        yield hide.__name__.replace("_", " ")


if __name__ == "__main__":
    show("two_formats")

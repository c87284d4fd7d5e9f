"""A random generator whose counter points outside of its 624 numbers.

NumPy does not check it and reads beyond the array.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from dotsketch.persistence.objects import known_classes
from dotsketch.persistence.values import Encoder

from .forging import forge, npy, tree_of
from .harness import show


def write_position(path: Path, position: int) -> None:
    encoder = Encoder(known_classes())
    state = np.random.RandomState(0).get_state(legacy=False)
    state["state"]["pos"] = position
    node = {"kind": "random_state", "state": encoder.encode(state, "state")}
    forge(path, [("model.json", tree_of(node)), ("arrays/0.npy", npy(encoder.arrays[0]))])


def files(path: Path) -> Iterator[str]:
    for position in (-1, 625, 2**31 - 1):
        write_position(path, position)
        yield f"pos = {position}"


if __name__ == "__main__":
    show("generator_position")

"""A pickle that runs code when it is opened, as the file, as an array, as an array of objects.

load never opens a pickle; the arrays of objects that NumPy would unpickle are refused by dtype.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from dotsketch import PersistenceError, load

from .forging import ARRAY, forge, tree_of
from .harness import show


class Bomb:
    """An object whose pickle creates a file when it is opened."""

    def __init__(self, path: Path):
        self.path = path

    def __reduce__(self) -> tuple:
        return Path.touch, (self.path,)


def mark(path: Path) -> Path:
    return path.with_name("mark")


def files(path: Path) -> Iterator[str]:
    payload = pickle.dumps(np.array([Bomb(mark(path))], dtype=object))
    path.write_bytes(payload)
    yield "the file is a pickle"
    out = io.BytesIO()
    header = {"descr": "|O", "fortran_order": False, "shape": (1,)}
    np.lib.format.write_array_header_1_0(out, header)
    for member, label in (
        (payload, "an array is a pickle"),
        (out.getvalue() + payload, "an array of objects is one"),
    ):
        forge(path, [("model.json", tree_of(ARRAY)), ("arrays/0.npy", member)])
        yield label


def attempt(path: Path) -> str:
    try:
        load(path)
        text = "loaded"
    except PersistenceError as error:
        text = f"refused: {error}"
    return "RAN CODE" if mark(path).exists() else text


if __name__ == "__main__":
    show("pickle_inside")

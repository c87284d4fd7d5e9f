"""Sparse matrices whose indices point outside of their arrays.

SciPy's products trust them; they are checked in full after loading.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from .forging import forge, npy, tree_of
from .harness import show

ROWS = {"data": np.ones(2), "indices": np.array([0, 1]), "indptr": np.array([0, 1, 2])}


def write_sparse(path: Path, name: str, shape: list, arrays: dict[str, np.ndarray]) -> None:
    items = [{"kind": "array", "number": number} for number in range(3)]
    tree = tree_of({"kind": "sparse", "name": name, "shape": shape, "items": items})
    members = [(f"arrays/{k}.npy", npy(array)) for k, array in enumerate(arrays.values())]
    forge(path, [("model.json", tree), *members])


def files(path: Path) -> Iterator[str]:
    for change in (
        {"indices": np.array([0, 1 << 40])},
        {"indices": np.array([0, -1])},
        {"indices": np.array([0.0, 1.0])},
        {"indptr": np.array([0, 1, 1 << 40])},
        {"indptr": np.array([0, 2, 1])},
        {"indptr": np.array([-4, 1, 2])},
        {"data": np.ones(1)},
        {"data": np.array(["a", "b"])},
    ):
        write_sparse(path, "csr_array", [2, 3], ROWS | change)
        yield next(f"{name} = {values}" for name, values in change.items())
    for name, shape in (
        ("csr_array", [1 << 40, 3]),
        ("csr_array", [2, -3]),
        ("csr_array", [2, 3.0]),
        ("coo_array", [2, 3]),
    ):
        write_sparse(path, name, shape, ROWS)
        yield f"{name} of shape {shape}"


if __name__ == "__main__":
    show("sparse_indices")

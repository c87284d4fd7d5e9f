"""Weights of sketches that point outside of the arrays that compiled code reads or writes.

Buckets, turns and places are compared with the sizes of the sketch.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from dotsketch import PolynomialSketch

from .forging import write_changed
from .harness import show


def files(path: Path) -> Iterator[str]:
    X = np.linspace(0, 1, 30).reshape(10, 3)
    for sketch, field, change in (
        ("tensor_sketch", "buckets", 1 << 20),
        ("tensor_sketch", "buckets", 1),  # the largest bucket is one beyond the array
        ("tensor_sketch", "turns", 9),
        ("tensor_srht", "places", -1000),
    ):
        features = PolynomialSketch(3, sketch=sketch, n_components=2, random_state=0).fit(X)
        forged = {field: getattr(features.weights_, field) + change}
        write_changed(path, features, weights_=features.weights_._replace(**forged))
        yield f"{sketch}: {field} + {change}"


if __name__ == "__main__":
    show("sketch_indices")

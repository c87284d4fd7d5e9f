"""Counts that make transform allocate far more than the file has.

A count is compared with the arrays behind it, or with a limit (SECURITY.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from sklearn.preprocessing import StandardScaler

from dotsketch import FourierFeatures, Gaussian, PolynomialSketch

from .forging import changed, write_changed
from .harness import show


def files(path: Path) -> Iterator[str]:
    X = np.linspace(0, 1, 30).reshape(10, 3)
    sketch = PolynomialSketch(3, sketch="tensor_sketch", n_components=8, random_state=0).fit(X)
    waves = FourierFeatures(Gaussian(), n_components=8, random_state=0).fit(X)
    huge = changed(sketch.design_.sketch, n_projections=1 << 40)
    changes = [
        (sketch, {"design_": changed(sketch.design_, sketch=huge)}),
        (waves, {"design_": changed(waves.design_, n_components=10**9)}),
        (StandardScaler().fit(X), {"n_features_in_": 1 << 20}),
        (
            StandardScaler(with_mean=False, with_std=False).fit(X),
            {"n_features_in_": (1 << 31) - 1},
        ),
    ]
    for estimator, change in changes:
        write_changed(path, estimator, **change)
        yield f"{estimator}.{next(iter(change))}"


if __name__ == "__main__":
    show("claimed_columns")

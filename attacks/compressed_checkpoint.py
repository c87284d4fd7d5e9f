"""A checkpoint of a fit, compressed, that grows a thousand times.

Checkpoints are read without pickle, and compressed ones are refused.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from dotsketch import FeatureGPRegressor, FourierFeatures, Gaussian

from .forging import npy
from .harness import show


def files(path: Path) -> Iterator[str]:
    zeros = npy(np.zeros(1 << 25))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("state.npy", zeros)
    yield f"256 MiB in {path.stat().st_size >> 10} KiB"


def attempt(path: Path) -> str:
    X = np.linspace(0, 1, 300).reshape(100, 3)
    features = FourierFeatures(Gaussian(), n_components=8, random_state=0)
    FeatureGPRegressor(features).fit(X, X[:, 0], checkpoint=path)
    return "used"


if __name__ == "__main__":
    show("compressed_checkpoint")

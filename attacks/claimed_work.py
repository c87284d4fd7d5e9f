"""Numbers that would make a program work for years, or start hundreds of threads.

Degrees are at most 10,000 and n_jobs at most 64.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from dotsketch import FourierFeatures, Gaussian, MaclaurinFeatures, Polynomial

from .forging import write_changed
from .harness import show


def files(path: Path) -> Iterator[str]:
    X = np.linspace(0, 1, 30).reshape(10, 3)
    series = MaclaurinFeatures(Gaussian(), n_components=16, random_state=0).fit(X)
    for estimator, name, value in (
        (Polynomial(3), "degree", 1 << 63),
        (series, "max_degree", 1 << 63),
        (FourierFeatures(Gaussian()), "n_jobs", 500),
    ):
        write_changed(path, estimator, **{name: value})
        yield f"{type(estimator).__name__}.{name} = {value}"


if __name__ == "__main__":
    show("claimed_work")

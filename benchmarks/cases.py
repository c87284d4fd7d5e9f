"""The sizes that are measured."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product

import numpy as np


@dataclass(frozen=True)
class Case:
    """Features of the homogeneous polynomial kernel ⟨x, y⟩ᵖ, float32."""

    n_rows: int
    dimension: int
    n_components: int
    degree: int

    def inputs(self) -> np.ndarray:  # (n, d)
        """Rows of about unit norm."""
        rng = np.random.default_rng(0)
        X = rng.standard_normal((self.n_rows, self.dimension), dtype=np.float32)
        X *= np.float32(self.dimension**-0.5)
        return X


def main_cases(quick: bool) -> list[Case]:
    """d ∈ {64, 1024}, D ∈ {d, 5d}, p ∈ {3, 7}; a corner of it if quick."""
    n_rows, dimensions, degrees = (1000, (64,), (3,)) if quick else (10_000, (64, 1024), (3, 7))
    return [
        Case(n_rows, dimension, factor * dimension, degree)
        for dimension, factor, degree in product(dimensions, (1, 5), degrees)
    ]


SCALING_BASE = Case(n_rows=4000, dimension=256, n_components=256, degree=3)
SCALING = {
    "n_rows": (1000, 2000, 4000, 8000, 16_000),
    "dimension": (64, 128, 256, 512, 1024),
    "n_components": (64, 128, 256, 512, 1024),
    "degree": (2, 4, 8, 16),
}


def scaling_cases(quick: bool) -> Iterator[tuple[str, Case]]:
    """One size varied at a time: its name and the case."""
    for name, values in SCALING.items():
        for value in values[:2] if quick else values:
            yield name, replace(SCALING_BASE, **{name: value})

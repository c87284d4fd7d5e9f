"""Dense weights of modulus one: signs, {1, i, −1, −i}, the q family, the circle."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, NamedTuple

import numpy as np

from .._arrays import Array, namespace
from .._backends import Prepared, backend_of, keeps_prepared
from .._support.stored import array
from .base import Projection


@keeps_prepared
class TurnWeights(NamedTuple):
    # the weight is i**turns
    turns: Annotated[np.ndarray, array("i", "p", "D", "d", below=4)]


@keeps_prepared
class AngleWeights(NamedTuple):
    # the weight is exp(i·angle)
    angles: Annotated[np.ndarray, array("f", "p", "D", "d")]


@dataclass(frozen=True)
class RademacherProjection(Projection):
    """Independent weights with |z| = 1; `weights` as in `RademacherSketch`."""

    draws = (TurnWeights, AngleWeights)
    weights: str | float = "rademacher"

    @property
    def kappa2(self) -> float:
        if isinstance(self.weights, str):
            return 0.0 if self.is_complex else 1.0
        return (2 * self.weights - 1) ** 2

    def sample(
        self, copies: int, n_rows: int, dimension: int, rng: np.random.Generator
    ) -> TurnWeights | AngleWeights:
        shape = (copies, n_rows, dimension)
        if self.weights == "circle":
            return AngleWeights(rng.uniform(0, 2 * np.pi, shape))
        if isinstance(self.weights, str):
            return TurnWeights(sample_turns(rng, shape, self.is_complex))
        imaginary = rng.random(shape) >= self.weights
        return TurnWeights(sample_turns(rng, shape, False) + imaginary.astype(np.int8))

    def prepare(
        self, weights: TurnWeights | AngleWeights, n_rows: int, *, scale: float = 1.0, rows: Array
    ) -> Prepared:
        backend = backend_of(rows)
        if isinstance(weights, TurnWeights):
            return backend.sign_product(weights.turns, self.is_complex, scale, rows)
        angles, xp = weights.angles, namespace(weights.angles)
        return backend.dense_product(xp.cos(angles), xp.sin(angles), scale, rows)


def sample_turns(rng: np.random.Generator, shape: tuple[int, ...], is_complex: bool) -> np.ndarray:
    """Uniform quarter turns t for weights iᵗ: all four, or 0 and 2 for real signs ±1."""
    if is_complex:
        return rng.integers(0, 4, shape, dtype=np.int8)
    return 2 * rng.integers(0, 2, shape, dtype=np.int8)

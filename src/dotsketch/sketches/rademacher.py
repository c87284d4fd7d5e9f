"""Sketches with weights of modulus one: Rademacher, {1, i, −1, −i}, the q family, the circle."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import NamedTuple

import numpy as np

from .._arrays import Array
from .._backends import Prepared, dense_product, sign_product
from .base import Sketch
from .independent import IndependentSketch


class TurnWeights(NamedTuple):
    turns: np.ndarray  # (p, D, d) int8: the weight is i**turns


class AngleWeights(NamedTuple):
    angles: np.ndarray  # (p, D, d): the weight is exp(i·angle)


@dataclass(frozen=True)
class RademacherSketch(IndependentSketch):
    """Independent weights with |z| = 1: the least variance that independent weights can have.

    Parameters
    ----------
    weights : "rademacher", "circle" or a number q in [0, 1]
        "rademacher": ±1 for the real field, uniform on {1, −1, i, −i} for the complex one.
        "circle": uniform on the complex unit circle (same variance, not the same sketch).
        q: ±1 with probability q and ±i otherwise (complex field); κ² = (2q − 1)² leads from the
        complex sketch (q = 1/2) to the real one (q = 1).
    """

    weights: str | float = "rademacher"

    def __post_init__(self) -> None:
        super().__post_init__()
        is_q = isinstance(self.weights, Real) and not isinstance(self.weights, bool)
        if is_q and not 0 <= self.weights <= 1:  # type: ignore[operator]
            raise ValueError(f"weights=q is a probability in [0, 1]; got {self.weights!r}.")
        if not is_q and self.weights not in ("rademacher", "circle"):
            raise ValueError(
                f'weights must be "rademacher", "circle" or a number q; got {self.weights!r}.'
            )
        if self.weights != "rademacher" and self.weights != 1 and not self.is_complex:
            raise ValueError(
                f'weights={self.weights!r} are complex: use field="complex" '
                '(output="complex" or "complex_to_real").'
            )

    @property
    def kappa2(self) -> float:
        if isinstance(self.weights, str):
            return Sketch.kappa2.fget(self)  # type: ignore[attr-defined]
        return (2 * self.weights - 1) ** 2

    def sample(self, dimension: int, rng: np.random.Generator) -> TurnWeights | AngleWeights:
        shape = (self.degree, self.n_projections, dimension)
        if self.weights == "circle":
            return AngleWeights(rng.uniform(0, 2 * np.pi, shape))
        if isinstance(self.weights, str):
            return TurnWeights(sample_turns(rng, shape, self.is_complex))
        imaginary = rng.random(shape) >= self.weights
        return TurnWeights(sample_turns(rng, shape, False) + imaginary.astype(np.int8))

    def prepare(self, weights: TurnWeights | AngleWeights, rows: Array) -> Prepared:
        if isinstance(weights, TurnWeights):
            return sign_product(
                weights.turns, is_complex=self.is_complex, scale=self.scale, rows=rows
            )
        angles = weights.angles
        return dense_product(np.cos(angles), np.sin(angles), scale=self.scale, rows=rows)


def sample_turns(rng: np.random.Generator, shape: tuple[int, ...], is_complex: bool) -> np.ndarray:
    """Uniform quarter turns t for weights iᵗ: all four, or 0 and 2 for real signs ±1."""
    if is_complex:
        return rng.integers(0, 4, shape, dtype=np.int8)
    return 2 * rng.integers(0, 2, shape, dtype=np.int8)

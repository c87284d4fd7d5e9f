"""The interface of a random projection, a random linear map with independent or blocked rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from .._arrays import Array
from .._backends import Prepared, power_of_two
from .._support.stored import check_lengths


@dataclass(frozen=True)
class Projection:
    """Random rows w with E[w w*] = I, of entries z with E z = 0, E|z|² = 1, E z² = κ, E|z|⁴ = m4.

    Rows are independent, or share their randomness in blocks as those of signed, permuted Hadamard
    matrices do. `kappa2`, `m4` and `block` are all that a variance needs to know.
    """

    is_complex: bool = False
    draws: ClassVar[tuple[type, ...]] = ()  # the classes of the weights

    @property
    def kappa2(self) -> float:
        """κ² = |E z²|² of one random weight: 1 for real weights, 0 for complex ones."""
        return 0.0 if self.is_complex else 1.0

    @property
    def m4(self) -> float:
        """E|z|⁴ of one random weight."""
        return 1.0

    def block(self, dimension: int) -> int:
        """How many rows share their randomness."""
        return 1

    def cost(self, n_rows: int, dimension: int) -> float:
        """About how many arithmetic operations the projections of one vector take."""
        return n_rows * 2 * dimension * (2 if self.is_complex else 1)

    def sample(self, copies: int, n_rows: int, dimension: int, rng: np.random.Generator) -> Any:
        """Weights of independent copies in one draw: a named tuple of arrays (copies, …)."""
        raise NotImplementedError

    def check_weights(self, weights: Any, copies: int, n_rows: int, dimension: int) -> None:
        """Raise ValueError unless `sample` could have drawn these weights."""
        d = power_of_two(dimension)
        lengths = {"p": copies, "D": n_rows, "d": dimension, "padded": d, "B": -(-n_rows // d)}
        check_lengths(weights, self.draws, parts=1 + self.is_complex, **lengths)

    def prepare(self, weights: Any, n_rows: int, *, scale: float = 1.0, rows: Array) -> Prepared:
        """The product of all copies times `scale`, as a function of chunks of rows like these."""
        raise NotImplementedError

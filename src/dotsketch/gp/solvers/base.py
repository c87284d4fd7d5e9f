"""The interface of a solver."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, Protocol

import numpy as np

from ...rows import Rows
from ..posterior import Posterior


class System(NamedTuple):
    """B v = s · cross with B = I + s · moment, for a prior variance s: one for each class.

    The noise is inside the weights w. How the moment is held is between the state, which makes
    systems, and its solver: `Cholesky` takes a `PackedMatrix`. An iterative solver has no moments:
    see `passes.RowSystems`.
    """

    moment: Any  # Σ w z zᴴ (D, D)
    cross: np.ndarray  # Σ w z y (D, m)


class Solver(Protocol):
    """How rows become posteriors by sums."""

    mergeable: bool  # whether states add up, so that rows can be added without those before

    def gather(
        self,
        rows: Rows,
        block: Callable[..., tuple[Any, ...]],
        zero: Callable[[], Any],
        **options: Any,
    ) -> Any:
        """The state of all rows.

        `block(columns, first)` gives the arguments of `update` for the block that begins with row
        `first`: its features, targets and weights. `zero()` is the state of no rows. The options
        are those of `Rows.fold`.
        """

    def solve(
        self,
        systems: Iterable[System],
        prior_variance: float,
        *,
        rng: np.random.Generator | None = None,
    ) -> Iterator[Posterior]:
        """A posterior for every system; `rng` is for solvers that draw random numbers."""

"""A plan: candidates with their errors and costs, the best first."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from .candidates import Candidate


@dataclass(frozen=True)
class PlannedCandidate:
    """The error and cost of one candidate at a number of columns.

    relative_error is √(E(k − k̂)²/E k²) over pairs of distinct rows; cost is the number of
    arithmetic operations a row takes, a guide to the time. Where the error is known in closed
    form, source is "formula", and squared_bias + variance is the squared error. Where it is not,
    source is "measured": features were drawn for rows held out; spread is then the standard
    deviation of the relative error between draws, and its two parts are not known (NaN).
    """

    candidate: Candidate
    n_components: int
    relative_error: float
    squared_bias: float
    variance: float
    cost: float
    max_degree: int | None = None
    source: str = "formula"
    spread: float = 0.0


class Plan(Sequence):
    """Candidates in the order of error · cost^cost_weight; the first is the best.

    `by_columns` takes their number of columns in the place of the error.
    """

    def __init__(
        self,
        rows: Iterable[PlannedCandidate],
        cost_weight: float = 0.0,
        *,
        by_columns: bool = False,
    ):
        def score(row: PlannedCandidate) -> tuple[float, float]:
            value = row.n_components if by_columns else row.relative_error
            return value * max(row.cost, 1.0) ** cost_weight, row.cost

        self._rows = sorted(rows, key=score)

    def __getitem__(self, index: Any) -> Any:
        return self._rows[index]

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def best(self) -> PlannedCandidate:
        return self._rows[0]

    def to_dict(self) -> dict[str, list]:
        """The table by columns, for `pandas.DataFrame(plan.to_dict())`."""
        rows = []
        for row in self._rows:
            values = asdict(row)
            del values["candidate"]
            options = asdict(row.candidate)
            rows.append({"family": row.candidate.family, **options, **values})
        names = list(dict.fromkeys(name for row in rows for name in row))
        return {name: [row.get(name) for row in rows] for name in names}

    def __repr__(self) -> str:
        width = max((len(str(row.candidate)) for row in self._rows), default=9)
        lines = [
            f"{'candidate':{width}s} {'columns':>8s} {'rel. error':>10s} {'bias':>9s} "
            f"{'deviation':>9s} {'Mop/row':>8s}  source"
        ]
        for row in self._rows:
            parts = [
                f"{math.sqrt(part):9.3g}" if part == part else f"{'':9s}"
                for part in (row.squared_bias, row.variance)
            ]
            lines.append(
                f"{row.candidate!s:{width}s} {row.n_components:8d} {row.relative_error:10.4g} "
                f"{parts[0]} {parts[1]} {row.cost / 1e6:8.3f}  {row.source}"
            )
        return "\n".join(lines)

    def plot(self, ax: Any = None, most: int = 15) -> Any:
        """Horizontal bars of the relative error, best first; returns the axes."""
        import matplotlib.pyplot as plt

        rows = self._rows[:most][::-1]
        if ax is None:
            _, ax = plt.subplots(figsize=(8, 0.35 * len(rows) + 1.2), layout="constrained")
        error = np.array([row.relative_error for row in rows])
        total = np.array([row.squared_bias + row.variance for row in rows])
        bias = np.array([row.squared_bias for row in rows])
        measured = np.isnan(total)
        share = np.where(measured, 0.0, bias / np.where(total > 0, total, 1.0))
        names = [str(row.candidate) for row in rows]
        ax.barh(names, error, color="#9ecae1", label="variance")
        ax.barh(names, error * share, color="#08519c", label="bias")
        if np.any(measured):
            ax.barh(names, np.where(measured, error, 0.0), color="#bdbdbd", label="measured")
        ax.set_xlabel("relative error (bars split by share of the squared error)")
        ax.legend(loc="lower right", frameon=False)
        return ax

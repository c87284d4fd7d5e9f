"""What candidates are compared by, and how many columns each of them may have."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from .._support.parameters import check_positive, one_of, positive_integer
from ..features import FeatureMap
from ..features.study import Study
from .posterior import FITTED_ROWS, PosteriorReference
from .table import OBJECTIVES, PlannedCandidate
from .timing import Budget

MOST_COMPONENTS = 1 << 16  # columns where nothing but time limits them


class Means(NamedTuple):
    """The columns that candidates may have, and what they are judged by."""

    n_components: int
    objective: str = "error"
    posterior: PosteriorReference | None = None
    budget: Budget | None = None

    def columns(self, candidate: FeatureMap) -> int:
        return self.n_components if self.budget is None else self.budget.columns(candidate)

    def timed(self, row: PlannedCandidate) -> PlannedCandidate:
        """The row with the times that were measured."""
        if self.budget is None:
            return row
        microseconds = self.budget.microseconds(row.candidate)
        return replace(row, microseconds=microseconds, seconds=self.budget.seconds(row.candidate))

    def __str__(self) -> str:
        if self.budget is None:
            return f"n_components={self.n_components}"
        return str(self.budget.cost)


@dataclass(frozen=True)
class Aim:
    """What a plan is asked for: see `plan`."""

    objective: str
    y: Any = None
    noise_variance: float | None = None
    time_budget: float | None = None
    microseconds_per_row: float | None = None
    n_rows: int | None = None

    @property
    def is_timed(self) -> bool:
        return self.time_budget is not None or self.microseconds_per_row is not None

    def check(self) -> None:
        one_of("objective", self.objective, OBJECTIVES)
        for name in ("noise_variance", "time_budget", "microseconds_per_row"):
            if getattr(self, name) is not None:
                check_positive(name, getattr(self, name))
        if self.n_rows is not None:
            positive_integer("n_rows", self.n_rows)
        if (self.objective == "error_per_time") is not (self.microseconds_per_row is not None):
            raise ValueError(
                'objective="error_per_time" and microseconds_per_row, the time that the features '
                f"of a row may take, belong together; got {self.objective!r} and "
                f"{self.microseconds_per_row!r}."
            )

    def means(self, study: Study, candidates: Iterable[FeatureMap], most: int) -> Means:
        """With at most so many columns."""
        is_posterior = self.objective == "posterior"
        budget = None
        if self.is_timed:
            budget = Budget(
                study,
                candidates,
                time_budget=self.time_budget,
                microseconds_per_row=self.microseconds_per_row,
                n_rows=self.n_rows,
                # no more than the exact posterior of a sample can tell apart
                most=min(most, FITTED_ROWS[1] // 2) if is_posterior else most,
            )
        if not is_posterior:
            return Means(most, self.objective, None, budget)
        columns = most
        if budget is not None:
            columns = max((budget.columns(one) for one in candidates), default=0) or 1
        reference = PosteriorReference(study, self.y, columns, self.noise_variance)
        return Means(most, self.objective, reference, budget)

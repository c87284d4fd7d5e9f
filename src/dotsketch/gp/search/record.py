"""What a search has tried, and the time it has."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, NamedTuple

from .journal import STOPPED, Journal


class SearchStep(NamedTuple):
    """One run of the optimiser on some rows, or one evaluation through the features."""

    stage: str  # "subset", "kernel", "landmarks", "factor", "kmeans" or "moved"
    n_rows: int
    n_columns: int | None  # of the features, or landmarks; None for the exact kernel
    n_evaluations: int
    factor: float  # of the lengthscales that the first stage has found
    log_likelihood: float  # per row
    noise_variance: float
    prior_variance: float
    seconds: float


@dataclass(frozen=True)
class Search:
    """The steps of a search in their order, and why it ended; prints as a table."""

    steps: tuple[SearchStep, ...]
    message: str
    constant_columns: tuple[int, ...] = ()  # which have no lengthscale to find, and no relevance

    @property
    def seconds(self) -> float:
        """The time of all steps together."""
        return sum(step.seconds for step in self.steps)

    def __str__(self) -> str:
        lines = [_line("stage", "rows", "columns", "evals", "factor", "log p/n", "noise", "prior")]
        for step in self.steps:
            columns = "exact" if step.n_columns is None else str(step.n_columns)
            numbers = (
                f"{step.factor:.3g}",
                f"{step.log_likelihood:.4f}",
                f"{step.noise_variance:.3g}",
                f"{step.prior_variance:.3g}",
            )
            counts = str(step.n_rows), columns, str(step.n_evaluations)
            lines.append(f"{_line(step.stage, *counts, *numbers)}  {step.seconds:6.1f} s")
        return "\n".join([*lines, self.message])

    def to_pandas(self) -> Any:
        """The steps as a data frame."""
        import pandas as pd

        return pd.DataFrame(self.steps, columns=SearchStep._fields)


class OutOfTime(Exception):
    """The time budget is used up."""


class Recorder:
    """Collects the steps of a search and watches its time.

    The first stage may take half of the budget, so that something is left for the second.
    """

    def __init__(
        self,
        time_budget: float | None = None,
        verbose: bool = False,
        journal: Journal | None = None,
    ):
        self.time_budget, self.verbose, self.journal = time_budget, verbose, journal
        self.began = time.perf_counter()
        # what a search that was interrupted has done: it is taken before anything is computed
        self._earlier = [] if journal is None else journal.read()
        self.steps: list[SearchStep] = []
        self.was_stopped = False
        self.constant_columns: tuple[int, ...] = ()

    def check(self, share: float = 1.0) -> None:
        """Raise OutOfTime once this share of the budget is used."""
        if self._earlier:
            self._stop_as_before()
        elif self.time_budget is None:
            return
        elif time.perf_counter() - self.began > share * self.time_budget:
            self._write(STOPPED)
            self._stop()

    @property
    def is_late(self) -> bool:
        """Whether half of the budget is used."""
        used = time.perf_counter() - self.began
        return self.time_budget is not None and used > self.time_budget / 2

    def add(self, began: float, found: list[float], **fields: Any) -> None:
        """Note a step that began at a time of `time.perf_counter()`, and what it has found."""
        step = SearchStep(seconds=time.perf_counter() - began, **fields)
        self._write([step._asdict(), found])
        self._note(step)

    def earlier(self) -> tuple[list[float], bool] | None:
        """What the next step has found in a search that was interrupted, and if time stopped it."""
        was_stopped = self._earlier[:1] == [STOPPED]
        if len(self._earlier) <= was_stopped:
            return None
        fields, found = self._earlier[was_stopped]
        self._earlier = self._earlier[was_stopped + 1 :]
        step = SearchStep(**fields)
        self.began -= step.seconds
        self.was_stopped = self.was_stopped or was_stopped
        self._note(step)
        return found, was_stopped

    def _stop_as_before(self) -> None:
        if self._earlier[0] == STOPPED:
            del self._earlier[0]
            self._stop()

    def _stop(self) -> None:
        self.was_stopped = True
        raise OutOfTime

    def _note(self, step: SearchStep) -> None:
        self.steps.append(step)
        if self.verbose:
            print(str(Search((step,), "")).splitlines()[1], flush=True)

    def _write(self, line: Any) -> None:
        if self.journal is not None:
            self.journal.write(line)

    def finish(self, message: str) -> Search:
        """The steps so far."""
        if self.was_stopped:
            message += f" The time budget of {self.time_budget:g} s ended the search early."
        if self.constant_columns:
            message += f" Constant columns were left out: {len(self.constant_columns)}."
        if self.verbose:
            print(message, flush=True)
        return Search(tuple(self.steps), message, self.constant_columns)


def _line(*cells: str) -> str:
    widths = (9, 7, 8, 6, 7, 9, 9, 9)
    return " ".join(cell.rjust(width) for cell, width in zip(cells, widths, strict=True))

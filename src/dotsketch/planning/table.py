"""A plan: candidates with their errors and costs, the best first."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..features import FeatureMap
from ..features.errors import ExpectedError
from ..features.study import Study
from .limit import BestPossible
from .posterior import PosteriorReference, PosteriorSetting
from .timing import MeasuredCost

# What candidates are ordered by, and its name and unit in tables and figures
OBJECTIVES = {
    "error": "relative error of the kernel",
    "error_per_time": "relative error of the kernel at equal time per row",
    "posterior": "KL to the exact posterior, nats per row",
}
UNSHOWN = ("candidate",)
# Columns of a table that only some plans have: their headings, widths and formats
OPTIONAL = {
    "divergence": ("KL", 9, ".3g"),
    "divergence_error": ("± s.e.", 8, ".2g"),
    "microseconds": ("µs/row", 8, ".3g"),
    "seconds": ("seconds", 8, ".3g"),
}
MOST_SHOWN = 12  # candidates that a plan prints, with the best of every family
STANDARD_ERRORS = 2.0  # by which a measured error must be below a tolerance


@dataclass(frozen=True)
class LeftOut:
    """A candidate that was not compared because its cost is far beyond that of the others."""

    candidate: FeatureMap
    reason: str
    is_final: bool = False  # whether it would be left out if it were named, too

    def __str__(self) -> str:
        remedy = f'; name it to have it compared, candidates=["all", "{self.candidate.family}"]'
        return (
            f"left out: {self.candidate.label()} ({self.candidate.n_components} columns): "
            f"{self.reason}{'' if self.is_final else remedy}."
        )


@dataclass(frozen=True)
class Dropped:
    """A candidate that was not computed in full, as it cannot be the best."""

    candidate: FeatureMap
    least_error: float  # or divergence: by a bound, or by the first draws of a measurement

    def __str__(self) -> str:
        return (
            f"{self.candidate.label()}, {self.candidate.n_components} columns, "
            f"{self.least_error:.3g} or more"
        )


@dataclass(frozen=True, kw_only=True)
class PlannedCandidate(ExpectedError):
    """The error and cost of one candidate: an unfitted estimator with its number of columns.

    With the objective "posterior", divergence is KL(approximate ‖ exact) of predictions in nats per
    row held out, and divergence_error its standard error; None with another objective. With a
    budget of time, microseconds are those of the features of a row, and seconds those of features
    and solver for all rows, by what was measured (`Plan.cost`).
    """

    candidate: FeatureMap
    divergence: float | None = None
    divergence_error: float | None = None
    microseconds: float | None = None
    seconds: float | None = None

    @classmethod
    def of(
        cls,
        candidate: FeatureMap,
        study: Study,
        posterior: PosteriorReference | None = None,
        to_beat: float = math.inf,
    ) -> PlannedCandidate:
        """May raise Unsuited, if the candidate has too few columns; or Beaten, see the study."""
        # The divergence first: a candidate that it drops needs no error of the kernel
        found = None if posterior is None else posterior.measure(candidate, to_beat)
        row = cls(candidate=candidate, **vars(candidate.expected_error(study)))
        if found is None:
            return row
        return replace(row, divergence=found.mean, divergence_error=found.standard_error)

    @property
    def value(self) -> float:
        """What the objective orders candidates by: the divergence if it is known, or the error."""
        return self.relative_error if self.divergence is None else self.divergence

    @property
    def label(self) -> str:
        return self.candidate.label()

    @property
    def family(self) -> str:
        return self.candidate.family

    @property
    def n_components(self) -> int:
        return self.candidate.n_components

    @property
    def upper_error(self) -> float:
        """The error and twice its standard error: what has to be within a tolerance."""
        return self.relative_error + STANDARD_ERRORS * self.standard_error


def score(value: float, cost: float, cost_weight: float) -> tuple[float, float]:
    """By which candidates are ordered: their error or number of columns, weighed; then the cost."""
    return value * max(cost, 1.0) ** cost_weight, cost


class Plan(Sequence[PlannedCandidate]):
    """Candidates in the order of value · cost^cost_weight; the first is the best.

    The value is the relative error of the kernel, or with objective="posterior" the divergence from
    the exact posterior. `by_columns` takes the number of columns in its place.

    Attributes
    ----------
    objective : "error", "error_per_time" or "posterior", what candidates are ordered by
    cost : MeasuredCost, what was measured where time limits the columns; or None
    posterior : PosteriorSetting, what divergences stand on; None with another objective
    left_out : tuple of LeftOut, candidates that cost too much to be compared unasked
    dropped : tuple of Dropped, candidates that `AutoFeatures` skipped as they cannot be the best;
        `plan` computes them all
    n_pairs_sample : the number of rows whose pairs errors are averaged over, or None
    reduced_from : the number that was asked for, if rows are too wide for so many; or None
    limit : BestPossible, the least error that the columns of the best candidate can have; or None
        where X has too few rows to tell
    """

    def __init__(
        self,
        rows: Iterable[PlannedCandidate],
        cost_weight: float = 0.0,
        *,
        by_columns: bool = False,
        left_out: Iterable[LeftOut] = (),
        dropped: Iterable[Dropped] = (),
        n_pairs_sample: int | None = None,
        reduced_from: int | None = None,
        objective: str = "error",
        posterior: PosteriorSetting | None = None,
        cost: MeasuredCost | None = None,
        limit: Callable[[], BestPossible | None] | None = None,
    ):
        self._limit: BestPossible | None = None
        self._find_limit = limit
        self.objective = objective
        self.posterior = posterior
        self.cost = cost
        self.left_out = tuple(left_out)
        self.dropped = tuple(sorted(dropped, key=lambda one: one.least_error))
        self.n_pairs_sample = n_pairs_sample
        self.reduced_from = reduced_from

        def key(row: PlannedCandidate) -> tuple[float, float]:
            return score(row.n_components if by_columns else row.value, row.cost, cost_weight)

        self._rows = sorted(rows, key=key)

    @property
    def limit(self) -> BestPossible | None:
        if self._find_limit is not None:  # eigenvectors: not before they are asked for
            self._limit, self._find_limit = self._find_limit(), None
        return self._limit

    def __getstate__(self) -> dict[str, Any]:
        """With the limit, and without the rows that it is computed from."""
        return vars(self) | {"_limit": self.limit, "_find_limit": None}

    def __getitem__(self, index: Any) -> Any:
        return self._rows[index]

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def best(self) -> PlannedCandidate:
        return self._rows[0]

    @property
    def unit(self) -> str:
        """What the objective measures, and in which unit."""
        return OBJECTIVES[self.objective]

    def to_pandas(self) -> Any:
        """The table as a DataFrame; its `attrs` have the objective and its unit."""
        import pandas

        table = pandas.DataFrame(self.to_dict())
        table.attrs |= {"objective": self.objective, "unit": self.unit}
        return table

    def to_dict(self) -> dict[str, list[Any]]:
        """The table by columns; without what no candidate of this plan has."""
        rows = []
        for row in self._rows:
            values = {
                name: value
                for name, value in vars(row).items()
                if name not in UNSHOWN and (name not in OPTIONAL or value is not None)
            }
            named = {"family": row.family, "label": row.label, "n_components": row.n_components}
            rows.append(named | row.candidate.options() | values)
        names = list(dict.fromkeys(name for row in rows for name in row))
        return {name: [row.get(name) for row in rows] for name in names}

    def _shown(self) -> list[PlannedCandidate]:
        """The best candidates, and the best one of every other family."""
        shown = self._rows[:MOST_SHOWN]
        families = {row.family for row in shown}
        for row in self._rows[MOST_SHOWN:]:
            if row.family not in families:
                families.add(row.family)
                shown.append(row)
        return shown

    def __repr__(self) -> str:
        rows = self._shown()
        names = [row.label for row in rows] + ([str(self.limit)] if self.limit else [])
        is_shown = {k: any(getattr(row, k) is not None for row in self._rows) for k in OPTIONAL}
        shown = {name: how for name, how in OPTIONAL.items() if is_shown[name]}
        sizes = (8, *(size for _, size, _ in shown.values()), 10, 8, 9, 9, 8)
        layout = f"{{:{max(map(len, names), default=9)}s}}" + "".join(f" {{:>{n}s}}" for n in sizes)
        headings = (heading for heading, _, _ in shown.values())
        names = ["candidate", "columns", *headings, "rel. error", "± s.e.", "bias", "deviation"]
        lines = [f"{layout.format(*names, 'Mop/row')}  source"]
        for row in rows:
            optional = (f"{getattr(row, name):{how}}" for name, (_, _, how) in shown.items())
            error = f"{row.standard_error:.2g}" if row.source == "measured" else ""
            parts = (
                f"{math.sqrt(part):.3g}" if part == part else ""
                for part in (row.squared_bias, row.variance)
            )
            cells = [row.label, str(row.n_components), *optional, f"{row.relative_error:.4g}"]
            fewer = "" if row.n_measured is None else f" with {row.n_measured} landmarks"
            line = layout.format(*cells, error, *parts, f"{row.cost / 1e6:.3f}")
            lines.append(f"{line}  {row.source}{fewer}")
        if len(rows) < len(self._rows):
            n_more = len(self._rows) - len(rows)
            lines.append(f"({n_more} more; `to_pandas()` and `to_dict()` have all of them)")
        limit = self.limit
        if limit is not None:
            cells = [str(limit), str(limit.n_components), *[""] * len(shown)]
            cells += [f"{limit.relative_error:.4g}", f"{limit.standard_error:.2g}", "", "", ""]
            lines.append(
                f"{layout.format(*cells)}  spectrum of {limit.n_rows} rows: {limit.lowest:.3g} to "
                f"{limit.highest:.3g}"
            )
        return "\n".join([*lines, *self._notes(), *map(str, self.left_out)])

    def _notes(self) -> Iterator[str]:
        """What the errors of this plan stand on, and what it did not compute."""
        if self.posterior is not None:
            yield (
                f"KL: {self.unit.removeprefix('KL ')} held out ({self.posterior.n_held} rows; "
                f"{self.posterior.n_fitted} are learnt from, noise variance "
                f"{self.posterior.noise_variance:.2g} of the variance of y)."
            )
        if self.cost is not None:
            yield f"{self.cost}."
        if self.reduced_from is not None:
            yield (
                f"Errors are averaged over the pairs of {self.n_pairs_sample} rows, not of "
                f"n_pairs_sample={self.reduced_from}: rows are wide, and so many take 32 MiB."
            )
        if self.dropped:
            yield (
                f"{len(self.dropped)} others cannot be better and were not computed (`dropped`): "
                "`plan` computes all."
            )

    def plot(self, ax: Any = None, most: int = 15) -> Any:
        """Horizontal bars of what the objective measures, best first; returns the axes.

        Errors are split into bias and variance, with the limit beside them; divergences have an
        axis of logarithms, and bars of two standard errors.
        """
        import matplotlib.pyplot as plt

        rows = self._rows[:most][::-1]
        if ax is None:
            _, ax = plt.subplots(figsize=(8, 0.35 * len(rows) + 1.2), layout="constrained")
        names = [row.label for row in rows]
        if self.posterior is not None:
            errors = [STANDARD_ERRORS * (row.divergence_error or 0.0) for row in rows]
            ax.errorbar([row.value for row in rows], names, xerr=errors, fmt="o", color="#08519c")
            ax.set_xscale("log")
            ax.set_xlabel(f"{self.unit} held out")
            return ax
        error = np.array([row.relative_error for row in rows])
        total = np.array([row.squared_bias + row.variance for row in rows])
        bias = np.array([row.squared_bias for row in rows])
        measured = np.isnan(total)
        share = np.where(measured, 0.0, bias / np.where(total > 0, total, 1.0))
        ax.barh(names, error, color="#9ecae1", label="variance")
        ax.barh(names, error * share, color="#08519c", label="bias")
        if np.any(measured):
            ax.barh(names, np.where(measured, error, 0.0), color="#bdbdbd", label="measured")
        if self.limit is not None:
            ax.axvline(self.limit.relative_error, color="black", linestyle=":", label="limit")
        ax.set_xlabel(f"{self.unit} (bars split by share of the squared error)")
        ax.legend(loc="lower right", frameon=False)
        return ax

"""A plan: the predicted error and cost of 6 to 10 candidates, the best first.

A candidate is an unfitted estimator of `features`. No family is named here: each says by
`variants` what is worth comparing, and by `expected_error` how well it does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import _get_feature_names

from .._arrays import Array
from .._support.html import html_table
from .._support.parameters import positive_integer
from .._support.progress import progress
from .._support.stored import stored
from ..features import (
    FAMILIES,
    ExpectedError,
    FeatureMap,
    Study,
    Unsuited,
    check_kernel,
    check_rows,
)
from ..kernels import Kernel
from .limit import BestPossible, best_possible


def plan(
    kernel: Kernel,
    X: Array,
    *,
    n_components: int,
    candidates: str | Iterable[str | FeatureMap] = "all",
    n_pairs_sample: int = 500,
    random_state: Any = 0,
    verbose: bool = False,
) -> Plan:
    """The predicted error and cost of every candidate on a sample of X, best first.

    All candidates are compared at the same number of returned real columns, and predictions are for
    rows that the features were not fitted to. Errors are closed forms where one is known; others
    (SORF, Nyström) are measured on held-out rows. The last line is the best possible error with
    this number of columns (`plan.limit`), for up to 512 columns and a quarter of the rows: see
    `BestPossible`.

    Parameters
    ----------
    kernel : Kernel
    X : array of shape (n, d)
        Training rows, of which a sample is used.
    n_components : int
        The number of columns.
    candidates : str or list, default="all"
        "all"; the name of a family or a list of names ("maclaurin", "polynomial", "fourier",
        "spherical", "positive", "nystrom"); or a list of unfitted estimators, whose kernel and
        number of columns are replaced by those of the plan. Families that do not support the
        kernel, and candidates that need more than n_components columns, are left out. "all" also
        leaves out candidates with more than 5·10⁷ operations per row (Nyström features beyond
        about 3500 columns): `plan.left_out` lists them. A family that is named, as in
        ["all", "nystrom"], is always compared.
    n_pairs_sample : int, default=500
        The number of rows whose pairs errors are averaged over, at most half of all rows.
    random_state : int, RandomState, Generator or None, default=0
    verbose : bool, default=False
        Whether to show a progress bar.

    Returns
    -------
    Plan
        A sequence of `PlannedCandidate`, which prints as a table.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from dotsketch import Gaussian, plan
    >>> table = plan(Gaussian(), load_digits().data, n_components=300, candidates="maclaurin")
    >>> table.best.relative_error < table[-1].relative_error
    True
    """
    check_kernel(kernel)  # before X: the two are easily swapped
    n_components = positive_integer("n_components", n_components)
    kernel = kernel.named(_get_feature_names(X))
    study = Study(kernel, check_rows(X), n_pairs_sample=n_pairs_sample, random_state=random_state)
    return compare(study, candidates, n_components, verbose=verbose)


@stored
@dataclass(frozen=True, kw_only=True)
class PlannedCandidate(ExpectedError):
    """The error and cost of one candidate: an unfitted estimator with its number of columns."""

    candidate: FeatureMap

    @property
    def label(self) -> str:
        return self.candidate.label()

    @property
    def family(self) -> str:
        return self.candidate.family

    @property
    def n_components(self) -> int:
        return self.candidate.n_components


@stored
class Plan(Sequence[PlannedCandidate]):
    """Candidates by their relative error, or by their columns; the first is the best.

    Attributes
    ----------
    best : PlannedCandidate, the first row
    left_out : tuple of str, candidates that cost too much to be compared unless they are named
    n_pairs_sample : the number of rows whose pairs errors are averaged over
    limit : BestPossible, the least error that the columns of the best candidate can have; or None
        where X has too few rows to tell
    """

    def __init__(
        self,
        rows: Iterable[PlannedCandidate],
        *,
        left_out: Iterable[str] = (),
        n_pairs_sample: int | None = None,
        limit: Callable[[], BestPossible | None] | None = None,
    ):
        self._rows = list(rows)
        self.left_out = tuple(left_out)
        self.n_pairs_sample = n_pairs_sample
        self._limit: Any = limit

    @property
    def limit(self) -> BestPossible | None:
        if callable(self._limit):  # eigenvectors: not before they are asked for
            self._limit = self._limit()
        limit: BestPossible | None = self._limit
        return limit

    def __getstate__(self) -> dict[str, Any]:
        """With the limit, and without the rows that it is computed from."""
        return vars(self) | {"_limit": self.limit}

    def __getitem__(self, index: Any) -> Any:
        return self._rows[index]

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def best(self) -> PlannedCandidate:
        return self._rows[0]

    def to_pandas(self) -> Any:
        """The table as a DataFrame."""
        import pandas

        return pandas.DataFrame(self.to_dict())

    def to_dict(self) -> dict[str, list[Any]]:
        """The table by columns, with the options of the candidates."""
        rows = [
            {"family": row.family, "label": row.label, "n_components": row.n_components}
            | row.candidate.options()
            | {name: value for name, value in vars(row).items() if name != "candidate"}
            for row in self._rows
        ]
        names = list(dict.fromkeys(name for row in rows for name in row))
        return {name: [row.get(name) for row in rows] for name in names}

    def _table(self) -> list[tuple[str, ...]]:
        """Its cells, with headings."""
        head = ("candidate", "columns", "rel. error", "± s.e.", "bias", "deviation", "Mop/row")
        table: list[tuple[str, ...]] = [(*head, "source")]
        for row in self._rows:
            parts = (
                "" if math.isnan(part) else f"{math.sqrt(part):.3g}"
                for part in (row.squared_bias, row.variance)
            )
            fewer = "" if row.n_measured is None else f" with {row.n_measured} rows"
            errors = f"{row.relative_error:.4g}", f"{row.standard_error:.2g}"
            cost = f"{row.cost / 1e6:.3f}"
            table.append(
                (row.label, str(row.n_components), *errors, *parts, cost, f"{row.source}{fewer}")
            )
        limit = self.limit
        if limit is not None:
            errors = f"{limit.relative_error:.4g}", f"{limit.standard_error:.2g}"
            source = f"spectrum of {limit.n_rows} rows: {limit.lowest:.3g} to {limit.highest:.3g}"
            table.append((str(limit), str(limit.n_components), *errors, "", "", "", source))
        return table

    def _repr_html_(self) -> str:
        headings, *rows = self._table()
        return html_table(headings, rows, "\n".join(self.left_out))

    def __repr__(self) -> str:
        table = self._table()
        widths = [max(len(cells[i]) for cells in table) for i in range(len(table[0]) - 1)]
        lines = []
        for label, *numbers, source in table:
            padded = (f"{n:>{width}s}" for n, width in zip(numbers, widths[1:], strict=True))
            lines.append(f"{label:{widths[0]}s} {' '.join(padded)}  {source}")
        return "\n".join([*lines, *self.left_out])

    def plot(self, ax: Any = None, most: int = 15) -> Any:
        """Horizontal bars of the errors, split into bias and variance; returns the axes."""
        import matplotlib.pyplot as plt

        rows = self._rows[:most][::-1]
        if ax is None:
            _, ax = plt.subplots(figsize=(8, 0.35 * len(rows) + 1.2), layout="constrained")
        names = [row.label for row in rows]
        error = np.array([row.relative_error for row in rows])
        bias = np.array([row.squared_bias for row in rows])
        total = bias + np.array([row.variance for row in rows])
        measured = np.isnan(total)
        share = np.where(measured, 0.0, bias / np.where(total > 0, total, 1.0))
        ax.barh(names, error, color="#9ecae1", label="variance")
        ax.barh(names, error * share, color="#08519c", label="bias")
        if np.any(measured):
            ax.barh(names, np.where(measured, error, 0.0), color="#bdbdbd", label="measured")
        if self.limit is not None:
            ax.axvline(self.limit.relative_error, color="black", linestyle=":", label="limit")
        ax.set_xlabel("relative error of the kernel (bars split by share of the squared error)")
        ax.legend(loc="lower right", frameon=False)
        return ax


def compare(study: Study, candidates: Any, n_components: int, *, verbose: bool = False) -> Plan:
    """The plan of these candidates with at most n_components columns, on the rows of a study."""
    chosen = select(candidates, study)
    # What nobody named is compared up to so many operations per row, about 10 ms: Nyström features
    # of some thousand columns, whose set-up takes minutes, are beyond
    limit = 5e7 if candidates == "all" else math.inf
    rows, left_out = [], []
    with progress(f"candidates, {n_components} columns", len(chosen), verbose) as tell:
        for candidate in chosen:
            try:
                row = predict_with(candidate, study, n_components, most_cost=limit)
                rows += [] if row is None else [row]
            except Unsuited as error:
                left_out.append(str(error))
            tell(1)
    if not rows:
        raise ValueError(
            f"n_components={n_components} is too few, or unsuited, for every candidate. "
            f"{' '.join(left_out)}"
        )
    return ordered(rows, study, left_out)


def predict_with(
    candidate: FeatureMap, study: Study, n_components: int, *, most_cost: float = math.inf
) -> PlannedCandidate | None:
    """The error and cost with at most n_components columns; None if they are too few."""
    n = candidate.columns_up_to(n_components, study.n_rows)
    if n == 0:
        return None
    at_columns = candidate.for_kernel(study.kernel, n)
    try:
        design = at_columns.design(study)
        if design.cost > most_cost:
            raise Unsuited(
                f"{design.cost:.2g} operations per row; name it to have it compared, "
                f'candidates=["all", "{candidate.family}"].'
            )
    except Unsuited as error:
        raise Unsuited(f"left out: {at_columns.label()} ({n} columns): {error}") from error
    return PlannedCandidate(candidate=at_columns, **vars(study.error_of(design)))


def ordered(
    rows: Iterable[PlannedCandidate],
    study: Study,
    left_out: Iterable[str] = (),
    *,
    by_columns: bool = False,
) -> Plan:
    """The plan of these rows, by their errors or their columns; of equal ones by their costs."""

    def key(row: PlannedCandidate) -> tuple[float, float]:
        return (row.n_components if by_columns else row.relative_error), row.cost

    rows = sorted(rows, key=key)
    return Plan(
        rows,
        left_out=left_out,
        n_pairs_sample=study.n_held,
        limit=best_possible(study, rows[0].n_components),
    )


def variants(study: Study, family: str = "all") -> list[FeatureMap]:
    """What is worth comparing of a family (or of all), as far as it suits kernel and data."""
    chosen = FAMILIES.values() if family == "all" else [FAMILIES[family]]
    return [candidate for estimator in chosen for candidate in estimator.variants(study)]


def select(candidates: Any, study: Study) -> list[FeatureMap]:
    """What "all", names of families or a list ask for, each once."""
    single = isinstance(candidates, (str, FeatureMap))
    asked: list[Any] = [candidates] if single else list(candidates)
    if not asked:
        raise ValueError("candidates is empty.")
    chosen: dict[Any, FeatureMap] = {}
    for request in asked:
        if isinstance(request, FeatureMap) and hasattr(request, "family"):
            suited: Sequence[FeatureMap] = [request]
        elif isinstance(request, str) and (request == "all" or request in FAMILIES):
            suited = variants(study, request)
        else:
            names = ", ".join(map(repr, FAMILIES))
            raise ValueError(
                f'candidates must be "all", families ({names}) or a list of unfitted features; '
                f"got {request!r}."
            )
        for candidate in suited:
            key = type(candidate), repr(sorted(candidate.options().items()))
            chosen.setdefault(key, candidate)
    if not chosen:
        raise ValueError(f"No candidate of {candidates!r} supports {study.kernel} on these data.")
    return list(chosen.values())

"""The one path of `fit` and `compare` from a table to kernel and features.

Rows are set aside, the lengthscale is found on the others, all candidates are ranked by their
predicted error, the best of every family are fitted, and the rows set aside decide. The same file,
options and seed give the same choice in both commands.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..features import Study
from ..kernels import Kernel
from ..planning import BestPossible, Plan, PlannedCandidate, predict_with
from .encoding import EncodedTable, encode
from .errors import UserMistake
from .measure import Compared, HeldOut, compare_one, is_as_good, rank_measured, shortlist
from .modelling import choose_kernel, plan_within, ranked
from .schema import RowSample
from .tables import Table

TRAIN_ROWS = 10_000
TEST_ROWS = 2_000
TEST_SHARE = 0.2
LEAST_ROWS = 10
TOP = 6  # candidates that are measured
FEWER = 4  # the best candidate is tried with this part of the columns, too
LEAST_COLUMNS = 16


class TooFewRows(UserMistake):
    """There are not enough rows, or not of enough classes, to hold some out."""


@dataclass(frozen=True)
class Choice:
    """Kernel and features for a table, and what led to them."""

    kernel: Kernel
    study: Study
    plan: Plan
    measured: list[Compared]  # the best first
    fewer: Compared | None  # the best with fewer columns, if they do as well

    @property
    def best(self) -> Compared:
        return self.measured[0]

    @property
    def row(self) -> PlannedCandidate:
        assert self.best.row is not None
        return self.best.row


@dataclass(frozen=True)
class Comparison:
    """Measured candidates, the models that they are compared with, and what is possible."""

    choice: Choice
    references: list[Compared]
    limit: BestPossible | None

    @property
    def best(self) -> Compared:
        return self.choice.best

    @property
    def compared(self) -> list[Compared]:
        return [*self.choice.measured, *self.references]


def choose(
    split: HeldOut,
    task: str,
    kernel: str,
    components: int,
    *,
    features: str = "auto",
    tolerance: float | None = None,
    top: int = TOP,
    seed: int = 0,
    advance: Callable[[float], None] = lambda fraction: None,
) -> Choice:
    """Measure the candidates that `features` asks for; with a tolerance, the one of the plan."""
    complete = ~np.isnan(split.rows).any(axis=1)
    rows = complete if complete.sum() >= len(complete) // 2 else np.ones_like(complete)
    chosen = choose_kernel(kernel, split.X[rows], split.y[rows], task, seed)
    advance(0.25)
    study = Study(chosen, split.X, random_state=seed)
    if tolerance is None:
        plan = ranked(features, study, components)
    else:
        plan = Plan([plan_within(features, study, split.X, tolerance, components, seed)])
    advance(0.4)
    # A family or a name that is given is not put to the test against others
    listed = shortlist(plan, top if features == "auto" else 1)
    measured = []
    for number, row in enumerate(listed):
        measured.append(compare_one(row, chosen, split, task, seed))
        advance(0.4 + 0.55 * (number + 1) / len(listed))
    measured = rank_measured(measured)
    return Choice(chosen, study, plan, measured, try_fewer(measured[0], study, split, task, seed))


def try_fewer(
    best: Compared, study: Study, split: HeldOut, task: str, seed: int
) -> Compared | None:
    """The best candidate with a quarter of its columns, if it does as well."""
    assert best.row is not None
    n_components = best.row.n_components // FEWER
    if n_components < LEAST_COLUMNS:
        return None
    row = predict_with(best.row.candidate, study, n_components)
    if row is None:
        return None
    fewer = compare_one(row, study.resolved, split, task, seed)
    return fewer if is_as_good(fewer, best) else None


def hold_out(rows: EncodedTable, seed: int, test: Table | None = None) -> HeldOut:
    """Rows to fit on and others to test on, from the sample; or the rows of `test`, or those that
    a data set sets aside."""
    schema, X, y = rows.schema, rows.X, rows.y
    if schema.n_rows < LEAST_ROWS:
        raise TooFewRows(
            f"{schema.source} has {schema.n_rows} rows: comparing needs at least {LEAST_ROWS}."
        )
    test = test or rows.table.test
    if test is not None:
        sample = RowSample(TEST_ROWS, seed)
        for batch, _, _ in test.chunks():
            sample.add(batch)
        held = encode(sample.table(), 1, schema, rows.encoder, test.source)
    else:
        n_test = min(max(2, round(TEST_SHARE * len(X))), TEST_ROWS)
        held, X, y = (X[:n_test], y[:n_test]), X[n_test:], y[n_test:]
    X, y = X[:TRAIN_ROWS], y[:TRAIN_ROWS]
    if schema.task == "classification" and len(np.unique(y)) < 2:
        raise TooFewRows(
            f"{schema.source}: the rows that are left for fitting are of one class only: more rows "
            "of the others are needed."
        )
    return HeldOut.of((X, y), held, rows.imputation)

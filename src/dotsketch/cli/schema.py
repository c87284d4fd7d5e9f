"""The first pass over a table: what its columns are, and a sample of its rows.

`Column` of `tables` finds out what a column is. Means and variances are those of all rows, merged
chunk by chunk; the sample is uniform over all rows. The problems of all columns are reported
together.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from shlex import quote
from typing import Any

import numpy as np
import pyarrow as pa

from ..tables.column import MOST_CLASSES, Column
from ..tables.columns import Problem
from .errors import UserMistake, count, list_names
from .tables import Table

FEW_VALUES = 20  # a target of at most so many whole numbers is taken for classes


def remedies_for(name: str) -> dict[str, str]:
    """What to do about a problem with a column, by options of the command."""
    return {
        "ignore": f"leave it out with --ignore {quote(name)}",
        "categorical": f"correct it, or give --categorical {quote(name)}",
        "impute": "fill it in, or give --impute",
        "max_levels": "raise --max-levels",
        "marks": "give --decimal , if the comma is a decimal mark, or --thousands with the "
        "character that separates thousands",
    }


@dataclass(frozen=True)
class Schema:
    """What a table holds, with a sample of its rows."""

    source: str
    n_rows: int
    features: tuple[Column, ...]
    target: Column
    task: str  # "regression" or "classification"
    reason: str  # why this task
    sample: pa.Table
    index: frozenset[str]  # columns that are left out as an index of pandas
    impute: bool  # fill missing values
    n_imputed: int  # rows with a missing value

    @property
    def categorical(self) -> list[Column]:
        return [column for column in self.features if column.kind == "text"]

    @property
    def numeric(self) -> list[Column]:
        """Numbers and dates."""
        return [column for column in self.features if column.kind != "text"]

    @property
    def classes(self) -> list[Any] | None:
        """The labels in their order; None for a regression."""
        if self.task == "regression":
            return None
        if self.target.kind == "text":
            return sorted(self.target.levels)
        values = sorted(self.target.values)
        return [int(value) for value in values] if is_whole(values) else values

    def notes(self) -> list[str]:
        """What the user should know of the table."""
        lines = []
        if self.index:
            lines.append(f"left out, an index of pandas: {list_names(sorted(self.index))}")
        if "" in (column.name for column in self.features):
            lines.append("a column without a name is used (an index?); --ignore '' leaves it out.")
        constant = [column.name for column in self.features if column.is_constant]
        if constant:
            lines.append(f"the same value in every row, of no use: {list_names(constant)}")
        for column in self.features:
            if column.kind == "date":
                format, *others = column.dates
                text = f"column {column.name!r} is read as dates ({format})"
                lines.append(text + (f"; {others[0]} would fit, too" if others else ""))
        lines.append(
            f"{self.n_rows:,} rows, {len(self.numeric)} numeric and {len(self.categorical)} "
            f"categorical columns; {self.task} of {self.target.name!r} ({self.reason})"
        )
        if self.n_imputed:
            gaps = [column.name for column in self.features if column.n_missing]
            rows = f"{count(self.n_imputed, 'row')} of {self.n_rows:,}"
            lines.append(f"{rows} were imputed: they lack {list_names(gaps)}")
        return lines


def is_whole(values: Any) -> bool:
    return all(value == round(value) for value in values)


class RowSample:
    """A uniform sample of rows: those with the smallest of random keys, one per row."""

    def __init__(self, size: int, seed: int):
        self.size = size
        self.rng = np.random.default_rng(seed)
        self.keys = np.empty(0)
        self.rows: list[pa.Table] = []

    def add(self, batch: pa.RecordBatch) -> None:
        keys = np.concatenate([self.keys, self.rng.random(batch.num_rows)])
        rows = pa.concat_tables([*self.rows, pa.Table.from_batches([batch])])
        chosen = np.sort(np.argsort(keys, kind="stable")[: self.size])  # in the order of the rows
        self.keys, self.rows = keys[chosen], [rows.take(pa.array(chosen))]

    def table(self) -> pa.Table:
        return self.rows[0].combine_chunks()


def scan(
    table: Table,
    target: str | None,
    *,
    ignore: Collection[str] = (),
    categorical: Collection[str] = (),
    task: str | None = None,
    impute: bool = False,
    max_levels: int = 50,
    sample_rows: int = 20_000,
    seed: int = 0,
) -> Schema:
    """Look through all rows once."""
    wanted = table.target if target is None else target
    if wanted is None:
        raise UserMistake(
            f"which column of {table.source} is the target? Give --target, one of "
            f"{list_names(table.names)}."
        )
    target = table.column(wanted)
    ignored, texts = ({table.column(name) for name in names} for names in (ignore, categorical))
    if target in ignored:
        raise UserMistake(f"the target {target!r} cannot be left out by --ignore.")
    index = table.index - {target} - texts - ignored
    columns = [
        Column(
            name,
            MOST_CLASSES if name == target else max_levels,
            table.marks,
            remedies_for(name),
            is_category=name in texts,
            is_target=name == target,
            impute=impute and name != target,
        )
        for name in table.names
        if name not in index | ignored
    ]
    if len(columns) < 2:
        raise UserMistake(f"{table.source} has no column besides the target {target!r}.")
    names = [column.name for column in columns]
    sample = RowSample(max(2, min(sample_rows, (1 << 24) // len(names))), seed)
    problems: dict[str, str] = {}
    n_rows = n_imputed = 0
    for batch, first_row in table.chunks():
        gaps = np.zeros(batch.num_rows, dtype=bool)
        for column in columns:
            if column.name in problems:
                continue
            try:
                gaps |= column.add(batch.column(column.name), first_row)
            except Problem as problem:
                problems[column.name] = str(problem)
        sample.add(batch.select(names))
        n_rows += batch.num_rows
        n_imputed += int(gaps.sum())
    for column in columns:
        try:
            column.check_kind()
        except Problem as problem:
            problems.setdefault(column.name, str(problem))
    if problems:
        ordered = (problems[name] for name in names if name in problems)
        raise UserMistake(f"{table.source}: {' | '.join(ordered)}")
    if n_rows < 2:
        raise UserMistake(f"{table.source} has one row of data: at least two are needed.")
    of_target = columns.pop(names.index(target))
    decided = decide_task(of_target, n_rows, task, table)
    return Schema(
        *(table.source, n_rows, tuple(columns), of_target, *decided),
        *(sample.table(), index, impute, n_imputed),
    )


def decide_task(target: Column, n_rows: int, asked: str | None, table: Table) -> tuple[str, str]:
    """Regression or classification, as the user or the data set says, else from the target; and
    the reason. Raises if the target cannot be learned."""
    values: Collection[Any] = target.levels if target.kind == "text" else target.values
    name = f"{table.source}: the target {target.name!r}"
    if asked is not None:
        task, reason = asked, "as given"
    elif table.task is not None:
        task, reason = table.task, "as the data set says"
    elif target.kind == "text":
        task, reason = "classification", f"the target has {len(values)} different texts"
    elif is_whole(values) and len(values) <= min(FEW_VALUES, max(2, n_rows // 2)):
        task, reason = "classification", f"the target has {len(values)} different whole numbers"
    else:
        task, reason = "regression", "the target is a number"
    if task == "regression" and target.kind != "number":
        raise UserMistake(f"{name} is text: regression needs numbers.")
    if len(values) < 2:
        only = "class" if task == "classification" else f"value, {next(iter(values)):g}"
        raise UserMistake(f"{name} has only one {only}: nothing to learn.")
    if task == "classification" and len(values) > MOST_CLASSES:
        raise UserMistake(
            f"{name} has more than {MOST_CLASSES} different values, too many for classes: it looks "
            "like a number to predict (--task regression) or an identifier (choose another "
            "--target)."
        )
    return task, reason

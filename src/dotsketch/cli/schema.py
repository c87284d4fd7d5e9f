"""A table as numbers: the first pass finds out what its columns are, later ones encode its chunks.

`Column` of `tables` finds out what a column is. Means and variances are those of all rows, merged
chunk by chunk; the sample is uniform over all rows. The problems of all columns are reported
together.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from shlex import quote
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from ..tables import TableEncoder
from ..tables.column import MOST_CLASSES, Column, Problem
from .output import UserMistake, count, list_names
from .tables import Table, as_frame

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
    sample: pd.DataFrame
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


def add_to_sample(
    sample: pa.Table | None, batch: pa.RecordBatch, size: int, rng: np.random.Generator
) -> pa.Table:
    """A uniform sample of all rows so far, in their order: those with the smallest of random keys,
    which are its last column."""
    rows = pa.Table.from_batches([batch]).append_column("key", pa.array(rng.random(len(batch))))
    rows = rows if sample is None else pa.concat_tables([sample, rows])
    smallest = np.argsort(rows.columns[-1].to_numpy(), kind="stable")[:size]
    return rows.take(pa.array(np.sort(smallest)))


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
    sample, rng = None, np.random.default_rng(seed)
    sample_rows = max(2, min(sample_rows, (1 << 24) // len(names)))
    problems: dict[str, str] = {}
    n_rows = n_imputed = 0
    for batch, first_row in table.chunks():
        gaps, frame = np.zeros(batch.num_rows, dtype=bool), as_frame(batch)
        for column in columns:
            if column.name in problems:
                continue
            try:
                gaps |= column.add(frame[column.name], first_row)
            except Problem as problem:
                problems[column.name] = str(problem)
        sample = add_to_sample(sample, batch.select(names), sample_rows, rng)
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
        *(as_frame(sample).iloc[:, :-1], index, impute, n_imputed),
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


def encoded(
    encoder: TableEncoder, frame: pd.DataFrame, first_row: int, table: Table, *, impute: bool
) -> Any:
    """What `TableEncoder.encode` returns; the problems of all columns are reported together."""
    remedies = remedies_for("") | {"impute": "fill it in, or fit the model with --impute"}
    try:
        return encoder.encode(frame, first_row, marks=table.marks, remedies=remedies, impute=impute)
    except ValueError as error:
        raise UserMistake(f"{table.source}: {error}") from None


def target_of(
    frame: pd.DataFrame, first_row: int, name: str, like: Any, table: Table
) -> tuple[np.ndarray, np.ndarray]:
    """The target (m,) and where it is missing (m,): texts if the classes in `like` are texts, else
    numbers, integers if all of both are."""
    column, like = Column(name, 0, table.marks, remedies_for(name)), np.asarray(like)
    try:
        if like.dtype.kind in "OU":
            texts = column.texts(frame[name])
            return texts.astype(str), texts == ""
        values = column.numbers(frame[name], first_row)
    except Problem as problem:
        raise UserMistake(f"{table.source}: {problem}") from None
    whole = like.dtype.kind == "i" and np.array_equal(values, np.round(values))
    return values.astype(like.dtype) if whole else values, np.isnan(values)


@dataclass(frozen=True)
class EncodedTable:
    """The sample of a table as numbers, in random order, and what encodes all rows."""

    table: Table
    schema: Schema
    encoder: TableEncoder
    X: np.ndarray  # (n, d)
    y: np.ndarray  # (n,)

    @classmethod
    def of(cls, table: Table, schema: Schema, seed: int, *, standardize: bool) -> EncodedTable:
        encoder = TableEncoder(standardize=standardize).set_columns(schema.features)
        X, y = encoded_pair(encoder, schema, schema.sample, 1, table)
        order = np.random.default_rng(seed).permutation(len(y))  # a file may be sorted
        return cls(table, schema, encoder, X[order], y[order])

    @property
    def is_whole(self) -> bool:
        """Whether the sample has all rows."""
        return len(self.y) == self.schema.n_rows

    def chunks(self, table: Table | None = None) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """X (m, d) and y (m,) of every chunk of this table, or of another one."""
        table = self.table if table is None else table
        for batch, first_row in table.chunks():
            yield encoded_pair(self.encoder, self.schema, as_frame(batch), first_row, table)


def encoded_pair(
    encoder: TableEncoder, schema: Schema, frame: pd.DataFrame, first_row: int, table: Table
) -> tuple[np.ndarray, np.ndarray]:
    """X and y of some rows of a table, all of which have a target."""
    name, classes = schema.target.name, schema.classes or [0.0]
    X, _, _ = encoded(encoder, frame, first_row, table, impute=schema.impute)
    y, missing = target_of(frame, first_row, name, classes, table)
    if missing.any():
        text = "the target has no value: leave such rows out."
        problem = schema.target.problem(first_row + int(np.argmax(missing)), text)
        raise UserMistake(f"{table.source}: {problem}")
    return X, y

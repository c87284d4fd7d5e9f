"""The first pass over a table: what its columns are, and a sample of its rows.

A column is numeric if all its values are numbers, and categorical if none is: a mixture is taken
for a mistake, and named. Means and variances are those of all rows, merged chunk by chunk; the
sample is uniform over all rows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from shlex import quote
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute

from .columns import (
    NO_TARGET,
    Place,
    check_finite,
    first_text,
    is_number,
    numbers,
    simplify,
    texts,
)
from .errors import UserMistake
from .tables import DECIMAL_COMMA, Table, list_names

MOST_CLASSES = 1000
FEW_VALUES = 20  # whole numbers with at most so many values are taken for classes


@dataclass
class Column:
    """What is known of one column so far."""

    name: str
    most_levels: int
    categorical: bool = False  # by the user's word
    keep_values: bool = False  # collect different numbers, too: they may be classes
    count: int = 0
    mean: float = 0.0
    squares: float = 0.0  # Σ (value − mean)²
    n_missing: int = 0
    kind: str | None = None  # "numeric" or "categorical", None while only missing values were seen
    whole: bool = True
    levels: set[str] = field(default_factory=set)
    values: set[float] = field(default_factory=set)

    @property
    def variance(self) -> float:
        return self.squares / self.count if self.count else 0.0

    @property
    def is_constant(self) -> bool:
        if self.kind == "categorical":
            return len(self.levels) < 2 and not self.n_missing
        # What is left of a constant is rounding
        return bool(self.variance <= (10 * np.finfo(float).eps * abs(self.mean)) ** 2)

    def add(self, column: pa.Array, place: Place) -> np.ndarray:
        """Take in the values of a chunk; where they are missing."""
        column = simplify(column, place)
        values = None if self.categorical else numbers(column)
        if values is not None:
            missing: np.ndarray = np.isnan(values)
            if not missing.all():
                if self.kind == "categorical":
                    index = int(np.argmin(missing))
                    self._mixed(index, f"{values[index]:g} is a number, and others are not", place)
                self._add_numbers(values, place)
        else:
            cleaned = texts(column)
            missing = cleaned.is_null().to_numpy(zero_copy_only=False)
            if not missing.all():
                self._add_levels(cleaned, place)
        self.n_missing += int(missing.sum())
        return missing

    def _mixed(self, index: int, what: str, place: Place) -> NoReturn:
        place.mistake(index, f"{what}: correct it, or give --categorical {quote(self.name)}.")

    def _add_levels(self, cleaned: pa.Array, place: Place) -> None:
        different = pa.compute.unique(cleaned.drop_null()).to_pylist()
        if not self.categorical and (self.kind == "numeric" or any(map(is_number, different))):
            index, value = first_text(cleaned)
            self._mixed(index, f"{value!r} is not a number, and others are", place)
        if not self.categorical and all(re.match(DECIMAL_COMMA, text) for text in different):
            place.mistake(0, f"{different[0]!r} has a decimal comma: give --decimal ,")
        self.kind = "categorical"
        self.count += len(cleaned) - cleaned.null_count
        self.levels.update(different)
        if len(self.levels) > self.most_levels and self.keep_values:
            raise UserMistake(
                f"{place.source}: the target {self.name!r} has more than {self.most_levels} "
                f"different texts (such as {min(self.levels)!r}), too many for classes: it looks "
                "like an identifier or free text. Choose another --target."
            )
        if len(self.levels) > self.most_levels:
            raise UserMistake(
                f"{place.source}: column {self.name!r} has more than {self.most_levels} different "
                f"texts (such as {min(self.levels)!r}): leave it out with --ignore "
                f"{quote(self.name)}, or raise --max-levels."
            )

    def _add_numbers(self, values: np.ndarray, place: Place) -> None:
        self.kind = "numeric"
        check_finite(values, place)
        known = values[~np.isnan(values)]
        count = self.count + known.size
        # Means and sums of squares of two parts merge (Chan, Golub and LeVeque, 1983)
        mean = float(known.mean())
        difference = mean - self.mean
        self.squares += float(np.sum((known - mean) ** 2))
        self.squares += difference**2 * self.count * known.size / count
        self.mean += difference * known.size / count
        self.count = count
        if self.keep_values and len(self.values) <= MOST_CLASSES:
            self.whole = self.whole and bool(np.all(known == np.round(known)))
            self.values.update(np.unique(known)[: MOST_CLASSES + 1].tolist())


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
    left_out: frozenset[str]  # without the user's word
    impute: bool  # fill missing values
    n_imputed: int  # rows with a missing value

    @property
    def numeric(self) -> list[Column]:
        return [column for column in self.features if column.kind == "numeric"]

    @property
    def categorical(self) -> list[Column]:
        return [column for column in self.features if column.kind == "categorical"]

    @property
    def constant(self) -> list[str]:
        """Names of the columns with one value only, which add nothing."""
        return [column.name for column in self.features if column.is_constant]

    @property
    def classes(self) -> list[Any] | None:
        """The labels in their order; None for a regression."""
        if self.task == "regression":
            return None
        if self.target.kind == "categorical":
            return sorted(self.target.levels)
        values = sorted(self.target.values)
        return [int(value) for value in values] if self.target.whole else values


class RowSample:
    """A uniform sample of rows: those with the smallest of random keys, one a row."""

    def __init__(self, size: int, seed: int):
        self.size = size
        self.rng = np.random.default_rng(seed)
        self.keys = np.empty(0)
        self.rows: list[pa.Table] = []

    def add(self, batch: pa.RecordBatch) -> None:
        keys = self.rng.random(batch.num_rows)
        if len(self.keys) >= self.size:  # most rows of a long table end here
            chosen = np.flatnonzero(keys < np.partition(self.keys, self.size - 1)[self.size - 1])
            keys, batch = keys[chosen], batch.take(pa.array(chosen))
        self.keys = np.concatenate([self.keys, keys])
        self.rows.append(pa.Table.from_batches([batch]))
        if len(self.keys) > 2 * self.size:
            self._shrink()

    def _shrink(self) -> None:
        """Keep the smallest keys, in the order of the rows."""
        chosen = np.sort(np.argsort(self.keys, kind="stable")[: self.size])
        self.keys = self.keys[chosen]
        self.rows = [pa.concat_tables(self.rows).take(pa.array(chosen))]

    def table(self) -> pa.Table:
        self._shrink()
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
    advance: Callable[[float], None] = lambda fraction: None,
) -> Schema:
    """Look through all rows once."""
    columns, target, left_out = choose_columns(table, target, ignore, categorical, max_levels)
    used = [column.name for column in columns]
    sampled = RowSample(max(2, min(sample_rows, (1 << 24) // len(used))), seed)
    n_rows = n_imputed = 0
    for batch, first_row, fraction in table.chunks():
        gaps = np.zeros(batch.num_rows, dtype=bool)
        for column in columns:
            place = Place(table.source, column.name, first_row)
            missing = column.add(batch.column(column.name), place)
            if column.name == target:
                place.refuse(missing, NO_TARGET)
            elif not impute:
                place.refuse(missing, "no value: fill it in, or give --impute.")
            gaps |= missing
        sampled.add(batch.select(used))
        n_rows += batch.num_rows
        n_imputed += int(gaps.sum())
        advance(fraction)
    if n_rows < 2:
        raise UserMistake(f"{table.source} has one row of data: at least two are needed.")
    check_values(columns, table.source)
    [of_target] = [column for column in columns if column.name == target]
    features = tuple(column for column in columns if column.name != target)
    decided, reason = decide_task(of_target, n_rows, task, table.task)
    check_target(of_target, decided, table.source)
    kind = of_target, decided, reason
    return Schema(
        table.source, n_rows, features, *kind, sampled.table(), left_out, impute, n_imputed
    )


def choose_columns(
    table: Table,
    target: str | None,
    ignore: Collection[str],
    categorical: Collection[str],
    max_levels: int,
) -> tuple[list[Column], str, frozenset[str]]:
    """The columns that are used, the target among them; its name; those that are left out without
    the user's word."""
    wanted = table.target if target is None else target
    if wanted is None:
        raise UserMistake(
            f"which column of {table.source} is the target? Give --target, one of "
            f"{list_names(table.names)}."
        )
    name = table.column(wanted)
    ignored = {table.column(one) for one in ignore}
    by_word = {table.column(one) for one in categorical}
    left_out = frozenset(table.left_out) - {name} - by_word - ignored
    if name in ignored:
        raise UserMistake(f"the target {name!r} cannot be left out by --ignore.")
    columns = [
        Column(
            one,
            most_levels=MOST_CLASSES if one == name else max_levels,
            categorical=one in by_word,
            keep_values=one == name,
        )
        for one in table.names
        if one not in left_out | ignored
    ]
    if len(columns) < 2:
        raise UserMistake(f"{table.source} has no column besides the target {name!r}.")
    return columns, name, left_out


def decide_task(
    target: Column, n_rows: int, given: str | None, known: str | None
) -> tuple[str, str]:
    """Regression or classification: as the user or the data set says, else from the target."""
    if given is not None:
        return given, "as given"
    if known is not None:
        return known, "as the data set says"
    if target.kind == "categorical":
        return "classification", f"the target has {len(target.levels)} different texts"
    n_values = len(target.values)
    if target.whole and n_values <= min(FEW_VALUES, max(2, n_rows // 2)):
        return "classification", f"the target has {n_values} different whole numbers"
    return "regression", "the target is a number"


def check_values(columns: list[Column], source: str) -> None:
    """Raise if a column has nothing but missing values."""
    for column in columns:
        if column.kind is None:
            raise UserMistake(
                f"{source}: column {column.name!r} has no value at all: leave it out with --ignore "
                f"{quote(column.name)}."
            )


def check_target(target: Column, task: str, source: str) -> None:
    """Raise if the target cannot be learned."""
    name = f"{source}: the target {target.name!r}"
    if task == "regression":
        if target.kind != "numeric":
            raise UserMistake(f"{name} is text: regression needs numbers.")
        if target.variance == 0:
            raise UserMistake(f"{name} has one value only, {target.mean:g}: nothing to learn.")
        return
    n_classes = len(target.levels if target.kind == "categorical" else target.values)
    if n_classes < 2:
        raise UserMistake(f"{name} has one class only: nothing to learn.")
    if n_classes > MOST_CLASSES:
        raise UserMistake(
            f"{name} has more than {MOST_CLASSES} different values, too many for classes: it looks "
            "like a number to predict (--task regression) or an identifier (choose another "
            "--target)."
        )

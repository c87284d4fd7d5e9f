"""Chunks of a table as numbers: numeric columns standardized, categorical ones one-hot.

The encoder is scikit-learn's `ColumnTransformer` on named columns, so that a model loaded in Python
takes a DataFrame. A date gives the columns `NAME (year)`, `NAME (month)`, `NAME (weekday)` and
`NAME (hour)`, as far as they vary. One-hot columns stay 0 and 1: two different levels are then at
squared distance 2, as two values of a standardized column are on average. A level that was not
seen, like a missing one, is all zeros. A missing number is NaN; an `Imputation` makes it the mean
and adds an indicator for every column that has missing values.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pandas as pd
import pyarrow as pa
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from . import columns as arrow
from .columns import Place
from .errors import UserMistake
from .schema import Column, Schema
from .tables import Marks, Table

Batch: TypeAlias = pa.RecordBatch | pa.Table
NO_LEVEL = ""  # never a level: an empty text is a missing one


class Inputs(NamedTuple):
    """The columns that an encoder takes."""

    numeric: list[str]
    dates: dict[str, str]  # formats
    categorical: dict[str, dict[str, int]]  # levels and how many rows had them
    impute: bool

    @classmethod
    def of(cls, schema: Schema) -> Inputs:
        dates = [column for column in schema.features if column.kind == "date"]
        return cls(
            [column.name for column in schema.features if column.kind == "number"],
            {column.name: next(iter(column.dates)) for column in dates},
            {column.name: dict(column.levels) for column in schema.categorical},
            schema.impute,
        )

    @property
    def names(self) -> list[str]:
        return [*self.numeric, *self.dates, *self.categorical]


class Imputation(NamedTuple):
    """How missing values are filled in: the fitted imputer, and the columns of every category."""

    imputer: SimpleImputer
    one_hot: tuple[tuple[int, int], ...]  # first column, and the one after the last


def numeric_columns(schema: Schema) -> list[Column]:
    """Columns of numbers in the order of an encoder: dates come last."""
    return sorted(schema.numeric, key=lambda column: column.kind == "date")


def make_encoder(schema: Schema, *, standardize: bool = True) -> Pipeline:
    """An encoder fitted to the levels, means and variances of all rows.

    Without `standardize` numbers stay as they are, for kernels between nonnegative rows.
    """
    numeric = numeric_columns(schema)
    names = [name for column in numeric for name in column.inputs]
    categorical = {column.name: sorted(column.levels) for column in schema.categorical}
    steps: list[tuple[Any, ...]] = []
    if names:
        scaler = StandardScaler(with_mean=standardize, with_std=standardize)
        steps.append(("numeric", scaler, names))
    if categorical:
        levels = [np.array(found, dtype=object) for found in categorical.values()]
        one_hot = OneHotEncoder(categories=levels, handle_unknown="ignore", sparse_output=False)
        steps.append(("categorical", one_hot, list(categorical)))
    columns = ColumnTransformer(steps, verbose_feature_names_out=False)
    encoder = Pipeline([("columns", columns)])
    rows = {name: [0.0] for name in names} | {
        name: [found[0]] for name, found in categorical.items()
    }
    encoder.fit(pd.DataFrame(rows))
    if names:  # the scaler gets the statistics of all rows
        scaler = columns.named_transformers_["numeric"]
        scaler.n_samples_seen_ = schema.n_rows
        for statistic in ("mean_", "var_", "scale_"):
            parts = [getattr(column.input_scaler, statistic) for column in numeric]
            setattr(scaler, statistic, np.concatenate(parts))
    return encoder


def make_imputation(schema: Schema, *, standardize: bool = True) -> Imputation | None:
    """What fills in encoded rows, if that is asked for."""
    if not schema.impute:
        return None
    numeric = numeric_columns(schema)
    gaps = [bool(column.n_missing) for column in numeric for _ in column.inputs]
    ends = len(gaps) + np.cumsum([len(column.levels) for column in schema.categorical], dtype=int)
    one_hot = tuple(
        (int(end) - len(column.levels), int(end))
        for end, column in zip(ends, schema.categorical, strict=True)
    )
    # A row of the means, which are 0 after scaling, and one that shows where indicators are needed
    example = np.zeros((2, ends[-1] if len(ends) else len(gaps)))
    if not standardize:
        example[:, : len(gaps)] = np.concatenate([column.input_scaler.mean_ for column in numeric])
    example[1, np.flatnonzero(gaps)] = np.nan
    imputer = SimpleImputer(add_indicator=True, keep_empty_features=True)
    return Imputation(imputer.fit(example), one_hot)


def frame_of(batch: Batch, first_row: int, inputs: Inputs, table: Table) -> pd.DataFrame:
    """The columns that a model takes, numbers as float64 and texts as str.

    The problems of all columns are reported together.
    """
    frame: dict[str, np.ndarray] = {}
    problems = []
    for name in inputs.names:
        place = Place(name, first_row)
        column = arrow.simple_array(batch.column(name), name)
        problem = None
        if name in inputs.categorical:
            texts = arrow.as_texts(column)
            missing = texts.is_null().to_numpy(zero_copy_only=False)
            frame[name] = texts.fill_null(NO_LEVEL).to_numpy(zero_copy_only=False)
        elif name in inputs.dates:
            dates = arrow.as_dates(column, inputs.dates[name])
            if dates is None:
                problem = f"column {name!r}: not all are dates of the form {inputs.dates[name]}."
                dates = np.full((len(column), len(arrow.DATE_PARTS)), np.nan)
            missing = np.isnan(dates[:, 0])
            for part, values in zip(arrow.DATE_PARTS, dates.T, strict=True):
                frame[f"{name} ({part})"] = values
        else:
            frame[name], problem = checked_numbers(column, place, table.marks)
            missing = np.isnan(frame[name])
        if problem is None and missing.any() and not inputs.impute:
            text = "no value: fill it in, or fit the model with --impute."
            problem = place.problem(int(np.argmax(missing)), text)
        if problem is not None:
            problems.append(problem)
    if problems:
        raise UserMistake(f"{table.source}: {' | '.join(problems)}")
    return pd.DataFrame(frame)


def checked_numbers(
    column: pa.Array, place: Place, marks: Marks
) -> tuple[np.ndarray, str | None]:  # (n,), a problem
    values = arrow.as_numbers(column, marks)
    if values is None:
        if pa.types.is_string(column.type):
            index, text = arrow.first_text(column, marks)
            problem = place.problem(index, f"{arrow.not_a_number(text, marks)}.")
        else:
            problem = f"column {place.column!r} holds dates, not numbers."
        return np.full(len(column), np.nan), problem
    return values, arrow.too_large(values, place)


def target_of(
    batch: Batch, first_row: int, name: str, like: Any, table: Table
) -> tuple[np.ndarray, np.ndarray]:
    """The target (m,) and where it is missing (m,): texts if the classes in `like` are texts, else
    numbers, integers if all of both are."""
    column = arrow.simple_array(batch.column(name), name)
    like = np.asarray(like)
    if like.dtype.kind in "OU":
        texts = arrow.as_texts(column)
        missing: np.ndarray = texts.is_null().to_numpy(zero_copy_only=False)
        values: np.ndarray = texts.fill_null("").to_numpy(zero_copy_only=False).astype(str)
        return values, missing
    values, problem = checked_numbers(column, Place(name, first_row), table.marks)
    if problem is not None:
        raise UserMistake(f"{table.source}: {problem}")
    whole = like.dtype.kind == "i" and np.array_equal(values, np.round(values))
    return values.astype(like.dtype) if whole else values, np.isnan(values)


@dataclass(frozen=True)
class EncodedTable:
    """The sample of a table as numbers, in random order, and what encodes all rows."""

    table: Table
    schema: Schema
    inputs: Inputs
    encoder: Pipeline
    imputation: Imputation | None
    X: np.ndarray  # (n, d), NaN where a number is missing
    y: np.ndarray  # (n,)

    @classmethod
    def of(cls, table: Table, schema: Schema, seed: int, *, standardize: bool) -> EncodedTable:
        encoder = make_encoder(schema, standardize=standardize)
        imputation = make_imputation(schema, standardize=standardize)
        empty = cls(table, schema, Inputs.of(schema), encoder, imputation, *np.empty((2, 0)))
        X, y = empty.encode(schema.sample, 1, table)
        order = np.random.default_rng(seed).permutation(len(y))  # a file may be sorted
        return cls(table, schema, empty.inputs, encoder, imputation, X[order], y[order])

    @property
    def is_whole(self) -> bool:
        """Whether the sample has all rows."""
        return len(self.y) == self.schema.n_rows

    def encode(self, batch: Batch, first_row: int, table: Table) -> tuple[np.ndarray, np.ndarray]:
        """X and y of some rows, of this table or of another one."""
        name, classes = self.schema.target.name, self.schema.classes or [0.0]
        frame = frame_of(batch, first_row, self.inputs, table)
        y, missing = target_of(batch, first_row, name, classes, table)
        if missing.any():
            text = "the target has no value: leave such rows out."
            problem = Place(name, first_row).problem(int(np.argmax(missing)), text)
            raise UserMistake(f"{table.source}: {problem}")
        return self.encoder.transform(frame), y

    def chunks(self, table: Table | None = None) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """X (m, d) and y (m,) of every chunk of this table, or of another one."""
        table = self.table if table is None else table
        for batch, first_row in table.chunks():
            yield self.encode(batch, first_row, table)

"""Chunks of a table as numbers: numeric columns standardised, categorical ones one-hot.

The encoder is scikit-learn's own `ColumnTransformer` on named columns, so that a model loaded in
Python takes a DataFrame. One-hot columns stay 0 and 1: two different levels are then at squared
distance 2, as two values of a standardised column are on average. A level that was not seen, like
a missing one, is all zeros. A missing number is NaN; an `Imputation` makes it the mean, and adds an
indicator for every column that has missing values.
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

from .columns import NO_TARGET, Place, simplify, strict_numbers, strict_texts
from .schema import Column, Schema
from .tables import Table

Batch: TypeAlias = pa.RecordBatch | pa.Table
NO_LEVEL = ""  # never a level: an empty text is a missing one


class Wanted(NamedTuple):
    """The columns that an encoder takes: numeric ones, and categorical ones with their levels."""

    numeric: tuple[str, ...]
    categorical: dict[str, set[str]]
    impute: bool


class Imputation(NamedTuple):
    """How missing values are filled in: the fitted imputer, and the columns of every category."""

    imputer: SimpleImputer
    one_hot: tuple[tuple[int, int], ...]  # first column, and the one after the last


def wanted_of(encoder: Pipeline, impute: bool) -> Wanted:
    columns = encoder.steps[0][1]
    names = {kind: columns for kind, _, columns in columns.transformers_}
    levels = {}
    if "categorical" in names:
        one_hot = columns.named_transformers_["categorical"]
        levels = dict(zip(names["categorical"], map(set, one_hot.categories_), strict=True))
    return Wanted(tuple(names.get("numeric", ())), levels, impute)


def make_encoder(schema: Schema, *, standardise: bool = True) -> Pipeline:
    """An encoder fitted to the levels, means and variances of all rows.

    Without `standardise` numbers stay as they are, for kernels between nonnegative rows.
    """
    numeric, categorical = schema.numeric, schema.categorical
    steps: list[tuple[Any, ...]] = []
    if numeric:
        scaler = StandardScaler(with_mean=standardise, with_std=standardise)
        steps.append(("numeric", scaler, [column.name for column in numeric]))
    if categorical:
        levels = [np.array(sorted(column.levels), dtype=object) for column in categorical]
        one_hot = OneHotEncoder(categories=levels, handle_unknown="ignore", sparse_output=False)
        steps.append(("categorical", one_hot, [column.name for column in categorical]))
    columns = ColumnTransformer(steps, verbose_feature_names_out=False)
    encoder = Pipeline([("columns", columns)])
    # Any rows do: levels are given, and the scaler gets the statistics of all rows
    example = {column.name: [column.mean] for column in numeric}
    encoder.fit(pd.DataFrame(example | {c.name: [min(c.levels)] for c in categorical}))
    if numeric:
        set_statistics(columns.named_transformers_["numeric"], numeric, schema.n_rows)
    return encoder


def make_imputation(schema: Schema, *, standardise: bool = True) -> Imputation | None:
    """What fills in encoded rows, if that is asked for."""
    if not schema.impute:
        return None
    imputer = SimpleImputer(add_indicator=True, keep_empty_features=True)
    numeric, categorical = schema.numeric, schema.categorical
    width = len(numeric) + sum(len(column.levels) for column in categorical)
    # A row of the means, which are 0 after scaling, and one that shows where indicators are needed
    example = np.zeros((2, width))
    if not standardise:
        example[:, : len(numeric)] = [column.mean for column in numeric]
    example[1, [k for k, column in enumerate(numeric) if column.n_missing]] = np.nan
    ends = len(numeric) + np.cumsum([len(column.levels) for column in categorical], dtype=int)
    one_hot = tuple(
        (int(end) - len(column.levels), int(end))
        for end, column in zip(ends, categorical, strict=True)
    )
    return Imputation(imputer.fit(example), one_hot)


def set_statistics(scaler: StandardScaler, columns: list[Column], n_rows: int) -> None:
    """Give a scaler the statistics of the first pass."""
    scaler.mean_ = np.array([column.mean for column in columns])
    scaler.var_ = np.array([column.variance for column in columns])
    constant = [column.is_constant for column in columns]
    scaler.scale_ = np.where(constant, 1.0, np.sqrt(scaler.var_))
    scaler.n_samples_seen_ = n_rows


def frame_of(batch: Batch, first_row: int, wanted: Wanted, source: str) -> pd.DataFrame:
    """The columns that a model takes, numbers as float64 and texts as str."""
    found = {}
    for name in (*wanted.numeric, *wanted.categorical):
        place = Place(source, name, first_row)
        column = simplify(batch.column(name), place)
        if name in wanted.categorical:
            found[name], missing = strict_texts(column)
        else:
            found[name] = strict_numbers(column, place)
            missing = np.isnan(found[name])
        if not wanted.impute:
            place.refuse(missing, "no value: fill it in, or fit the model with --impute.")
    return pd.DataFrame(found)


def target_of(
    batch: Batch, first_row: int, name: str, like: Any, source: str
) -> tuple[np.ndarray, np.ndarray]:
    """The target (m,) and where it is missing (m,): texts if the classes in `like` are texts,
    else numbers, integers if all of both are."""
    place = Place(source, name, first_row)
    column = simplify(batch.column(name), place)
    like = np.asarray(like)
    if like.dtype.kind in "OU":
        values, missing = strict_texts(column)
        return values.astype(str), missing
    values = strict_numbers(column, place)
    whole = like.dtype.kind == "i" and np.array_equal(values, np.round(values))
    return values.astype(like.dtype) if whole else values, np.isnan(values)


def encode(
    batch: Batch, first_row: int, schema: Schema, encoder: Pipeline, source: str | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """X and y of some rows, of the table or of another one; NaN where a number is missing."""
    source = schema.source if source is None else source
    frame = frame_of(batch, first_row, wanted_of(encoder, schema.impute), source)
    like = schema.classes or [0.0]
    name = schema.target.name
    y, missing = target_of(batch, first_row, name, like, source)
    Place(source, name, first_row).refuse(missing, NO_TARGET)
    return encoder.transform(frame), y


@dataclass(frozen=True)
class EncodedTable:
    """The sample of a table as numbers, in random order, and what encodes all rows."""

    table: Table
    schema: Schema
    encoder: Pipeline
    imputation: Imputation | None
    X: np.ndarray  # (n, d)
    y: np.ndarray  # (n,)

    @classmethod
    def of(cls, table: Table, schema: Schema, seed: int, *, standardise: bool) -> EncodedTable:
        encoder = make_encoder(schema, standardise=standardise)
        imputation = make_imputation(schema, standardise=standardise)
        X, y = encode(schema.sample, 1, schema, encoder)
        order = np.random.default_rng(seed).permutation(len(y))  # a file may be sorted
        return cls(table, schema, encoder, imputation, X[order], y[order])

    def chunks(self) -> Iterator[tuple[np.ndarray, np.ndarray, float]]:
        """The second pass: X (m, d) and y (m,) of every chunk, and the part that is read so far."""
        for batch, first_row, fraction in self.table.chunks():
            yield *encode(batch, first_row, self.schema, self.encoder), fraction

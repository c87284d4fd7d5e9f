"""Chunks of a table as numbers: numeric columns standardised, categorical ones one-hot.

The encoder is scikit-learn's own `ColumnTransformer` on named columns, so that a model loaded in
Python takes a DataFrame. One-hot columns stay 0 and 1: two different levels are then at squared
distance 2, as two values of a standardised column are on average. A level that was not seen, like
a missing one, is all zeros; a missing number becomes the mean.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pandas as pd
import pyarrow as pa
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from .columns import NO_TARGET, Place, strict_numbers, texts
from .schema import Column, Schema
from .tables import Table

Batch: TypeAlias = pa.RecordBatch | pa.Table
NO_LEVEL = ""  # never a level: an empty text is a missing one


class Wanted(NamedTuple):
    """The columns a model takes, by name."""

    numeric: tuple[str, ...]
    categorical: tuple[str, ...]
    impute: bool


def wanted_of(schema: Schema, impute: bool) -> Wanted:
    return Wanted(
        tuple(column.name for column in schema.numeric),
        tuple(column.name for column in schema.categorical),
        impute,
    )


def make_encoder(schema: Schema, impute: bool) -> Pipeline:
    """An encoder fitted to the levels, means and variances of all rows."""
    numeric, categorical = schema.numeric, schema.categorical
    steps: list[tuple] = []
    if numeric:
        steps.append(("numeric", StandardScaler(), [column.name for column in numeric]))
    if categorical:
        levels = [np.array(sorted(column.levels), dtype=object) for column in categorical]
        one_hot = OneHotEncoder(categories=levels, handle_unknown="ignore", sparse_output=False)
        steps.append(("categorical", one_hot, [column.name for column in categorical]))
    columns = ColumnTransformer(steps, verbose_feature_names_out=False)
    parts = [("columns", columns)]
    if impute:
        # After scaling the mean is 0
        parts.append(("impute", SimpleImputer(strategy="constant", fill_value=0.0)))
    encoder = Pipeline(parts)
    # Any rows do: levels are given, and the scaler gets the statistics of all rows
    example = {column.name: [column.mean] for column in numeric}
    encoder.fit(pd.DataFrame(example | {c.name: [min(c.levels)] for c in categorical}))
    if numeric:
        set_statistics(columns.named_transformers_["numeric"], numeric, schema.n_rows)
    return encoder


def set_statistics(scaler: StandardScaler, columns: list[Column], n_rows: int) -> None:
    """Give a scaler the statistics of the first pass."""
    scaler.mean_ = np.array([column.mean for column in columns])
    scaler.var_ = np.array([column.variance for column in columns])
    # What is left of a constant column is rounding, and must not be blown up
    constant = scaler.var_ <= (10 * np.finfo(float).eps * np.abs(scaler.mean_)) ** 2
    scaler.scale_ = np.where(constant, 1.0, np.sqrt(scaler.var_))
    scaler.n_samples_seen_ = n_rows


def frame_of(batch: Batch, first_row: int, wanted: Wanted, source: str) -> pd.DataFrame:
    """The columns that a model takes, numbers as float64 and texts as str."""
    found = {}
    for name in (*wanted.numeric, *wanted.categorical):
        place = Place(source, name, first_row)
        if name in wanted.categorical:
            cleaned = texts(whole_column(batch, name))
            missing = cleaned.is_null().to_numpy(zero_copy_only=False)
            values = cleaned.fill_null(NO_LEVEL).to_numpy(zero_copy_only=False)
        else:
            values = strict_numbers(whole_column(batch, name), place)
            missing = np.isnan(values)
        if not wanted.impute and missing.any():
            place.mistake(
                int(np.argmax(missing)), "no value: fill it in, or fit the model with --impute."
            )
        found[name] = values
    return pd.DataFrame(found)


def target_of(
    batch: Batch, first_row: int, name: str, like: Any, source: str
) -> tuple[np.ndarray, np.ndarray]:
    """The target (m,) and where it is missing (m,): texts if the classes in `like` are texts,
    else numbers, integers if all of both are."""
    column = whole_column(batch, name)
    like = np.asarray(like)
    if like.dtype.kind in "OU":
        cleaned = texts(column)
        missing = cleaned.is_null().to_numpy(zero_copy_only=False)
        return cleaned.fill_null("").to_numpy(zero_copy_only=False).astype(str), missing
    values = strict_numbers(column, Place(source, name, first_row))
    whole = like.dtype.kind == "i" and np.array_equal(values, np.round(values))
    return values.astype(like.dtype) if whole else values, np.isnan(values)


def whole_column(batch: Batch, name: str) -> pa.Array:
    column = batch.column(name)
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def encode_chunks(
    table: Table, schema: Schema, encoder: Pipeline, impute: bool
) -> Iterator[tuple[np.ndarray, np.ndarray, float]]:
    """The second pass: X (m, d) and y (m,) of every chunk, and the part that is read so far."""
    for batch, first_row, fraction in table.chunks():
        yield *encode(batch, first_row, schema, encoder, impute), fraction


def encode(
    batch: Batch, first_row: int, schema: Schema, encoder: Pipeline, impute: bool
) -> tuple[np.ndarray, np.ndarray]:
    """X and y of some rows."""
    frame = frame_of(batch, first_row, wanted_of(schema, impute), schema.source)
    like = schema.classes if schema.task == "classification" else [0.0]
    name = schema.target.name
    y, missing = target_of(batch, first_row, name, like, schema.source)
    if missing.any():
        Place(schema.source, name, first_row).mistake(int(np.argmax(missing)), NO_TARGET)
    return encoder.transform(frame), y

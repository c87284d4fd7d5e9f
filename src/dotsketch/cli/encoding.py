"""Chunks of a table as numbers, by a `TableEncoder` that has seen all rows, and their targets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from ..tables import TableEncoder
from ..tables.column import Column
from ..tables.columns import Place, Problem
from ..tables.encoder import EncodedRows
from .errors import UserMistake
from .schema import Schema, remedies_for
from .tables import Table

Batch: TypeAlias = pa.RecordBatch | pa.Table


class Inputs(NamedTuple):
    """The columns that a model takes, as its file states them."""

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


def encoded(
    encoder: TableEncoder, batch: Batch, first_row: int, table: Table, *, impute: bool
) -> EncodedRows:
    """Rows as numbers; the problems of all columns are reported together."""
    remedies = remedies_for("") | {"impute": "fill it in, or fit the model with --impute"}
    try:
        return encoder.encode(batch, first_row, marks=table.marks, remedies=remedies, impute=impute)
    except ValueError as error:
        raise UserMistake(f"{table.source}: {error}") from None


def target_of(
    batch: Batch, first_row: int, name: str, like: Any, table: Table
) -> tuple[np.ndarray, np.ndarray]:
    """The target (m,) and where it is missing (m,): texts if the classes in `like` are texts, else
    numbers, integers if all of both are."""
    column, like = Column(name, 0, table.marks, remedies_for(name)), np.asarray(like)
    try:
        if like.dtype.kind in "OU":
            texts = column.texts(batch.column(name))
            return texts.astype(str), texts == ""
        values = column.numbers(batch.column(name), first_row)
    except Problem as problem:
        raise UserMistake(f"{table.source}: {problem}") from None
    whole = like.dtype.kind == "i" and np.array_equal(values, np.round(values))
    return values.astype(like.dtype) if whole else values, np.isnan(values)


@dataclass(frozen=True)
class EncodedTable:
    """The sample of a table as numbers, in random order, and what encodes all rows."""

    table: Table
    schema: Schema
    inputs: Inputs
    encoder: TableEncoder
    X: np.ndarray  # (n, d)
    y: np.ndarray  # (n,)

    @classmethod
    def of(cls, table: Table, schema: Schema, seed: int, *, standardize: bool) -> EncodedTable:
        encoder = TableEncoder(standardize=standardize).set_columns(schema.features)
        empty = cls(table, schema, Inputs.of(schema), encoder, *np.empty((2, 0)))
        X, y = empty.encode(schema.sample, 1, table)
        order = np.random.default_rng(seed).permutation(len(y))  # a file may be sorted
        return cls(table, schema, empty.inputs, encoder, X[order], y[order])

    @property
    def is_whole(self) -> bool:
        """Whether the sample has all rows."""
        return len(self.y) == self.schema.n_rows

    def encode(self, batch: Batch, first_row: int, table: Table) -> tuple[np.ndarray, np.ndarray]:
        """X and y of some rows, of this table or of another one."""
        name, classes = self.schema.target.name, self.schema.classes or [0.0]
        X = encoded(self.encoder, batch, first_row, table, impute=self.inputs.impute).X
        y, missing = target_of(batch, first_row, name, classes, table)
        if missing.any():
            text = "the target has no value: leave such rows out."
            problem = Place(name, first_row).problem(int(np.argmax(missing)), text)
            raise UserMistake(f"{table.source}: {problem}")
        return X, y

    def chunks(self, table: Table | None = None) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """X (m, d) and y (m,) of every chunk of this table, or of another one."""
        table = self.table if table is None else table
        for batch, first_row in table.chunks():
            yield self.encode(batch, first_row, table)

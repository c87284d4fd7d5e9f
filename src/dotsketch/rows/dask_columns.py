"""Columns of Dask collections with the same partitions."""

from __future__ import annotations

from typing import Any

import numpy as np

from .sources import Block, is_collection

TUNES = "optimization.tune.active"
TEXT_BYTES = 100  # of a value that is no number


def is_frame(collection: Any) -> bool:
    """Whether a collection is a data frame or a series, not an array."""
    return hasattr(collection, "npartitions") and not hasattr(collection, "chunks")


def aligned(columns: Block) -> tuple[Any, ...]:
    """Collections with the partitions of the first, whose partitions hold whole rows."""
    X, *others = columns
    if not is_frame(X):
        if X.ndim != 2:
            raise ValueError(
                f"Expected 2D array, got {X.ndim}D array instead. Reshape it to (rows, features)."
            )
        X = X.rechunk({1: -1})
    return X, *(None if column is None else _like(X, column) for column in others)


def _like(X: Any, column: Any) -> Any:
    import dask.array

    if not is_collection(column):
        column = np.asarray(column)
        lengths = _lengths(X)
        if len(column) != sum(lengths):
            _disagree(sum(lengths), len(column))
        return dask.array.from_array(column, chunks=(lengths, *column.shape[1:]))
    if not is_frame(column):
        if column.ndim > 1:
            column = column.rechunk({1: -1})
        known = not is_frame(X) and not np.isnan([*X.chunks[0], *column.chunks[0]]).any()
        if known:
            if column.shape[0] != X.shape[0]:
                _disagree(X.shape[0], column.shape[0])
            return column.rechunk({0: X.chunks[0]})
    if _count(column) != _count(X):
        raise ValueError(
            f"X has {_count(X)} partitions and another column has {_count(column)}: take both from "
            "one data frame, or repartition them alike."
        )
    return column


def _count(collection: Any) -> int:
    return collection.npartitions if is_frame(collection) else collection.numblocks[0]


def _lengths(X: Any) -> tuple[int, ...]:
    """The rows of every partition, counted if they are not known."""
    if is_frame(X):
        return tuple(int(n) for n in narrow(X).map_partitions(len).compute())
    if np.isnan(X.chunks[0]).any():
        X = X.copy()
        X.compute_chunk_sizes()
    return tuple(X.chunks[0])


def narrow(X: Any) -> Any:
    """One column of a data frame, of which a Parquet file reads no other; an array as it is."""
    return X[list(X.columns[:1])] if is_frame(X) else X


def row_bytes(collection: Any) -> int:
    """About what a row takes in memory; sparse rows take less."""
    if is_frame(collection):
        meta = collection._meta
        types = [meta.dtype] if meta.ndim == 1 else list(meta.dtypes)
    else:
        types = [collection.dtype] * (collection.shape[1] if collection.ndim > 1 else 1)
    return sum(t.itemsize if getattr(t, "kind", "O") in "biuf" else TEXT_BYTES for t in types)


def _disagree(n: int, other: int) -> None:
    raise ValueError(f"Found input variables with inconsistent numbers of samples: {[n, other]}.")


def partitions(columns: tuple[Any, ...]) -> list[Any]:
    """The columns of every partition as lists of delayed values, or as one delayed tuple of them.

    Columns of data frames are read at once: they often come from the same file.
    """
    import dask

    places = [place for place, column in enumerate(columns) if column is not None]
    given = [columns[place] for place in places]
    # Dask would join partitions of which few columns are read, and their numbers would not agree
    with dask.config.set({TUNES: False}):
        if all(map(is_frame, given)):
            packed = given[0].map_partitions(
                _packed,
                *given[1:],
                places=places,
                width=len(columns),
                meta=given[0]._meta,
                enforce_metadata=False,
                align_dataframes=False,
            )
            return list(packed.to_delayed())
        split = {
            place: list(np.asarray(column.to_delayed(), dtype=object).ravel())
            for place, column in zip(places, given, strict=True)
        }
    count = len(split[places[0]])
    return [
        [split[place][k] if place in split else None for place in range(len(columns))]
        for k in range(count)
    ]


def _packed(*frames: Any, places: list[int], width: int) -> tuple[Any, ...]:
    columns: list[Any] = [None] * width
    for place, frame in zip(places, frames, strict=True):
        columns[place] = frame
    return tuple(columns)

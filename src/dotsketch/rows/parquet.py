"""Batches of a Parquet file, which need not fit in memory."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from .sources import Block


class ParquetBatches:
    """A function that returns an iterator of batches (X, y); `parquet_batches` makes it.

    Parameters
    ----------
    path : path
    inputs : list of str
        Names of the columns of X.
    target : str or list of str
    batch_rows : int
    """

    def __init__(self, path: str | Path, inputs: list[str], target: Any, batch_rows: int):
        self.path = path
        self.inputs = inputs
        self.target = target
        self.batch_rows = batch_rows

    def __call__(self) -> Iterator[Block]:
        import pyarrow.parquet as parquet

        targets = [self.target] if isinstance(self.target, str) else self.target
        first = 1
        with parquet.ParquetFile(self.path) as file:
            for batch in file.iter_batches(self.batch_rows, columns=[*self.inputs, *targets]):
                X = np.stack([self._numbers(batch, name, first) for name in self.inputs], axis=1)
                Y = [self._targets(batch, name, first) for name in targets]
                first += batch.num_rows
                yield (
                    _named(X, self.inputs),
                    Y[0] if isinstance(self.target, str) else np.stack(Y, 1),
                )

    def __array__(self, *args: Any, **options: Any) -> NoReturn:
        """Scalers and other transformers end here: they want all rows at once."""
        raise TypeError(
            f"These are batches of {self.path}, and a step of a pipeline, such as a scaler, takes "
            "rows in memory. Make the step a part of the features of the process: "
            "FeatureGPRegressor(make_pipeline(StandardScaler(), NystromFeatures())).fit(batches)."
        )

    def _numbers(self, batch: Any, name: str, first: int) -> np.ndarray:  # -> (m,)
        """A column as floating numbers: float32 if the file has these, else float64."""
        import pyarrow as pa

        column = _decoded(batch, name)
        kind = column.type
        types = pa.types
        if types.is_boolean(kind):
            column = column.cast(pa.int8())
        elif not (types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind)):
            given = enumerate(column.to_pylist())
            index, example = next(((i, v) for i, v in given if v is not None), (0, None))
            self._refuse(
                name,
                first + index,
                f"{example!r} is no number (the type of the column is {kind}): leave the column "
                "out with columns=[...], or encode it as numbers.",
            )
        if kind != pa.float32():
            column = column.cast(pa.float64())
        values: np.ndarray = column.to_numpy(zero_copy_only=False)  # null becomes NaN
        bad = ~np.isfinite(values)
        if bad.any():
            index = int(np.argmax(bad))
            what = "no value (null or NaN)" if np.isnan(values[index]) else f"{values[index]}"
            self._refuse(name, first + index, f"{what}: leave the row out, or fill in a number.")
        return values

    def _targets(self, batch: Any, name: str, first: int) -> np.ndarray:  # -> (m,)
        """Numbers, integers as they are; or labels that are texts or truth values."""
        import pyarrow as pa

        column = _decoded(batch, name)
        if pa.types.is_floating(column.type) or pa.types.is_decimal(column.type):
            return self._numbers(batch, name, first)
        if column.null_count:
            index = column.is_null().to_pylist().index(True)
            self._refuse(name, first + index, "no value: leave the row out.")
        return np.asarray(column.to_numpy(zero_copy_only=False))

    def _refuse(self, name: str, row: int, text: str) -> NoReturn:
        raise ValueError(f"{self.path}: column {name!r}, row {row} (counted from 1): {text}")


def parquet_batches(
    path: str | Path,
    target: str | list[str],
    *,
    columns: list[str] | None = None,
    batch_rows: int = 65536,
) -> ParquetBatches:
    """Batches (X, y) of a Parquet file, never whole in memory: `fit(parquet_batches(path, "y"))`.

    Parameters
    ----------
    path : path
    target : str or list of str
        The column of y, or a list of columns.
    columns : list of str or None, default=None
        The columns of X, in this order; None for all but the target and the index of pandas.
    batch_rows : int
        Rows of a batch.

    Returns
    -------
    ParquetBatches
        A function that starts a new pass over the file with every call. X is a pandas DataFrame
        with the names of the columns (an array without pandas), so that the process has
        `feature_names_in_`. A text, a null or a NaN in a column of X is an error that names file,
        column and row.

    Notes
    -----
    A pipeline with a scaler as its first step cannot take batches. Make the scaler a part of the
    features instead; it is then fitted to the first 10,000 rows, as they are:
    `FeatureGPRegressor(make_pipeline(StandardScaler(), features)).fit(parquet_batches(...))`.

    Needs pyarrow (`pip install 'dotsketch[cli]'`).
    """
    import pyarrow.parquet as parquet

    with parquet.ParquetFile(path) as file:
        names = file.schema_arrow.names
        index = (file.schema_arrow.pandas_metadata or {}).get("index_columns", [])
    targets = [target] if isinstance(target, str) else list(target)
    for name in (*targets, *(columns or ())):
        if name not in names:
            close = get_close_matches(str(name), names, 1)
            hint = f" Did you mean {close[0]!r}?" if close else ""
            raise ValueError(f"{path} has no column {name!r}; it has {names}.{hint}")
    if columns is None:
        inputs = [name for name in names if name not in targets and name not in index]
    else:
        inputs = list(columns)
    both = [name for name in inputs if name in targets]
    if both:
        raise ValueError(f"{both[0]!r} is a target and cannot be one of columns.")
    if not inputs:
        raise ValueError(f"{path} has no columns besides the target {target!r}.")
    return ParquetBatches(path, inputs, target if isinstance(target, str) else targets, batch_rows)


def _decoded(batch: Any, name: str) -> Any:
    """A column of a batch, by its values where these are numbers of a dictionary."""
    column = batch.column(name)
    return column.dictionary_decode() if hasattr(column, "dictionary") else column


def _named(X: np.ndarray, names: list[str]) -> Any:  # (m, d)
    """A DataFrame over the same memory, or the array where pandas is not installed."""
    try:
        import pandas
    except ImportError:
        return X
    return pandas.DataFrame(X, columns=names, copy=False)

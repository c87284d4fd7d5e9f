"""The rows of a table on the workers of a Dask cluster, which read and encode them."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from .encoding import EncodedTable, encode
from .errors import UserMistake
from .parquet_files import ParquetPart
from .schema import Schema
from .tables import Table, chunk_rows


def check_cluster(table: Table, impute: bool) -> None:
    """Raise, before any work is done, if workers cannot read the table."""
    if not table.parts:
        raise UserMistake(
            f"--scheduler needs Parquet files, of which workers read row groups: {table.source} is "
            "something else."
        )
    if impute:
        raise UserMistake("--impute and --scheduler cannot be combined: fill in the values first.")


def cluster(address: str) -> Any:
    """The cluster of a scheduler, as a context."""
    try:
        from distributed import Client

        return Client(address)
    except ImportError:
        raise UserMistake("--scheduler needs distributed: pip install 'dotsketch[dask]'.") from None
    except (OSError, ValueError) as error:
        raise UserMistake(f"no scheduler answers at {address}: {error}") from error


def rows_of_parts(rows: EncodedTable) -> tuple[Any, Any]:
    """Dask arrays X and y of the row groups of the table."""
    import dask
    import dask.array

    schema, table = rows.schema, rows.table
    function = dask.delayed(partial(encoded_part, schema, rows.encoder, table.names), pure=False)
    parts = [(function(part), part.n_rows) for part in table.parts]
    outputs = ((rows.X.shape[1:], np.float64), ((), np.asarray(schema.classes or [0.0]).dtype))
    X, y = (
        dask.array.concatenate(
            [dask.array.from_delayed(part[k], (n, *shape), dtype=dtype) for part, n in parts]
        )
        for k, (shape, dtype) in enumerate(outputs)
    )
    return X, y


def encoded_part(
    schema: Schema, encoder: Pipeline, names: tuple[str, ...], part: ParquetPart
) -> tuple[np.ndarray, np.ndarray]:
    """X and y of a row group."""
    found, row = [], part.first_row
    for batch in part.batches(names, chunk_rows(len(names))):
        found.append(encode(batch, row, schema, encoder))
        row += batch.num_rows
    X, y = zip(*found, strict=True)
    return np.concatenate(X), np.concatenate(y)

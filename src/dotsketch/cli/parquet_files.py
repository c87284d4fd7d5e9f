"""Tables in one or many Parquet files: a file, a folder, or a pattern such as data/*.parquet."""

from __future__ import annotations

import glob
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet

from .errors import UserMistake

ENDINGS = (".parquet", ".pq")
WILDCARDS = "*?["


@dataclass(frozen=True)
class ParquetPart:
    """A row group of a file, which any process can read."""

    path: str  # absolute: a worker may run in another folder
    group: int
    n_rows: int
    first_row: int  # of all files together, from 1

    def batches(self, names: tuple[str, ...], batch_rows: int) -> Iterator[pa.RecordBatch]:
        """The rows, with their columns in this order."""
        with pa.parquet.ParquetFile(self.path) as file:
            yield from file.iter_batches(batch_rows, row_groups=[self.group], columns=list(names))


@dataclass(frozen=True)
class ParquetFiles:
    """What the files say about themselves; all have the columns of the first."""

    schema: pa.Schema
    parts: tuple[ParquetPart, ...]

    @property
    def n_rows(self) -> int:
        return sum(part.n_rows for part in self.parts)


def several_files(data: str) -> list[Path] | None:
    """The Parquet files of a folder or a pattern; None if `data` is neither."""
    path = Path(data)
    if path.is_dir():
        found = [one for one in path.iterdir() if one.suffix.lower() in ENDINGS]
        if not found:
            raise UserMistake(
                f"{data} is a folder without Parquet files: give a file, a folder of Parquet "
                "files, or the name of a data set."
            )
        return sorted(found)
    if path.exists() or not any(sign in data for sign in WILDCARDS):
        return None
    found = [Path(name) for name in glob.glob(data)]
    if not found:
        raise UserMistake(f"no file matches {data}.")
    others = [one for one in found if one.suffix.lower() not in ENDINGS]
    if others:
        raise UserMistake(
            f"{others[0]} matches {data} and is no Parquet file, of which alone several make one "
            "table."
        )
    return sorted(found)


def open_files(paths: list[Path]) -> ParquetFiles:
    """The row groups of all files, in order."""
    parts: list[ParquetPart] = []
    first_row, schema = 1, None
    for path in paths:
        with pa.parquet.ParquetFile(path) as file:
            schema = schema or file.schema_arrow
            check_same(schema, file.schema_arrow, paths[0], path)
            for group in range(file.metadata.num_row_groups):
                n = file.metadata.row_group(group).num_rows
                if n:
                    parts.append(ParquetPart(str(path.resolve()), group, n, first_row))
                first_row += n
    return ParquetFiles(schema, tuple(parts))


def check_same(schema: Any, other: Any, path: Path, other_path: Path) -> None:
    different = set(schema.names) ^ set(other.names)
    if different:
        raise UserMistake(
            f"{path} and {other_path} have different columns: {sorted(different)[0]!r} is in one "
            "of them only."
        )

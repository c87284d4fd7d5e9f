"""Tables as chunks of Arrow columns, read again from the start as often as needed.

CSV and Parquet files are read by Arrow piece by piece, so that a file may be larger than memory.
The values of a CSV file arrive as text: `schema` decides over the whole file what a column is, not
over its first lines.
"""

from __future__ import annotations

import atexit
import codecs
import csv
import glob
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset

from ..datasets import list_datasets, load_dataset
from ..tables.columns import Marks, is_number
from .output import UserMistake, count, list_names

FORMATS = {
    "csv": (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz"),
    "parquet": (".parquet", ".pq"),
}
BLOCK_BYTES = 8 << 20  # of a CSV file at a time; no row is longer
BATCH_ROWS = 1 << 14  # of other tables at a time
WILDCARDS = "*?["
ERRORS = {  # of Arrow, in plain words
    "UTF8": "it is not UTF-8 text: give --encoding latin-1",
    "UTF-8": "it is not UTF-8 text: give --encoding latin-1",
    "Empty CSV": "the file is empty",
    "straddling object": f"a row is longer than {BLOCK_BYTES >> 20} MB: is a quote left open?",
}


@dataclass(frozen=True)
class Table:
    """Named columns in chunks; every iteration starts again from the first row."""

    source: str
    names: tuple[str, ...]
    read: Callable[[], Iterator[pa.RecordBatch]]
    target: str | None = None  # the column that a data set marks as the target
    task: str | None = None
    test: Table | None = None  # rows that a data set sets aside for testing
    index: frozenset[str] = frozenset()  # columns that pandas wrote as its index
    marks: Marks = field(default_factory=Marks)

    def __post_init__(self) -> None:
        repeated = [name for name, number in Counter(self.names).items() if number > 1]
        if repeated:
            raise UserMistake(
                f"{self.source}: the header has the column name {list_names(repeated)} more than "
                "once: rename one of them."
            )

    def chunks(self) -> Iterator[tuple[pa.RecordBatch, int]]:
        """All rows, with the number of the first of a chunk (from 1); raises if there are none."""
        row = 1
        with explain_errors(self.source):
            for batch in self.read():
                if batch.num_rows:
                    yield batch, row
                    row += batch.num_rows
        if row == 1:
            raise UserMistake(f"{self.source} has no rows of data.")

    def require(self, names: Iterable[str]) -> None:
        """Raise if a column that a model needs is missing."""
        missing = [name for name in names if name not in self.names]
        if missing:
            raise UserMistake(
                f"{self.source} lacks {count(len(missing), 'column')} of the model: "
                f"{list_names(missing)}."
            )

    def column(self, wanted: str) -> str:
        """The name of a column, given by its name or its position."""
        if wanted in self.names:
            return wanted
        try:
            return self.names[int(wanted)]
        except (ValueError, IndexError):
            close = get_close_matches(wanted, self.names, 1)
            hint = f" Did you mean {close[0]!r}?" if close else ""
            raise UserMistake(
                f"{self.source} has no column {wanted!r}; its columns are {list_names(self.names)}."
                f"{hint}"
            ) from None


def as_frame(batch: pa.RecordBatch | pa.Table) -> pd.DataFrame:
    """The columns of Arrow, all of them, as those of pandas."""
    return batch.to_pandas(date_as_object=False, ignore_metadata=True)


@contextmanager
def explain_errors(source: str) -> Iterator[None]:
    """Errors of the readers, as mistakes that name the file."""
    try:
        yield
    except UnicodeDecodeError as error:
        kind = error.encoding.upper()
        raise UserMistake(f"{source} is not {kind} text: give --encoding latin-1.") from error
    except pa.ArrowException as error:
        text = str(error).split("\n")[0]
        for sign, meaning in ERRORS.items():
            text = meaning if sign in text else text
        raise UserMistake(f"{source}: {text.rstrip('.')}.") from error


def open_table(
    data: str,
    *,
    format: str | None = None,
    delimiter: str | None = None,
    encoding: str = "utf-8",
    no_header: bool = False,
    decimal: str = ".",
    thousands: str | None = None,
    block_bytes: int = BLOCK_BYTES,
) -> Table:
    """The table in a file, in several Parquet files, or the data set of a name."""
    path = Path(data)
    if path.is_dir() or (not path.exists() and any(sign in data for sign in WILDCARDS)):
        return parquet_table(data, several_files(data))
    if data != "-" and not path.exists():
        return named_table(data)
    source = "standard input" if data == "-" else data
    if not path.is_file():  # tables are read twice
        path, format = copy_of(data, source), format or "csv"
    if (format or format_of(path)) == "parquet":
        return parquet_table(source, [path])
    if path.stat().st_size == 0:
        raise UserMistake(f"{path}: the file is empty.")
    try:
        codecs.lookup(encoding)
    except LookupError:
        raise UserMistake(f"there is no encoding {encoding!r}; latin-1 is one.") from None
    marks = Marks(decimal, thousands)
    return csv_table(source, path, delimiter, encoding, not no_header, marks, block_bytes)


def copy_of(data: str, source: str) -> Path:
    """A temporary file with what standard input or a pipe holds; it ends with the process."""
    file = tempfile.NamedTemporaryFile(prefix="dotsketch-")  # noqa: SIM115
    atexit.register(file.close)
    with sys.stdin.buffer if data == "-" else open(data, "rb") as stream:
        shutil.copyfileobj(stream, file)
    file.flush()
    if not file.tell():
        raise UserMistake(f"{source} is empty.")
    return Path(file.name)


def format_of(path: Path) -> str:
    """The format that a file's name implies."""
    for name, endings in FORMATS.items():
        if path.name.lower().endswith(endings):
            return name
    known = ", ".join(ending for endings in FORMATS.values() for ending in endings)
    raise UserMistake(
        f"the ending of {path.name} implies no format ({known}): give --format {'|'.join(FORMATS)}."
    )


def csv_table(
    source: str,
    path: Path,
    delimiter: str | None,
    encoding: str,
    header: bool,
    marks: Marks,
    block: int,
) -> Table:
    """All columns as text."""
    with explain_errors(source), pa.input_stream(str(path)) as stream:
        start = stream.read(1 << 16).decode(encoding, errors="replace")
    if "\0" in start:
        raise UserMistake(
            f"{source}: it holds NUL characters, which no table of text does: give its --encoding "
            "(such as utf-16) or its --format."
        )
    delimiter = delimiter or sniff_delimiter(start)
    parse = pa.csv.ParseOptions(delimiter=delimiter, newlines_in_values=True)
    options = pa.csv.ReadOptions(
        block_size=block, encoding=encoding, autogenerate_column_names=not header
    )

    @contextmanager
    def reader(types: dict[str, pa.DataType]) -> Iterator[Any]:
        convert = pa.csv.ConvertOptions(column_types=types, strings_can_be_null=False)
        # Arrow's stream and not Python's: its threads read ahead, also while the interpreter ends
        with (
            pa.input_stream(str(path)) as stream,
            pa.csv.open_csv(
                stream, read_options=options, parse_options=parse, convert_options=convert
            ) as batches,
        ):
            yield batches

    with explain_errors(source), reader({}) as batches:
        raw_names = batches.schema.names
    names = tuple(name.strip() for name in raw_names)
    counted = tuple(map(str, range(len(names))))  # what pandas calls columns without names
    if header and names != counted and all(map(is_number, names)):
        raise UserMistake(
            f"{source}: the first line holds numbers, not names of columns: add a header, or give "
            "--no-header."
        )

    def read() -> Iterator[pa.RecordBatch]:
        with reader(dict.fromkeys(raw_names, pa.string())) as batches:
            for batch in batches:
                yield pa.RecordBatch.from_arrays(batch.columns, names=list(names))

    return Table(source, names, read, marks=marks)


def sniff_delimiter(start: str) -> str:
    """The delimiter that splits the first lines into the most fields, equally many each."""
    lines = start.splitlines()
    if len(lines) > 1 and not start.endswith("\n"):
        lines = lines[:-1]  # it may be cut
    counts = {
        delimiter: {len(row) for row in csv.reader(lines[:20], delimiter=delimiter) if row}
        for delimiter in (",", ";", "\t", "|")
    }
    even = {delimiter: max(fields) for delimiter, fields in counts.items() if len(fields) == 1}
    best = max(even, key=lambda delimiter: even[delimiter], default=",")
    return best if even.get(best, 0) > 1 else ","


def several_files(data: str) -> list[Path]:
    """The Parquet files of a folder or a pattern."""
    endings = FORMATS["parquet"]
    if Path(data).is_dir():
        files = [one for one in Path(data).iterdir() if one.suffix.lower() in endings]
        missing = f"{data} is a folder without Parquet files: give a file."
    else:
        files, missing = [Path(name) for name in glob.glob(data)], f"no file matches {data}."
    if not files:
        raise UserMistake(missing)
    others = [one for one in files if one.suffix.lower() not in endings]
    if others:
        raise UserMistake(f"{others[0]} matches {data} and is not a Parquet file: give one file.")
    return sorted(files)


def parquet_table(source: str, paths: list[Path]) -> Table:
    """One or several files with the same columns, in any order."""
    with explain_errors(source):
        parts = [pa.dataset.dataset(path, format="parquet") for path in paths]
    names = parts[0].schema.names
    for path, part in zip(paths, parts, strict=True):
        different = sorted(set(names) ^ set(part.schema.names))
        if different:
            raise UserMistake(
                f"{paths[0]} and {path} have different columns: only one of them has "
                f"{list_names(different)}."
            )
    # A range is described by a dictionary and has no column
    index = (parts[0].schema.pandas_metadata or {}).get("index_columns", [])
    index = frozenset(name for name in index if isinstance(name, str) and name in names)

    def read() -> Iterator[pa.RecordBatch]:
        for part in parts:
            yield from part.to_batches(columns=names, batch_size=BATCH_ROWS)

    return Table(source, tuple(names), read, index=index)


def named_table(name: str) -> Table:
    """A data set of scikit-learn, of the local folder, or of OpenML's cache."""
    if name not in [entry.name for entry in list_datasets()]:
        raise UserMistake(
            f"there is no file {name}, and no data set of that name: `dotsketch datasets list` "
            "shows the data sets."
        )
    data = load_dataset(name)
    test = None
    if data.X_test is not None and data.y_test is not None:
        test = array_table(f"{data.name} (test rows)", data.X_test, data.y_test, data.task)
    return array_table(data.name, data.X, data.y, data.task, test)


def array_table(
    source: str, X: np.ndarray, y: np.ndarray, task: str, test: Table | None = None
) -> Table:
    """Arrays X (n, d) and y (n,) as columns x0, x1, … and y."""
    names = [*(f"x{j}" for j in range(X.shape[1])), "y"]

    def read() -> Iterator[pa.RecordBatch]:
        for start in range(0, len(X), BATCH_ROWS):
            rows = slice(start, start + BATCH_ROWS)
            inputs = np.asfortranarray(X[rows], dtype=np.float64)
            columns = [pa.array(column) for column in (*inputs.T, y[rows])]
            yield pa.RecordBatch.from_arrays(columns, names=names)

    return Table(source, tuple(names), read, target="y", task=task, test=test)

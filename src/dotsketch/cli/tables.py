"""Tables of any format as chunks of Arrow columns, read again from the start as often as needed.

CSV and Parquet are read piece by piece, so that a file may be larger than memory; NPZ and
LIBSVM files and the named data sets are small enough to be held. All values of a CSV file arrive as
text: `schema` decides over the whole file what a column is, not over its first lines.
"""

from __future__ import annotations

import codecs
import csv
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.csv
import scipy.sparse
from sklearn.datasets import load_svmlight_file

from ..datasets import list_datasets, load_dataset
from .columns import is_number
from .errors import UserMistake
from .output import count
from .parquet_files import ParquetPart, open_files, several_files

FORMATS = {
    "csv": (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz"),
    "parquet": (".parquet", ".pq"),
    "npz": (".npz",),
    "libsvm": (".libsvm", ".svm", ".svmlight"),
}
BLOCK_BYTES = 8 << 20  # of a CSV file at a time
START_BYTES = 1 << 16  # from which the delimiter is found
CELLS = 1 << 21  # of other tables at a time
DELIMITERS = (",", ";", "\t", "|")
DECIMAL_COMMA = r"^\s*([+-]?\d*),(\d+(?:[eE][+-]?\d+)?)\s*$"
MOST_COLUMNS = 20_000
DATES = "dates or times"
INDEX = "an index of pandas"


class Chunk(NamedTuple):
    """Some rows of a table, the number of the first (from 1), and the part that is read so far."""

    batch: pa.RecordBatch
    first_row: int
    fraction: float


@dataclass(frozen=True)
class Table:
    """Named columns in chunks; every iteration starts again from the first row."""

    source: str
    names: tuple[str, ...]
    read: Callable[[], Iterator[tuple[pa.RecordBatch, float]]]
    target: str | None = None  # the column that a format or a data set marks as the target
    task: str | None = None
    test: Table | None = None  # rows that a data set sets aside for testing
    left_out: Mapping[str, str] = field(default_factory=dict)  # columns that are no features: why
    parts: tuple[ParquetPart, ...] = ()  # that other processes can read, if there are such

    def __post_init__(self) -> None:
        twice = [name for name, number in Counter(self.names).items() if number > 1]
        if twice:
            raise UserMistake(
                f"{self.source}: the column name {twice[0]!r} stands twice in the header: rename "
                "one of them."
            )

    def chunks(self) -> Iterator[Chunk]:
        """All rows; there is one at least."""
        row = 1
        with explain_errors(self.source):
            for batch, fraction in self.read():
                if batch.num_rows:
                    yield Chunk(batch, row, fraction)
                    row += batch.num_rows
        if row == 1:
            raise UserMistake(f"{self.source} has no rows of data.")

    def require(self, names: Iterable[str]) -> None:
        """Raise if a column that a model takes is missing."""
        missing = [name for name in names if name not in self.names]
        if missing:
            raise UserMistake(
                f"{self.source} lacks {count(len(missing), 'column')} of the model: "
                f"{list_names(missing)}."
            )

    def column(self, wanted: str) -> str:
        """The name of a column that is given by its name or its position."""
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


def list_names(names: Any, most: int = 8) -> str:
    """A few names in a row."""
    names = list(names)
    rest = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(map(str, names[:most])) + rest


@contextmanager
def explain_errors(source: str) -> Iterator[None]:
    """Errors of the readers, as mistakes that name the file."""
    try:
        yield
    except UserMistake:
        raise
    except UnicodeDecodeError as error:
        kind = error.encoding.upper()
        raise UserMistake(f"{source} is not {kind} text: give --encoding latin-1.") from error
    except pa.ArrowException as error:
        text = str(error).split("\n")[0]
        if "UTF8" in text or "UTF-8" in text:
            text = "it is not UTF-8 text: give --encoding latin-1"
        if "Empty CSV" in text:
            text = "the file is empty"
        if "straddling object" in text:
            text = (
                f"a row is longer than {BLOCK_BYTES >> 20} MB: is a quote left open, or are these "
                "not lines of text?"
            )
        raise UserMistake(f"{source}: {text.rstrip('.')}.") from error


def open_table(
    data: str,
    *,
    format: str | None = None,
    delimiter: str | None = None,
    encoding: str = "utf-8",
    decimal: str = ".",
    no_header: bool = False,
) -> Table:
    """The table in a file, in several Parquet files, or the data set of a name."""
    path = Path(data)
    files = several_files(data)
    if files is not None:
        return parquet_table(data, files)
    if not path.exists():
        return named_table(data)
    if format is None:
        format = format_of(path)
    if path.stat().st_size == 0:
        raise UserMistake(f"{path}: the file is empty.")
    with path.open("rb"):  # whether we may read it
        pass
    try:
        codecs.lookup(encoding)
    except LookupError:
        raise UserMistake(f"no encoding is called {encoding!r}; latin-1 is one.") from None
    if format == "csv":
        return csv_table(path, delimiter, encoding, not no_header, decimal)
    if format == "parquet":
        return parquet_table(data, [path])
    return {"npz": npz_table, "libsvm": libsvm_table}[format](path)


def format_of(path: Path) -> str:
    """The format that a file's name implies."""
    for name, endings in FORMATS.items():
        if path.name.lower().endswith(endings):
            return name
    known = ", ".join(ending for endings in FORMATS.values() for ending in endings)
    raise UserMistake(
        f"the format of {path.name} is not known by its ending ({known}): give --format."
    )


def csv_table(
    path: Path, delimiter: str | None, encoding: str, header: bool, decimal: str
) -> Table:
    """All columns as text, in blocks of some megabytes."""
    start = read_start(path, encoding)
    delimiter = delimiter or sniff_delimiter(start)
    size = path.stat().st_size
    parse = pa.csv.ParseOptions(delimiter=delimiter, newlines_in_values=True)
    options = pa.csv.ReadOptions(
        block_size=BLOCK_BYTES, encoding=encoding, autogenerate_column_names=not header
    )

    def open_reader(raw: pa.NativeFile, types: dict[str, pa.DataType]) -> Any:
        stream = pa.CompressedInputStream(raw, "gzip") if path.suffix == ".gz" else raw
        convert = pa.csv.ConvertOptions(column_types=types, strings_can_be_null=False)
        return pa.csv.open_csv(
            stream, read_options=options, parse_options=parse, convert_options=convert
        )

    # Arrow's file and not Python's: its threads read ahead, also while the interpreter ends
    with explain_errors(str(path)), pa.OSFile(str(path)) as raw, open_reader(raw, {}) as reader:
        raw_names = reader.schema.names
        dates = dates_of(reader.schema)  # of the first block
    names = tuple(name.strip() for name in raw_names)
    counted = tuple(map(str, range(len(names))))  # what pandas calls columns without names
    if header and names != counted and all(is_number(name) for name in names):
        raise UserMistake(
            f"{path}: the first line holds numbers, not names of columns: add a header, or give "
            "--no-header."
        )

    def read() -> Iterator[tuple[pa.RecordBatch, float]]:
        types = {name: pa.string() for name in raw_names}
        with pa.OSFile(str(path)) as raw, open_reader(raw, types) as reader:
            for batch in reader:
                columns = batch.columns
                if decimal == ",":  # numbers are written with a point, other texts stay
                    replace = pa.compute.replace_substring_regex
                    columns = [replace(c, DECIMAL_COMMA, r"\1.\2") for c in columns]
                batch = pa.RecordBatch.from_arrays(columns, names=list(names))
                yield batch, min(1.0, raw.tell() / size)

    return Table(str(path), names, read, left_out=dates)


def dates_of(schema: pa.Schema) -> dict[str, str]:
    """The columns that hold dates, times or durations."""
    return {one.name.strip(): DATES for one in schema if pa.types.is_temporal(one.type)}


def read_start(path: Path, encoding: str) -> str:
    """The first characters of a file, which must be text."""
    if path.suffix == ".gz":
        with explain_errors(str(path)), pa.input_stream(str(path)) as stream:
            start = stream.read(START_BYTES)
    else:
        with path.open("rb") as stream:
            start = stream.read(START_BYTES)
    text: str = start.decode(encoding, errors="replace")
    if "\0" in text:
        raise UserMistake(
            f"{path}: it holds NUL characters, which no table of text does: give its --encoding "
            "(such as utf-16) or its --format."
        )
    return text


def sniff_delimiter(start: str) -> str:
    """The delimiter that splits the first lines into the most fields, equally many each."""
    lines = start.splitlines()
    if len(lines) > 1 and not start.endswith("\n"):
        lines = lines[:-1]  # it may be cut
    lines = lines[:20]
    fields = {d: {len(row) for row in csv.reader(lines, delimiter=d) if row} for d in DELIMITERS}
    even = {d: max(counts) for d, counts in fields.items() if len(counts) == 1}
    best = max(even, key=lambda d: even[d], default=",")
    return best if even.get(best, 0) > 1 else ","


def parquet_table(source: str, paths: list[Path]) -> Table:
    """Row groups of one or several files in batches of rows."""
    with explain_errors(source):
        files = open_files(paths)
    names = tuple(files.schema.names)
    known = (files.schema.pandas_metadata or {}).get("index_columns", [])
    # A range is described by a dictionary and is no column
    index = {one: INDEX for one in known if isinstance(one, str) and one in names}

    def read() -> Iterator[tuple[pa.RecordBatch, float]]:
        done = 0
        for part in files.parts:
            for batch in part.batches(names, chunk_rows(len(names))):
                done += batch.num_rows
                yield batch, done / files.n_rows

    return Table(source, names, read, left_out=dates_of(files.schema) | index, parts=files.parts)


def npz_table(path: Path) -> Table:
    """Arrays X and y; or X_train and y_train, with X_test and y_test if they are there."""
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except Exception as error:  # zipfile, zlib and NumPy raise many kinds
        raise UserMistake(f"{path} is not an NPZ file of plain arrays.") from error
    for X, y in (("X", "y"), ("X_train", "y_train"), ("data", "target")):
        if X in arrays and y in arrays:
            break
    else:
        raise UserMistake(
            f"{path} must hold the arrays X and y, or X_train and y_train; it holds "
            f"{list_names(arrays) or 'nothing'}."
        )
    held = (arrays.get("X_test"), arrays.get("y_test"))
    return array_table(str(path), arrays[X], arrays[y], held=held)


def libsvm_table(path: Path) -> Table:
    """The label as target `y`, the features as x1, x2, …"""
    try:
        X, y = load_svmlight_file(str(path))
    except (ValueError, OverflowError) as error:
        raise UserMistake(f"{path} is not a LIBSVM file: {error}.") from error
    return array_table(str(path), X, y, first=1)


def named_table(name: str) -> Table:
    """A data set of scikit-learn, of the local folder, or of OpenML's cache."""
    known = [entry.name for entry in list_datasets()]
    if name not in known:
        raise UserMistake(
            f"there is no file {name}, and no data set of that name: `dotsketch datasets list` "
            "shows those that are known."
        )
    found = load_dataset(name)
    held = (found.X_test, found.y_test)
    return array_table(found.name, found.X, found.y, held=held, task=found.task)


def array_table(
    source: str,
    X: Any,
    y: np.ndarray,
    *,
    held: tuple[Any, Any] = (None, None),
    task: str | None = None,
    first: int = 0,
) -> Table:
    """Arrays X (n, d), dense or sparse, and y (n,) as columns x0, x1, … and y.

    `held` are X and y of rows that are set aside for testing, if there are such.
    """
    if X.ndim != 2 or y.ndim != 1 or X.shape[0] != y.shape[0]:
        raise UserMistake(
            f"{source}: X must be (rows, columns) and y (rows,); they are {X.shape} and {y.shape}."
        )
    if X.dtype.kind not in "fiub":
        raise UserMistake(f"{source}: X must hold numbers; its dtype is {X.dtype}.")
    if X.shape[1] > MOST_COLUMNS:
        raise UserMistake(
            f"{source} has {X.shape[1]} columns; the command takes up to {MOST_COLUMNS}. The "
            "library takes sparse matrices of any width."
        )
    names = (*(f"x{j + first}" for j in range(X.shape[1])), "y")

    def read() -> Iterator[tuple[pa.RecordBatch, float]]:
        n = X.shape[0]
        step = chunk_rows(len(names))
        for start in range(0, n, step):
            rows = X[start : start + step]
            dense = rows.toarray() if scipy.sparse.issparse(rows) else rows
            by_column = np.asfortranarray(dense, dtype=np.float64)
            columns = [pa.array(column) for column in by_column.T]
            columns.append(pa.array(y[start : start + step]))
            batch = pa.RecordBatch.from_arrays(columns, names=list(names))
            yield batch, min(1.0, (start + step) / n)

    has_test = all(array is not None for array in held)
    test = array_table(f"{source} (test rows)", *held) if has_test else None
    return Table(source, names, read, target="y", task=task, test=test)


def chunk_rows(n_columns: int) -> int:
    """How many rows make a chunk."""
    return int(np.clip(CELLS // max(n_columns, 1), 64, 1 << 16))

"""The values of one column in one chunk: numbers, dates or texts, with missing values told apart.

A date is four numbers: the year (with its fraction), the month, the day of the week (Monday is 0)
and the time of day in hours.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc


class Problem(Exception):
    """What is wrong with a column; no more of it is read."""


class Marks(NamedTuple):
    """How numbers are written as text."""

    decimal: str = "."
    thousands: str | None = None


# Texts that stand for a missing value, after spaces are taken off
MISSING = pa.array(("", "?", "NA", "N/A", "#N/A", "n/a", "NaN", "nan", "NULL", "null", "None"))
LARGEST = 1e100  # squares of sums must be finite
ISO = "ISO"  # 2024-02-29, or with a time, and a zone
DATE_PARTS = ("year", "month", "weekday", "hour")
# The first that fits all rows is taken: where days are at most 12, months come first
DATES = "%d.%m.%Y|%m/%d/%Y|%d/%m/%Y|%d-%m-%Y|%Y/%m/%d|%d %b %Y|%b %d, %Y|%d-%b-%Y"
TIMES = ("", " %H:%M", " %H:%M:%S")
DATE_FORMATS = (ISO, *(f"{date}{time}" for date in DATES.split("|") for time in TIMES))


class Place(NamedTuple):
    """Where a chunk of a column comes from, for messages."""

    column: str
    first_row: int

    def problem(self, index: int, text: str) -> str:
        return f"column {self.column!r}, row {self.first_row + int(index)}: {text}"


def arrow_table(X: Any) -> pa.Table:
    """A data frame of pandas or polars, an Arrow table or a matrix, as an Arrow table."""
    if isinstance(X, np.ndarray) and X.ndim == 2:
        X = pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])])
    if isinstance(X, pa.RecordBatch):
        return pa.Table.from_batches([X])
    if isinstance(X, pd.DataFrame):
        columns = [arrow_array(X.iloc[:, j]) for j in range(X.shape[1])]
        X = pa.table(columns, names=list(map(str, X.columns)))
    elif not isinstance(X, pa.Table) and hasattr(X, "__arrow_c_stream__"):  # polars
        X = pa.table(X)
    if not isinstance(X, pa.Table):
        raise TypeError(
            "A table is a data frame of pandas or polars, or a table of pyarrow; got "
            f"{type(X).__name__}."
        )
    if len(set(X.column_names)) < len(X.column_names) or X.num_rows == 0:
        raise ValueError("A table has rows, and columns of different names.")
    return X


def arrow_array(values: pd.Series) -> pa.Array | pa.ChunkedArray:
    try:
        return pa.array(values, from_pandas=True)
    except (pa.ArrowInvalid, pa.ArrowTypeError):  # objects of several types: as texts
        return pa.array([None if pd.isna(value) else str(value) for value in values])


def simple_array(column: pa.Array | pa.ChunkedArray, name: str) -> pa.Array:
    """One array of numbers, of times or of texts; texts are trimmed and null where missing."""
    types = pa.types
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if types.is_dictionary(column.type):
        column = column.dictionary_decode()
    kind = column.type
    if types.is_boolean(kind):
        return pc.if_else(column, "True", "False")  # as Python and pandas write them
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return column.cast(pa.float64(), safe=False)
    if types.is_duration(kind):
        return pc.divide(column.cast(pa.duration("us")).cast(pa.int64()).cast(pa.float64()), 1e6)
    if types.is_time(kind):
        return pc.divide(column.cast(pa.time64("us")).cast(pa.int64()).cast(pa.float64()), 3.6e9)
    if types.is_timestamp(kind) or types.is_date(kind):
        return column.cast(pa.timestamp("us", getattr(kind, "tz", None)), safe=False)
    if types.is_null(kind) or kind in (pa.string(), pa.large_string(), pa.string_view()):
        texts = pc.utf8_trim_whitespace(column.cast(pa.string()))
        return pc.if_else(pc.is_in(texts, value_set=MISSING), pa.scalar(None, pa.string()), texts)
    raise Problem(f"column {name!r} holds values of type {kind}, neither numbers nor texts")


def as_numbers(column: pa.Array, marks: Marks) -> np.ndarray | None:
    """A simple array as float64, NaN where a value is missing; None if some value is no number."""
    if pa.types.is_timestamp(column.type):
        return None
    if pa.types.is_string(column.type) and marks != Marks():
        column = plain_numbers(column, marks)
    try:
        values: np.ndarray = column.cast(pa.float64()).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid:
        return None
    return values


def plain_numbers(texts: pa.Array, marks: Marks) -> pa.Array:
    """Numbers with these marks as numbers with a decimal point alone; other texts stay."""
    decimal, thousands = (f"[{mark}]" if mark else "[^\\s\\S]" for mark in marks)
    number = rf"^[+-]?(\d+|\d{{1,3}}({thousands}\d{{3}})+)?({decimal}\d*)?([eE][+-]?\d+)?$"
    plain = texts
    if marks.thousands:
        plain = pc.replace_substring(plain, marks.thousands, "")
    plain = pc.replace_substring(plain, marks.decimal, ".")
    return pc.if_else(pc.match_substring_regex(texts, number), plain, texts)


def as_texts(column: pa.Array) -> pa.Array:
    """A simple array as texts; whole numbers without a point: 1.0 and 1 are one level."""
    if not pa.types.is_floating(column.type):
        return column.cast(pa.string())
    whole = pc.and_(pc.equal(column, pc.round(column)), pc.less(pc.abs(column), 2.0**53))
    integers = pc.if_else(whole, column, 0.0).cast(pa.int64())
    return pc.if_else(whole, integers.cast(pa.string()), column.cast(pa.string()))


def as_dates(column: pa.Array, format: str) -> np.ndarray | None:  # -> (n, 4)
    """The parts of dates, NaN where a value is missing; None if some value is no such date."""
    if pa.types.is_string(column.type):
        times = parse_dates(column, format)
        if times is None or times.null_count > column.null_count:
            return None
    elif pa.types.is_timestamp(column.type):
        times = column
    else:
        return None
    years = pc.year(times)
    if (pc.min(years).as_py() or 1900) < 1000:  # two digits
        return None
    hours = [pc.hour(times), pc.divide(pc.minute(times).cast(pa.float64()), 60.0)]
    parts = [years, pc.day_of_year(times), pc.month(times), pc.day_of_week(times), *hours]
    year, day, month, weekday, hour, minute = (
        part.cast(pa.float64()).to_numpy(zero_copy_only=False) for part in parts
    )
    time = hour + minute
    return np.stack([year + (day - 1 + time / 24) / 365.25, month, weekday, time], axis=1)


def parse_dates(texts: pa.Array, format: str) -> pa.Array | None:
    if format != ISO:
        return pc.strptime(texts, format, unit="us", error_is_null=True)
    for kind in (pa.timestamp("us"), pa.timestamp("us", "UTC")):
        try:
            return texts.cast(kind)
        except pa.ArrowInvalid:
            continue
    return None


def too_large(values: np.ndarray, place: Place) -> str | None:
    """A problem if a value, or its square, cannot be computed with."""
    large = np.flatnonzero(np.abs(values) > LARGEST)
    if not large.size:
        return None
    return place.problem(large[0], f"{values[large[0]]:g} is too large to compute with.")


def first_text(texts: pa.Array, marks: Marks) -> tuple[int, str]:
    """The place and value of the first text that is not a number."""
    plain = plain_numbers(texts, marks).to_pylist()
    index = [value is not None and not is_number(value) for value in plain].index(True)
    return index, texts[index].as_py()


def has_marks(text: str) -> bool:
    """Whether a text is a number with separators, whatever these mean."""
    return text.translate(str.maketrans("", "", "+-.,' ")).isdigit()


def is_number(text: str) -> bool:
    try:
        pa.scalar(text).cast(pa.float64())
    except pa.ArrowInvalid:
        return False
    return True

"""The values of one column in one chunk: numbers, dates or texts, with missing values told apart.

A date is four numbers: the year (with its fraction), the month, the day of the week (Monday is 0)
and the time of day in hours.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from pandas.api.types import infer_dtype, is_datetime64_any_dtype, is_float_dtype


class Problem(Exception):
    """What is wrong with a column; no more of it is read."""


class Marks(NamedTuple):
    """How numbers are written as text."""

    decimal: str = "."
    thousands: str | None = None


# Texts that stand for a missing value, after spaces are taken off
MISSING = ["", "?", "NA", "N/A", "#N/A", "n/a", "NaN", "nan", "NULL", "null", "None"]
TEXT = "string[pyarrow]"
ISO = "ISO"  # 2024-02-29, or with a time, and a zone
DATE_PARTS = ("year", "month", "weekday", "hour")
# The first that fits all rows is taken: where days are at most 12, months come first
DATES = "%d.%m.%Y|%m/%d/%Y|%d/%m/%Y|%d-%m-%Y|%Y/%m/%d|%d %b %Y|%b %d, %Y|%d-%b-%Y"
TIMES = ("", " %H:%M", " %H:%M:%S")
DATE_FORMATS = (ISO, *(f"{date}{time}" for date in DATES.split("|") for time in TIMES))


def data_frame(X: Any) -> pd.DataFrame:
    """A data frame of pandas or polars, a table of Arrow or a matrix, as one of pandas."""
    if isinstance(X, np.ndarray) and X.ndim == 2:
        X = pd.DataFrame(X).add_prefix("x")
    elif hasattr(X, "to_pandas"):
        X = X.to_pandas()
    if not isinstance(X, pd.DataFrame):
        raise TypeError(
            "A table is a data frame of pandas or polars, or a table of pyarrow; got "
            f"{type(X).__name__}."
        )
    X = X.set_axis(list(map(str, X.columns)), axis=1)
    if not X.columns.is_unique or len(X) == 0:
        raise ValueError("A table has rows, and columns of different names.")
    return X


def simple(column: pd.Series, name: str) -> pd.Series:
    """A column of numbers, of times or of texts; texts are trimmed, and NA where missing."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        column = column.astype(column.cat.categories.dtype)
    kind = infer_dtype(column, skipna=True)
    if kind in ("integer", "floating", "mixed-integer-float", "decimal"):
        return column.astype("float64")
    if kind in ("timedelta", "timedelta64"):
        return pd.to_timedelta(column).dt.total_seconds()
    if kind == "time":
        times = pd.to_timedelta(column.astype(TEXT))
        return times.dt.total_seconds() / 3600
    if kind in ("date", "datetime", "datetime64"):
        return pd.to_datetime(column)
    if kind not in ("boolean", "string", "empty"):
        strange = {type(value) for value in column.dropna()} - {str, int, float, bool}
        if kind not in ("mixed", "mixed-integer") or strange:
            types = ", ".join(sorted(kind.__name__ for kind in strange)) or kind
            raise Problem(
                f"column {name!r} holds values of type {types}, neither numbers nor texts"
            )
        column = column.map(str, na_action="ignore")
    texts = column.astype(TEXT).str.strip()
    return texts.mask(texts.isin(MISSING))


def as_numbers(column: pd.Series, marks: Marks) -> np.ndarray | None:
    """A simple column as float64, NaN where a value is missing; None if some value is no number."""
    if is_datetime64_any_dtype(column):
        return None
    if is_float_dtype(column):
        return column.to_numpy(np.float64)
    texts = plain_numbers(column, marks)
    try:
        values: np.ndarray = texts.to_numpy(object, na_value=np.nan).astype(np.float64)
    except ValueError:
        return None
    return None if texts.str.contains("_", regex=False).any() else values  # Python reads 1_000


def plain_numbers(texts: pd.Series, marks: Marks) -> pd.Series:
    """Numbers with these marks as numbers with a decimal point alone; other texts stay."""
    if marks == Marks():
        return texts
    decimal, thousands = (f"[{mark}]" if mark else "[^\\s\\S]" for mark in marks)
    number = rf"[+-]?(\d+|\d{{1,3}}({thousands}\d{{3}})+)?({decimal}\d*)?([eE][+-]?\d+)?"
    plain = texts
    if marks.thousands:
        plain = plain.str.replace(marks.thousands, "", regex=False)
    plain = plain.str.replace(marks.decimal, ".", regex=False)
    return plain.where(texts.str.fullmatch(number).fillna(False).astype(bool), texts)


def as_texts(column: pd.Series) -> pd.Series:
    """A simple column as texts; whole numbers without a point: 1.0 and 1 are one level."""
    if not is_float_dtype(column):
        return column.astype(TEXT)
    codes, values = pd.factorize(column)
    levels = [str(int(v) if v.is_integer() and abs(v) < 2**53 else v) for v in values.tolist()]
    return pd.Series(np.array([*levels, None], dtype=object)[codes], dtype=TEXT)


def as_dates(column: pd.Series, format: str) -> np.ndarray | None:  # -> (n, 4)
    """The parts of dates, NaN where a value is missing; None if some value is no such date."""
    if is_float_dtype(column):
        return None
    if not is_datetime64_any_dtype(column):
        try:
            is_iso = format == ISO
            column = pd.to_datetime(column, format="ISO8601" if is_iso else format, utc=is_iso)
        except ValueError:
            return None
    times = column.dt
    hours = times.hour + times.minute / 60
    years = times.year + (times.day_of_year - 1 + hours / 24) / 365.25
    parts = (years, times.month, times.day_of_week, hours)
    return np.stack([part.to_numpy(np.float64) for part in parts], axis=1)


def first_text(texts: pd.Series, marks: Marks) -> tuple[int, str]:
    """The place and value of the first text that is not a number."""
    plain = plain_numbers(texts, marks).fillna("0")
    index = [is_number(text) for text in plain].index(False)
    return index, texts.iloc[index]


def has_marks(text: str) -> bool:
    """Whether a text is a number with separators, whatever these mean."""
    return text.translate(str.maketrans("", "", "+-.,' ")).isdigit()


def is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text  # which Python would read

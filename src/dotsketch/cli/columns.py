"""Values of one column in one chunk: numbers, or texts, with missing values told apart."""

from __future__ import annotations

from shlex import quote
from typing import NamedTuple, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute

from .errors import UserMistake

# Texts that stand for a missing value, after spaces are taken off.
MISSING = ("", "?", "NA", "N/A", "#N/A", "n/a", "NaN", "nan", "NULL", "null", "None")
LARGEST = 1e100
NO_TARGET = "the target has no value: leave such rows out."
_MISSING = pa.array(MISSING)


class Place(NamedTuple):
    """Where a column's chunk comes from, for messages."""

    source: str
    column: str
    first_row: int

    def mistake(self, index: int, text: str) -> NoReturn:
        row = self.first_row + int(index)
        raise UserMistake(f"{self.source}: column {self.column!r}, row {row}: {text}")


def is_text(kind: pa.DataType) -> bool:
    types = pa.types
    if types.is_dictionary(kind):
        return is_text(kind.value_type)
    return (
        types.is_string(kind)
        or types.is_large_string(kind)
        or types.is_string_view(kind)
        or types.is_boolean(kind)
    )


def is_numeric(kind: pa.DataType) -> bool:
    types = pa.types
    return types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind)


def check_type(kind: pa.DataType, place: Place) -> None:
    """Raise if a column holds neither numbers nor texts."""
    if not (is_text(kind) or is_numeric(kind) or pa.types.is_null(kind)):
        raise UserMistake(
            f"{place.source}: column {place.column!r} holds values of type {kind}, neither "
            f"numbers nor texts: leave it out with --ignore {quote(place.column)}."
        )


def texts(column: pa.Array) -> pa.Array:
    """The column as trimmed texts, null where a value is missing."""
    compute = pa.compute
    if pa.types.is_null(column.type):
        return column.cast(pa.string())
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_boolean(column.type):
        column = compute.if_else(column, "True", "False")  # as Python and pandas write them
    if pa.types.is_floating(column.type) or pa.types.is_decimal(column.type):
        column = _number_texts(column.cast(pa.float64()))
    column = compute.utf8_trim_whitespace(column.cast(pa.string()))
    return compute.if_else(
        compute.is_in(column, value_set=_MISSING), pa.scalar(None, pa.string()), column
    )


def _number_texts(column: pa.Array) -> pa.Array:
    """Floating numbers as texts, whole ones without a point: 1.0 and 1 are one level."""
    compute = pa.compute
    whole = compute.and_(
        compute.equal(column, compute.round(column)), compute.less(compute.abs(column), 2.0**53)
    )
    integers = compute.if_else(whole, column, 0.0).cast(pa.int64())
    return compute.if_else(whole, integers.cast(pa.string()), column.cast(pa.string()))


def numbers(column: pa.Array) -> np.ndarray | None:
    """The column as float64, NaN where a value is missing; None if some text is no number."""
    if pa.types.is_null(column.type):
        return np.full(len(column), np.nan)
    if not is_text(column.type):
        return column.cast(pa.float64()).to_numpy(zero_copy_only=False)
    if pa.types.is_boolean(column.type):
        return None
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    for candidate in (lambda: column, lambda: texts(column)):
        try:
            return candidate().cast(pa.float64()).to_numpy(zero_copy_only=False)
        except pa.ArrowInvalid:
            continue
    return None


def first_text(cleaned: pa.Array) -> tuple[int, str]:
    """Where the first of some texts that is no number stands, and what it is."""
    for index, value in enumerate(cleaned.to_pylist()):
        if value is not None and not is_number(value):
            return index, value
    raise ValueError("All texts are numbers.")


def is_number(text: str) -> bool:
    try:
        pa.scalar(text).cast(pa.float64())
    except pa.ArrowInvalid:
        return False
    return True


def check_finite(values: np.ndarray, place: Place) -> None:
    """Raise on values that are infinite, or whose squares may be."""
    large = np.flatnonzero(np.abs(values) > LARGEST)
    if large.size:
        place.mistake(large[0], f"{values[large[0]]:g} is too large to compute with.")


def strict_numbers(column: pa.Array, place: Place) -> np.ndarray:
    """The column as float64; a text or an infinite value is a mistake."""
    check_type(column.type, place)
    values = numbers(column)
    if values is None:
        index, value = first_text(texts(column))
        place.mistake(index, f"{value!r} is not a number.")
    check_finite(values, place)
    return values

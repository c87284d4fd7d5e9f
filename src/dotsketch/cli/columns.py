"""Values of one column in one chunk: numbers, or texts, with missing values told apart."""

from __future__ import annotations

from collections.abc import Callable
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

    def refuse(self, missing: np.ndarray, text: str) -> None:
        """Raise if a value is missing."""
        if missing.any():
            self.mistake(int(np.argmax(missing)), text)


def simplify(column: pa.Array | pa.ChunkedArray, place: Place) -> pa.Array:
    """The column as one array of texts, integers or float64; raise if it holds none of these."""
    types = pa.types
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if types.is_dictionary(column.type):
        column = column.dictionary_decode()
    kind = column.type
    if types.is_boolean(kind):
        return pa.compute.if_else(column, "True", "False")  # as Python and pandas write them
    if types.is_integer(kind):
        return column
    if types.is_floating(kind) or types.is_decimal(kind):
        return column.cast(pa.float64())
    if types.is_null(kind) or kind in (pa.string(), pa.large_string(), pa.string_view()):
        return column.cast(pa.string())
    raise UserMistake(
        f"{place.source}: column {place.column!r} holds values of type {kind}, neither numbers nor "
        f"texts: leave it out with --ignore {quote(place.column)}."
    )


def texts(column: pa.Array) -> pa.Array:
    """A simple column as trimmed texts, null where a value is missing."""
    compute = pa.compute
    if pa.types.is_floating(column.type):
        column = _number_texts(column)
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
    """A simple column as float64, NaN where a value is missing; None if some text is no number."""
    # cleaning takes longer than parsing
    attempts: tuple[Callable[[], pa.Array], ...] = (lambda: column, lambda: texts(column))
    for clean in attempts:
        try:
            return clean().cast(pa.float64()).to_numpy(zero_copy_only=False)
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
    """A simple column as float64; a text or an infinite value is a mistake."""
    values = numbers(column)
    if values is None:
        index, value = first_text(texts(column))
        place.mistake(index, f"{value!r} is not a number.")
    check_finite(values, place)
    return values


def strict_texts(column: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """A simple column as texts, empty where a value is missing; and where that is."""
    cleaned = texts(column)
    missing = cleaned.is_null().to_numpy(zero_copy_only=False)
    return cleaned.fill_null("").to_numpy(zero_copy_only=False), missing

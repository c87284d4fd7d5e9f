"""What is known of one column, chunk by chunk: its kind, scale, levels, formats of dates.

A column is numeric if all its values are numbers, a date if all are dates of one format, and
categorical if none is a number. A mixture is taken for a mistake.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sklearn.preprocessing import StandardScaler

from . import columns as arrow
from .columns import Marks, Place, Problem, is_number

MOST_CLASSES = 1000
# What to do about a problem, in Python; the command line has words of its own
REMEDIES = {
    "ignore": "leave it out",
    "categorical": "correct it, or name it in `categorical`",
    "impute": "fill it in",
    "max_levels": "raise max_levels",
    "marks": "write numbers with a decimal point and nothing else",
}


@dataclass
class Column:
    """What is known of one column so far."""

    name: str
    most_levels: int
    marks: Marks = field(default_factory=Marks)
    remedies: dict[str, str] = field(default_factory=lambda: REMEDIES)
    is_category: bool = False  # by the user's word
    is_target: bool = False
    impute: bool = False
    kind: str | None = None  # "number", "date", "text"; None while only missing values were seen
    n_missing: int = 0
    scaler: StandardScaler = field(default_factory=StandardScaler)  # of numbers
    values: set[float] = field(default_factory=set)  # of a target: they may be classes
    dates: dict[str, StandardScaler] = field(default_factory=dict)  # by format: all have it
    levels: Counter[str] = field(default_factory=Counter)

    @property
    def inputs(self) -> list[str]:
        """The names of the numbers that a numeric or date column gives a model."""
        if self.kind == "number":
            return [self.name]
        return [f"{self.name} ({part})" for part in arrow.DATE_PARTS]

    @property
    def input_scaler(self) -> StandardScaler:
        return self.scaler if self.kind == "number" else next(iter(self.dates.values()))

    @property
    def is_constant(self) -> bool:
        if self.kind == "text":
            return len(self.levels) < 2 and not self.n_missing
        roundings = (10 * np.finfo(float).eps * np.abs(self.input_scaler.mean_)) ** 2
        return bool(np.all(self.input_scaler.var_ <= roundings))

    def add(self, column: pa.Array, first_row: int) -> np.ndarray:  # -> (n,)
        """Take in the values of a chunk; returns where they are missing."""
        place = Place(self.name, first_row)
        try:
            column = arrow.simple_array(column, self.name)
        except Problem as problem:
            raise Problem(f"{problem}: {self.remedies['ignore']}.") from None
        numbers = None if self.is_category else arrow.as_numbers(column, self.marks)
        if numbers is not None:
            missing: np.ndarray = np.isnan(numbers)
            if not missing.all():
                self._add_numbers(numbers, place)
        else:
            missing = column.is_null().to_numpy(zero_copy_only=False)
            if not missing.all() and not self._add_dates(column):
                self._add_texts(arrow.as_texts(column), place)
        self.n_missing += int(missing.sum())
        self.check_missing(missing, place)
        return missing

    def check_missing(self, missing: np.ndarray, place: Place) -> None:  # (n,)
        """Raise Problem if values are missing that have to be there."""
        if missing.any() and not self.impute:
            text = f"no value: {self.remedies['impute']}."
            if self.is_target:
                text = "the target has no value: leave such rows out."
            raise Problem(place.problem(int(np.argmax(missing)), text))

    def _add_numbers(self, values: np.ndarray, place: Place) -> None:
        first = int(np.argmin(np.isnan(values)))
        if self.kind in ("text", "date"):
            raise self._mixture(place, first, f"{values[first]:g} is a number, and others are not")
        problem = arrow.too_large(values, place)
        if problem is not None:
            raise Problem(problem)
        self.kind = "number"
        self.scaler.partial_fit(values[:, None])
        if self.is_target and len(self.values) <= MOST_CLASSES:
            self.values.update(np.unique(values[~np.isnan(values)])[: MOST_CLASSES + 1].tolist())

    def _add_dates(self, column: pa.Array) -> bool:
        """Whether these are dates, as all before them."""
        if self.is_category or self.is_target or self.kind in ("number", "text"):
            return False
        formats = list(self.dates) or arrow.DATE_FORMATS
        if pa.types.is_timestamp(column.type):
            formats = [arrow.ISO]
        parts = {format: arrow.as_dates(column, format) for format in formats}
        self.dates = {
            format: self.dates.get(format, StandardScaler()).partial_fit(values)
            for format, values in parts.items()
            if values is not None
        }
        self.kind = "date" if self.dates else self.kind
        return bool(self.dates)

    def _add_texts(self, texts: pa.Array, place: Place) -> None:
        counts = pc.value_counts(texts.drop_null())
        levels = dict(zip(*(counts.field(k).to_pylist() for k in (0, 1)), strict=True))
        if not self.is_category:
            if self.kind == "number" or any(map(is_number, levels)):
                index, text = arrow.first_text(texts, self.marks)
                why = self.not_a_number(text)
                raise self._mixture(place, index, f"{why}, and others are")
            if self.kind == "date":
                index = texts.is_null().index(False).as_py()
                raise self._mixture(place, index, f"{texts[index]} is not a date like the others")
            if self.kind is None and all(map(arrow.has_marks, levels)):
                index, text = arrow.first_text(texts, self.marks)
                raise Problem(place.problem(index, f"{self.not_a_number(text)}."))
        self.kind = "text"
        self.levels.update(levels)
        if len(self.levels) > self.most_levels:
            what = f"the target {self.name!r}" if self.is_target else f"column {self.name!r}"
            remedy = f"{self.remedies['ignore']}, or {self.remedies['max_levels']}."
            if self.is_target:
                remedy = "it looks like an identifier or free text. Choose another --target."
            raise Problem(
                f"{what} has more than {self.most_levels} different texts (such as "
                f"{min(self.levels)!r}): {remedy}"
            )

    def not_a_number(self, text: str) -> str:
        """What to say of a text among numbers; commas and points get what reads them."""
        if arrow.has_marks(text) and self.marks == Marks():
            return f"{text!r} is not a plain number: {self.remedies['marks']}"
        return f"{text!r} is not a number"

    def numbers(self, column: pa.Array, first_row: int) -> np.ndarray:  # -> (n,)
        """The values as numbers, NaN where they are missing; Problem if they are none."""
        place = Place(self.name, first_row)
        column = arrow.simple_array(column, self.name)
        values = arrow.as_numbers(column, self.marks)
        if values is None:
            if not pa.types.is_string(column.type):
                raise Problem(f"column {self.name!r} holds dates, not numbers.")
            index, text = arrow.first_text(column, self.marks)
            raise Problem(place.problem(index, f"{self.not_a_number(text)}."))
        problem = arrow.too_large(values, place)
        if problem is not None:
            raise Problem(problem)
        return values

    def texts(self, column: pa.Array) -> np.ndarray:  # -> (n,)
        """The values as texts, empty where they are missing."""
        texts = arrow.as_texts(arrow.simple_array(column, self.name)).fill_null("")
        return np.asarray(texts.to_numpy(zero_copy_only=False), dtype=object)

    def date_parts(self, column: pa.Array, format: str) -> np.ndarray:  # -> (n, 4)
        """The parts of dates, NaN where they are missing; Problem if they are none."""
        parts = arrow.as_dates(arrow.simple_array(column, self.name), format)
        if parts is None:
            raise Problem(f"column {self.name!r}: not all are dates of the form {format}.")
        return parts

    def check_kind(self) -> None:
        """Raise Problem if no chunk has had a value."""
        if self.kind is None:
            raise Problem(f"column {self.name!r} has no value at all: {self.remedies['ignore']}.")

    def _mixture(self, place: Place, index: int, what: str) -> Problem:
        return Problem(place.problem(index, f"{what}: {self.remedies['categorical']}."))

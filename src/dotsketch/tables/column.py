"""What is known of one column, chunk by chunk: its kind, scale, levels, formats of dates.

A column is numeric if all its values are numbers, a date if all are dates of one format, and
categorical if none is a number. A mixture is taken for a mistake.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from sklearn.preprocessing import StandardScaler

from . import columns as values_of
from .columns import Marks, Problem, data_frame, is_number

__all__ = ["Column", "Problem", "data_frame"]
LARGEST = 1e100  # squares of sums must be finite
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
        return [f"{self.name} ({part})" for part in values_of.DATE_PARTS]

    @property
    def input_scaler(self) -> StandardScaler:
        return self.scaler if self.kind == "number" else next(iter(self.dates.values()))

    @property
    def is_constant(self) -> bool:
        if self.kind == "text":
            return len(self.levels) < 2 and not self.n_missing
        roundings = (10 * np.finfo(float).eps * np.abs(self.input_scaler.mean_)) ** 2
        return bool(np.all(self.input_scaler.var_ <= roundings))

    def add(self, column: pd.Series, first_row: int) -> np.ndarray:  # -> (n,)
        """Take in the values of a chunk; returns where they are missing."""
        try:
            column = values_of.simple(column, self.name)
        except Problem as problem:
            raise Problem(f"{problem}: {self.remedies['ignore']}.") from None
        missing = column.isna().to_numpy(bool)
        if not missing.all():
            numbers = None if self.is_category else values_of.as_numbers(column, self.marks)
            if numbers is not None:
                self._add_numbers(numbers, first_row)
            elif not self._add_dates(column):
                self._add_texts(values_of.as_texts(column), first_row)
        self.n_missing += int(missing.sum())
        self.check_missing(missing, first_row)
        return missing

    def check_missing(self, missing: np.ndarray, first_row: int) -> None:  # (n,)
        """Raise Problem if values are missing that have to be there."""
        if missing.any() and not self.impute:
            text = f"no value: {self.remedies['impute']}."
            if self.is_target:
                text = "the target has no value: leave such rows out."
            raise self.problem(first_row + int(np.argmax(missing)), text)

    def problem(self, row: int, text: str) -> Problem:
        """What is wrong in a row, counted from 1."""
        return Problem(f"column {self.name!r}, row {row}: {text}")

    def _check_size(self, values: np.ndarray, first_row: int) -> None:  # (n,)
        """Raise Problem if a value, or its square, cannot be computed with."""
        large = np.flatnonzero(np.abs(values) > LARGEST)
        if large.size:
            text = f"{values[large[0]]:g} is too large to compute with."
            raise self.problem(first_row + int(large[0]), text)

    def _add_numbers(self, values: np.ndarray, first_row: int) -> None:
        if self.kind in ("text", "date"):
            first = int(np.argmin(np.isnan(values)))
            what = f"{values[first]:g} is a number, and others are not"
            raise self._mixture(first_row + first, what)
        self._check_size(values, first_row)
        self.kind = "number"
        self.scaler.partial_fit(values[:, None])
        if self.is_target and len(self.values) <= MOST_CLASSES:
            self.values.update(np.unique(values[~np.isnan(values)])[: MOST_CLASSES + 1].tolist())

    def _add_dates(self, column: pd.Series) -> bool:
        """Whether these are dates, as all before them."""
        if self.is_category or self.is_target or self.kind in ("number", "text"):
            return False
        formats = list(self.dates) or values_of.DATE_FORMATS
        if pd.api.types.is_datetime64_any_dtype(column):
            formats = [values_of.ISO]
        parts = {format: values_of.as_dates(column, format) for format in formats}
        self.dates = {
            format: self.dates.get(format, StandardScaler()).partial_fit(values)
            for format, values in parts.items()
            if values is not None
        }
        self.kind = "date" if self.dates else self.kind
        return bool(self.dates)

    def _add_texts(self, texts: pd.Series, first_row: int) -> None:
        levels = {level: int(number) for level, number in texts.value_counts().items()}
        if not self.is_category:
            if self.kind == "number" or any(map(is_number, levels)):
                index, text = values_of.first_text(texts, self.marks)
                why = self.not_a_number(text)
                raise self._mixture(first_row + index, f"{why}, and others are")
            if self.kind == "date":
                index = int(texts.notna().argmax())
                what = f"{texts.iloc[index]} is not a date like the others"
                raise self._mixture(first_row + index, what)
            if self.kind is None and all(map(values_of.has_marks, levels)):
                raise self._not_numbers(texts, first_row)
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
        if values_of.has_marks(text) and self.marks == Marks():
            return f"{text!r} is not a plain number: {self.remedies['marks']}"
        return f"{text!r} is not a number"

    def numbers(self, column: pd.Series, first_row: int) -> np.ndarray:  # -> (n,)
        """The values as numbers, NaN where they are missing; Problem if they are none."""
        column = values_of.simple(column, self.name)
        values = values_of.as_numbers(column, self.marks)
        if values is None:
            if pd.api.types.is_datetime64_any_dtype(column):
                raise Problem(f"column {self.name!r} holds dates, not numbers.")
            raise self._not_numbers(column, first_row)
        self._check_size(values, first_row)
        return values

    def texts(self, column: pd.Series) -> np.ndarray:  # -> (n,)
        """The values as texts, empty where they are missing."""
        texts = values_of.as_texts(values_of.simple(column, self.name))
        return np.asarray(texts.to_numpy(object, na_value=""))

    def date_parts(self, column: pd.Series, format: str) -> np.ndarray:  # -> (n, 4)
        """The parts of dates, NaN where they are missing; Problem if they are none."""
        parts = values_of.as_dates(values_of.simple(column, self.name), format)
        if parts is None:
            raise Problem(f"column {self.name!r}: not all are dates of the form {format}.")
        return parts

    def check_kind(self) -> None:
        """Raise Problem if no chunk has had a value."""
        if self.kind is None:
            raise Problem(f"column {self.name!r} has no value at all: {self.remedies['ignore']}.")

    def _not_numbers(self, texts: pd.Series, first_row: int) -> Problem:
        index, text = values_of.first_text(texts, self.marks)
        return self.problem(first_row + index, f"{self.not_a_number(text)}.")

    def _mixture(self, row: int, what: str) -> Problem:
        return self.problem(row, f"{what}: {self.remedies['categorical']}.")

"""Dtypes, shapes, ranges and counts of what a file holds.

An array is described by a text such as "iu: n d | 0: 0 to 3": the kinds of its dtype, the shapes it
may have, and the range of its values if it is limited. A letter in a shape is a length, the same
letter the same length within one object, and `any` any length.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .errors import PersistenceError

MAX_COLUMNS = 1 << 20  # of features whose file does not grow with them
MAX_COUNT = 2**31 - 1
MAX_DRAWS = 1 << 14  # per class, made at once by a prediction
MAX_JOBS = 64  # joblib starts as many processes as it is told to
MAX_DEGREE = 10_000  # of kernels, series and sketches: loops run over them

Arrays = dict[str, str]  # name of an array -> its description


def check_array(where: str, value: Any, description: str, lengths: dict[str, int]) -> None:
    """Raise unless the array is as described; note the lengths that its letters stand for."""
    kinds, shapes, *limits = (part.strip() for part in description.split(":"))
    if not isinstance(value, np.ndarray) or value.dtype.kind not in kinds:
        raise PersistenceError(f"{where} is no array of the kind {kinds!r}.")
    for shape in (text.split() for text in shapes.split("|")):
        if len(shape) == value.ndim and all(
            letter == "any" or (int(letter) if letter.isdigit() else lengths.get(letter, n)) == n
            for letter, n in zip(shape, value.shape, strict=True)
        ):
            lengths.update(zip(shape, value.shape, strict=True))
            break
    else:
        raise PersistenceError(
            f"{where} has the shape {value.shape}, which does not fit the others."
        )
    for limit in limits:
        check_range(where, value, *map(int, limit.split(" to ")))


def check_range(where: str, values: np.ndarray, least: int, largest: int) -> None:
    if values.size and not least <= values.min() <= values.max() <= largest:
        raise PersistenceError(f"{where} has values outside {least} to {largest}.")


def bounded(where: str, value: Any, largest: int = MAX_COUNT, least: int = 0) -> int:
    """The value, if it is an integer in this range."""
    if type(value) is not int and not isinstance(value, np.integer):
        raise PersistenceError(f"{where} is no integer.")
    if not least <= value <= largest:
        raise PersistenceError(f"{where} is {value}, not one of {least} to {largest}.")
    return int(value)

"""Dtypes, shapes and counts of what a file holds.

A shape is a tuple of lengths and letters: a letter is a length, the same letter the same length
within one object, and "any" any length.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .errors import PersistenceError

MAX_COLUMNS = 1 << 20  # of features whose file does not grow with them
MAX_COUNT = 2**31 - 1
MAX_JOBS = 64  # joblib starts as many processes as it is told to
MAX_DEGREE = 10_000  # of kernels, series and sketches: loops run over them

Shape = tuple[str | int, ...]
# name of an array -> (kinds of its dtype, shapes it may have)
Arrays = dict[str, tuple[str, tuple[Shape, ...]]]


def check_array(
    where: str, value: Any, kinds: str, shapes: tuple[Shape, ...], lengths: dict[str, int]
) -> None:
    """Raise unless the array has such a dtype and one of the shapes; note the letters' lengths."""
    if not isinstance(value, np.ndarray) or value.dtype.kind not in kinds:
        raise PersistenceError(f"{where} is no array of the kind {kinds!r}.")
    for shape in shapes:
        if len(shape) == value.ndim and all(
            letter == "any" or (letter if isinstance(letter, int) else lengths.get(letter, n)) == n
            for letter, n in zip(shape, value.shape, strict=True)
        ):
            lengths.update(
                {a: n for a, n in zip(shape, value.shape, strict=True) if isinstance(a, str)}
            )
            return
    raise PersistenceError(f"{where} has the shape {value.shape}, which does not fit the others.")


def bounded(where: str, value: Any, largest: int = MAX_COUNT) -> int:
    """The value, if it is an integer between 0 and the largest."""
    if type(value) is not int and not isinstance(value, np.integer):
        raise PersistenceError(f"{where} is no integer.")
    if not 0 <= value <= largest:
        raise PersistenceError(f"{where} is {value}, not one of 0 to {largest}.")
    return int(value)

"""What a parameter may be: one check, and one text, for each kind."""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any


def one_of(name: str, value: Any, options: Iterable[Any]) -> None:
    """Raise ValueError unless the value is one of the options."""
    options = list(options)
    if value not in options:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, options))}; got {value!r}.")


def positive_integer(name: str, value: Any) -> int:
    """`value`, which may be an integer of NumPy, as a Python int; ValueError for all else."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
        raise ValueError(f"{name} must be a positive integer; got {value!r}.")
    return int(value)


def check_positive(name: str, value: Any, *words: str) -> None:
    """Raise ValueError unless the value is a positive finite number, or one of the words."""
    if isinstance(value, str) and value in words:
        return
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    if not is_number or not 0 < value < float("inf"):
        options = "".join(f' or "{word}"' for word in words)
        raise ValueError(f"{name} must be a positive number{options}; got {value!r}.")


def check_even(n_components: int, why: str) -> None:
    """Raise ValueError for an odd number of columns where they come in pairs."""
    if n_components % 2:
        more = n_components + 1
        raise ValueError(f"{why}: n_components={n_components} must be even; use {more}.")

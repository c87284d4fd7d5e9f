"""What model files hold: a class states its arrays and counts in the annotations of its fields.

    class HashWeights(NamedTuple):
        buckets: Annotated[np.ndarray, array("i", "p", "d", below="D")]

- A name in a shape is the length of every dimension with this name, and the value of an attribute
  if the object has an integer attribute of this name.
- `Count(most)` marks an integer that something is allocated by or a loop runs to.
- A method `check_stored(self)` raises ValueError if the parts of an object do not fit each other;
  `check_lengths` compares weights with what they were drawn for.

`dotsketch.persistence` refuses other arrays than those that are stated (and the parameters of an
estimator's constructor). It knows the subclasses of `Kernel`, `Sketch` and `FeatureMap` and all
weights; any other class that a file may hold is decorated by `@stored`.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar, get_type_hints

import numpy as np

MOST_COLUMNS = 1 << 20  # features whose file does not grow with them: 8 MB for each row
MOST_DEGREE = 10_000  # of kernels, series and sketches: loops run over them

Class = TypeVar("Class", bound=type)
STORED: list[type] = []


class Array(NamedTuple):
    """An array, or None: the kinds of its dtype, its shape, and the range of integers."""

    kinds: str
    shape: tuple[str | int, ...]
    least: int = 0
    below: str | int | None = None  # a number, or the name of a length
    sparse: bool = False  # whether it may be a CSR matrix


class Count(NamedTuple):
    """An integer from `least` to `most`, None, a word such as "auto", or a list of such."""

    most: int
    least: int = 0


def array(kinds: str, *shape: str | int, **options: Any) -> Array:
    """`array("f", "D", "d")`: floating numbers of shape (D, d)."""
    return Array(kinds, shape, **options)


def stored(cls: Class) -> Class:
    """A class decorator: instances may be in model files."""
    STORED.append(cls)
    return cls


def stored_fields(cls: Any) -> dict[str, Array | Count]:
    """The arrays and counts that a class states, by name."""
    hints = get_type_hints(cls, include_extras=True)
    stated = {
        name: [part for part in hint.__metadata__ if isinstance(part, (Array, Count))]
        for name, hint in hints.items()
        if hasattr(hint, "__metadata__")
    }
    return {name: parts[0] for name, parts in stated.items() if parts}


def check_array(where: str, value: Any, field: Array, lengths: dict[str, int]) -> None:
    """Raise ValueError unless the array is as stated; note the lengths that names stand for."""
    is_sparse = field.sparse and hasattr(value, "indptr")
    if not (is_sparse or isinstance(value, np.ndarray)) or value.dtype.kind not in field.kinds:
        raise ValueError(f"{where} is not an array of the kind {field.kinds!r}.")
    shape = tuple(
        lengths.setdefault(length, n) if isinstance(length, str) else length
        for length, n in zip(field.shape, value.shape, strict=False)
    )
    if len(field.shape) != value.ndim or value.shape != shape:
        raise ValueError(f"{where} has the shape {value.shape}, which does not fit.")
    stop = lengths.get(field.below) if isinstance(field.below, str) else field.below
    if stop is not None and value.size and not field.least <= value.min() <= value.max() < stop:
        raise ValueError(f"{where} has values outside {field.least} to {stop - 1}.")


def check_lengths(weights: Any, classes: tuple[type, ...], **lengths: int) -> None:
    """Raise ValueError unless weights are of one of the classes and have these lengths."""
    if type(weights) not in classes:
        raise ValueError(f"A {type(weights).__name__} is not one of the weights {classes}.")
    for name, field in stored_fields(type(weights)).items():
        if isinstance(field, Array):
            check_array(f"{type(weights).__name__}.{name}", getattr(weights, name), field, lengths)

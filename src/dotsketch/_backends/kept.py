"""Weights own their prepared forms, so that these are made once and not at every call.

A prepared form is made when first needed and lives as long as the weights. It is no part of their
value: equality, copies, pickles and model files know the arrays only. Since a form would not see a
change of the arrays, they become read-only with the first one.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import Any, TypeVar

import numpy as np
from array_api_compat import is_numpy_array

from .._arrays import Array, is_sparse

_MOST_FORMS = 4  # float32 and float64, dense and sparse; more only if a lengthscale changes

Weights = TypeVar("Weights")
Form = TypeVar("Form")


class Owner:
    """What gives a named tuple room for its prepared forms."""

    def __getstate__(self) -> None:
        """Copies and pickles are made of the fields alone."""


def keeps_prepared(cls: type[Weights]) -> type[Weights]:
    """A named tuple of arrays, as a class whose instances own their prepared forms."""
    names = {"__module__": cls.__module__, "__qualname__": cls.__qualname__, "__doc__": cls.__doc__}
    return type(cls.__name__, (Owner, cls), names)


def kept(weights: Any, key: Hashable, rows: Array, make: Callable[[], Form]) -> Form:
    """The form of the weights for rows like these and a key: kept, or made and kept.

    Only forms of NumPy weights for NumPy or CSR rows are kept: those of other libraries may have
    gradients, or live on devices.
    """
    if not isinstance(weights, Owner) or not (is_numpy_array(rows) or is_sparse(rows)):
        return make()
    # Operations of dictionaries are atomic: two threads may make a form, and one of them is kept.
    forms: dict[Any, Any] = vars(weights)
    key = (key, rows.dtype.char, is_sparse(rows))
    form: Form | None = forms.get(key)
    if form is not None:
        return form
    arrays = list(_arrays(weights))
    if not all(map(is_numpy_array, arrays)):
        return make()
    for array in arrays:
        array.flags.writeable = False
    if len(forms) >= _MOST_FORMS:
        forms.clear()
    return forms.setdefault(key, make())


def _arrays(weights: Any) -> Iterator[np.ndarray]:
    """The arrays of nested named tuples, which may have numbers and sparse rows beside them."""
    for value in weights:
        if isinstance(value, tuple):
            yield from _arrays(value)
        elif value is not None and not isinstance(value, float) and not is_sparse(value):
            yield value

"""Instances by their attributes: taken apart, put together, and checked.

A file names a class by package and class name, never by its module, and a name is only looked up in
a list: nothing is imported. The list has the classes of dotsketch that are `@stored` (they state
their arrays and counts beside their definition, see `_support.stored`), those of `scikit_learn`,
and those that the caller passes.

An instance is made by `__new__`, and its attributes are set: neither `__init__` nor `__setstate__`
runs. All fields of a dataclass and all parameters of an estimator have to be there, and no
attribute may hide a method or a property of the class.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.base import BaseEstimator

from .._backends import Owner
from .._support.stored import STORED, Array, Count, array, check_array, stored_fields
from ..features import FeatureMap
from ..kernels import Kernel
from ..sketches import Sketch
from . import scikit_learn
from .container import PersistenceError

REMEDY = "It was made by another version: fit and save it again."
BASES = (Kernel, Sketch, FeatureMap, Owner)  # whose subclasses in dotsketch files may hold
# What scikit-learn's conventions give to every estimator
CONVENTIONS: dict[str, Array | Count] = {
    "n_features_in_": Count(2**31 - 1),
    "n_jobs": Count(64, least=-64),  # joblib starts as many threads as it is told to
    "feature_names_in_": array("O", "n_features_in_"),
}


def known_classes(extra: Iterable[type] = ()) -> dict[str, type]:
    """The classes that a file may hold, by name; `extra` are those that the caller trusts."""
    own = [cls for base in BASES for cls in _subclasses(base)]
    own = [cls for cls in own if cls.__module__.startswith("dotsketch.")]
    classes: dict[str, type] = {}
    for cls in (*own, *STORED, *scikit_learn.CLASSES, *extra):
        name = f"{cls.__module__.split('.', maxsplit=1)[0]}.{cls.__qualname__}"
        if classes.setdefault(name, cls) is not cls:
            raise PersistenceError(f"Two classes are called {name}; rename one of them.")
    return classes


def _subclasses(cls: Any) -> Iterator[Any]:
    for subclass in cls.__subclasses__():
        yield subclass
        yield from _subclasses(subclass)


def state_of(value: Any) -> dict[str, Any]:
    """The attributes of an instance (the fields of a named tuple), without cached properties."""
    cls = type(value)
    if cls in scikit_learn.CLASSES:
        return scikit_learn.state_of(value)
    if is_named_tuple(cls):
        fields: dict[str, Any] = value._asdict()
        return fields
    attributes = value.__getstate__() if "__getstate__" in vars(cls) else vars(value)
    cached = functools.cached_property
    state = {name: v for name, v in attributes.items() if not isinstance(_of(cls, name), cached)}
    _check_names(cls, set(state))
    return state


def rebuild(cls: type, state: dict[str, Any]) -> Any:
    """The instance that has this state, if the class can have it."""
    if cls in scikit_learn.CLASSES:
        return scikit_learn.rebuild(cls, state)
    _check_names(cls, set(state))
    if is_named_tuple(cls):
        return tuple.__new__(cls, [state[name] for name in _required(cls)])
    instance: Any = object.__new__(cls)
    for name, value in state.items():
        object.__setattr__(instance, name, value)
    return instance


def check(instance: Any, state: dict[str, Any]) -> None:
    """Raise unless arrays and counts are those that the class states, and its parts fit."""
    cls = type(instance)
    if cls in scikit_learn.CLASSES:  # which are built by their own constructors
        return
    is_estimator = isinstance(instance, BaseEstimator)
    try:
        parameters = instance.get_params(deep=False).values() if is_estimator else ()
    except AttributeError as error:
        raise PersistenceError(f"{cls.__name__} lacks a parameter: {error}. {REMEDY}") from None
    fields = (CONVENTIONS if is_estimator else {}) | stored_fields(cls)
    lengths = {name: value for name, value in state.items() if type(value) is int}
    for name, value in state.items():
        where, field = f"{cls.__name__}.{name}", fields.get(name)
        is_array = isinstance(value, np.ndarray) or scipy.sparse.issparse(value)
        if isinstance(field, Count):
            _check_count(where, value, field)
        elif field is not None and value is not None:
            check_array(where, value, field, lengths)
        elif is_array and field is None and not any(value is given for given in parameters):
            raise PersistenceError(f"{where} is an array, and {cls.__name__} has none there.")
    if dataclasses.is_dataclass(instance) and hasattr(instance, "__post_init__"):
        instance.__post_init__()
    if hasattr(instance, "check_stored"):
        instance.check_stored()


def _check_count(where: str, value: Any, field: Count) -> None:
    if value is None or isinstance(value, str):  # a parameter that is chosen later: "auto"
        return
    if isinstance(value, (list, tuple)):
        for item in value:
            _check_count(where, item, field)
        return
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise PersistenceError(f"{where} is not an integer.")
    if not field.least <= value <= field.most:
        raise PersistenceError(f"{where} is {value}, not one of {field.least} to {field.most}.")


def is_named_tuple(cls: type) -> bool:
    return issubclass(cls, tuple) and hasattr(cls, "_fields")


def _required(cls: Any) -> list[str]:
    """The attributes that every instance has, as far as the class declares them."""
    if is_named_tuple(cls):
        return list(cls._fields)
    return [f.name for f in dataclasses.fields(cls)] if dataclasses.is_dataclass(cls) else []


def _check_names(cls: type, names: set[str]) -> None:
    """Raise unless an instance of the class can have these attributes."""
    required = set(_required(cls))
    missing = sorted(required - names)
    if missing:
        raise PersistenceError(f"{cls.__name__} lacks {', '.join(missing)}. {REMEDY}")
    for name in sorted(names - required):
        hides = hasattr(_of(cls, name), "__get__")
        is_name = name.isidentifier() and not name.startswith("__")
        if is_named_tuple(cls) or not is_name or hides:
            raise PersistenceError(f"{cls.__name__} cannot have an attribute {name!r}.")


def _of(cls: type, name: str) -> Any:
    """What the class has under this name, without calling it; None if nothing."""
    return next((vars(base)[name] for base in cls.__mro__ if name in vars(base)), None)

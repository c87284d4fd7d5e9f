"""Which classes a file may hold, and how an instance is taken apart and put together.

Known are the classes of dotsketch in the table `classes.OWN` whose modules are loaded, the
estimators of scikit-learn in `classes.SCIKIT_LEARN`, and the classes that the caller passes.
A file names a class by package and class name, never by its module, and a name is only looked up
here: nothing is imported.

An instance is made by `__new__`, and its attributes are set: neither `__init__` nor `__setstate__`
runs. All fields of a dataclass and all parameters of an estimator have to be there, and no
attribute may hide a method or a property of the class.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import sys
from collections.abc import Iterable, Iterator
from typing import Any

from sklearn import (
    compose,
    decomposition,
    frozen,
    impute,
    linear_model,
    pipeline,
    preprocessing,
    svm,
)
from sklearn.base import BaseEstimator

from .classes import OWN, SCIKIT_LEARN
from .errors import PersistenceError

PACKAGE = __name__.split(".", maxsplit=1)[0]

REMEDY = "It was made by another version: fit and save it again."

MODULES = (compose, decomposition, frozen, impute, linear_model, pipeline, preprocessing, svm)


class Registry:
    """Names of classes, both ways. `extra` are classes that the caller trusts."""

    def __init__(self, extra: Iterable[type] = ()):
        extra = tuple(extra)
        self.classes: dict[str, type] = {}
        for cls in (*_own_classes(), *_scikit_learn_classes(), *extra):
            name = f"{cls.__module__.split('.', maxsplit=1)[0]}.{cls.__qualname__}"
            if self.classes.setdefault(name, cls) is not cls:
                raise PersistenceError(f"Two classes are called {name}; rename one of them.")
        self.trusted = {name for name, cls in self.classes.items() if cls in extra}
        self.names = {cls: name for name, cls in self.classes.items()}

    def find(self, name: object) -> type:
        if isinstance(name, str) and name not in self.classes and name.startswith(f"{PACKAGE}."):
            raise PersistenceError(
                f"The file holds a {name!r}, which is no class of dotsketch that files hold. "
                f"{REMEDY}"
            )
        if not isinstance(name, str) or name not in self.classes:
            raise PersistenceError(
                f"The file holds a {name!r}, which is no class of dotsketch or of those of "
                "scikit-learn that it reads. A class of your own is passed as classes=(Class,)."
            )
        return self.classes[name]


def _own_classes() -> Iterator[type]:
    """The classes of the list in the loaded modules of dotsketch."""
    loaded = {name: m for name, m in sys.modules.items() if name.startswith(f"{PACKAGE}.")}
    for name, module in sorted(loaded.items()):
        for short in sorted(vars(module).keys() & OWN.keys()):
            cls = getattr(module, short)
            if inspect.isclass(cls) and cls.__module__ == name:
                yield cls


def _scikit_learn_classes() -> list[type]:
    found = (getattr(module, name, None) for module in MODULES for name in SCIKIT_LEARN)
    return [cls for cls in found if cls is not None]


def is_named_tuple(cls: type) -> bool:
    return issubclass(cls, tuple) and hasattr(cls, "_fields")


def state_of(value: Any) -> dict[str, Any]:
    """The attributes of an instance (the fields of a named tuple), without cached properties."""
    cls = type(value)
    if is_named_tuple(cls):
        return value._asdict()
    slots = {name: getattr(value, name) for name in _slots(cls) if hasattr(value, name)}
    # What a class of ours says about its pickles holds for files: a plan computes what it put off
    of_its_own = cls.__name__ in OWN and "__getstate__" in vars(cls)
    state = (value.__getstate__() if of_its_own else getattr(value, "__dict__", {})) | slots
    cached = functools.cached_property
    state = {name: v for name, v in state.items() if not isinstance(_in_class(cls, name), cached)}
    _check_names(cls, set(state))
    return state


def rebuild(cls: type, state: dict[str, Any]) -> Any:
    """The instance that has this state, if the class can have it."""
    _check_names(cls, set(state))
    if is_named_tuple(cls):
        return tuple.__new__(cls, [state[name] for name in _required(cls)])
    instance: Any = object.__new__(cls)
    for name, value in state.items():
        object.__setattr__(instance, name, value)
    if isinstance(instance, BaseEstimator):
        try:
            instance.get_params(deep=False)
        except AttributeError as error:
            raise PersistenceError(f"{cls.__name__} lacks a parameter: {error}. {REMEDY}") from None
    return instance


def _required(cls: Any) -> list[str]:
    """The attributes that every instance has, as far as the class declares them."""
    if is_named_tuple(cls):
        return list(cls._fields)
    return [f.name for f in dataclasses.fields(cls)] if dataclasses.is_dataclass(cls) else []


def _check_names(cls: type, given: set[str]) -> None:
    """Raise unless an instance of the class can have these attributes."""
    required = set(_required(cls))
    missing = sorted(required - given)
    if missing:
        raise PersistenceError(f"{cls.__name__} lacks {', '.join(missing)}. {REMEDY}")
    for name in sorted(given - required):
        hides = hasattr(_in_class(cls, name), "__get__")
        is_name = name.isidentifier() and not name.startswith("__")
        if is_named_tuple(cls) or not is_name or (hides and name not in _slots(cls)):
            raise PersistenceError(f"{cls.__name__} cannot have an attribute {name!r}.")


def _slots(cls: type) -> list[str]:
    """The attributes that live outside the `__dict__` of an instance."""
    found = [base.__dict__.get("__slots__", ()) for base in cls.__mro__]
    names = [name for slots in found for name in ([slots] if isinstance(slots, str) else slots)]
    return [name for name in names if name not in ("__dict__", "__weakref__")]


def _in_class(cls: type, name: str) -> Any:
    """What the class has under this name, without calling it; None if nothing."""
    return next((vars(base)[name] for base in cls.__mro__ if name in vars(base)), None)

"""The line of Python that builds an estimator."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

PACKAGE = __name__.split(".", maxsplit=1)[0]


def source_of(value: Any) -> str:
    """An expression whose value is equal to this one; parameters at their defaults are left out.

    >>> from dotsketch import Gaussian, MaclaurinFeatures
    >>> source_of(MaclaurinFeatures(Gaussian(lengthscale=2.0), n_components=64))
    'MaclaurinFeatures(Gaussian(lengthscale=2.0), n_components=64)'
    """
    if isinstance(value, np.generic):
        return repr(value.item())
    if isinstance(value, np.ndarray):
        return source_of(value.tolist())
    if isinstance(value, (list, tuple)):
        inside = ", ".join(map(source_of, value))
        if isinstance(value, tuple):
            return f"({inside},)" if len(value) == 1 else f"({inside})"
        return f"[{inside}]"
    if not isinstance(value, BaseEstimator):
        return repr(value)
    arguments = []
    for number, parameter in enumerate(inspect.signature(type(value)).parameters.values()):
        given = getattr(value, parameter.name)
        if not has_default(parameter, given):
            positional = number == 0 and parameter.kind is parameter.POSITIONAL_OR_KEYWORD
            word = "" if positional else f"{parameter.name}="
            arguments.append(f"{word}{source_of(given)}")
    return f"{type(value).__name__}({', '.join(arguments)})"


def has_default(parameter: inspect.Parameter, given: Any) -> bool:
    default = parameter.default
    return (
        default is not inspect.Parameter.empty
        and type(default) is type(given)
        and (default == given)
    )


def imports_of(value: Any) -> str:
    """The import statements that `source_of(value)` needs, on one line."""
    modules: dict[str, set[str]] = {}
    for one in estimators_in(value):
        top, *rest = type(one).__module__.split(".")
        module = top if top == PACKAGE else ".".join([top, rest[0]])
        modules.setdefault(module, set()).add(type(one).__name__)
    parts = (
        f"from {module} import {', '.join(sorted(modules[module]))}" for module in sorted(modules)
    )
    return "; ".join(parts)


def estimators_in(value: Any) -> list[BaseEstimator]:
    """All estimators that the expression names."""
    if isinstance(value, (list, tuple)):
        return [one for item in value for one in estimators_in(item)]
    if not isinstance(value, BaseEstimator):
        return []
    inside = [getattr(value, name) for name in value._get_param_names()]
    return [value, *estimators_in(inside)]

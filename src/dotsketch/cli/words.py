"""Kernels from words (`gaussian`, `matern:1.5`, `poly:3`, `tanimoto`), estimators as Python."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from sklearn import config_context
from sklearn.base import BaseEstimator, clone

from ..kernels import Exponential, Gaussian, Kernel, Matern, Polynomial, Tanimoto
from .output import UserMistake

FORMS = (
    "gaussian[:LENGTHSCALE,…], matern[:NU[,LENGTHSCALE]], poly:DEGREE[,GAMMA[,COEF0]], "
    "exponential[:LENGTHSCALE]"
)
ALIASES = {"rbf": "gaussian", "polynomial": "poly", "exp": "exponential", "softmax": "exponential"}
KERNELS = ("gaussian", "matern", "poly", "exponential", "tanimoto")
LENGTHSCALE = "the lengthscale"
# A Gaussian or Matérn kernel may have a lengthscale for every column
MOST_VALUES = {"exponential": 1, "poly": 3, "tanimoto": 0}


def parse_kernel(text: str, dimension: int) -> tuple[Kernel, bool]:
    """The kernel for standardized rows of this dimension, and whether its lengthscale is free.

    Without a gamma it is 1/dimension, and the exponential kernel has the root of the dimension for
    a lengthscale, so that both see numbers near one (x·x is the dimension on average). The
    lengthscale of a Gaussian or Matérn kernel is free unless it is given; several are those of the
    columns after encoding.

    >>> parse_kernel("poly:3", 4)
    (Polynomial(gamma=0.25), False)
    """
    word, _, rest = text.partition(":")
    values = [part.strip() for part in rest.split(",")] if rest else []
    name = word.strip().lower()
    name = ALIASES.get(name, name)
    if name not in KERNELS or len(values) > MOST_VALUES.get(name, len(values)):
        raise UserMistake(f"the kernel {text!r} is not known; there are {FORMS} and tanimoto.")
    if name == "tanimoto":
        return Tanimoto(), False
    try:
        if name == "poly":
            if not values:
                raise ValueError("it needs a degree, as in poly:3.")
            degree = number(values[0], "the degree", int)
            gamma = number(values[1], "gamma") if len(values) > 1 else 1 / dimension
            coef0 = number(values[2], "coef0") if len(values) > 2 else 1.0
            return Polynomial(degree, gamma=gamma, coef0=coef0), False
        if name == "exponential":
            lengthscale = number(values[0], LENGTHSCALE) if values else math.sqrt(dimension)
            return Exponential(lengthscale=lengthscale), False
        nu: dict[str, Any] = {}
        if name == "matern":
            nu["nu"] = number(values.pop(0), "nu") if values else 1.5
        kind = Matern if name == "matern" else Gaussian
        if not values or values == ["median"]:
            return kind(**nu), not values
        lengthscales = [number(value, LENGTHSCALE) for value in values]
        if len(values) > 1 and dimension > 1 and len(values) != dimension:
            raise ValueError(
                f"it has {len(values)} lengthscales, and the table has {dimension} columns after "
                "encoding: give one for each, or one for all."
            )
        return kind(lengthscale=lengthscales if len(values) > 1 else lengthscales[0], **nu), False
    except ValueError as error:
        raise UserMistake(f"the kernel {text!r} cannot be made: {error}") from error


def number(text: str, name: str, kind: type = float) -> Any:
    """The number that a text stands for, or an error that names the parameter."""
    try:
        return kind(text)
    except ValueError:
        wanted = "a whole number" if kind is int else "a number"
        raise ValueError(f"{name} must be {wanted}; got {text!r}.") from None


def rounded(kernel: Kernel) -> Kernel:
    """The kernel with numbers of four digits, which a line of Python can show.

    >>> rounded(Gaussian(lengthscale=np.array([0.5, 12.345678])))
    Gaussian(lengthscale=[0.5, 12.35])
    """
    numbers: dict[str, Any] = {}
    for name in ("lengthscale", "variance"):
        value: Any = getattr(kernel, name, None)
        if value is not None and not isinstance(value, str):
            digits = [float(f"{part:.4g}") for part in np.atleast_1d(value)]
            numbers[name] = digits if np.ndim(value) else digits[0]
    result: Kernel = clone(kernel).set_params(**numbers)
    return result


def describe_kernel(kernel: Kernel) -> str:
    """The line of Python, or the range of many lengthscales.

    >>> describe_kernel(Gaussian(lengthscale=[0.5, 12.0, 3.0]))
    'Gaussian, one lengthscale per input (0.5 to 12)'
    """
    values: Any = getattr(kernel, "lengthscale", 1.0)
    if np.ndim(values) == 0:
        return source_of(rounded(kernel))
    name = source_of(rounded(kernel).set_params(lengthscale="median")).removesuffix("()")
    return f"{name}, one lengthscale per input ({min(values):.4g} to {max(values):.4g})"


def source_of(estimator: Any) -> str:
    """An expression that builds an equal estimator; parameters at their defaults are left out.

    >>> from dotsketch import Gaussian, MaclaurinFeatures
    >>> source_of(MaclaurinFeatures(Gaussian(lengthscale=2.0), n_components=64))
    'MaclaurinFeatures(kernel=Gaussian(lengthscale=2.0), n_components=64)'
    """
    with config_context(print_changed_only=True):
        text = estimator.__repr__(N_CHAR_MAX=10**6)
    return " ".join(text.split())  # scikit-learn breaks long lines


def imports_of(estimator: BaseEstimator) -> str:
    """The import statements that `source_of(estimator)` needs, on one line."""
    modules: dict[str, set[str]] = {}
    for part in (estimator, *estimator.get_params().values()):
        if isinstance(part, BaseEstimator):
            top, second, *_ = type(part).__module__.split(".")
            module = top if top == "dotsketch" else f"{top}.{second}"
            modules.setdefault(module, set()).add(type(part).__name__)
    parts = (
        f"from {module} import {', '.join(sorted(modules[module]))}" for module in sorted(modules)
    )
    return "; ".join(parts)

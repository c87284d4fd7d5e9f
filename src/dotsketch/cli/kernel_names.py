"""Kernels from words: `gaussian`, `gaussian:median`, `matern:1.5`, `poly:3`, `tanimoto`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from sklearn.base import clone

from ..kernels import Exponential, Gaussian, Kernel, Matern, Polynomial, Tanimoto
from .errors import UserMistake
from .python_source import source_of

FORMS = (
    "gaussian[:LENGTHSCALE,…], matern[:NU[,LENGTHSCALE]], poly:DEGREE[,GAMMA[,COEF0]], "
    "exponential[:LENGTHSCALE]"
)
NAMES = {
    "gaussian": "gaussian",
    "rbf": "gaussian",
    "squared_exponential": "gaussian",
    "matern": "matern",
    "poly": "poly",
    "polynomial": "poly",
    "exponential": "exponential",
    "exp": "exponential",
    "softmax": "exponential",
    "tanimoto": "tanimoto",
    "jaccard": "tanimoto",
}
LENGTHSCALE = "the lengthscale"
# A Gaussian or Matérn kernel may have a lengthscale for every column
MOST_VALUES = {"exponential": 1, "poly": 3, "tanimoto": 0}


def parse_kernel(text: str, dimension: int) -> tuple[Kernel, bool]:
    """The kernel for standardised rows of this dimension, and whether its lengthscale is free.

    Without a gamma it is 1/dimension, and the exponential kernel has the root of the dimension for
    a lengthscale, so that both see numbers near one (x·x is the dimension on average). The
    lengthscale of a Gaussian or Matérn kernel is free unless it is given; several are those of the
    columns after encoding.

    >>> parse_kernel("poly:3", 4)
    (Polynomial(gamma=0.25), False)
    """
    given, _, rest = text.partition(":")
    values = [part.strip() for part in rest.split(",")] if rest else []
    name = NAMES.get(given.strip().lower())
    if name is None or len(values) > MOST_VALUES.get(name, len(values)):
        raise UserMistake(
            f"the kernel {text!r} is not known; there are {FORMS} and tanimoto. Other names: "
            "rbf for gaussian, polynomial for poly, exp and softmax for exponential, jaccard for "
            "tanimoto."
        )
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
            given = values.pop(0) if values else "1.5"
            nu["nu"] = "auto" if given.lower() == "auto" else number(given, "nu")
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


def kernel_words(kernel: Kernel) -> str:
    """The words that `parse_kernel` makes this kernel of.

    >>> kernel_words(Polynomial(3, gamma=0.25))
    'poly:3,0.25,1.0'
    """
    if isinstance(kernel, Polynomial):
        return f"poly:{kernel.degree},{kernel.gamma!r},{kernel.coef0!r}"
    if isinstance(kernel, Tanimoto):
        return "tanimoto"
    assert isinstance(kernel, (Gaussian, Exponential, Matern))
    lengthscales = ",".join(str(value) for value in np.atleast_1d(kernel.lengthscale).tolist())
    nu = f"{kernel.nu}," if isinstance(kernel, Matern) else ""
    return f"{type(kernel).__name__.lower()}:{nu}{lengthscales}"


def describe_kernel(kernel: Kernel) -> str:
    """The line of Python, or how many lengthscales there are.

    >>> describe_kernel(Gaussian(lengthscale=[0.5, 12.0, 3.0]))
    'Gaussian, one lengthscale per column (0.5 to 12)'
    """
    values: Any = getattr(kernel, "lengthscale", 1.0)
    if np.ndim(values) == 0:
        return source_of(kernel)
    name = source_of(clone(kernel).set_params(lengthscale="median")).removesuffix("()")
    return f"{name}, one lengthscale per column ({min(values):g} to {max(values):g})"

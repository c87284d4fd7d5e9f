"""Kernels from words: `gaussian`, `gaussian:median`, `poly:3`, `poly:3,0.1,1`, `exponential:2`."""

from __future__ import annotations

import math

from ..kernels import DotProductKernel, Exponential, Gaussian, Polynomial
from .errors import UserMistake

FORMS = "gaussian[:LENGTHSCALE], poly:DEGREE[,GAMMA[,COEF0]] and exponential[:LENGTHSCALE]"


def parse_kernel(text: str, dimension: int) -> tuple[DotProductKernel, bool]:
    """The kernel for standardised rows of this dimension, and whether its lengthscale is free.

    Without a gamma it is 1/dimension, and the exponential kernel has the root of the dimension for
    a lengthscale, so that both see numbers near one (x·x is the dimension on average). The
    Gaussian's lengthscale is free unless it is given.

    >>> parse_kernel("poly:3", 4)
    (Polynomial(gamma=0.25), False)
    """
    name, _, rest = text.partition(":")
    values = [part.strip() for part in rest.split(",")] if rest else []
    name = name.strip().lower()
    most = {"gaussian": 1, "exponential": 1, "poly": 3, "polynomial": 3}.get(name)
    if most is None or len(values) > most or (most == 3 and not values):
        raise UserMistake(f"the kernel {text!r} is not known; there are {FORMS}.")
    try:
        if most == 3:
            gamma = float(values[1]) if len(values) > 1 else 1 / dimension
            coef0 = float(values[2]) if len(values) > 2 else 1.0
            return Polynomial(int(values[0]), gamma=gamma, coef0=coef0), False
        if name == "exponential":
            lengthscale = float(values[0]) if values else math.sqrt(dimension)
            return Exponential(lengthscale=lengthscale), False
        if not values or values == ["median"]:
            return Gaussian(), not values
        return Gaussian(lengthscale=float(values[0])), False
    except ValueError as error:
        raise UserMistake(f"the kernel {text!r} cannot be made: {error}") from error


def kernel_words(kernel: DotProductKernel) -> str:
    """The words that `parse_kernel` makes this kernel of.

    >>> kernel_words(Polynomial(3, gamma=0.25))
    'poly:3,0.25,1.0'
    """
    if isinstance(kernel, Polynomial):
        return f"poly:{kernel.degree},{kernel.gamma!r},{kernel.coef0!r}"
    assert isinstance(kernel, (Gaussian, Exponential))
    return f"{type(kernel).__name__.lower()}:{kernel.lengthscale}"

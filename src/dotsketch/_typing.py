"""What annotations say about arrays: of any library, or of NumPy on the host.

`Array` is what all libraries share; `ArrayT` says that a result is of the library of an argument;
`np.ndarray`, `FloatArray` and `IntArray` are on the host. CSR rows of SciPy, which has no
annotations, are `Any` to a type checker: a function that accepts them says so.
"""

from __future__ import annotations

from typing import Any, Protocol, Self, TypeAlias, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

FloatArray: TypeAlias = NDArray[np.floating[Any]]
"""Real numbers on the host, float32 or float64. What holds others is `np.ndarray`."""

IntArray: TypeAlias = NDArray[np.integer[Any]]
"""Counts, degrees, numbers of rows or of columns on the host."""


@runtime_checkable
class Array(Protocol):
    """An array of any library that follows the array API standard.

    `numpy.ndarray`, `torch.Tensor`, `jax.Array` and an array of `array-api-strict` have all of
    this; everything else is reached through `namespace(X)`, whose functions return `Any`. A result
    of this type is on the device and (if floating) of the dtype of the arguments. Shapes stand in a
    comment at the signature.

    >>> def half(X: Array) -> Array:  # (n, d) -> (n, d)
    ...     return X / 2
    """

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def ndim(self) -> int: ...

    @property
    def dtype(self) -> Any: ...

    @property
    def device(self) -> Any: ...

    @property
    def T(self) -> Self: ...

    def __getitem__(self, key: Any, /) -> Self: ...

    def __float__(self) -> float: ...
    def __neg__(self) -> Self: ...
    def __abs__(self) -> Self: ...
    def __add__(self, other: Any, /) -> Self: ...
    def __radd__(self, other: Any, /) -> Self: ...
    def __sub__(self, other: Any, /) -> Self: ...
    def __rsub__(self, other: Any, /) -> Self: ...
    def __mul__(self, other: Any, /) -> Self: ...
    def __rmul__(self, other: Any, /) -> Self: ...
    def __truediv__(self, other: Any, /) -> Self: ...
    def __rtruediv__(self, other: Any, /) -> Self: ...
    def __pow__(self, other: Any, /) -> Self: ...
    def __matmul__(self, other: Any, /) -> Self: ...
    def __lt__(self, other: Any, /) -> Any: ...
    def __le__(self, other: Any, /) -> Any: ...
    def __gt__(self, other: Any, /) -> Any: ...
    def __ge__(self, other: Any, /) -> Any: ...


ArrayT = TypeVar("ArrayT", bound=Array)
"""The library of the arguments and of the result: NumPy in, NumPy out; torch in, torch out."""

Parts: TypeAlias = tuple[Array, Array | None]
"""The real part of features, (n, D), and their imaginary part: None for real features."""

HostParts: TypeAlias = tuple[np.ndarray, np.ndarray | None]
"""The same on the host: writable views of a result, where columns are written in place."""

Block: TypeAlias = tuple[Any, ...]
"""The columns of one block of rows on the host: (X, y), or more; None for one that is not there."""

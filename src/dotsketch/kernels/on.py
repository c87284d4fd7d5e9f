"""Kernels of some inputs: `Matern().on(["x", "y"]) + Periodic(period=24.0).on("hour")`."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
from sklearn.utils.validation import _get_feature_names

from .._arrays import ArrayT, FloatArray, is_sparse, like, namespace
from .algebra import Composite, Product, Sum
from .base import Kernel, Pullback
from .inputs import matching


class On(Composite):
    """k(x, y) of the inputs with these numbers or names; write `kernel.on(inputs)`.

    Estimators replace the names by numbers when they are fitted to a data frame.

    Parameters
    ----------
    kernel : Kernel
    inputs : int, str, or list of them

    Examples
    --------
    >>> import numpy as np
    >>> from dotsketch import Linear
    >>> X = np.array([[1.0, 5.0], [2.0, 7.0]])
    >>> Linear().on(0)(X)
    array([[1., 2.],
           [2., 4.]])
    """

    part_names = ("kernel",)

    def __init__(self, kernel: Kernel, inputs: Any):
        self.kernel = kernel
        self.inputs = inputs
        self.validate()

    def validate(self) -> None:
        super().validate()
        numbers = [j for j in self._list if isinstance(j, Integral) and not isinstance(j, bool)]
        names = [j for j in self._list if isinstance(j, str)]
        if not 0 < len({*numbers, *names}) == len(self._list) or min(numbers, default=0) < 0:
            raise ValueError(
                "inputs must be the number of an input (from 0), its name, or a list of different "
                f"ones; got {self.inputs!r}."
            )

    @property
    def _list(self) -> list[Any]:
        single = isinstance(self.inputs, (str, Integral)) or not np.iterable(self.inputs)
        return [self.inputs] if single else list(self.inputs)

    def of(self, *parts: Any) -> Any:
        return type(self)(parts[0], self.inputs)

    def named(self, names: Any = None) -> Any:
        if not any(isinstance(j, str) for j in self._list):
            return self
        names = [] if names is None else list(map(str, names))
        unknown = [j for j in self._list if isinstance(j, str) and j not in names]
        if unknown:
            raise ValueError(
                f"{self!r} asks for the inputs {unknown}, and the rows have {names or 'no names'}: "
                "fit to a data frame with these columns, or give the numbers of the inputs."
            )
        numbers = [names.index(j) if isinstance(j, str) else int(j) for j in self._list]
        return type(self)(self.kernel, numbers)

    def seen(self, X: ArrayT) -> ArrayT:  # (n, d) -> (n, number of inputs)
        """The columns of X that the kernel sees."""
        numbers = np.array(self.named(_get_feature_names(X))._list)
        rows: Any = matching(X, None, most_shared=1.0)[0]
        if np.max(numbers) >= rows.shape[1]:
            raise ValueError(f"{self!r} asks for input {np.max(numbers)} of {rows.shape[1]}.")
        if is_sparse(rows):
            return rows.tocsc()[:, numbers].tocsr()
        return namespace(rows).take(rows, like(numbers, rows), axis=1)

    def __call__(self, X: ArrayT, Y: ArrayT | None = None) -> ArrayT:
        return self.kernel(self.seen(X), None if Y is None else self.seen(Y))

    def diag(self, X: ArrayT) -> ArrayT:
        return self.kernel.diag(self.seen(X))

    def times(self, factor: Any) -> Any:
        return self.of(self.kernel.times(factor))

    def per_column(self, dimension: int) -> Any:
        return self.of(self.kernel.per_column(len(self._list)))

    def with_pullback(
        self, X: FloatArray, Y: FloatArray | None = None
    ) -> tuple[FloatArray, Pullback]:
        return self.kernel.with_pullback(self.seen(X), None if Y is None else self.seen(Y))

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        kernel = repr(self.kernel)
        kernel = f"({kernel})" if isinstance(self.kernel, (Sum, Product)) else kernel
        return f"{kernel}.on({self.inputs!r})"


Kernel.on_inputs = staticmethod(On)

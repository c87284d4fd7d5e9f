"""Kernels of scikit-learn, and functions of rows, in the place of kernels of this library."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._arrays import ArrayT, is_foreign
from .base import Kernel


class ForeignKernel(Kernel):
    """A kernel of scikit-learn, or a function K = f(X, Y) of NumPy rows; made by features.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.metrics.pairwise import laplacian_kernel
    >>> ForeignKernel(laplacian_kernel).diag(np.ones((2, 3)))
    array([1., 1.])
    """

    def __init__(self, kernel: Any):
        self.kernel = kernel

    def __call__(self, X: ArrayT, Y: ArrayT | None = None) -> ArrayT:
        Y = X if Y is None else Y
        if is_foreign(X) or is_foreign(Y):
            raise TypeError(
                f"{self.kernel!r} computes with NumPy only: give NumPy rows, or use a kernel of "
                "dotsketch."
            )
        K: Any = np.asarray(self.kernel(X, Y), dtype=np.float64)
        if K.shape != (X.shape[0], Y.shape[0]):
            raise ValueError(
                f"{self.kernel!r} must return the Gram matrix (n, m) of X (n, d) and Y (m, d); "
                f"its shape is {K.shape}."
            )
        return K

    def diag(self, X: ArrayT) -> ArrayT:
        values: Any
        if hasattr(self.kernel, "diag"):
            values = np.asarray(self.kernel.diag(X), dtype=np.float64)
        else:
            # a function has no other diagonal: pairs of 64 rows at a time
            blocks = (X[i : i + 64, :] for i in range(0, X.shape[0], 64))
            values = np.concatenate([np.diagonal(np.asarray(self(block))) for block in blocks])
        return values


def as_kernel(kernel: Any) -> Any:
    """A kernel of this library: itself, or what stands for another one."""
    if isinstance(kernel, (Kernel, type)) or not callable(kernel):
        return kernel
    return ForeignKernel(kernel)

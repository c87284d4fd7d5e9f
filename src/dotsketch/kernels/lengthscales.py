"""Kernels of rows over lengthscales: one for all columns, or one for every column."""

from __future__ import annotations

from typing import Any

import array_api_compat
import numpy as np

from .._arrays import ArrayT, FloatArray, host, is_sparse, namespace, plain, suited
from .base import Kernel
from .inputs import divided


class LengthscaleKernel(Kernel):
    """A kernel of s(x) = x / lengthscale."""

    searched: tuple[str, ...] = ("lengthscale", "variance")
    per_input = ("lengthscale",)
    lengthscale: Any

    @property
    def is_common(self) -> bool:
        """Whether one lengthscale stands for all columns."""
        return np.ndim(plain(self.lengthscale)) == 0

    @property
    def metric(self) -> tuple[str, Any]:
        """As for every dot product kernel: ⟨s(x), s(y)⟩ = Σ x_k y_k / lengthscale²."""
        if isinstance(self.lengthscale, str):
            return "rows", np.array(np.nan)
        return "rows", np.asarray(host(self.lengthscale), dtype=float) ** -2.0

    def scale(self, X: ArrayT) -> ArrayT:
        values = lengthscale_of(self.lengthscale, X)
        if not is_sparse(X):
            return X / values
        return divided(X, values if self.is_common else values[X.indices])

    def per_column(self, dimension: int) -> Any:
        if isinstance(self.lengthscale, str):  # a rule such as "median" stays
            return self.changed()
        values = np.broadcast_to(host(self.lengthscale), (dimension,)).astype(float)
        return self.changed(lengthscale=values)

    def slopes(self, by_column: FloatArray, of_variance: Any) -> FloatArray:  # (d,), number
        """Derivatives with respect to the logarithms of the lengthscales, and of the variance."""
        of_lengthscales = by_column.sum(keepdims=True) if self.is_common else by_column
        return np.append(of_lengthscales, of_variance)


def lengthscale_of(value: Any, X: ArrayT, name: str = "lengthscale") -> Any:
    """A number as it is; an array of lengthscales (or periods) in the library of X."""
    value = suited(value, X)
    if not isinstance(value, (np.ndarray, list, tuple)):
        return value
    if len(value) != X.shape[1]:
        raise ValueError(f"{name} has {len(value)} values for {X.shape[1]} features.")
    if is_sparse(X):
        return np.asarray(value)
    xp = namespace(X)
    return xp.asarray(np.asarray(value), dtype=X.dtype, device=array_api_compat.device(X))


def column_deviations(X: FloatArray) -> FloatArray:  # (n, d) -> (d,)
    """The standard deviations of the columns; those of constant columns are a typical one."""
    deviations = np.std(X, axis=0)
    varies = varying_columns(X)
    typical = float(np.median(deviations[varies])) if np.any(varies) else 1.0
    return np.where(varies, deviations, typical)


def varying_columns(X: FloatArray) -> FloatArray:  # (n, d) -> (d,)
    """Which columns are not constant, up to rounding."""
    return np.ptp(X, axis=0) > 1e-12 * np.max(np.abs(X), axis=0)


def fixed_if_constant(ranges: FloatArray, X: FloatArray) -> FloatArray:  # (d, 3), (n, d) -> (d, 3)
    """The greatest lengthscale for constant columns: there is nothing to search."""
    return np.where(varying_columns(X)[:, None], ranges, ranges[:, 2:])

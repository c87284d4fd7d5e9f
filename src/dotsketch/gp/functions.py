"""Functions drawn from a posterior, as values: the same functions at every call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .._arrays import Array, ArrayT, dense, host, is_foreign, like, namespace
from ..rows.sources import Rows
from .posterior import evaluate

BLOCK_NUMBERS = 1 << 23  # features that are in memory at a time


@dataclass(frozen=True, eq=False)
class SampledFunctions:
    """Functions x ↦ shift + scale · Re z(x)ᴴ v with weights v drawn from a posterior.

    `f(X)` evaluates all of them at rows X (n, d): an array (n, k) of k functions, or (n, m, k) for
    m outputs. X may be an array of NumPy, a sparse matrix, a data frame, or an array of PyTorch or
    JAX (with gradients to X), which is also what comes back. The functions hold their weights and
    the fitted features and nothing else of the process, so that they are small; `dotsketch.save`
    and pickle keep them.

    Gaussian processes make them: see `FeatureGPRegressor.sample_functions`.

    >>> import numpy as np
    >>> from dotsketch import FeatureGPRegressor, FourierFeatures, Gaussian
    >>> X = np.linspace(0, 3, 50)[:, None]
    >>> features = FourierFeatures(Gaussian(lengthscale=1.0), n_components=40, random_state=0)
    >>> gp = FeatureGPRegressor(features).fit(X, np.sin(X[:, 0]))
    >>> f = gp.sample_functions(3, random_state=0)
    >>> f(X).shape
    (50, 3)
    >>> bool(np.allclose(f(X[:5]), f(X)[:5]))
    True
    """

    features: Any  # the fitted transformer
    weights: np.ndarray  # (D, m, k)
    shifts: np.ndarray  # (m,)
    scales: np.ndarray  # (m,)
    joins_parts: bool  # whether complex features are the columns [Re, Im]
    is_flat: bool  # whether there is one output, without an axis

    def __post_init__(self) -> None:
        outputs = {np.shape(self.shifts), np.shape(self.scales)}
        if self.weights.ndim != 3 or outputs != {self.weights.shape[1:2]}:
            raise ValueError("The weights, shifts and scales of functions do not fit each other.")

    @property
    def n_functions(self) -> int:
        """The number of functions."""
        return self.weights.shape[2]

    def __call__(self, X: Any) -> Array:  # (n, d) -> (n, k) or (n, m, k)
        """The values of all functions at the rows of X."""
        if is_foreign(X):
            return self._shaped(self._foreign(self.features.transform(X)))
        size = max(BLOCK_NUMBERS // len(self.weights), 1)
        blocks = [
            evaluate(joined(self.features.transform(rows), self.joins_parts), self.weights)
            for (rows,) in Rows((X,)).blocks(size)
        ]
        return self.in_units(np.concatenate(blocks))

    def in_units(self, values: np.ndarray) -> np.ndarray:  # (n, m, k) -> (n, k) or (n, m, k)
        """Values of Re z(x)ᴴ v in the units of the functions."""
        return self._shaped(values * self.scales[:, None] + self.shifts[:, None])

    def _foreign(self, Z: Array) -> Array:  # (n, D) -> (n, m, k)
        """The same in the array library of Z, in its precision."""
        xp = namespace(Z)
        is_complex = xp.isdtype(Z.dtype, "complex floating")
        parts = [xp.real(Z), xp.imag(Z)] if is_complex else [Z]
        flat = self.weights.reshape(len(self.weights), -1) * np.repeat(
            self.scales, self.n_functions
        )
        joins = is_complex and self.joins_parts
        weights = np.split(flat, 2) if joins else [flat.real, flat.imag]
        values = sum(
            part @ like(np.ascontiguousarray(w), part)
            for part, w in zip(parts, weights, strict=False)
        )
        values = values + like(np.repeat(self.shifts, self.n_functions), parts[0])
        return xp.reshape(values, (-1, *self.weights.shape[1:]))

    def _shaped(self, values: ArrayT) -> ArrayT:  # (n, m, k) -> (n, k) or (n, m, k)
        return values[:, 0, :] if self.is_flat else values


def joined(Z: Any, joins_parts: bool) -> np.ndarray:  # (n, D) -> (n, D) or (n, 2D)
    """Features on the host, dense; complex ones as the columns [Re, Im] if these are asked for."""
    rows = np.asarray(dense(host(Z)))
    if np.iscomplexobj(rows) and joins_parts:
        return np.concatenate([rows.real, rows.imag], axis=1)
    return rows

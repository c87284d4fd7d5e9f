"""What every solver returns: the weights of a linear Gaussian model after the data.

f(x) = Re z(x)ᴴ v with weights v ~ N(0, s I) before the data. A posterior holds no rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np


class Posterior(ABC):
    """The distribution of f for m outputs; Z are features (n, D) of rows to predict."""

    weights: np.ndarray  # (D, m): the mean of v
    jitter: float  # what was added to the system, relative to its mean diagonal

    def mean(self, Z: np.ndarray) -> np.ndarray:  # (n, D) -> (n, m)
        """E f(x)."""
        return evaluate(Z, self.weights)

    @abstractmethod
    def variance(self, Z: np.ndarray) -> np.ndarray:  # (n, D) -> (n,)
        """Var f(x), the same for all outputs."""

    @abstractmethod
    def covariance(self, Z: np.ndarray) -> np.ndarray:  # (n, D) -> (n, n)
        """Cov(f(x), f(x'))."""

    @abstractmethod
    def sample_weights(
        self, n_samples: int, rng: np.random.Generator
    ) -> np.ndarray:  # -> (D, m, n_samples)
        """Draws of v, each of them a function x ↦ Re z(x)ᴴ v: see `evaluate`."""


def evaluate(Z: np.ndarray, weights: np.ndarray) -> np.ndarray:  # (n, D), (D, ...) -> (n, ...)
    """The functions x ↦ Re z(x)ᴴ v of weights v at rows with features Z."""
    flat = weights.reshape(len(weights), -1)
    values = Z.real @ flat.real
    if np.iscomplexobj(Z):
        values = values + Z.imag @ flat.imag
    return values.reshape(len(Z), *weights.shape[1:])

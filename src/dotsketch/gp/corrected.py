"""Variances of a process whose rows have noise of their own for what the features do not carry.

With the deficits d_i = k(x_i, x_i) − E k̂(x_i, x_i) the targets have the covariance
C = s K̂ + diag(σ² + s d_i), or noise variances of the rows in the place of σ². Noise and prior
variance are both inside the weights of the rows, so that one eigendecomposition does not cover all
values: every value takes the sums anew, on a sample of the rows.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ..linear_gaussian import SufficientStatistics, log_density, posterior
from .evidence import maximise

POINTS = 20  # of the grid that a search starts from


class CorrectedRows(NamedTuple):
    """Features, normalised targets and deficits of rows, and their noise variances if given."""

    Z: np.ndarray  # (n, D)
    Y: np.ndarray  # (n, m)
    deficits: np.ndarray  # (n,)
    noise: np.ndarray | None  # (n,)

    def measure(self, noise_variance: float, prior_variance: float) -> tuple[float, float]:
        """log |C|, for one output, and Σ yᴴ C⁻¹ y."""
        base = noise_variance if self.noise is None else self.noise
        weights = 1 / (base + prior_variance * self.deficits)
        statistics = SufficientStatistics.of(self.Z, self.Y, weights)
        cross, squares = statistics.centred(np.zeros(self.Y.shape[1]), np.ones(self.Y.shape[1]))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # of values that are not chosen
            found = posterior(statistics.second_moment, cross, prior_variance)
        explained = np.sum((np.conj(cross) * found.mean).real)
        determinant = found.log_determinant - statistics.log_weights
        return determinant, max(float(np.sum(squares) - explained), 0.0)

    def log_likelihood(self, noise_variance: float, prior_variance: float) -> float:
        return self._density(*self.measure(noise_variance, prior_variance))

    def best_variances(
        self, noise_variance: float | None, prior_variance: float | None
    ) -> tuple[float, float]:
        """Noise and prior variance of the greatest marginal likelihood; None marks what is free."""
        energy = float(np.mean(self.Y**2)) or 1.0
        largest = float(np.sum(np.abs(self.Z) ** 2)) or 1.0  # the trace, for the eigenvalue
        if noise_variance is not None and prior_variance is not None:
            return noise_variance, prior_variance
        if prior_variance is not None:
            prior, span = prior_variance, (energy * 1e-10, energy * 10)
            return _best(lambda value: self.log_likelihood(value, prior), span), prior
        if noise_variance is not None:
            noise = noise_variance
            level = noise if self.noise is None else float(np.mean(self.noise))
            span = level / largest * 1e-4, max(level, energy) / largest * 1e12
            return noise, _best(lambda value: self.log_likelihood(noise, value), span)

        def noise_of(square: float) -> float:
            """The best noise variance for a given s/σ²: it scales all of C."""
            return max(square / self.Y.size, energy * 1e-10)

        def along(ratio: float) -> float:
            determinant, square = self.measure(1.0, ratio)
            noise = noise_of(square)
            return self._density(determinant + len(self.Y) * np.log(noise), square / noise)

        ratio = _best(along, (1e-4 / largest, 1e13 / largest))
        noise = noise_of(self.measure(1.0, ratio)[1])
        return noise, ratio * noise

    def _density(self, determinant: float, square: float) -> float:
        outputs, is_complex = self.Y.shape[1], bool(np.iscomplexobj(self.Z))
        return float(log_density(outputs * determinant, square, self.Y.size, is_complex))


def _best(function: Callable[[float], float], span: tuple[float, float]) -> float:
    return maximise(function, span, points=POINTS, tolerance=1e-3)

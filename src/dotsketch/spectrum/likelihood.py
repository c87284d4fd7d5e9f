"""The marginal likelihood at all noise and prior variances, and where it is greatest."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from scipy.optimize import minimize_scalar


def log_density(log_determinant: Any, square: Any, n: float, is_complex: bool) -> Any:
    """log N(y; 0, C) = −½ (log |C| + yᴴ C⁻¹ y + n log 2π); twice that, with log π, for CN."""
    if is_complex:
        return -(log_determinant + square + n * math.log(math.pi))
    return -(log_determinant + square + n * math.log(2 * math.pi)) / 2


@dataclass(frozen=True, kw_only=True)
class Likelihood(ABC):
    """The marginal likelihood of targets y at every noise variance σ² and prior variance s.

    They have the covariance s K̂ + σ² I for the Gram matrix K̂ of the rows. All of it is known from
    `measure`, a function of the ratio r = s/σ².
    """

    n: float  # rows, each as often as it counts
    n_outputs: int
    is_complex: bool = False
    log_weights: float = 0.0

    @abstractmethod
    def measure(self, ratio: float) -> tuple[float, float]:
        """log |I + r K̂|, and yᴴ (I + r K̂)⁻¹ y summed over outputs."""

    @property
    @abstractmethod
    def energy(self) -> float:
        """The mean square of the targets."""

    @property
    @abstractmethod
    def largest(self) -> float:
        """About the largest eigenvalue of K̂."""

    @property
    def count(self) -> float:
        """The number of all targets."""
        return self.n * self.n_outputs

    def weighted(self, log_weights: float, n: float) -> Self:
        """The same for rows divided by the roots of their noise variances; they count as n rows."""
        return replace(self, log_weights=log_weights, n=n)

    def log_likelihood(self, noise_variance: float, prior_variance: float) -> float:
        """log p(y): Gaussian, or the proper complex Gaussian of complex features."""
        return self._density(noise_variance, *self.measure(prior_variance / noise_variance))

    def profile(self, ratio: float) -> tuple[float, float]:
        """The best noise variance where s = r σ², and the likelihood there.

        It has a closed form, σ² = yᴴ (I + r K̂)⁻¹ y / n.
        """
        determinant, square = self.measure(ratio)
        noise = max(square / self.count, (self.energy or 1.0) * 1e-10)
        return noise, self._density(noise, determinant, square)

    def _density(self, noise: float, determinant: float, square: float) -> float:
        if math.isinf(determinant):  # of a ratio at which I + r K̂ cannot be factored
            return -math.inf
        per_output = determinant + self.n * math.log(noise) - self.log_weights
        return float(
            log_density(self.n_outputs * per_output, square / noise, self.count, self.is_complex)
        )


def best_variances(
    find_likelihood: Callable[[], Likelihood],
    noise_variance: float | None,
    prior_variance: float | None,
) -> tuple[float, float]:
    """Noise and prior variance of the greatest marginal likelihood; None marks what is free.

    The likelihood is found only if something is. Always a search along one line: if both are free,
    the best noise variance for a given ratio of them has a closed form.
    """
    if noise_variance is not None and prior_variance is not None:
        return noise_variance, prior_variance
    likelihood = find_likelihood()
    energy, largest = likelihood.energy or 1.0, likelihood.largest
    if prior_variance is None and not largest > 0:
        # no feature sees any row: the likelihood does not depend on s, and the level of y stands in
        return (energy if noise_variance is None else noise_variance), energy
    return search_variances(
        noise_variance,
        prior_variance,
        energy,
        largest or 1.0,
        likelihood.log_likelihood,
        likelihood.profile,
    )


def search_variances(
    noise_variance: float | None,
    prior_variance: float | None,
    energy: float,
    largest: float,
    log_likelihood: Callable[[float, float], float],
    profile: Callable[[float], tuple[float, float]],
    *,
    level: float | None = None,
    **options: Any,
) -> tuple[float, float]:
    """Noise and prior variance of the greatest likelihood, of which one at least is free (None).

    `energy` is the mean square of the targets and `largest` about the largest eigenvalue of K̂,
    which say where to search. `log_likelihood(noise, prior)` is searched along one of them;
    `profile(ratio)` is the best noise variance where prior = ratio · noise, and the likelihood
    there. `level` is the noise that a prior variance is compared with, if it is not that given.
    """
    if prior_variance is not None:
        prior, span = prior_variance, (energy * 1e-10, energy * 10)
        return maximise(lambda noise: log_likelihood(noise, prior), span, **options), prior
    if noise_variance is not None:
        noise = noise_variance
        level = noise if level is None else level
        span = level / largest * 1e-4, max(level, energy) / largest * 1e12
        return noise, maximise(lambda prior: log_likelihood(noise, prior), span, **options)
    span = 1e-4 / largest, 1e13 / largest
    ratio = maximise(lambda ratio: profile(ratio)[1], span, **options)
    noise = profile(ratio)[0]
    return noise, ratio * noise


def maximise(
    function: Callable[[float], float],
    span: tuple[float, float],
    *,
    points: int = 80,
    tolerance: float = 1e-6,
) -> float:
    """Where a function of a positive number is greatest: a grid of logarithms, then refined."""
    grid = np.linspace(np.log(span[0]), np.log(span[1]), points)
    values = [function(float(np.exp(point))) for point in grid]
    top = int(np.argmax(values))
    found = minimize_scalar(
        lambda point: -function(float(np.exp(point))),
        bounds=(grid[max(top - 1, 0)], grid[min(top + 1, points - 1)]),
        method="bounded",
        options={"xatol": tolerance},
    )
    return float(np.exp(found.x if -found.fun >= values[top] else grid[top]))

"""The marginal likelihood at every noise and prior variance from one eigendecomposition."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import eigh
from scipy.optimize import minimize_scalar

from .. import _packed
from ..linear_gaussian import SufficientStatistics, check_sums, log_density


@dataclass(frozen=True)
class Spectrum:
    """Eigenvalues λ_j of the Gram matrix K̂ of the rows, and the energy of the targets along them.

    Enough for the marginal likelihood at every noise variance σ² and prior variance s:
    y has variance σ² + s λ_j along eigenvector j, and σ² along the directions that no feature sees.
    """

    eigenvalues: np.ndarray  # (r,)
    energies: np.ndarray  # (r,): Σ over outputs of |u_jᴴ y|²
    rest: float  # energy of the other n − r directions
    n: int
    n_outputs: int
    is_complex: bool = False
    log_weights: float = 0.0

    @classmethod
    def of_features(
        cls, statistics: SufficientStatistics, cross: np.ndarray, squares: np.ndarray
    ) -> Spectrum:
        """From the sums over the features; with B = UΛUᴴ the energies are |Uᴴ Σ w z y|²/λ."""
        check_sums(statistics.second_moment)
        values, vectors = eigh(_packed.unpack(statistics.second_moment), lower=True)
        seen = values > values[-1] * len(values) * np.finfo(np.float64).eps
        along = np.sum(np.abs(vectors[:, seen].conj().T @ cross) ** 2, axis=1)
        energies = along / values[seen]
        rest = max(float(np.sum(squares) - np.sum(energies)), 0.0)
        return cls(
            values[seen],
            energies,
            rest,
            statistics.n,
            cross.shape[1],
            bool(np.iscomplexobj(cross)),
            statistics.log_weights,
        )

    @classmethod
    def of_kernel(cls, K: np.ndarray, y: np.ndarray) -> Spectrum:  # (n, n), (n, m)
        """From the Gram matrix itself."""
        values, vectors = eigh(K)
        energies = np.sum((vectors.T @ y) ** 2, axis=1)
        return cls(np.maximum(values, 0), energies, 0.0, len(K), y.shape[1])

    def weighted(self, log_weights: float) -> Spectrum:
        """The same for rows that were divided by the roots of their noise variances."""
        return replace(self, log_weights=log_weights)

    def log_likelihood(self, noise_variance: float, prior_variance: float) -> float:
        """log p(y): Gaussian, or the proper complex Gaussian of complex features."""
        variances = noise_variance + prior_variance * self.eigenvalues
        unseen = self.n - len(variances)
        determinant = np.sum(np.log(variances)) + unseen * np.log(noise_variance)
        square = np.sum(self.energies / variances) + self.rest / noise_variance
        per_output = determinant - self.log_weights
        return log_density(
            self.n_outputs * per_output, square, self.n * self.n_outputs, self.is_complex
        )


def best_variances(
    find_spectrum: Callable[[], Spectrum],
    noise_variance: float | None,
    prior_variance: float | None,
) -> tuple[float, float]:
    """Noise and prior variance of the greatest marginal likelihood; None marks what is free.

    The spectrum is found only if something is.

    Always a search along one line: if both are free, the best noise variance for a given ratio
    r = s/σ² has a closed form, σ² = [Σ e_j/(1 + r λ_j) + rest] / n.
    """
    if noise_variance is not None and prior_variance is not None:
        return noise_variance, prior_variance
    spectrum = find_spectrum()
    count = spectrum.n * spectrum.n_outputs
    energy = (float(np.sum(spectrum.energies)) + spectrum.rest) / count or 1.0
    largest = float(spectrum.eigenvalues.max(initial=0.0)) or 1.0
    if prior_variance is None and not spectrum.eigenvalues.max(initial=0.0) > 0:
        # no feature sees any row: the likelihood does not depend on s, and the level of y stands in
        return (energy if noise_variance is None else noise_variance), energy
    if noise_variance is None and prior_variance is not None:
        fixed = prior_variance
        span = energy * 1e-10, energy * 10
        return maximise(lambda value: spectrum.log_likelihood(value, fixed), span), fixed
    if noise_variance is not None:
        noise = noise_variance
        span = noise / largest * 1e-4, max(noise, energy) / largest * 1e12
        return noise, maximise(lambda value: spectrum.log_likelihood(noise, value), span)

    def profile(ratio: float) -> float:
        residual = np.sum(spectrum.energies / (1 + ratio * spectrum.eigenvalues)) + spectrum.rest
        return max(float(residual) / count, energy * 1e-10)

    def along(ratio: float) -> float:
        noise = profile(ratio)
        return spectrum.log_likelihood(noise, ratio * noise)

    ratio = maximise(along, (1e-4 / largest, 1e13 / largest))
    noise = profile(ratio)
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

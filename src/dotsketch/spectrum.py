"""The spectrum of a Gram matrix: the marginal likelihood at all variances, where it is greatest.

One spectrum gives the marginal likelihood at every noise and prior variance (`Spectrum`). A
Householder reduction A = Q T Qᴴ to a real tridiagonal T is a third of an eigendecomposition. The
eigenvectors of A, whose computation is most of the rest, are not needed: those of T, which take D²
operations, see the vectors Qᴴ b.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.linalg import eigh_tridiagonal, lapack
from scipy.optimize import minimize_scalar


def log_density(log_determinant: Any, square: Any, n: float, is_complex: bool) -> Any:
    """log N(y; 0, C) = −½ (log |C| + yᴴ C⁻¹ y + n log 2π); twice that, with log π, for CN."""
    if is_complex:
        return -(log_determinant + square + n * math.log(math.pi))
    return -(log_determinant + square + n * math.log(2 * math.pi)) / 2


@dataclass(frozen=True)
class Spectrum:
    """Eigenvalues λ_j of the Gram matrix K̂ of the rows, and the energy of the targets along them.

    Enough for the marginal likelihood at every noise variance σ² and prior variance s:
    y has variance σ² + s λ_j along eigenvector j, and σ² along the directions that no feature sees.
    """

    eigenvalues: np.ndarray  # (r,)
    energies: np.ndarray  # (r,): Σ over outputs of |u_jᴴ y|²
    rest: float  # energy of the other n − r directions
    n: float  # rows, each as often as it counts
    n_outputs: int
    is_complex: bool = False
    log_weights: float = 0.0

    @classmethod
    def of_kernel(cls, K: np.ndarray, y: np.ndarray) -> Spectrum:  # (n, n), (n, m)
        """From the Gram matrix itself."""
        values, energies = eigenvalues_and_energies(K, y)
        return cls(np.maximum(values, 0), energies, 0.0, len(K), y.shape[1])

    def weighted(self, log_weights: float, n: float) -> Spectrum:
        """The same for rows divided by the roots of their noise variances; they count as n rows."""
        return replace(self, log_weights=log_weights, n=n)

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
    largest = float(spectrum.eigenvalues.max(initial=0.0))
    if prior_variance is None and not largest > 0:
        # no feature sees any row: the likelihood does not depend on s, and the level of y stands in
        return (energy if noise_variance is None else noise_variance), energy

    def profile(ratio: float) -> tuple[float, float]:
        residual = np.sum(spectrum.energies / (1 + ratio * spectrum.eigenvalues)) + spectrum.rest
        noise = max(float(residual) / count, energy * 1e-10)
        return noise, spectrum.log_likelihood(noise, ratio * noise)

    return search_variances(
        noise_variance, prior_variance, energy, largest or 1.0, spectrum.log_likelihood, profile
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


def eigenvalues_and_energies(
    A: np.ndarray, b: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:  # (D, D), (D, m) -> (D,), (D,)
    """The eigenvalues λ_j of A (its lower triangle), ascending, and Σ |u_jᴴ b|² over columns of b.

    >>> values, energies = eigenvalues_and_energies(np.diag([2.0, 1.0]), np.array([[3.0], [4.0]]))
    >>> values, energies
    (array([1., 2.]), array([16.,  9.]))
    """
    is_complex = np.iscomplexobj(A)
    letter, adjoint = ("z", "C") if is_complex else ("d", "T")
    name = letter + ("hetrd" if is_complex else "sytrd")
    A = np.asfortranarray(A, dtype=np.complex128 if is_complex else np.float64)
    b = np.array(b, dtype=A.dtype, order="F")
    D, m = b.shape
    if D == 1:
        return A[0].real, np.sum(np.abs(b) ** 2, axis=1)
    work, _ = getattr(lapack, f"{name}_lwork")(D, lower=1)
    reflectors, diagonal, beside, tau, _ = getattr(lapack, name)(A, lower=1, lwork=int(work.real))
    # Q leaves the first coordinate alone; its reflectors stand below the diagonal, as those of a QR
    multiply = getattr(lapack, letter + ("unmqr" if is_complex else "ormqr"))
    b[1:], _, _ = multiply("L", adjoint, reflectors[1:, :-1], tau, b[1:], 64 * m)
    values, vectors = eigh_tridiagonal(diagonal, beside, check_finite=False)
    return values, np.sum(np.abs(vectors.T @ b) ** 2, axis=1)

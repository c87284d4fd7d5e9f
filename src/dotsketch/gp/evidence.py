"""The marginal likelihood: of features, at all variances at once, and where it is greatest.

It is a function of the sums over the rows: one spectrum gives it at every noise and prior variance
(`Spectrum`). Where rows have noise of their own that depends on both, every value takes
the sums anew, on a sample of the rows (`CorrectedRows`).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import device, is_numpy_array
from scipy.optimize import minimize_scalar

from .._arrays import Array, double, namespace
from .solvers import Cholesky, System
from .solvers.cholesky import CholeskyPosterior, check_finite
from .sums import SufficientStatistics
from .tridiagonal import eigenvalues_and_energies


def log_density(log_determinant: Any, square: Any, n: float, is_complex: bool) -> Any:
    """log N(y; 0, C) = −½ (log |C| + yᴴ C⁻¹ y + n log 2π); twice that, with log π, for CN."""
    if is_complex:
        return -(log_determinant + square + n * math.log(math.pi))
    return -(log_determinant + square + n * math.log(2 * math.pi)) / 2


def log_marginal_likelihood(
    Z: Array, y: Array, noise_variance: Any, prior_variance: Any = 1.0
) -> Array:  # (n, D), (n,) or (n, m), number or (n,)
    """log p(y | Z, σ², s) in any array library, differentiable in all four arguments.

    With real features N(y; 0, s Z Zᵀ + diag σ²); with complex ones the proper complex Gaussian
    CN(y; 0, s Z Zᴴ + diag σ²), which is the paper's model. Computed in D dimensions:
    |C| = |I + s Zᴴ W Z| Π σ_i² and the Woodbury identity, W = diag 1/σ². Outputs add up.

    >>> import numpy as np
    >>> round(float(log_marginal_likelihood(np.ones((1, 1)), np.ones(1), 1.0)), 4)
    -1.5155
    """
    xp = namespace(Z, y)
    is_complex = xp.isdtype(Z.dtype, "complex floating")
    Y = double(y)[:, None] if y.ndim == 1 else double(y)
    Z = xp.astype(Z, xp.result_type(Y.dtype, xp.complex64)) if is_complex else double(Z)
    n, D = Z.shape
    variances = noise_variance * xp.ones_like(Y[:, 0])
    if Y.shape[0] != n or variances.shape != (n,):
        raise ValueError(
            f"Z has {n} rows, y has {Y.shape[0]}; noise_variance must be a number or one for every "
            "row."
        )
    for name, value in (("noise_variance", noise_variance), ("prior_variance", prior_variance)):
        if isinstance(value, (Real, np.ndarray)) and not np.all(np.asarray(value) > 0):
            raise ValueError(f"{name} must be positive; got {value!r}.")
    scaled, targets = Z / xp.sqrt(variances)[:, None], Y / xp.sqrt(variances)[:, None]
    adjoint = xp.conj(scaled).T if is_complex else scaled.T
    B = xp.eye(D, dtype=Z.dtype, device=device(Z)) + prior_variance * (adjoint @ scaled)
    factor = _cholesky(B)
    diagonal = xp.linalg.diagonal(factor)
    diagonal = xp.real(diagonal) if is_complex else diagonal
    cross = adjoint @ (xp.astype(targets, Z.dtype) if is_complex else targets)
    solved = xp.linalg.solve(B, cross)
    explained = xp.conj(cross) * solved if is_complex else cross * solved
    explained = prior_variance * xp.sum(xp.real(explained) if is_complex else explained)
    m = Y.shape[1]
    log_determinant = m * (2 * xp.sum(xp.log(diagonal)) + xp.sum(xp.log(variances)))
    square = xp.sum(targets * targets) - explained
    density = log_density(log_determinant, square, n * m, is_complex)
    if is_numpy_array(Z) and not np.isfinite(density):  # others may be traced
        raise ValueError("Z, y and the variances must be finite, and so their squares.")
    return density


def _cholesky(B: Array) -> Array:
    """The Cholesky factor in any array library; every library has an error of its own."""
    try:
        return namespace(B).linalg.cholesky(B)
    except (np.linalg.LinAlgError, RuntimeError) as error:
        if "LinAlgError" not in type(error).__name__:
            raise
        raise ValueError(
            "The system is not positive definite to rounding: use a larger noise variance or a "
            "smaller prior variance."
        ) from error


def log_evidence(
    system: System, posterior: CholeskyPosterior, squares: float, log_noise: float, n: float
) -> float:
    """log p(y) of n rows from the solution of their system, summed over its outputs.

    `squares` are Σ w y² and `log_noise` is −Σ log w: |C| = |B| Π 1/w and the Woodbury identity.
    """
    m = system.cross.shape[1]
    explained = np.sum((np.conj(system.cross) * posterior.weights).real)
    determinant = m * (posterior.log_determinant + log_noise)
    is_complex = bool(np.iscomplexobj(system.cross))
    return float(log_density(determinant, squares - explained, n * m, is_complex))


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
    def of_features(
        cls, statistics: SufficientStatistics, cross: np.ndarray, squares: np.ndarray
    ) -> Spectrum:
        """From the sums over the features; with B = UΛUᴴ the energies are |Uᴴ Σ w z y|²/λ."""
        check_finite(statistics.second_moment)
        values, along = eigenvalues_and_energies(statistics.second_moment.lower(), cross)
        seen = values > values[-1] * len(values) * np.finfo(np.float64).eps
        energies = along[seen] / values[seen]
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
        result: float = log_density(
            self.n_outputs * per_output, square, self.n * self.n_outputs, self.is_complex
        )
        return result


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


class CorrectedRows(NamedTuple):
    """Rows whose noise holds what the features do not carry, to choose variances on.

    With the deficits d_i = k(x_i, x_i) − E k̂(x_i, x_i) the targets (normalised) have the covariance
    C = s K̂ + diag(σ² + s d_i), or noise variances of the rows in the place of σ².
    """

    Z: np.ndarray  # (n, D)
    Y: np.ndarray  # (n, m)
    deficits: np.ndarray  # (n,)
    noise: np.ndarray | None  # (n,)
    counts: np.ndarray  # (n,), how often each of them counts

    def measure(self, noise_variance: float, prior_variance: float) -> tuple[float, float]:
        """log |C|, for one output, and Σ yᴴ C⁻¹ y."""
        base = noise_variance if self.noise is None else self.noise
        weights = 1 / (base + prior_variance * self.deficits)
        statistics = SufficientStatistics.of(self.Z, self.Y, weights, self.counts)
        cross, squares = statistics.cross[:, :-1], np.diag(statistics.targets)[:-1]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # of values that are not chosen
            [found] = Cholesky().solve([System(statistics.second_moment, cross)], prior_variance)
        explained = np.sum((np.conj(cross) * found.weights).real)
        determinant = found.log_determinant - statistics.log_weights
        return determinant, max(float(np.sum(squares) - explained), 0.0)

    def log_likelihood(self, noise_variance: float, prior_variance: float) -> float:
        return self._density(*self.measure(noise_variance, prior_variance))

    def best_variances(
        self, noise_variance: float | None, prior_variance: float | None
    ) -> tuple[float, float]:
        """Noise and prior variance of the greatest marginal likelihood; None marks what is free."""
        n = float(np.sum(self.counts))
        size, times = n * self.Y.shape[1], self.counts[:, None]
        energy = float(np.sum(times * self.Y**2)) / size or 1.0
        largest = float(np.sum(times * np.abs(self.Z) ** 2)) or 1.0  # the trace, for the eigenvalue
        if noise_variance is not None and prior_variance is not None:
            return noise_variance, prior_variance
        if prior_variance is not None:
            prior, span = prior_variance, (energy * 1e-10, energy * 10)
            return _coarse_best(lambda value: self.log_likelihood(value, prior), span), prior
        if noise_variance is not None:
            noise = noise_variance
            level = noise
            if self.noise is not None:
                level = float(np.average(self.noise, weights=self.counts))
            span = level / largest * 1e-4, max(level, energy) / largest * 1e12
            return noise, _coarse_best(lambda value: self.log_likelihood(noise, value), span)

        def noise_of(square: float) -> float:
            """The best noise variance for a given s/σ²: it scales all of C."""
            result: float = max(square / size, energy * 1e-10)
            return result

        def along(ratio: float) -> float:
            determinant, square = self.measure(1.0, ratio)
            noise = noise_of(square)
            return self._density(determinant + n * np.log(noise), square / noise)

        ratio = _coarse_best(along, (1e-4 / largest, 1e13 / largest))
        noise = noise_of(self.measure(1.0, ratio)[1])
        return noise, ratio * noise

    def _density(self, determinant: float, square: float) -> float:
        outputs, is_complex = self.Y.shape[1], bool(np.iscomplexobj(self.Z))
        size = outputs * float(np.sum(self.counts))
        return float(log_density(outputs * determinant, square, size, is_complex))


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


def _coarse_best(function: Callable[[float], float], span: tuple[float, float]) -> float:
    """A shorter search, for functions that cost a factorisation."""
    return maximise(function, span, points=20, tolerance=1e-3)

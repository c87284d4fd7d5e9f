"""The marginal likelihood of features, a function of the sums over the rows.

One spectrum, or band, gives it at every noise and prior variance (`likelihood_of_features`). Where
rows have noise of their own that depends on both, every value takes the sums anew, on a sample of
the rows (`CorrectedRows`).
"""

from __future__ import annotations

import warnings
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import device, is_numpy_array

from .._arrays import Array, double, namespace
from ..spectrum import (
    MOST_OF_SPECTRUM,
    Banded,
    Likelihood,
    Spectrum,
    band_of,
    eigenvalues_and_energies,
    log_density,
    search_variances,
)
from .solvers import Cholesky, System
from .solvers.cholesky import CholeskyPosterior, check_finite
from .sums import SufficientStatistics

COARSE: dict[str, Any] = {"points": 20, "tolerance": 1e-3}  # where a value costs a factorisation


def log_density_of_copies(
    noise: float | np.ndarray, counts: np.ndarray
) -> float:  # a number or (n,), (n,)
    """log of the density of w copies of every row over that of one row with the noise σ²/w.

    |s K + σ²| of the copies is |s K + σ²/w| Π w σ^(2(w − 1)), and yᵀC⁻¹y is the same.
    """
    each = (counts - 1) * np.log(2 * np.pi * noise) + np.log(counts)
    return -0.5 * float(np.sum(each))


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
        raise ValueError("Z, y and the variances must be finite, and so must their squares.")
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


def likelihood_of_features(
    statistics: SufficientStatistics, cross: np.ndarray, squares: np.ndarray
) -> Likelihood:
    """From the sums over the features; with A = UΛUᴴ the energies are |Uᴴ Σ w z y|²/λ."""
    check_finite(statistics.second_moment)
    known: dict[str, Any] = {
        "n": statistics.n,
        "n_outputs": cross.shape[1],
        "is_complex": bool(np.iscomplexobj(cross)),
        "log_weights": statistics.log_weights,
    }
    A, total = statistics.second_moment.lower(), float(np.sum(squares))
    # fewer rows than columns: eigenvalues of zero are told from roundings in a spectrum only
    if MOST_OF_SPECTRUM < len(A) <= statistics.n:
        band, along = band_of(A, cross)
        return Banded(band=band, along=along, squares=total, of_features=True, **known)
    values, along = eigenvalues_and_energies(A, cross)
    seen = values > values[-1] * len(values) * np.finfo(np.float64).eps
    energies = along[seen] / values[seen]
    rest = max(total - float(np.sum(energies)), 0.0)
    return Spectrum(eigenvalues=values[seen], energies=energies, rest=rest, **known)


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
        """Noise and prior variance of the greatest marginal likelihood; None marks what is free,
        and something is."""
        n = float(np.sum(self.counts))
        size, times = n * self.Y.shape[1], self.counts[:, None]
        energy = float(np.sum(times * self.Y**2)) / size or 1.0
        largest = float(np.sum(times * np.abs(self.Z) ** 2)) or 1.0  # the trace, for the eigenvalue
        level = None
        if self.noise is not None:
            level = float(np.average(self.noise, weights=self.counts))

        def profile(ratio: float) -> tuple[float, float]:
            """The best noise variance for a given s/σ², which scales all of C."""
            determinant, square = self.measure(1.0, ratio)
            noise = max(square / size, energy * 1e-10)
            return noise, self._density(determinant + n * np.log(noise), square / noise)

        return search_variances(
            noise_variance,
            prior_variance,
            energy,
            largest,
            self.log_likelihood,
            profile,
            level=level,
            **COARSE,
        )

    def _density(self, determinant: float, square: float) -> float:
        outputs, is_complex = self.Y.shape[1], bool(np.iscomplexobj(self.Z))
        size = outputs * float(np.sum(self.counts))
        return float(log_density(outputs * determinant, square, size, is_complex))

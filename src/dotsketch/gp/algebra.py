"""Posterior and evidence of a linear Gaussian model: of sums, of a kernel matrix, of landmarks.

The only room, beside `conjugate_gradients`, that factorises matrices. Outputs y_j have the
covariance C_j = s_j K̂ + σ_j² W⁻¹ with K̂ = Z Zᴴ (or an exact kernel matrix), the weights W of the
rows, and a noise and a prior variance of their own. In the dimension of the features, with the
sums M = Σ w z zᴴ and b = Σ w z y and the ratio r = s/σ²,

    B = I + r M = L Lᴴ,   v = r B⁻¹ b,   Var f(x) = s |L⁻¹ z(x)|²,
    |C| = |B| Π σ²/w,     yᴴC⁻¹y = (Σ w |y|² − r bᴴB⁻¹b) / σ².
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, cholesky_banded, lapack, solve_triangular
from scipy.optimize import minimize_scalar

from .packed import PackedFactor, PackedMatrix
from .posterior import Posterior
from .spectrum import band_of, largest_eigenvalue, spectrum_of
from .sums import SufficientStatistics

MOST_OF_SPECTRUM = 1024  # columns: a band is found sooner for more of them (measured, 2 cores)
MOST_CONDITION = 2e13  # of I + r M: beyond, its determinant would be that of roundings
LEAST_NOISE = 1e-10  # of the mean square of the targets: data without noise have a bound, too


# -- factors and posteriors ------------------------------------------------------------------------


def factorise(B: PackedMatrix) -> tuple[PackedFactor, float]:
    """The Cholesky factor of B and the relative jitter that it took.

    Where B is not positive definite to rounding, a jitter that grows tenfold is added to its
    diagonal, and a warning says how much.
    """
    with np.errstate(over="ignore"):
        scale = float(np.mean(B.diagonal()))
    check_finite(B.values, scale)
    for jitter in (0.0, *(10.0**power for power in range(-15, -3))):
        attempt = B
        if jitter:
            attempt = B.copy()
            attempt.add_to_diagonal(jitter * scale)
        factor = attempt.cholesky()
        if factor is None:
            continue
        if jitter:
            warnings.warn(
                f"The system is not positive definite to rounding: {jitter:.0e} times its mean "
                "diagonal was added. A larger noise variance avoids this.",
                RuntimeWarning,
                stacklevel=3,
            )
        return factor, jitter
    raise ValueError(
        "The system is not positive definite, even with 1e-4 of its mean diagonal added: use a "
        "larger noise variance or a smaller prior variance."
    )


def check_finite(*sums: Any) -> None:
    """Raise unless sums over the features are finite."""
    if not all(np.all(np.isfinite(part)) for part in sums):
        raise ValueError(
            "The sums over the features overflow or are not finite: scale the features down, or "
            "use a larger noise variance."
        )


def factor_of(prior: float, moment: PackedMatrix) -> tuple[PackedFactor, float]:
    """The Cholesky factor of I + s M, and the relative jitter that it took."""
    B = prior * moment
    B.add_to_diagonal(1)
    return factorise(B)


def solve(
    systems: Iterable[tuple[PackedMatrix, np.ndarray]], owners: np.ndarray, priors: np.ndarray
) -> Posterior:  # (m,), (m,)
    """The posterior of outputs whose systems (I + s M) v = s b come one after the other.

    A system is M (D, D) and b (D, k) of the outputs that it owns, in their order; the noise is
    inside the weights of both.
    """
    factors, coefficients, jitters = [], [], []
    for number, (moment, cross) in enumerate(systems):
        prior = float(priors[owners == number][0])
        factor, jitter = factor_of(prior, moment)
        factors.append(factor)
        coefficients.append(prior * factor.solve(cross))
        jitters.append(jitter)
    places = np.argsort(np.argsort(owners, kind="stable"))
    means = np.ascontiguousarray(np.concatenate(coefficients, axis=1)[:, places])
    return Posterior(means, tuple(factors), owners, priors.astype(float), max(jitters))


def posterior_of_sums(
    sums: SufficientStatistics,
    means: np.ndarray,
    scales: np.ndarray,
    noise: np.ndarray,
    prior: np.ndarray,
) -> Posterior:  # (m,), (m,), (m,), (m,)
    """The posterior for the targets (y − mean) / scale; the noise multiplies that in the weights.

    Outputs of the same variances share a factor.
    """
    cross, _ = sums.centred(means, scales)
    pairs, owners = np.unique(np.stack([noise, prior], axis=1), axis=0, return_inverse=True)
    owners = owners.ravel()
    systems = (
        (sums.second_moment / sigma2, cross[:, owners == k] / sigma2)
        for k, sigma2 in enumerate(pairs[:, 0])
    )
    return solve(systems, owners, prior)


def log_evidence(
    sums: SufficientStatistics,
    means: np.ndarray,
    scales: np.ndarray,
    noise: np.ndarray,
    posterior: Posterior,
) -> float:  # (m,), (m,), (m,)
    """log p of all outputs (y − mean) / scale, from their posterior: no other factorisation."""
    cross, squares = sums.centred(means, scales)
    explained = np.sum((np.conj(cross) * posterior.coefficients).real, axis=0)
    determinants = np.array([posterior.factors[k].log_determinant() for k in posterior.owners])
    log_c = determinants + sums.n * np.log(noise) - sums.log_weights
    is_complex = bool(np.iscomplexobj(cross))
    return float(np.sum(log_density(log_c, (squares - explained) / noise, sums.n, is_complex)))


# -- evidence at all variances ---------------------------------------------------------------------


def log_density(log_determinant: Any, square: Any, n: float, is_complex: bool = False) -> Any:
    """log N(y; 0, C) = −½ (log |C| + yᴴ C⁻¹ y + n log 2π); twice that, with log π, for CN."""
    if is_complex:
        return -(log_determinant + square + n * math.log(math.pi))
    return -(log_determinant + square + n * math.log(2 * math.pi)) / 2


@dataclass(frozen=True, eq=False)
class Likelihood:
    """log p(y_j) of every output at every noise variance σ² and prior variance s.

    All of it follows from `measure`, a function of the ratio r = s/σ²: log |I + r K̂|, and
    y_jᴴ (I + r K̂)⁻¹ y_j of every output (m,), for rows divided by the roots of their noise.
    """

    measure: Callable[[float], tuple[float, np.ndarray]]
    largest: float  # about the largest eigenvalue of K̂
    squares: np.ndarray  # (m,): |y_j|², weighted
    energies: np.ndarray  # (m,): the mean y_j², not weighted
    n: float  # rows, each as often as it counts
    log_weights: float = 0.0
    is_complex: bool = False

    def densities(self, noise: Any, determinant: float, squares: np.ndarray) -> np.ndarray:
        """Of all outputs, at the ratio that the determinant and the squares belong to."""
        if math.isinf(determinant):  # I + r K̂ cannot be factored
            return np.full(len(squares), -math.inf)
        log_c = determinant + self.n * np.log(noise) - self.log_weights
        return np.asarray(log_density(log_c, squares / noise, self.n, self.is_complex))

    def best_variances(
        self, noise: float | None = None, prior: float | None = None
    ) -> tuple[np.ndarray, np.ndarray]:  # -> (m,), (m,)
        """Noise and prior variance of the greatest likelihood of every output; None: free.

        A search along the ratio r = s/σ² in any case: the best noise for a ratio has the closed
        form σ² = yᴴ (I + r K̂)⁻¹ y / n if both are free.
        """
        m, energies = len(self.squares), np.where(self.energies > 0, self.energies, 1.0)
        if noise is not None and prior is not None:
            return np.full(m, float(noise)), np.full(m, float(prior))
        if prior is None and not self.largest > 0:
            # no feature sees any row: the likelihood does not depend on s; the level of y stands in
            return (energies if noise is None else np.full(m, float(noise))), energies
        largest = self.largest or 1.0

        def variances(ratio: float, squares: np.ndarray) -> tuple[Any, Any]:
            if prior is not None:
                return prior / ratio, prior
            if noise is not None:
                return noise, ratio * noise
            best = np.maximum(squares / self.n, LEAST_NOISE * energies)
            return best, ratio * best

        def densities(log_ratio: float) -> np.ndarray:  # -> (m,)
            determinant, squares = self.measure(math.exp(log_ratio))
            return self.densities(variances(math.exp(log_ratio), squares)[0], determinant, squares)

        if prior is not None:
            span = prior / (10 * energies.max()), prior / (LEAST_NOISE * energies.min())
        elif noise is not None:
            span = 1e-4 / largest, max(1.0, float(energies.max()) / noise) / largest * 1e12
        else:
            span = 1e-4 / largest, 1e13 / largest
        grid = np.linspace(math.log(span[0]), math.log(span[1]), 80)
        table = np.stack([densities(point) for point in grid])  # (80, m)
        chosen = []
        for j, top in enumerate(np.argmax(table, axis=0)):
            refined = minimize_scalar(
                lambda point, j=j: -densities(point)[j],
                bounds=(grid[max(top - 1, 0)], grid[min(top + 1, len(grid) - 1)]),
                method="bounded",
                options={"xatol": 1e-6},
            )
            ratio = math.exp(refined.x if -refined.fun >= table[top, j] else grid[top])
            both = variances(ratio, self.measure(ratio)[1])
            chosen.append([np.broadcast_to(value, m)[j] for value in both])
        best = np.array(chosen)
        return best[:, 0], best[:, 1]


def likelihood_of_sums(
    sums: SufficientStatistics,
    means: np.ndarray,
    scales: np.ndarray,
    *,
    most_of_spectrum: int = MOST_OF_SPECTRUM,
) -> Likelihood:
    """Of the targets (y − mean) / scale, from the sums over the features."""
    check_finite(sums.second_moment.values)
    cross, squares = sums.centred(means, scales)
    A = sums.second_moment.lower()
    shared: dict[str, Any] = {
        "squares": squares,
        "energies": (sums.deviations() ** 2 + (sums.means() - means) ** 2) / scales**2,
        "n": sums.n,
        "log_weights": sums.log_weights,
        "is_complex": bool(np.iscomplexobj(cross)),
    }
    # fewer rows than columns: eigenvalues of zero are told from roundings in a spectrum only
    if most_of_spectrum < len(A) <= sums.n:
        band, along = band_of(A, cross)
        return _banded(band, along, squares, **shared)
    values, along = spectrum_of(A, cross)
    seen = values > values[-1] * len(values) * np.finfo(np.float64).eps
    energies = along[seen] / values[seen, None]
    rest = np.maximum(squares - energies.sum(axis=0), 0.0)
    return _spectral(values[seen], energies, rest, **shared)


def likelihood_of_kernel(
    K: np.ndarray,
    Y: np.ndarray,
    noise: np.ndarray | None,
    counts: np.ndarray,
    *,
    most_of_spectrum: int = MOST_OF_SPECTRUM,
) -> Likelihood:  # (n, n), (n, m), (n,), (n,)
    """Of targets Y with the Gram matrix K, noise variances if there are any, rows that count."""
    variances = np.ones(len(K)) if noise is None else noise
    roots = np.sqrt(variances / counts)
    energies = np.average(Y**2, axis=0, weights=counts)
    K, Y = K / np.outer(roots, roots), Y / roots[:, None]
    shared: dict[str, Any] = {
        "squares": np.sum(Y * Y, axis=0),
        "energies": energies,
        "n": float(np.sum(counts)),
        "log_weights": -float(np.sum(counts * np.log(variances))),
    }
    if len(K) > most_of_spectrum:
        band, along = band_of(K, Y)
        return _banded(band, along, None, **shared)
    values, energies = spectrum_of(K, Y)
    return _spectral(np.maximum(values, 0), energies, np.zeros(Y.shape[1]), **shared)


def _spectral(
    values: np.ndarray, along: np.ndarray, rest: np.ndarray, **shared: Any
) -> Likelihood:  # (r,), (r, m), (m,)
    """y has variance σ² + s λ_j along eigenvector j, and σ² where no feature sees it."""

    def measure(ratio: float) -> tuple[float, np.ndarray]:
        shares = 1 + ratio * values
        return float(np.sum(np.log(shares))), np.sum(along / shares[:, None], axis=0) + rest

    return Likelihood(measure, float(values.max(initial=0.0)), **shared)


def _banded(
    band: np.ndarray, along: np.ndarray, of_features: np.ndarray | None, **shared: Any
) -> Likelihood:  # (w + 1, D), (D, m)
    """From a band of M (then `of_features` are |y_j|²) or of a kernel matrix, and Qᴴb."""
    largest = largest_eigenvalue(band)
    failure = math.inf, np.full(along.shape[1], math.inf)

    def measure(ratio: float) -> tuple[float, np.ndarray]:
        if ratio * largest > MOST_CONDITION:
            return failure
        system = ratio * band
        # Rounding may make the least eigenvalues negative by about so much
        system[0] += 1 + ratio * largest * 8 * np.finfo(np.float64).eps
        try:
            factor = cholesky_banded(system, lower=True, overwrite_ab=True, check_finite=False)
        except LinAlgError:  # or by more
            return failure
        routine = lapack.ztbtrs if np.iscomplexobj(factor) else lapack.dtbtrs
        half, _ = routine(factor, along, uplo="L")
        squares = np.sum(half.real**2 + half.imag**2, axis=0)
        if of_features is not None:
            squares = np.maximum(of_features - ratio * squares, 0.0)
        return 2 * float(np.sum(np.log(factor[0].real))), squares

    return Likelihood(measure, largest, **shared)


# -- rows left out ---------------------------------------------------------------------------------


def left_out(
    residuals: np.ndarray, variance: np.ndarray, noise: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:  # (n, m), (n, m), (n, m) -> (n, m), (n, m)
    """What is left of y, and its variance, if a row is predicted from all others.

    From the residuals y − μ and the variances v of f at rows that were learnt from, with noise σ²:
    the posterior without the row has the residual (y − μ)/(1 − v/σ²) and, for y, the variance
    v/(1 − v/σ²) + σ² = σ²/(1 − v/σ²).

    >>> import numpy as np
    >>> left_out(np.array([[1.0]]), np.array([[0.5]]), np.array([[1.0]]))  # y = 2, prior N(0, 1)
    (array([[2.]]), array([[2.]]))
    """
    # rounding alone may leave nothing of a row that has the model to itself
    rest = np.maximum(1 - variance / noise, np.finfo(np.float64).eps)
    return residuals / rest, noise / rest


def left_out_of_kernel(
    K: np.ndarray, priors: np.ndarray, Y: np.ndarray, noise: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:  # (n, n), (m,), (n, m), (n, m) -> (n, m), (n, m)
    """The same for all training rows from C = s K + diag σ²: residuals [C⁻¹y]_i/[C⁻¹]_ii.

    Nothing cancels here where the noise is far below the variance of f.
    """
    residuals, variances = np.empty(Y.shape), np.empty(Y.shape)
    for j, prior in enumerate(priors):
        C = np.array(prior * K, order="F")
        C[np.diag_indices(len(C))] += noise[:, j]
        factor, _ = factorise(PackedMatrix.of(C))
        variances[:, j] = 1 / np.sum(np.abs(factor.inverse()) ** 2, axis=0)
        residuals[:, j] = factor.solve(Y[:, j : j + 1])[:, 0].real * variances[:, j]
    return residuals, variances


# -- evidence with its derivatives, for a search ---------------------------------------------------


# −log p(y), its derivatives with respect to kernel matrices, and to the logarithm of the noise
Evidence = tuple[float, tuple[np.ndarray, ...], float]


def evidence_of_kernel(
    K: np.ndarray, Y: np.ndarray, noise: Any
) -> Evidence | None:  # (n, n), (n, m), number or (n,)
    """−log p(y) of C = K + diag σ²; None where it fails.

    With A = C⁻¹ and a = A y the derivative with respect to C is ½ (m A − a aᵀ) for m outputs.
    """
    n, m = Y.shape
    C = K.copy().T  # K is symmetric; the transpose is in the order of LAPACK
    C[np.diag_indices(n)] += noise
    factor, failed = lapack.dpotrf(C, lower=1, overwrite_a=1, clean=1)
    if failed or not np.all(np.isfinite(np.diagonal(factor))):
        return None
    determinant = 2 * float(np.sum(np.log(np.diagonal(factor))))
    solved, _ = lapack.dpotrs(factor, Y, lower=1)
    loss = -float(log_density(m * determinant, float(np.sum(Y * solved)), n * m))
    inverse, _ = lapack.dpotri(factor, lower=1, overwrite_c=1)
    # one triangle of the symmetric inverse; its zeros above the diagonal are filled in
    slopes = inverse + inverse.T
    slopes[np.diag_indices(n)] /= 2
    slopes *= m
    slopes -= solved @ solved.T
    slopes /= 2
    return loss, (slopes,), float(np.sum(noise * np.diagonal(slopes)))


def evidence_of_landmarks(
    K_BB: np.ndarray, K_BX: np.ndarray, Y: np.ndarray, noise: Any
) -> Evidence | None:  # (b, b), (b, n), (n, m), number or (n,)
    """−log p(y) of C = K_XB K_BB⁻¹ K_BX + diag σ²; None where it fails.

    With K_BB = L Lᵀ, a(x) = L⁻¹ k(B, x), S = 1 + Σ w a aᵀ, P = K_BB⁻¹ K_BX, c = C⁻¹ y and
    M = (L S Lᵀ)⁻¹ the derivatives are, for one output,

        −½ (K_BB⁻¹ − M − (P c)(P c)ᵀ)       with respect to K_BB,
        M K_BX diag w − (P c) cᵀ            with respect to K_BX.

    One evaluation takes 4 n b² operations.
    """
    (n, outputs), size = Y.shape, len(K_BB)
    jittered = K_BB.copy().T
    jittered[np.diag_indices(size)] += 1e-8 * np.mean(np.diagonal(K_BB))  # landmarks may be alike
    L, failed = lapack.dpotrf(jittered, lower=1, overwrite_a=1, clean=1)
    if failed or not np.all(np.isfinite(np.diagonal(L))):
        return None
    weights = np.ones(n) / noise
    A = solve_triangular(L, K_BX, lower=True, check_finite=False)
    A *= np.sqrt(weights)
    moment = A @ A.T
    R, failed = lapack.dpotrf((moment + np.eye(size)).T, lower=1, overwrite_a=1, clean=1)
    if failed or not np.all(np.isfinite(np.diagonal(R))):
        return None
    rooted = np.sqrt(weights)[:, None] * Y
    solved, _ = lapack.dpotrs(R, A @ rooted, lower=1)
    c = np.sqrt(weights)[:, None] * (rooted - A.T @ solved)
    determinant = 2 * float(np.sum(np.log(np.diagonal(R)))) - float(np.sum(np.log(weights)))
    loss = -log_density(outputs * determinant, float(np.sum(Y * c)), n * outputs)
    inverse = solve_triangular(L, np.eye(size), lower=True, check_finite=False)
    half = solve_triangular(R, inverse, lower=True, check_finite=False)
    M, whole = half.T @ half, inverse.T @ inverse
    p = inverse.T @ (A @ (c / np.sqrt(weights)[:, None]))
    trace = n - size + np.sum(lapack.dtrtri(R, lower=1)[0] ** 2)
    of_noise = outputs * trace - np.sum(c * c / weights[:, None])
    square = outputs * (M - whole) + p @ p.T
    cross = (outputs * M) @ K_BX
    cross *= weights
    cross -= p @ c.T
    return float(loss), (square / 2, cross), float(of_noise) / 2

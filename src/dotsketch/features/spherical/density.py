"""Spherical random features: Fourier features of a kernel on the unit sphere (Pennington et al.).

On unit vectors a dot product kernel is a function of the distance z = |x − y| in [0, 2], with
x·y = 1 − z²/2. A mixture of spheres of radii w_j with weights p_j, as a distribution of random
frequencies ω in R^d, gives the kernel

    k̃(z) = E cos ωᵀ(x − y) = Σ_j p_j Ω_d(w_j z),   Ω_d(r) = ₀F₁(; d/2; −r²/4),

where Ω_d is the mean of cos over a sphere of radius r. The polynomial kernel (1 − z²/a²)^p is not
of this form, since it is not positive definite on all of R^d: `fit_density` finds the closest
mixture (nonnegative least squares over a grid of radii: convex, deterministic), and says how
close it is. What remains is a bias that no number of features takes away.

Mean, bias and variance are functions of the dot product alone, known in closed form.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Annotated

import numpy as np
from scipy.optimize import nnls

from ..._arrays import ArrayT, host, namespace, nonnegative
from ..._support.stored import array, stored
from ...kernels import DotProductKernel
from ...projections import Frequencies, sphere_mean
from ..base import check_part
from ..waves import Waves, WaveWeights

N_RADII = 200
N_DISTANCES = 200
# Structured directions of fewer coordinates (padded to a power of two) are far from uniform: the
# error of (1/2 + x·y/2)^p at 8192 columns is within 8 % of the closed form from 16 on, and up to 4
# times it for 8, 11 times for 4, 30 times for 2 (benchmarks/spherical_density.py --tables narrow)
LEAST_SORF_DIMENSION = 16
LEAST_FAST_SORF = 33  # up to 32 coordinates dense products are faster, and without bias


def is_nearly_uniform(ambient: int) -> bool:
    """Whether structured directions of so many coordinates, a power of two, are so; ±1 are."""
    return ambient == 1 or ambient >= LEAST_SORF_DIMENSION


def check_closed_form(projection: str, ambient: int) -> None:
    """An error where the moments of orthogonal directions are not those of the projection."""
    if projection == "sorf" and not is_nearly_uniform(ambient):
        raise ValueError(
            f'No closed form is known for projection="sorf" in {ambient} coordinates: below '
            f"{LEAST_SORF_DIMENSION} its directions are far from uniform. Use "
            'projection="orthogonal".'
        )


def choose_projection(projection: str, dimension: int) -> str:
    """The projection that "auto" stands for: "sorf" where it takes less time."""
    if projection != "auto":
        return projection
    return "sorf" if dimension >= LEAST_FAST_SORF else "orthogonal"


def _mixture(weights: np.ndarray, radii: np.ndarray, z: np.ndarray, dimension: int) -> np.ndarray:
    """Σ_j weights_j Ω_d(radii_j z), of the shape of z."""
    means = sphere_mean(np.multiply.outer(radii, z), dimension)
    return np.tensordot(weights, means, axes=1)


@stored
@dataclass(frozen=True, eq=False, repr=False)
class RadialDensity:
    """A distribution of isotropic frequencies in R^d: spheres of given radii and weights.

    Attributes
    ----------
    dimension : d
    radii, weights : arrays (n_atoms,); the weights are positive and sum to one
    rmse, max_error : of k̃ − k over distances in [0, 2], relative to k(x, x)
    """

    dimension: int
    radii: Annotated[np.ndarray, array("f", "atoms")]
    weights: Annotated[np.ndarray, array("f", "atoms")]
    rmse: float
    max_error: float

    def __repr__(self) -> str:
        heaviest = np.sort(np.argsort(-self.weights, kind="stable")[:5])
        atoms = ", ".join(f"{self.radii[j]:.3g}: {self.weights[j]:.3g}" for j in heaviest)
        more = ", …" if len(heaviest) < len(self.radii) else ""
        return (
            f"RadialDensity(dimension={self.dimension}, weight by radius={{{atoms}{more}}}, "
            f"rmse={self.rmse:.2g}, max_error={self.max_error:.2g})"
        )

    def mean(self, distances: np.ndarray) -> np.ndarray:
        """k̃(z) for distances of any shape."""
        return _mixture(self.weights, self.radii, distances, self.dimension)

    def sample(self, n: int, rng: np.random.Generator) -> np.ndarray:  # -> (n,)
        """n radii by systematic sampling, in random order.

        The quantiles (j + u)/n share one uniform u, so that a sphere of weight p gets ⌊np⌋ or ⌈np⌉
        of the radii, np on average.
        """
        quantiles = (np.arange(n) + rng.uniform()) / n
        return rng.permutation(self.radii[np.searchsorted(self._steps, quantiles, "right")])

    def pair_weights(self, n: int) -> np.ndarray:  # -> (n_atoms, n_atoms)
        """The joint distribution of the radii of two of n frequencies, exactly (0 for n = 1).

        The counts of the atoms change with u only at the fractional parts of n Σ_{i≤j} p_i.
        """
        if n == 1:
            return np.zeros((len(self.radii),) * 2)
        ends = n * np.append(self._steps, 1.0)
        breaks = np.unique(np.concatenate([[0.0, 1.0], ends % 1.0]))
        middles = (breaks[1:] + breaks[:-1]) / 2
        counts = np.diff(np.ceil(ends[None, :] - middles[:, None]), axis=1, prepend=0.0)
        joint = np.einsum("u,ui,uj->ij", np.diff(breaks), counts, counts)
        return (joint - np.diag(n * self.weights)) / (n * (n - 1))

    @property
    def _steps(self) -> np.ndarray:  # (n_atoms − 1,): the last step, to 1, is left out
        return np.cumsum(self.weights)[:-1]


def fit_density(
    target: Callable[[np.ndarray], np.ndarray], dimension: int, max_radius: float
) -> RadialDensity:
    """The mixture of spheres in R^d that is closest to target(z) with target(0) = 1.

    Least squares over 200 distances in [0, 2] and 200 radii in [0, max_radius], weights
    nonnegative with sum one, so that k̃(0) = target(0).
    """
    distances = np.linspace(0.0, 2.0, N_DISTANCES)
    radii = np.linspace(0.0, max_radius, N_RADII)
    values = np.asarray(target(distances), dtype=np.float64)
    too_narrow = ValueError(
        "The kernel is too narrow on the unit sphere for spherical features: it falls to "
        f"{values[1]:.2g} of k(x, x) at distance {distances[1]:.2g}. Use a larger lengthscale or a "
        "smaller gamma, or features of another family."
    )
    if abs(values[1]) < 1e-6:  # it is zero at all distances that are looked at
        raise too_narrow
    basis = sphere_mean(distances[:, None] * radii[None, :], dimension)
    # With Σp = 1 the error is Mp, M = basis − values 1ᵀ. Nonnegative least squares of Mp = 0 and
    # Σp = 1 is s²|Mq|² + (s − 1)² for p = sq, Σq = 1; its minimum over s grows with |Mq|, so that
    # q is the minimiser of |Mq| under the exact constraint.
    rows = np.vstack([basis - values[:, None], np.ones(N_RADII)])
    try:  # narrow kernels, which are met to rounding, take more than the usual 3 N_RADII steps
        weights, _ = nnls(rows, np.append(np.zeros(N_DISTANCES), 1.0), maxiter=10 * N_RADII)
    except RuntimeError as failure:
        raise too_narrow from failure
    kept = weights > 1e-12 * weights.sum()
    weights = weights[kept] / weights[kept].sum()
    error = basis[:, kept] @ weights - values
    return RadialDensity(
        dimension=dimension,
        radii=radii[kept],
        weights=weights,
        rmse=float(np.sqrt(np.mean(error**2))),
        max_error=float(np.max(np.abs(error))),
    )


def on_circle(kernel: DotProductKernel, dots: np.ndarray) -> np.ndarray:  # (n,) -> (n,)
    """k(x, y) for unit vectors with the given dot products, which are all it depends on."""
    sines = np.sqrt(np.maximum((1 - dots) * (1 + dots), 0.0))
    return host(kernel.detached()(np.array([[1.0, 0.0]]), np.column_stack([dots, sines])))[0]


def peak(kernel: DotProductKernel) -> float:
    """k(x, x) for unit vectors x."""
    return float(on_circle(kernel, np.ones(1))[0])


@lru_cache(maxsize=64)
def kernel_density(kernel: DotProductKernel, dimension: int) -> RadialDensity:
    """The density of a kernel on the unit sphere, as `fit_density` finds it; remembered.

    Radii go up to three times √(d k′(1)/k(1)), which is the root mean square of the radius if
    k̃ and k have the same curvature at z = 0: 3√(2pd)/a for (1 − z²/a²)^p.
    """
    with np.errstate(over="ignore"):
        top = peak(kernel)
    if not 0 < top < math.inf:
        raise ValueError(
            f"{kernel} has k(x, x) = {top} for unit vectors x: it must be positive and finite."
        )
    step = 1e-4  # finite for kernels with a vertical slope at 1 too (arc-cosine of order 0)
    slope = (1 - float(on_circle(kernel, np.array([1 - step]))[0]) / top) / step
    return fit_density(
        lambda z: on_circle(kernel, 1 - z * z / 2) / top,
        dimension,
        3 * math.sqrt(dimension * slope),
    )


@dataclass(frozen=True, eq=False)
class SphericalMoments:
    """Mean and variance of k̂ as functions of the dot product t of two unit vectors.

    Both are entire functions of t, held as Chebyshev series on [−1, 1] and evaluated for arrays of
    any library and shape.
    """

    mean_series: np.ndarray
    variance_series: np.ndarray

    def mean(self, dots: ArrayT) -> ArrayT:
        """E k̂ for unit vectors with these dot products."""
        return evaluate_chebyshev(self.mean_series, dots)

    def variance(self, dots: ArrayT) -> ArrayT:
        """Var k̂; below about 1e-13 it is rounding."""
        return nonnegative(evaluate_chebyshev(self.variance_series, dots))


@stored
@dataclass(frozen=True)
class SphericalMap(Waves):
    """A random feature map z of unit vectors with E[z(x)·conj z(y)] = k̃(|x − y|).

    Columns are those of `Waves`; `density` is that of the frequencies' norms.
    """

    projection: str = "sorf"
    density: RadialDensity = field(kw_only=True)

    def sample(
        self, dimension: int, rng: np.random.Generator, radii: np.ndarray | None = None
    ) -> WaveWeights:
        """Weights for unit vectors of R^dimension; radii are drawn from the density."""
        ambient = self.frequencies.ambient_dimension(dimension)
        if ambient != self.density.dimension:
            raise ValueError(
                f'projection="{self.projection}" of rows in R^{dimension} needs a density in '
                f"R^{ambient}; got {self.density}."
            )
        if radii is None:
            radii = self.density.sample(self.frequencies.n_frequencies, rng)
        return super().sample(dimension, rng, radii)

    def moments(self, part: str | None = None) -> SphericalMoments:
        """Mean and variance of k̂: of its real part, or of the complex value (`part`).

        k̂ = Σ_j a_j cos ω_jᵀ(x − y), Σ a_j = 1. Radii are exchangeable, with the joint distribution
        P of two of them (`RadialDensity.pair_weights`); directions of one block are orthogonal and
        Haar distributed, others independent. With A = Σ a_j² and B = Σ a_i a_j over the pairs
        i ≠ j of one block,

            E k̂² = A E cos² + B Σ_il P_il Ω(√(w_i² + w_l²) z) + (1−A−B) Σ_il P_il Ω(w_i z) Ω(w_l z)

        because w q ± v r has a uniform direction for orthonormal q, r. E cos² = (1 + k̃(2z))/2 for
        the real part, 1 for the complex value; the phase of an odd last column adds a²/2.
        Exact for "independent" and "orthogonal"; for "sorf" it is the expression for orthogonal
        directions in the padded dimension, which does not hold below 16 coordinates
        (docs/spherical.md shows how close it is).
        """
        part = check_part(part, self.part)
        density, d = self.density, self.density.dimension
        n = self.frequencies.n_frequencies
        squares, together = self.frequencies.pair_sums(self.shares, d)
        joint = density.pair_weights(n)

        def variance(z: np.ndarray) -> np.ndarray:
            means = sphere_mean(np.multiply.outer(density.radii, z), d)
            cosines = (1 + density.mean(2 * z)) / 2 if part == "real" else np.ones_like(z)
            apart = np.einsum("iz,il,lz->z", means, joint, means)
            total = squares * cosines + (1 - squares - together) * apart
            if together:
                radii = np.hypot(density.radii[:, None], density.radii[None, :])
                total += together * _mixture(joint.ravel(), radii.ravel(), z, d)
            return total - (density.weights @ means) ** 2 + self.phase_variance

        # u₁ of a direction is below 9.5/√d but for 1e-19, so that cos(2 w z u₁) is band-limited
        bandwidth = 2 * density.radii.max() * min(1.0, 9.5 / math.sqrt(d))
        degree = int(bandwidth) + 40
        return SphericalMoments(
            chebyshev_series(density.mean, degree), chebyshev_series(variance, degree)
        )


def predicted_errors(
    kernel: DotProductKernel,
    distances: np.ndarray,
    dimension: int,
    *,
    n_components: int,
    projection: str = "sorf",
    output: str = "real",
) -> tuple[np.ndarray, np.ndarray]:
    """(k̃ − k)² and Var k̂ for unit vectors of R^dimension at these distances (any shape).

    Exact for "independent" and "orthogonal"; "sorf" counts as orthogonal in its padded dimension,
    which must be 16 or more.

    >>> from dotsketch import Polynomial
    >>> kernel = Polynomial(7, gamma=0.5, coef0=0.5)  # (1 − z²/4)⁷
    >>> distances = np.array([0.5, 1.0])
    >>> squared_bias, variance = predicted_errors(kernel, distances, 64, n_components=256)
    >>> np.sqrt(squared_bias).round(3), np.sqrt(variance).round(3)
    (array([0.013, 0.011]), array([0.009, 0.049]))
    """
    ambient = Frequencies(1, projection).ambient_dimension(dimension)
    check_closed_form(projection, ambient)
    density = kernel_density(kernel.detached(), ambient)
    moments = SphericalMap(n_components, projection, output, density=density).moments()
    dots = 1 - np.asarray(distances, dtype=np.float64) ** 2 / 2
    exact = on_circle(kernel, dots.ravel()).reshape(dots.shape)
    top = peak(kernel)
    return (top * moments.mean(dots) - exact) ** 2, top**2 * moments.variance(dots)


def chebyshev_series(function: Callable[[np.ndarray], np.ndarray], degree: int) -> np.ndarray:
    """Chebyshev coefficients in t of a function of z = √(2 − 2t)."""
    return np.polynomial.chebyshev.chebinterpolate(lambda t: function(np.sqrt(2 - 2 * t)), degree)


def evaluate_chebyshev(series: np.ndarray, t: ArrayT) -> ArrayT:
    """Clenshaw's recurrence, for arrays of any library; t is clipped to [−1, 1]."""
    xp = namespace(t)
    t = xp.minimum(xp.maximum(t, -xp.ones_like(t)), xp.ones_like(t))
    current, previous = xp.zeros_like(t), xp.zeros_like(t)
    first, *others = series.tolist()
    for coefficient in reversed(others):
        current, previous = 2 * t * current - previous + coefficient, current
    return t * current - previous + first

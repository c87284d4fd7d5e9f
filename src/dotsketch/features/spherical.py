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
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Annotated, Any

import numpy as np
from array_api_compat import is_jax_array
from scipy.optimize import nnls

from .._arrays import (
    Array,
    host,
    is_foreign,
    is_traced,
    square_root,
)
from .._backends import Prepared
from .._support.parameters import one_of
from .._support.stored import array, stored
from ..kernels import DotProductKernel, Polynomial, directions
from ..kernels.inputs import row_squares
from ..projections import PROJECTIONS, Frequencies, sphere_mean
from .base import NO_SERIES, FeatureMap
from .fourier import WaveDesign, WaveWeights
from .study import Study, check_kernel

# Structured directions of fewer coordinates (padded to a power of two) are far from uniform: the
# error of (1/2 + x·y/2)^p at 8192 columns is within 8 % of the closed form from 16 on, and up to 4
# times it for 8, 11 times for 4, 30 times for 2 (benchmarks/spherical_density.py --tables narrow)
LEAST_SORF_DIMENSION = 16


Function = Callable[[np.ndarray], np.ndarray]


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
    n = 200
    distances, radii = np.linspace(0.0, 2.0, n), np.linspace(0.0, max_radius, n)
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
    rows = np.vstack([basis - values[:, None], np.ones(n)])
    try:  # narrow kernels, which are met to rounding, take more than the usual 3 n steps
        weights, _ = nnls(rows, np.append(np.zeros(n), 1.0), maxiter=10 * n)
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


@stored
@dataclass(frozen=True, eq=False, kw_only=True)
class SphericalDesign(WaveDesign):
    """Waves of unit vectors with E[z(x)·conj z(y)] = k(x, x) k̃(|x − y|).

    density : that of the norms of the frequencies
    normalize : whether rows are divided by their norms, or have to be unit vectors
    """

    density: RadialDensity
    normalize: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.ambient_dimension != self.density.dimension:
            raise ValueError(
                f'projection="{self.projection}" of rows in R^{self.dimension} needs a density in '
                f"R^{self.ambient_dimension}; got {self.density}."
            )

    @property
    def is_nearly_uniform(self) -> bool:
        """Whether directions are as good as uniform: not structured ones in few coordinates."""
        ambient = self.ambient_dimension
        return self.projection != "sorf" or ambient == 1 or ambient >= LEAST_SORF_DIMENSION

    @property
    def has_formula(self) -> bool:  # type: ignore[override]
        return self.projection != "sorf"

    def cautions(self, study: Study) -> Iterator[str]:
        yield from super().cautions(study)
        if not self.is_nearly_uniform:
            yield (
                f'projection="sorf" in {self.ambient_dimension} coordinates: its directions are '
                "far from uniform, and the error of the kernel does not vanish with more columns. "
                'Use projection="orthogonal", which "auto" is here.'
            )
        if self.density.rmse > 0.1:
            yield (
                f"{self.kernel} is far from every kernel that spherical features can represent: "
                f"root mean square bias {self.density.rmse:.2g}, at most "
                f"{self.density.max_error:.2g}, of k(x, x). Use MaclaurinFeatures, or raise coef0."
            )

    @cached_property
    def peak(self) -> float:
        """k(x, x) of unit vectors."""
        return peak(self.kernel.detached())

    def sample(self, rng: np.random.Generator, rows: Array | None = None) -> WaveWeights:
        return self.sample_waves(rng, self.density.sample(self.frequencies.n_frequencies, rng))

    def prepare(self, weights: WaveWeights, rows: Array) -> Prepared:
        if is_jax_array(rows):
            self.inputs(rows)  # the loop over chunks of rows is traced: no values there
        variance = self.kernel.variance
        root = math.sqrt(self.peak / float(host(variance)))
        return self.prepare_waves(weights, rows, None, root * square_root(variance))

    def inputs(self, rows: Array) -> Array:  # (n, d) -> (n, d)
        """Rows of unit norm; an error if there are none."""
        unit, radius = directions(rows)
        if not is_traced(radius):
            norms = np.asarray(host(radius), dtype=np.float64)
            worst = float(norms[np.argmax(np.abs(norms - 1))])
            if self.normalize and not np.all(norms):
                raise ValueError(
                    "X has a row of zeros, which has no direction on the unit sphere: remove it."
                )
            if not self.normalize and not abs(worst - 1) <= 1e-4:  # single precision passes
                raise ValueError(
                    "Spherical features with normalize=False need rows of unit norm; one has norm "
                    f"{worst:.6g}. Divide every row by its norm, use "
                    "SphericalFeatures(normalize=True), or choose features of another family."
                )
        return unit if self.normalize else rows

    def variance(self, A: np.ndarray, B: np.ndarray, part: str) -> np.ndarray:
        """For "sorf" that of orthogonal directions, an approximation; it raises where they are far
        from uniform."""
        dots: Any = self.inputs(A) @ self.inputs(B).T
        return self.peak**2 * self.moments(part)[1](dots)

    def bias(self, A: np.ndarray, B: np.ndarray) -> np.ndarray:
        """k̃ − k, on which the number of columns has no influence."""
        S, T = self.inputs(A), self.inputs(B)
        dots: Any = S @ T.T
        return np.asarray(self.peak * self.moments("real")[0](dots) - self.kernel.detached()(S, T))

    def moments(self, part: str) -> tuple[Function, Function]:
        """Mean and variance of k̂ as functions of the dot product of two unit vectors: of its real
        part, or of the complex value (`part`). A variance below about 1e-13 is rounding.

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
        if not self.is_nearly_uniform:
            raise ValueError(
                f'No closed form is known for projection="sorf" in {self.ambient_dimension} '
                f"coordinates: below {LEAST_SORF_DIMENSION} its directions are far from uniform. "
                'Use projection="orthogonal".'
            )
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

        # Both are entire functions of the dot product. u₁ of a direction is below 9.5/√d but for
        # 1e-19, so that cos(2 w z u₁) is band-limited
        degree = int(2 * density.radii.max() * min(1.0, 9.5 / math.sqrt(d))) + 40

        def series(of: Function, least: float) -> Function:
            fit = np.polynomial.Chebyshev.interpolate(lambda t: of(np.sqrt(2 - 2 * t)), degree)
            return lambda dots: np.maximum(fit(np.clip(dots, -1, 1)), least)

        return series(density.mean, -np.inf), series(variance, 0)


class SphericalFeatures(FeatureMap):
    """Spherical random features: Fourier features of a dot product kernel on unit vectors.

    On the unit sphere the kernel is a function of the distance z = |x − y|. The polynomial kernel
    (gamma x·y + coef0)^p is (gamma + coef0)^p (1 − z²/a²)^p there, with a² = 2 (gamma + coef0) /
    gamma. The closest mixture of frequencies on spheres is fitted to it once (`density_`), and
    features are cosines and sines of ωᵀx (Pennington, Yu and Kumar, 2015).

    What is approximated is the kernel k̃ of that mixture: k̃ = k at z = 0, and elsewhere a bias
    remains, `density_.rmse` over all distances, that no number of features takes away; it is small
    for low dimensions and high degrees. For a < 2 (coef0 < gamma) a polynomial kernel changes its
    sign or rises again at large distances, which no mixture follows: prefer MaclaurinFeatures;
    `fit` warns if the root mean square of the bias exceeds 0.1 of k(x, x).

    Parameters
    ----------
    kernel : DotProductKernel
        `Polynomial`, or any other kernel: on unit vectors each is a function of the distance (a
        Gaussian needs one lengthscale for all coordinates; "median" is that of the unit rows).
    projection : {"auto", "sorf", "orthogonal", "independent"}, default="auto"
        How directions are drawn. "sorf" takes D·log d operations per row, in d padded to a power
        of two; "orthogonal" takes D·d. "auto" is "sorf" for 33 coordinates and more, and
        "orthogonal" for fewer, where it is faster. Structured directions in 8 or fewer (padded)
        coordinates are far from uniform, so that the approximate kernel converges to another one:
        `fit` warns if "sorf" is asked for there, and `variance` and `bias` raise.
    n_components : int, default=100
        The number of columns that `transform` returns.
    output : {"real", "complex", "complex_to_real"}, default="real"
        Cosines and sines of n_components/2 frequencies (an odd last column is a cosine with a
        random phase); exp(iωᵀx) of n_components frequencies, with k ≈ Z Zᴴ; or [Re Z, Im Z],
        which are the real ones.
    normalize : bool, default=True
        True divides every row by its norm: features of k(x/|x|, y/|y|). False refuses rows whose
        norm is not one (within 1e-4). A row of zeros has no direction and is refused in both
        cases, except under `jax.jit` and `torch.compile`, where values cannot be looked at (it
        stays zero there).
    n_jobs : int or None, default=None
        Threads that `transform` uses on NumPy rows (-1: all).
    random_state : int, RandomState, Generator or None

    Attributes
    ----------
    kernel_ : the kernel with data-dependent parameters resolved
    density_ : RadialDensity: radii and weights of the frequencies, `rmse` and `max_error`
    design_ : SphericalDesign, what was drawn from
    weights_ : its random weights (NumPy arrays)
    n_features_in_ : int

    Examples
    --------
    >>> import numpy as np
    >>> from dotsketch import Polynomial, SphericalFeatures, relative_frobenius_error
    >>> X = np.random.default_rng(0).standard_normal((50, 16)) + 1
    >>> X /= np.linalg.norm(X, axis=1, keepdims=True)
    >>> kernel = Polynomial(7, gamma=0.5, coef0=0.5)
    >>> features = SphericalFeatures(kernel, n_components=512, random_state=0)
    >>> Z = features.fit_transform(X)
    >>> Z.shape
    (50, 512)
    >>> features.density_  # doctest: +ELLIPSIS
    RadialDensity(dimension=16, weight by radius={...}, rmse=0.0014, max_error=0.0021)
    >>> bool(relative_frobenius_error(kernel(X), Z @ Z.T) < 0.2)
    True
    >>> np.sqrt(features.variance(X).mean()).round(3)  # the error, known beforehand
    np.float64(0.032)
    >>> np.abs(features.bias(X)).max().round(3)
    np.float64(0.002)
    """

    family = "spherical"

    def __init__(
        self,
        kernel: DotProductKernel,
        *,
        projection: str = "auto",
        n_components: int = 100,
        output: str = "real",
        normalize: bool = True,
        n_jobs: int | None = None,
        random_state: Any = None,
    ):
        self.kernel = kernel
        self.projection = projection
        self.n_components = n_components
        self.output = output
        self.normalize = normalize
        self.n_jobs = n_jobs
        self.random_state = random_state

    def design(self, study: Study) -> SphericalDesign:
        self._check_kernel(study.unresolved)
        one_of("projection", self.projection, ("auto", *PROJECTIONS))
        projection = self.projection
        if projection == "auto":
            # up to 32 coordinates dense products are faster, and without bias
            projection = "sorf" if study.dimension > 32 else "orthogonal"
        ambient = Frequencies(1, projection).ambient_dimension(study.dimension)
        kernel: Any = study.resolved
        if getattr(study.unresolved, "lengthscale", None) == "median":  # that of unit rows
            kernel = study.unresolved.resolve(directions(study.fitting)[0])
        density = kernel_density(kernel.detached(), ambient)
        options = {"projection": projection, "normalize": bool(self.normalize)}
        design = self.of_study(SphericalDesign, study, kernel=kernel, density=density, **options)
        design.inputs(study.X)  # refuses rows without a direction, or of another norm
        return design

    @property
    def density_(self) -> RadialDensity:
        density: RadialDensity = self.design_.density
        return density

    def label(self) -> str:
        output = "" if self.output == "real" else f", {self.output}"
        return f"spherical: {self.projection}{output}"

    @classmethod
    def variants(cls, study: Study) -> list[FeatureMap]:
        """For polynomial kernels with coef0 ≥ gamma, if all rows have norm one: other kernels
        become negative, or grow again, for opposite rows, and no mixture fits them well.

        With normalize=False: rows of another norm, of which the plan knows nothing, are refused.
        """
        kernel = study.kernel
        if not (isinstance(kernel, Polynomial) and kernel.coef0 >= kernel.gamma):
            return []
        norms = np.sqrt(np.asarray(host(row_squares(study.X)), dtype=np.float64))
        if not np.all(np.abs(norms - 1) < 1e-5):  # but for the rounding of single precision
            return []
        return [cls(kernel, normalize=False)]

    @staticmethod
    def _check_kernel(kernel: Any) -> None:
        check_kernel(kernel, DotProductKernel, NO_SERIES)
        for name, value in kernel.get_params().items():
            if is_foreign(value) and name != "variance":
                raise TypeError(
                    f"The density is fitted on the host, so no gradient flows to {name}: give a "
                    "number (variance alone may be an array)."
                )
            if name.split("__")[-1] == "lengthscale" and np.size(value) > 1:
                raise ValueError(
                    "A kernel with one lengthscale for every coordinate is not a function of the "
                    "distance on the sphere; use FourierFeatures."
                )

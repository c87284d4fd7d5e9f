"""Random Fourier features of the Gaussian kernel exp(−|x − y|²/2), and of Matérn kernels.

The kernel is the mean of cos ωᵀ(x − y) over Gaussian frequencies ω (Rahimi and Recht). Features
are cosines and sines of ωᵀx for D frequencies; orthogonal frequencies have less variance than
independent ones (Yu et al., 2016), known here in closed form for both. With constant norms |ω|
they have less still, at the price of a bias of about −k|x − y|⁴/(4(d + 2)).

The frequencies of a Matérn kernel are Gaussian ones times √(2ν/χ²) with χ² of 2ν degrees of
freedom: a multivariate Student distribution. The variance of independent ones is known in closed
form too, that of the others is measured.

`FourierMap` is the description; its inputs are already divided by the lengthscale.
`FourierFeatures` is the estimator.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .._arrays import Array, ArrayT, as_generator, dense, double, host, like, plain, square_root
from .._support.parameters import one_of
from .._support.stored import stored
from ..kernels import DistanceKernel, Gaussian, Kernel, Matern
from ..projections import PROJECTIONS, orthogonal_covariance, sphere_mean
from .base import FeatureMap, check_part, fitted_kernel, namespaced, suited
from .degenerate import warn_if_degenerate
from .errors import ExpectedError, Unsuited
from .study import Study
from .waves import FrequencyFeatures, Waves, WaveWeights, output_suffix

NORMS = ("auto", "random", "constant")


@stored
@dataclass(frozen=True)
class FourierMap(Waves):
    """A random feature map z with E[z(x)·conj z(y)] = exp(−|x − y|²/2), or a Matérn kernel.

    Columns are those of `Waves`, of which this has two parameters more:

    norms : "random": those of Gaussian vectors, so that k̂ is exactly unbiased for "independent"
        and "orthogonal" (and nearly so for "sorf", docs/fourier.md). "constant": all √d, biased
        but of less variance. "auto": as published, "constant" for "sorf", otherwise "random".
    nu : the smoothness of a Matérn kernel, whose frequencies have Student distributed norms (all
        are multiplied, constant or not); None for the Gaussian kernel.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[0.3, 0.1], [1.0, 0.2]])
    >>> fourier = FourierMap(4000)
    >>> Z = fourier.apply(X, fourier.sample(2, np.random.default_rng(0)))
    >>> exact = np.exp(-0.5 / 2)
    >>> deviation = fourier.variance(0.5, dimension=2) ** 0.5
    >>> bool(abs(Z[0] @ Z[1] - exact) < 3 * deviation)
    True
    """

    norms: str = "auto"
    nu: float | None = None

    def __post_init__(self) -> None:
        one_of("norms", self.norms, NORMS)
        super().__post_init__()

    @property
    def has_constant_norms(self) -> bool:
        return self.norms == "constant" or (self.norms == "auto" and self.projection == "sorf")

    @property
    def is_exact(self) -> bool:
        """Whether `bias` and `variance` are exact: "sorf" is only close to "orthogonal"."""
        if self.nu is not None:
            return self.projection == "independent" and not self.has_constant_norms
        return self.projection != "sorf"

    @property
    def kernel(self) -> DistanceKernel:
        """The kernel of rows that are divided by the lengthscale."""
        return Gaussian(lengthscale=1.0) if self.nu is None else Matern(self.nu, lengthscale=1.0)

    def sample(
        self, dimension: int, rng: np.random.Generator, radii: np.ndarray | None = None
    ) -> WaveWeights:
        """Weights of one map on R^dimension, with the norms of this map unless radii are given."""
        ambient, n = self.frequencies.ambient_dimension(dimension), self.frequencies.n_frequencies
        if radii is None and self.has_constant_norms:
            radii = np.full(n, math.sqrt(ambient))
        if self.nu is not None:
            radii = np.sqrt(rng.chisquare(ambient, n)) if radii is None else radii
            radii = radii * np.sqrt(2 * self.nu / rng.chisquare(2 * self.nu, n))
        return super().sample(dimension, rng, radii)

    def variance(
        self, squared_distance: Any, dimension: int, *, part: str | None = None
    ) -> np.ndarray:
        """Variance of k̂(x, y) from |x − y|² (an array of any shape), on the host.

        With k = exp(−|x − y|²/2), one frequency of random norm has the variance (1 − k²)²/2 (the
        real part) or 1 − k² (the complex value), two of one block the covariance c of
        `orthogonal_covariance`; D frequencies in blocks of d give (variance + (d − 1) c)/D, and
        an incomplete last block counts as it is. The phase of an odd last column adds 1/(2 D²).
        For constant norms, m(a) = E cos(a ωᵀ(x − y)) takes the place of k: (1 + m(2))/2 − m(1)²
        or 1 − m(1)², and c = m(√2) − m(1)².

        `part` is "real" for Re k̂ (the default but for output="complex") or "complex". For "sorf"
        this is the expression for orthogonal frequencies in R^p: an approximation, as good as
        docs/fourier.md shows. For a Matérn kernel it is that of independent frequencies, with
        k(2x, 2y) in the place of k⁴: (1 + k(2x, 2y))/2 − k².
        """
        part = check_part(part, self.part)
        s = np.asarray(squared_distance, dtype=np.float64)
        ambient = self.frequencies.ambient_dimension(dimension)
        squares, pairs = self.frequencies.pair_sums(self.shares, dimension)
        if self.nu is not None:
            k, doubled = (self.kernel.profile_of_halves(factor * s / 2) for factor in (1, 4))
            single = 1 - k**2 if part == "complex" else (1 + doubled) / 2 - k**2
            total = squares * single
        elif self.has_constant_norms:
            square = sphere_mean_cosine(s, ambient) ** 2
            double_angle = sphere_mean_cosine(4 * s, ambient)
            single = 1 - square if part == "complex" else (1 + double_angle) / 2 - square
            total = squares * single + pairs * (sphere_mean_cosine(2 * s, ambient) - square)
        else:
            loss = -np.expm1(-s)  # 1 − k²
            total = squares * (loss if part == "complex" else loss**2 / 2)
            if pairs:
                total = total + pairs * orthogonal_covariance(s / 2, ambient, sign=-1)
        return np.maximum(total + self.phase_variance, 0)

    def bias(self, squared_distance: Any, dimension: int) -> np.ndarray:
        """E[k̂] − k from |x − y|²: zero for random norms; for "sorf" an approximation.

        Not known for Matérn kernels with constant norms.
        """
        s = np.asarray(squared_distance, dtype=np.float64)
        if not self.has_constant_norms:
            return np.zeros_like(s)
        if self.nu is not None:
            raise NotImplementedError(
                "The bias of constant norms has no closed form for Matérn kernels: use "
                'norms="random", which has none, or measure the error (plan does).'
            )
        return sphere_mean_cosine(s, self.frequencies.ambient_dimension(dimension)) - np.exp(-s / 2)

    def expected_squared_error(
        self, squared_distance: Any, dimension: int, *, part: str | None = None
    ) -> np.ndarray:
        """E|k̂ − k|² = variance + bias²."""
        variance = self.variance(squared_distance, dimension, part=part)
        return variance + self.bias(squared_distance, dimension) ** 2


def sphere_mean_cosine(squared_length: np.ndarray, dimension: int) -> np.ndarray:
    """E[cos(√d qᵀx)] over a uniform direction q, from |x|²: ₀F₁(; d/2; −d|x|²/4).

    Lengths above √1500, where the Gaussian kernel underflows, count as √1500.

    >>> sphere_mean_cosine(np.array([1.0]), 1) - np.cos(1)  # d = 1: q = ±1
    array([0.])
    """
    s = np.minimum(squared_length, 1500.0)
    return sphere_mean(np.sqrt(dimension * s), dimension)


class FourierFeatures(FrequencyFeatures):
    """Random Fourier features of the Gaussian kernel and of Matérn kernels.

    Parameters
    ----------
    kernel : Gaussian or Matern
        Its lengthscale may be "median" (of the training rows), one number for every coordinate,
        or a torch or JAX array, to which gradients flow.
    projection : {"orthogonal", "independent", "sorf"}, default="orthogonal"
        "independent" frequencies are the classical random Fourier features. "orthogonal" ones
        have less variance at the same cost, and are unbiased as well. "sorf" needs D·log d instead
        of D·d operations per row; it is biased, so use "orthogonal" for d below 16.
    norms : {"auto", "random", "constant"}, default="auto"
        Norms of the frequencies. "random": those of Gaussian vectors, without bias. "constant":
        √d, with a bias of about −k|x − y|⁴/(4(d + 2)l⁴) and less variance: a smaller error for
        few components, a larger one for many. "auto": as published, "constant" for "sorf" only.
    n_components : int, default=100
        The number of columns that `transform` returns.
    output : {"real", "complex", "complex_to_real"}, default="real"
        Cosines and sines of n_components/2 frequencies (an odd last column is a cosine with a
        random phase); exp(iωᵀx) of n_components frequencies, with k ≈ Z Zᴴ; or the columns
        [Re Z, Im Z], which are the real ones.
    n_jobs : int or None, default=None
        Threads that `transform` uses on NumPy rows (-1: all).
    random_state : int, RandomState, Generator or None

    Attributes
    ----------
    kernel_ : the kernel with its lengthscale resolved
    map_ : FourierMap, the description that was drawn from
    weights_ : its random weights (NumPy arrays)
    n_features_in_ : int

    Examples
    --------
    >>> import numpy as np
    >>> from dotsketch import FourierFeatures, Gaussian, relative_frobenius_error
    >>> X = np.random.default_rng(0).standard_normal((50, 8))
    >>> features = FourierFeatures(Gaussian(), n_components=512, random_state=0)
    >>> Z = features.fit_transform(X)
    >>> Z.shape
    (50, 512)
    >>> bool(relative_frobenius_error(features.kernel_(X), Z @ Z.T) < 0.1)
    True
    >>> np.sqrt(features.variance(X).mean()).round(2)  # the error, known beforehand
    np.float64(0.01)
    """

    family = "fourier"

    def __init__(
        self,
        kernel: Kernel,
        *,
        projection: str = "orthogonal",
        norms: str = "auto",
        n_components: int = 100,
        output: str = "real",
        n_jobs: int | None = None,
        random_state: Any = None,
    ):
        self.kernel = kernel
        self.projection = projection
        self.norms = norms
        self.n_components = n_components
        self.output = output
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, X: Array, y: Any = None) -> FourierFeatures:
        """Resolve the lengthscale on X (n, d) and draw frequencies for rows of its width."""
        if not isinstance(self.kernel, DistanceKernel):
            raise TypeError(
                f"Fourier features are for shift-invariant kernels: Gaussian() or Matern(); got "
                f"{self.kernel!r}. MaclaurinFeatures supports every dot product kernel, "
                "PositiveFeatures the exponential, SphericalFeatures polynomials on the sphere."
            )
        self._begin_fit()
        X = self._validate(X, reset=True)
        self.kernel_ = fitted_kernel(self.kernel, X)
        self.map_ = self._map(self.kernel_)
        warn_if_degenerate(self.kernel_, X)
        self.weights_ = self.map_.sample(self.n_features_in_, as_generator(self.random_state))
        return self

    def label(self) -> str:
        norms = "" if self.norms == "auto" else f", {self.norms} norms"
        return f"fourier: {self.projection}{norms}{output_suffix(self.output)}"

    def check_study(self, study: Study) -> None:
        one_of("projection", self.projection, PROJECTIONS)
        one_of("norms", self.norms, NORMS)
        if not isinstance(study.kernel, DistanceKernel):
            raise Unsuited("Fourier features are for kernels of the distance")

    def _map(self, kernel: Kernel) -> FourierMap:
        nu = getattr(kernel, "nu", None)
        return FourierMap(self.n_components, self.projection, self.output, self.norms, nu)

    def expected_error(self, study: Study) -> ExpectedError:
        features = self._map(study.kernel)
        cost = features.cost(study.dimension)
        if not features.is_exact:
            return self._measured(study, cost)
        scale = float(study.kernel.variance) ** 2
        squares = study.lengths(-1) ** 2
        squared_bias = scale * float(np.mean(features.bias(squares, study.dimension) ** 2))
        variance = scale * float(np.mean(features.variance(squares, study.dimension)))
        return study.error(squared_bias, variance, cost)

    @classmethod
    def variants(cls, study: Study) -> list[FeatureMap]:
        # Columns are real: [Re, Im] of complex features are the same numbers
        return suited((cls(study.kernel, projection=p) for p in ("orthogonal", "sorf")), study)

    def _features(self, X: ArrayT) -> ArrayT:
        return self.map_.apply(
            X,
            self.weights_,
            lengthscale=plain(self.kernel_.lengthscale),
            scale=square_root(self.kernel_.variance),
            n_jobs=self.n_jobs,
        )

    def variance(self, X: Array, Y: Array | None = None, *, part: str | None = None) -> Array:
        """Variance of the approximate kernel between rows of X and of Y, (n, d), (m, d) -> (n, m).

        It is the variance of the kernel value that the user gets: of the complex value Z Zᴴ for
        output="complex", otherwise of a real number; `part="real"` and `part="complex"` ask for
        one of them. For projection="sorf", and for Matérn kernels unless projection="independent",
        an approximation: see `FourierMap.variance`.
        """
        distances = self._squared_distances(X, Y)
        variance = self.map_.variance(distances, self.n_features_in_, part=part)
        return like(float(self.kernel_.detached().variance) ** 2 * variance, namespaced(X))

    def bias(self, X: Array, Y: Array | None = None) -> Array:
        """E[k̂] − k between rows of X and of Y: zero unless the norms are constant."""
        distances = self._squared_distances(X, Y)
        bias = self.map_.bias(distances, self.n_features_in_)
        return like(float(self.kernel_.detached().variance) * bias, namespaced(X))

    def _squared_distances(self, X: Array, Y: Array | None) -> np.ndarray:
        """|x − y|² in units of the lengthscale, on the host."""
        check_is_fitted(self)
        unit = Gaussian(lengthscale=self.kernel_.detached().lengthscale)
        given = (None if Z is None else self._validate(Z, reset=False) for Z in (X, Y))
        A: Any  # B is None where Y is
        A, B = (None if Z is None else np.asarray(double(host(dense(Z)))) for Z in given)
        with np.errstate(divide="ignore"):  # k underflows: the distance is infinite for us
            return -2 * np.log(unit(A, B))

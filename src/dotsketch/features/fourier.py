"""Random Fourier features of kernels of the distance.

The kernel is the mean of cos ωᵀ(x − y) over random frequencies ω (Rahimi and Recht). Features are
cosines and sines of ωᵀx. A frequency contributes a_ω cos ωᵀ(x − y) to the approximate kernel, with
weights a that sum to one: by a pair of columns √a [cos ωᵀx, sin ωᵀx], by one complex column
√a exp(i ωᵀx), or, where the number of real columns is odd, at the end by one column
√(2a) cos(ωᵀx + φ) of random phase.

The frequencies of the Gaussian kernel exp(−|x − y|²/2) are Gaussian. Orthogonal ones have less
variance than independent ones (Yu et al., 2016), known here in closed form for both. With constant
norms |ω| they have less still, at the price of a bias of about −k|x − y|⁴/(4(d + 2)).

The frequencies of another kernel are Gaussian ones times random factors
(`DistanceKernel.frequency_factors`; for a Matérn kernel √(2ν/χ²) with χ² of 2ν degrees of freedom,
for a rational quadratic one √(γ/α) with γ of a gamma distribution of shape α).
The variance of independent ones is known in closed form too, that of the others is measured.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, NamedTuple

import numpy as np

from .._arrays import Array, ArrayT, square_root, suited
from .._backends import Prepared, backend_of, keeps_prepared, kept
from .._support.parameters import one_of
from .._support.stored import array, check_lengths, stored
from ..kernels import DistanceKernel, Gaussian, Kernel
from ..projections import Frequencies, orthogonal_covariance, sphere_mean
from .base import FeatureMap
from .design import Design, Unsuited
from .study import Study, check_kernel

NORMS = ("auto", "random", "constant")


@keeps_prepared
class WaveWeights(NamedTuple):
    frequencies: Any  # named tuple of arrays, see `Frequencies`
    # (1,), of the last column if the number of real columns is odd, or (0,)
    phase: Annotated[np.ndarray, array("f", "phases")]


@dataclass(frozen=True, eq=False)
class WaveDesign(Design):
    """Columns that are waves: √(2/D) [cos ωᵀx, sin ωᵀx] for D/2 frequencies, with one column
    √(2/D) cos(ωᵀx + φ) more if D is odd; or exp(iωᵀx)/√D for D frequencies. The columns of
    "complex_to_real" are those of "real".
    """

    projection: str = "orthogonal"

    @cached_property
    def frequencies(self) -> Frequencies:
        n = self.n_components if self.output == "complex" else (self.n_components + 1) // 2
        return Frequencies(n, self.projection)

    @property
    def ambient_dimension(self) -> int:
        return self.frequencies.ambient_dimension(self.dimension)

    @property
    def has_phase(self) -> bool:
        """Whether the last column stands alone, as a cosine with a random phase."""
        return self.output == "real" and self.n_components % 2 == 1

    @property
    def shares(self) -> np.ndarray:  # (n_frequencies,)
        """The weights a of the frequencies in the approximate kernel; they sum to one."""
        n_waves = self.n_components if self.output == "complex" else self.n_components / 2
        shares = np.full(self.frequencies.n_frequencies, 1 / n_waves)
        if self.has_phase:
            shares[-1] /= 2
        return shares

    @property
    def phase_variance(self) -> float:
        """What the random phase adds to the variance of the approximate kernel, a²/2."""
        return float(self.shares[-1] ** 2 / 2) if self.has_phase else 0.0

    def sample_waves(self, rng: np.random.Generator, radii: np.ndarray | None) -> WaveWeights:
        """Weights with frequencies of these norms (those of Gaussian vectors if None)."""
        frequencies = self.frequencies.sample(self.dimension, rng, radii)
        return WaveWeights(frequencies, rng.uniform(0, 2 * math.pi, int(self.has_phase)))

    def check_weights(self, weights: Any) -> None:
        check_lengths(weights, (WaveWeights,), phases=int(self.has_phase))
        self.frequencies.check_weights(weights.frequencies, self.dimension)

    def prepare_waves(
        self, weights: WaveWeights, rows: Array, lengthscale: Any, scale: Any
    ) -> Prepared:
        """Waves of rows over the lengthscale (if there is one), times `scale`."""
        scale = scale * math.sqrt((1 if self.output == "complex" else 2) / self.n_components)
        backend = backend_of(rows)

        def make() -> Prepared:
            return backend.waves(*weights, lengthscale, scale, self.output == "complex", rows)

        if self.is_differentiable:
            return make()
        length = np.asarray(lengthscale).tobytes() if np.ndim(lengthscale) else lengthscale
        return kept(weights, (self.output, backend, length, float(scale)), rows, make)

    def apply(self, X: ArrayT, weights: Any, n_jobs: int | None = None) -> ArrayT:
        prepared = self.prepare(weights, X)
        return prepared.map(X, self.part, self.n_components, self.inputs, n_jobs)

    @property
    def cost(self) -> float:
        n = self.frequencies.n_frequencies
        return self.frequencies.cost(self.dimension) + 20.0 * 2 * n


@stored
@dataclass(frozen=True, eq=False)
class FourierDesign(WaveDesign):
    """Frequencies of the spectral density of the kernel.

    norms : "random": those of Gaussian vectors, so that k̂ is exactly unbiased for "independent"
        and "orthogonal" (and nearly so for "sorf", docs/fourier.md). "constant": all √d, biased
        but of less variance. "auto": as published, "constant" for "sorf", otherwise "random".

    Examples
    --------
    >>> import numpy as np
    >>> from dotsketch import Gaussian
    >>> X = np.array([[0.3, 0.1], [1.0, 0.2]])
    >>> design = FourierDesign(Gaussian(lengthscale=1.0), 2, 4000)
    >>> Z = design.apply(X, design.sample(np.random.default_rng(0)))
    >>> exact = np.exp(-0.5 / 2)
    >>> deviation = design.variance_at(0.5, "real") ** 0.5
    >>> bool(abs(Z[0] @ Z[1] - exact) < 3 * deviation)
    True
    """

    norms: str = "auto"

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of("norms", self.norms, NORMS)

    @property
    def has_constant_norms(self) -> bool:
        return self.norms == "constant" or (self.norms == "auto" and self.projection == "sorf")

    @property
    def is_gaussian(self) -> bool:
        return isinstance(self.kernel, Gaussian)

    @property
    def has_formula(self) -> bool:  # type: ignore[override]
        """Not for "sorf", which is only close to "orthogonal"."""
        if self.is_gaussian:
            return self.projection != "sorf"
        return self.projection == "independent" and not self.has_constant_norms

    def sample(self, rng: np.random.Generator, rows: Array | None = None) -> WaveWeights:
        radii, n = None, self.frequencies.n_frequencies
        if self.has_constant_norms:
            radii = np.full(n, math.sqrt(self.ambient_dimension))
        if not self.is_gaussian:
            radii = np.sqrt(rng.chisquare(self.ambient_dimension, n)) if radii is None else radii
            radii = radii * self.kernel.frequency_factors(n, rng)
        return self.sample_waves(rng, radii)

    def prepare(self, weights: WaveWeights, rows: Array) -> Prepared:
        lengthscale = suited(self.kernel.lengthscale, rows)
        if isinstance(lengthscale, (list, tuple)):
            lengthscale = np.asarray(lengthscale, dtype=np.float64)
        return self.prepare_waves(weights, rows, lengthscale, square_root(self.kernel.variance))

    def variance(self, A: np.ndarray, B: np.ndarray, part: str) -> np.ndarray:
        """See `variance_at`; an approximation where `has_formula` is false."""
        variance = float(self.kernel.detached().variance)
        return variance**2 * self.variance_at(self._squares(A, B), part)

    def bias(self, A: np.ndarray, B: np.ndarray) -> np.ndarray:
        return float(self.kernel.detached().variance) * self.bias_at(self._squares(A, B))

    def _squares(self, A: np.ndarray, B: np.ndarray) -> np.ndarray:
        """|x − y|² in units of the lengthscale."""
        unit = Gaussian(lengthscale=self.kernel.detached().lengthscale)
        with np.errstate(divide="ignore"):  # k underflows: the distance is infinite for us
            return -2 * np.log(unit(A, B))

    def variance_at(self, squared_distance: Any, part: str) -> np.ndarray:
        """Variance of k̂ from |x − y|² (an array of any shape), for a kernel of variance 1.

        With k = exp(−|x − y|²/2), one frequency of random norm has the variance (1 − k²)²/2 (the
        real part) or 1 − k² (the complex value), two of one block the covariance c of
        `orthogonal_covariance`; D frequencies in blocks of d give (variance + (d − 1) c)/D, and
        an incomplete last block counts as it is. The phase of an odd last column adds 1/(2 D²).
        For constant norms, m(a) = E cos(a ωᵀ(x − y)) takes the place of k: (1 + m(2))/2 − m(1)²
        or 1 − m(1)², and c = m(√2) − m(1)².

        For "sorf" this is the expression for orthogonal frequencies in R^p: an approximation, as
        good as docs/fourier.md shows. For other kernels it is that of independent frequencies, with
        k(2x, 2y) in the place of k⁴: (1 + k(2x, 2y))/2 − k².
        """
        s = np.asarray(squared_distance, dtype=np.float64)
        ambient = self.ambient_dimension
        squares, pairs = self.frequencies.pair_sums(self.shares, self.dimension)
        if not self.is_gaussian:
            k, doubled = (self.kernel.detached().profile_of_halves(a * s / 2) for a in (1, 4))
            total = squares * (1 - k**2 if part == "complex" else (1 + doubled) / 2 - k**2)
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

    def bias_at(self, squared_distance: Any) -> np.ndarray:
        """E[k̂] − k from |x − y|²: zero for random norms; for "sorf" an approximation."""
        s = np.asarray(squared_distance, dtype=np.float64)
        if not self.has_constant_norms:
            return np.zeros_like(s)
        if not self.is_gaussian:
            raise NotImplementedError(
                f"The bias of constant norms has no closed form for {self.kernel}: use "
                'norms="random", which has none, or measure the error (plan does).'
            )
        return sphere_mean_cosine(s, self.ambient_dimension) - np.exp(-s / 2)


def sphere_mean_cosine(squared_length: np.ndarray, dimension: int) -> np.ndarray:
    """E[cos(√d qᵀx)] over a uniform direction q, from |x|²: ₀F₁(; d/2; −d|x|²/4).

    Lengths above √1500, where the Gaussian kernel underflows, count as √1500.

    >>> sphere_mean_cosine(np.array([1.0]), 1) - np.cos(1)  # d = 1: q = ±1
    array([0.])
    """
    s = np.minimum(squared_length, 1500.0)
    return sphere_mean(np.sqrt(dimension * s), dimension)


class FourierFeatures(FeatureMap):
    """Random Fourier features of the Gaussian kernel and of Matérn kernels.

    Parameters
    ----------
    kernel : Gaussian, Matern, RationalQuadratic, or a DistanceKernel with `frequency_factors`
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
    design_ : FourierDesign, what was drawn from
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

    def design(self, study: Study) -> FourierDesign:
        check_kernel(
            study.unresolved,
            DistanceKernel,
            "Fourier features are for kernels of the distance in all inputs, such as Gaussian() or "
            "Matern(); MaclaurinFeatures supports every dot product kernel, PositiveFeatures the "
            "exponential, NystromFeatures every kernel",
        )
        if type(study.unresolved).frequency_factors is DistanceKernel.frequency_factors:
            raise Unsuited(
                f"{study.unresolved!r} has no spectral density: implement its method "
                "frequency_factors(n, rng), see DistanceKernel, or use NystromFeatures."
            )
        options = {"projection": self.projection, "norms": self.norms}
        return self.of_study(FourierDesign, study, **options)

    def label(self) -> str:
        norms = "" if self.norms == "auto" else f", {self.norms} norms"
        output = "" if self.output == "real" else f", {self.output}"
        return f"fourier: {self.projection}{norms}{output}"

    @classmethod
    def variants(cls, study: Study) -> list[FeatureMap]:
        if not isinstance(study.kernel, DistanceKernel):
            return []
        return [cls(study.kernel, projection=name) for name in ("orthogonal", "sorf")]

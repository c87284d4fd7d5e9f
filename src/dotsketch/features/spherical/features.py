"""Spherical random features as a scikit-learn transformer."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
from array_api_compat import is_jax_array
from sklearn.preprocessing import normalize as normalize_rows
from sklearn.utils.validation import check_is_fitted

from ..._arrays import (
    Array,
    ArrayT,
    as_generator,
    dense,
    double,
    host,
    is_foreign,
    is_sparse,
    is_traced,
    namespace,
    square_root,
)
from ..._support.parameters import one_of
from ...kernels import DotProductKernel, Polynomial, directions
from ...kernels.inputs import row_squares
from ...projections import PROJECTIONS, Frequencies
from ..base import NO_SERIES, FeatureMap, owned, suited
from ..degenerate import warn_if_degenerate
from ..errors import ExpectedError, Unsuited
from ..study import Study, check_kernel
from ..waves import FrequencyFeatures, Waves, output_suffix
from .density import (
    RadialDensity,
    SphericalMap,
    SphericalMoments,
    check_closed_form,
    choose_projection,
    is_nearly_uniform,
    kernel_density,
    peak,
    predicted_errors,
)

UNIT_TOLERANCE = 1e-4  # rows that were normalised in single precision pass
PLANNED_TOLERANCE = 1e-5  # of rows "on the sphere" in a plan, which nobody claimed to be so
POOR_FIT = 0.1  # root mean square of k̃ − k relative to k(x, x), from which on we warn


class SphericalFeatures(FrequencyFeatures):
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
    projection_ : the projection that was used
    density_ : RadialDensity: radii and weights of the frequencies, `rmse` and `max_error`
    map_ : SphericalMap, the description that was drawn from
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

    def fit(self, X: Array, y: Any = None) -> SphericalFeatures:
        """Fit the density for rows of the width of X (n, d), and draw frequencies from it."""
        self._begin_fit()
        self._check_kernel()
        X = self._validate(X, reset=True)
        self.normalize_ = self.normalize
        unit = self._unit(X)
        self.kernel_ = owned(self.kernel.resolve(unit))
        self.projection_ = choose_projection(self.projection, self.n_features_in_)
        ambient = Frequencies(1, self.projection_).ambient_dimension(self.n_features_in_)
        self.density_ = kernel_density(self.kernel_.detached(), ambient)
        self._warn_if_poor(self.density_)
        warn_if_degenerate(self.kernel_, unit)
        self.map_ = SphericalMap(
            self.n_components, self.projection_, self.output, density=self.density_
        )
        self.weights_ = self.map_.sample(self.n_features_in_, as_generator(self.random_state))
        return self

    def label(self) -> str:
        return f"spherical: {self.projection}{output_suffix(self.output)}"

    def check_study(self, study: Study) -> None:
        one_of("projection", self.projection, ("auto", *PROJECTIONS))
        kernel = study.kernel
        if not (isinstance(kernel, Polynomial) and kernel.coef0 >= kernel.gamma):
            # Others become negative, or grow again, for opposite rows: no mixture fits them well
            raise Unsuited("spherical features are for polynomial kernels with coef0 ≥ gamma")
        projection = choose_projection(self.projection, study.dimension)
        ambient = Frequencies(1, projection).ambient_dimension(study.dimension)
        if projection == "sorf" and not is_nearly_uniform(ambient):
            raise Unsuited(f"its directions are far from uniform in {ambient} coordinates")
        if not study.once("unit rows", lambda: all(map(_have_unit_norm, study.blocks()))):
            raise Unsuited("not all rows of X have norm one")

    def expected_error(self, study: Study) -> ExpectedError:
        projection = choose_projection(self.projection, study.dimension)
        cost = Waves(self.n_components, projection, self.output).cost(study.dimension)
        if projection == "sorf":
            return self._measured(study, cost)
        squared_bias, variance = predicted_errors(
            study.kernel,
            study.lengths(-1, scaled=False),
            study.dimension,
            n_components=self.n_components,
            projection=projection,
            output=self.output,
        )
        return study.error(float(np.mean(squared_bias)), float(np.mean(variance)), cost)

    @classmethod
    def variants(cls, study: Study) -> list[FeatureMap]:
        """With normalize=False: rows of another norm, of which the plan knows nothing, are refused
        by them."""
        return suited(
            (cls(study.kernel, projection=p, normalize=False) for p in PROJECTIONS), study
        )

    def _features(self, X: ArrayT) -> ArrayT:
        if is_jax_array(X):
            self._check_norms(X)  # the loop over chunks of rows is traced: no values there
        kernel = self.kernel_.detached()
        root = math.sqrt(peak(kernel) / kernel.variance)
        return self.map_.apply(
            X,
            self.weights_,
            preprocess=self._unit,
            scale=root * square_root(self.kernel_.variance),
            n_jobs=self.n_jobs,
        )

    def variance(self, X: Array, Y: Array | None = None, *, part: str | None = None) -> Array:
        """Variance of the approximate kernel between rows of X and of Y, (n, d), (m, d) -> (n, m).

        It is the variance of the kernel value that the user gets: of the complex value Z Zᴴ for
        output="complex", otherwise of a real number; `part="real"` and `part="complex"` ask for
        one of them. For projection="sorf" it is that of orthogonal directions, an approximation
        for 16 padded coordinates and more; it raises below.
        """
        moments = self._moments(part)
        A, B = self._dense_units(X, Y)
        return self._peak**2 * moments.variance(A @ B.T)

    def bias(self, X: Array, Y: Array | None = None) -> Array:  # (n, d), (m, d) -> (n, m)
        """k̃ − k between rows of X and of Y, on which the number of features has no influence."""
        moments = self._moments()
        A, B = self._dense_units(X, Y)
        return self._peak * moments.mean(A @ B.T) - self.kernel_.detached()(A, B)

    def _moments(self, part: str | None = None) -> SphericalMoments:
        check_is_fitted(self)
        check_closed_form(self.projection_, self.density_.dimension)
        return self.map_.moments(part)

    @property
    def _peak(self) -> float:
        return peak(self.kernel_.detached())

    def _dense_units(self, X: Array, Y: Array | None) -> tuple[Array, Array]:
        def unit(rows: Array) -> Array:
            rows = self._validate(rows, reset=False)
            return self._unit(double(dense(rows)))

        A = unit(X)
        return A, A if Y is None else unit(Y)

    def _unit(self, rows: Array) -> Array:  # (n, d) -> (n, d)
        """Rows of unit norm; an error if there are none."""
        self._check_norms(rows)
        if not self.normalize_:
            return rows
        if is_sparse(rows):  # by the largest entry first: squares of huge entries overflow
            return normalize_rows(normalize_rows(rows, norm="max"), norm="l2")
        return directions(rows)[0]

    def _check_norms(self, rows: Array) -> None:
        if is_traced(rows):
            return
        if self.normalize_:
            if is_sparse(rows):
                largest = abs(rows).max(axis=1).toarray()
            else:
                xp = namespace(rows)
                largest = host(xp.max(xp.abs(rows), axis=1))
            if not np.all(largest):
                raise ValueError(
                    "X has a row of zeros, which has no direction on the unit sphere: remove it."
                )
            return
        norms = np.sqrt(np.asarray(host(row_squares(rows)), dtype=np.float64))
        worst = int(np.argmax(np.abs(norms - 1)))
        if not abs(norms[worst] - 1) <= UNIT_TOLERANCE:
            raise ValueError(
                "Spherical features with normalize=False need rows of unit norm; one has norm "
                f"{norms[worst]:.6g}. Divide every row by its norm, use "
                "SphericalFeatures(normalize=True), or choose features of another family."
            )

    def _check_kernel(self) -> None:
        check_kernel(self.kernel, DotProductKernel, NO_SERIES)
        for name, value in self.kernel.get_params().items():
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

    def _warn_if_poor(self, density: RadialDensity) -> None:
        if self.projection_ == "sorf" and not is_nearly_uniform(density.dimension):
            warnings.warn(
                f'projection="sorf" in {density.dimension} coordinates: its directions are far '
                "from uniform, and the error of the kernel does not vanish with more columns. Use "
                'projection="orthogonal", which "auto" is here.',
                UserWarning,
                stacklevel=3,
            )
        if density.rmse > POOR_FIT:
            warnings.warn(
                f"{self.kernel_} is far from every kernel that spherical features can represent: "
                f"root mean square bias {density.rmse:.2g}, at most {density.max_error:.2g}, of "
                "k(x, x). Use MaclaurinFeatures, or raise coef0.",
                UserWarning,
                stacklevel=3,
            )


def _have_unit_norm(rows: np.ndarray) -> bool:  # (n, d)
    """But for the rounding of single precision."""
    return bool(np.all(np.abs(np.linalg.norm(rows, axis=1) - 1) < PLANNED_TOLERANCE))

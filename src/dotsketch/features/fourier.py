"""Random Fourier features of the Gaussian kernel as a scikit-learn transformer."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from .._arrays import Array, as_generator, double, host, is_foreign, is_sparse, like, square_root
from ..fourier import FourierMap
from ..kernels import DotProductKernel, Gaussian
from .base import FeatureMap
from .degenerate import warn_if_degenerate


class FourierFeatures(FeatureMap):
    """Random Fourier features of the Gaussian kernel.

    Parameters
    ----------
    kernel : Gaussian
        Its lengthscale may be "median" (of the training rows), one number for every coordinate,
        or a torch or JAX array, to which gradients flow.
    projection : {"orthogonal", "independent", "sorf"}, default="orthogonal"
        "independent" frequencies are the classical random Fourier features. "orthogonal" ones
        have less variance at the same cost, and are unbiased too. "sorf" takes D·log d instead
        of D·d operations per row; it is biased, so for d below 16 take "orthogonal".
    norms : {"auto", "random", "constant"}, default="auto"
        Norms of the frequencies. "random": those of Gaussian vectors, without bias. "constant":
        √d, with a bias of about −k|x − y|⁴/(4(d + 2)l⁴) and less variance: the smaller error
        for few components, the larger for many. "auto": as published, "constant" for "sorf" only.
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

    def __init__(
        self,
        kernel: DotProductKernel,
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
        if not isinstance(self.kernel, Gaussian):
            raise TypeError(
                f"Fourier features are for shift-invariant kernels: Gaussian(); got "
                f"{self.kernel!r}. MaclaurinFeatures supports every dot product kernel, "
                "PositiveFeatures the exponential, SphericalFeatures polynomials on the sphere."
            )
        self._begin_fit()
        self.map_ = FourierMap(self.n_components, self.projection, self.output, self.norms)
        X = self._validate(X, reset=True)
        self.kernel_ = fitted_kernel(self.kernel, X)
        warn_if_degenerate(self.kernel_, X)
        self.weights_ = self.map_.sample(self.n_features_in_, as_generator(self.random_state))
        return self

    def _features(self, X: Array) -> Array:
        return self.map_.apply(
            X,
            self.weights_,
            preprocess=lambda rows: scaled_rows(self.kernel_, rows),
            scale=square_root(self.kernel_.variance),
            n_jobs=self.n_jobs,
        )

    def variance(self, X: Array, Y: Array | None = None, *, part: str | None = None) -> Array:
        """Variance of the approximate kernel between rows of X and of Y, (n, d), (m, d) -> (n, m).

        It is the variance of the kernel value that the user gets: of the complex value Z Zᴴ for
        output="complex", otherwise of a real number; `part="real"` and `part="complex"` ask for
        one of them. For projection="sorf" an approximation: see `FourierMap.variance`.
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
        A, B = (None if Z is None else np.asarray(double(host(dense(Z)))) for Z in given)
        with np.errstate(divide="ignore"):  # k underflows: the distance is infinite for us
            return -2 * np.log(unit(A, B))


def namespaced(X: Array) -> Array:
    """X, or an array of NumPy where X is none of an array library: where results belong."""
    return X if is_foreign(X) else np.empty(0)


def fitted_kernel(kernel: DotProductKernel, X: Array) -> DotProductKernel:
    """The kernel with its parameters set from X; later changes of the given one are not ours."""
    resolved = kernel.resolve(X)
    resolved.scale(dense(X[:1, :]))  # refuses lengthscales that are not one a column
    return resolved if resolved.is_differentiable else clone(resolved)


def scaled_rows(kernel: DotProductKernel, rows: Array) -> Array:
    """The inputs of a map; sparse rows stay so unless every coordinate has its own scale."""
    if is_sparse(rows) and np.ndim(host(getattr(kernel, "lengthscale", 1.0))):
        rows = rows.toarray()
    return kernel.scale(rows)


def dense(X: Array) -> Array:
    return X.toarray() if is_sparse(X) else X

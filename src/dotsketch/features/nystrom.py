"""Nyström features: the kernel with some training rows, whitened; any kernel, no random weights."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.kernel_approximation import Nystroem

from .._arrays import (
    Array,
    Parts,
    as_generator,
    double,
    host,
    like,
    map_rows,
    namespace,
    square_root,
)
from ..kernels import DotProductKernel
from .base import FeatureMap
from .fourier import dense, fitted_kernel


class Basis(NamedTuple):
    """What a fit keeps, on the host."""

    rows: np.ndarray  # (D, d)
    indices: np.ndarray  # (D,)
    normalization: np.ndarray  # (D, D)


class NystromFeatures(FeatureMap):
    """z(x) = k(x, B) K_BB^(−1/2) for n_components training rows B, drawn uniformly.

    The whitening is that of scikit-learn's `Nystroem`, which takes these kernels only one pair of
    rows at a time. The approximate kernel is exact between rows of B and never above k(x, x); it
    adapts to the data and so beats random features where the kernel's spectrum decays fast, at
    D·d + D² operations a row, and D³ once. Its error has no closed form.

    Parameters
    ----------
    kernel : DotProductKernel
        A lengthscale of "median" is set from the training rows.
    n_components : int, default=100
        The number of columns, at most the number of training rows.
    n_jobs : int or None, default=None
        Threads that `transform` uses on NumPy rows (-1: all).
    random_state : int, RandomState, Generator or None

    Attributes
    ----------
    kernel_ : the kernel with data-dependent parameters resolved
    components_ : (n_components, d) the rows B
    component_indices_ : (n_components,) where they stand in the training data
    normalization_ : (n_components, n_components) K_BB^(−1/2), for the kernel of variance 1
    basis_ : the three of them
    n_features_in_ : int

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from dotsketch import Gaussian, NystromFeatures, relative_frobenius_error
    >>> X = load_digits().data
    >>> features = NystromFeatures(Gaussian(), n_components=200, random_state=0)
    >>> Z = features.fit_transform(X)
    >>> bool(relative_frobenius_error(features.kernel_(X), Z @ Z.T) < 0.02)
    True
    """

    output = "real"  # there are no others

    def __init__(
        self,
        kernel: DotProductKernel,
        *,
        n_components: int = 100,
        n_jobs: int | None = None,
        random_state: Any = None,
    ):
        self.kernel = kernel
        self.n_components = n_components
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, X: Array, y: Any = None) -> NystromFeatures:
        """Draw the rows B from X (n, d), n ≥ n_components, and whiten their kernel matrix."""
        if not isinstance(self.kernel, DotProductKernel):
            raise TypeError(
                f"kernel must be a kernel of dotsketch, such as Gaussian(); got {self.kernel!r}."
            )
        D = self._begin_fit()
        X = self._validate(X, reset=True)
        if X.shape[0] < D:
            raise ValueError(
                f"n_components={D} Nyström features need as many training rows; X has "
                f"n_samples={X.shape[0]}: use n_components={X.shape[0]} or fewer."
            )
        self.kernel_ = fitted_kernel(self.kernel, X)
        indices = as_generator(self.random_state).permutation(X.shape[0])[:D]
        rows = np.asarray(double(dense(host(X)[indices])))
        K = self._unit_kernel(self.kernel_.detached())(rows)
        # Nystroem cuts off singular values in absolute terms: give it a matrix of order one
        size = float(np.max(np.diagonal(K)))
        if not 0 < size < np.inf:
            raise ValueError(
                f"The largest k(x, x) of the drawn rows is {size}: scale X, or choose another "
                "lengthscale or gamma."
            )
        whitening = Nystroem(kernel="precomputed", n_components=D, random_state=0).fit(K / size)
        self.basis_ = Basis(rows, indices, whitening.normalization_.T / size**0.5)
        return self

    @property
    def components_(self) -> np.ndarray:
        return self.basis_.rows

    @property
    def component_indices_(self) -> np.ndarray:
        return self.basis_.indices

    @property
    def normalization_(self) -> np.ndarray:
        return self.basis_.normalization

    def _features(self, X: Array) -> Array:
        kernel = self._unit_kernel(self.kernel_)
        scale = square_root(self.kernel_.variance)

        def parts(rows: Array) -> Parts:
            # K_BB^(−1/2) enlarges rounding up to 10⁶ times: float32 would not do inside
            wide = double(dense(rows))
            basis, normalization = like(self.components_, wide), like(self.normalization_, wide)
            Z = scale * (kernel(wide, basis) @ normalization)
            return namespace(Z).astype(Z, rows.dtype), None

        width = max(self.n_features_in_, self.n_projections_)
        chunk = max(64, (1 << 23) // (8 * width))
        return map_rows(parts, X, "real", self.n_projections_, chunk, n_jobs=self.n_jobs)

    @staticmethod
    def _unit_kernel(kernel: DotProductKernel) -> DotProductKernel:
        """The kernel with variance 1, which only scales the features."""
        return type(kernel)(**{**kernel.get_params(), "variance": 1.0})

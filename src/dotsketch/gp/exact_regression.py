"""Exact Gaussian processes: the reference that the approximations are measured by.

The same interface as the estimators on features, with the Gram matrix of all rows: memory grows
with n² and time with n³, so a few thousand rows are the limit.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone

from .._arrays import Array, as_generator
from ..features.base import check_fitted
from .base import check_test_rows
from .evidence import Spectrum, best_variances, greatest_likelihood, log_density
from .lengthscale import best_lengthscale
from .packed import PackedMatrix
from .solvers.cholesky import factorise
from .variances import GaussianRegressor, check_noise, check_targets


class ExactPosterior:
    """f ~ GP(0, s k) after targets (n, m) with noise variances (n,): C = s K + diag σ² = L Lᵀ."""

    def __init__(self, K: np.ndarray, targets: np.ndarray, noise: np.ndarray, prior: float):
        C = prior * PackedMatrix.of(K.T)  # K is symmetric; its transpose is in LAPACK's order
        C.add_to_diagonal(noise)
        self.prior_variance = prior
        self.factor, self.jitter = factorise(C)
        self.weights = self.factor.solve(targets)
        self.square = float(np.sum(targets * self.weights))

    def mean(self, cross: np.ndarray) -> np.ndarray:  # k(x, X) (n*, n) -> (n*, m)
        return self.prior_variance * (cross @ self.weights)

    def half(self, cross: np.ndarray) -> np.ndarray:  # (n*, n) -> (n, n*)
        """s L⁻¹ k(X, x)."""
        return self.prior_variance * self.factor.half_solve(cross.T)

    def variance(self, cross: np.ndarray, diagonal: np.ndarray) -> np.ndarray:  # -> (n*,)
        half = self.factor.half_solve(cross.T).T
        explained = self.prior_variance**2 * np.einsum("ij,ij->i", half, half)
        return np.maximum(self.prior_variance * diagonal - explained, 0)

    def log_likelihood(self, n_outputs: int) -> float:
        n = self.factor.size
        determinant = n_outputs * self.factor.log_determinant()
        return float(log_density(determinant, self.square, n * n_outputs, False))


class ExactGP(BaseEstimator):
    """What the exact estimators share: the kernel and its Gram matrices in double precision."""

    kernel: Any

    def _check_kernel(self) -> None:
        is_kernel = callable(self.kernel) and hasattr(self.kernel, "diag")
        if not is_kernel or isinstance(self.kernel, type):
            raise TypeError(f"kernel must be a kernel, such as Gaussian(); got {self.kernel!r}.")

    def _test_rows(self, X: Any) -> Array:
        return double_rows(check_test_rows(self, X))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class ExactGPRegressor(GaussianRegressor, ExactGP):
    """Exact Gaussian process regression.

    Parameters
    ----------
    kernel : kernel of this library, or of scikit-learn (its parameters stay as they are)
    noise_variance : float or "auto", default="auto"
    prior_variance : float or "auto", default="auto"
    normalize_y : {"standard", "mean", None}, default="standard"
        All as for `FeatureGPRegressor`.

    Attributes
    ----------
    kernel_, noise_variance_, prior_variance_, posterior_, jitter_

    Examples
    --------
    >>> import numpy as np
    >>> from dotsketch import ExactGPRegressor, Gaussian
    >>> X = np.linspace(0, 3, 20)[:, None]
    >>> gp = ExactGPRegressor(Gaussian(lengthscale=1.0), noise_variance=1e-4)
    >>> gp = gp.fit(X, np.sin(X[:, 0]))
    >>> gp.predict(np.array([[1.5]])).round(2)
    array([1.])
    """

    def __init__(
        self,
        kernel: Any,
        *,
        noise_variance: float | str = "auto",
        prior_variance: float | str = "auto",
        normalize_y: str | None = "standard",
    ):
        self.kernel = kernel
        self.noise_variance = noise_variance
        self.prior_variance = prior_variance
        self.normalize_y = normalize_y

    def fit(
        self, X: Any, y: Any, *, noise_variance: Any = None, optimize: bool = False
    ) -> ExactGPRegressor:
        """Fit to X (n, d) and y (n,) or (n, m); see `FeatureGPRegressor.fit`."""
        self._check_kernel()
        self._check_regressor()
        X, y = self._check_rows(X, y)
        Y, self._flat = check_targets(y)
        self.X_train_ = double_rows(X)
        noise = check_noise(noise_variance, noise_variance is not None, len(Y))
        means, deviations = Y.mean(axis=0), Y.std(axis=0)
        self.means_, self.scales_ = self._normalisation(means, deviations)
        Y = (Y - self.means_) / self.scales_
        free = self._given_variances(noise is not None, optimize)
        if self._is_constant(means, deviations):
            free = free[0] or 1.0, free[1] or 1.0
        self.kernel_ = resolved(self._choose_kernel(Y, noise, free, optimize), self.X_train_)
        K = gram(self.kernel_, self.X_train_)
        shared, self.prior_variance_ = best_variances(lambda: spectrum(K, Y, noise), *free)
        self.noise_variance_ = None if noise is not None else shared
        rows = np.full(len(Y), shared) if noise is None else noise
        self.posterior_ = ExactPosterior(K, Y, rows, self.prior_variance_)
        self.jitter_ = self.posterior_.jitter
        return self

    def predict(
        self,
        X: Any,
        return_std: bool = False,
        return_cov: bool = False,
        *,
        include_noise: bool = False,
    ) -> Any:
        """Mean of f, and its standard deviation or covariance; see `FeatureGPRegressor.predict`."""
        check_fitted(self)
        self._check_request(return_std, return_cov)
        X = self._test_rows(X)
        cross = gram(self.kernel_, X, self.X_train_)
        mean = self._shaped(self.posterior_.mean(cross) * self.scales_ + self.means_)
        noise = self._shared_noise() if include_noise else 0.0
        if return_std:
            variance = self.posterior_.variance(cross, np.asarray(self.kernel_.diag(X))) + noise
            return mean, self._shaped(np.sqrt(variance)[:, None] * self.scales_)
        if return_cov:
            covariance = self._covariance(X, cross) + noise * np.eye(len(cross))
            return mean, self._shaped(covariance[:, :, None] * self.scales_**2)
        return mean

    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = 0) -> np.ndarray:
        """Draws of f at the rows of X, (n, n_samples) or (n, m, n_samples)."""
        check_fitted(self)
        X = self._test_rows(X)
        cross = gram(self.kernel_, X, self.X_train_)
        values, vectors = np.linalg.eigh(self._covariance(X, cross))
        root = vectors * np.sqrt(np.maximum(values, 0))
        m = len(self.means_)
        noise = as_generator(random_state).standard_normal((len(root), m * n_samples))
        draws = (root @ noise).reshape(-1, m, n_samples) + self.posterior_.mean(cross)[:, :, None]
        return self._samples(draws)

    def log_marginal_likelihood(self) -> float:
        """log p(y) of the training targets at the fitted variances, in units of y."""
        check_fitted(self)
        n, m = len(self.posterior_.weights), len(self.means_)
        return self.posterior_.log_likelihood(m) - n * float(np.sum(np.log(self.scales_)))

    def _choose_kernel(
        self, Y: np.ndarray, noise: np.ndarray | None, free: tuple, optimize: bool
    ) -> Any:
        """The kernel as given, or with the lengthscale of the greatest marginal likelihood."""
        X = self.X_train_

        def evidence(kernel: Any) -> float:
            return greatest_likelihood(spectrum(gram(resolved(kernel, X), X), Y, noise), *free)

        return best_lengthscale(self.kernel, X, evidence) if optimize else self.kernel

    def _covariance(self, X: Array, cross: np.ndarray) -> np.ndarray:
        half = self.posterior_.half(cross)
        return self.prior_variance_ * gram(self.kernel_, X) - half.T @ half


def spectrum(K: np.ndarray, Y: np.ndarray, noise: np.ndarray | None) -> Spectrum:
    """The spectrum of K (n, n) along the targets Y (n, m), with noise variances (n,) if given."""
    if noise is None:
        return Spectrum.of_kernel(K, Y)
    roots = np.sqrt(noise)
    found = Spectrum.of_kernel(K / np.outer(roots, roots), Y / roots[:, None])
    return found.weighted(-float(np.sum(np.log(noise))))


def gram(kernel: Any, X: Array, Y: Array | None = None) -> np.ndarray:  # -> (n, n) or (n, m)
    """The Gram matrix in double precision."""
    return np.asarray(kernel(X) if Y is None else kernel(X, Y), dtype=np.float64)


def resolved(kernel: Any, X: Array) -> Any:
    """A copy of the kernel with parameters that depend on data set from X."""
    return clone(kernel.resolve(X) if hasattr(kernel, "resolve") else kernel)


def double_rows(X: Array) -> Array:
    """Rows in double precision, dense or sparse."""
    return X.astype(np.float64)

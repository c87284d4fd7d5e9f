"""Exact Gaussian process regression, and what it shares with classification: the reference that
the approximations are measured by.

The same interface as the estimators on features, with the Gram matrix of all rows: memory grows
with n² and time with n³, so a few thousand rows are the limit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from .._arrays import Array, as_generator
from ..features.validation import check_fitted
from ..rows import Rows
from ..rows.copies import copies
from ..spectrum import Likelihood, best_variances, kernel_likelihood, log_density
from .base import check_test_rows
from .evidence import log_density_of_copies
from .packed import PackedFactor, PackedMatrix
from .search import TunedProcess, best_on_rows, has_parameters
from .solvers.cholesky import factorise
from .targets import GaussianRegressor, check_noise, check_targets, left_out, moments


@dataclass(frozen=True, eq=False)
class ExactPosterior:
    """f ~ GP(0, s k) after targets (n, m) with noise variances (n,): C = s K + diag σ² = L Lᵀ."""

    factor: PackedFactor  # L
    weights: np.ndarray  # C⁻¹ y, (n, m)
    prior_variance: float
    square: float  # yᵀ C⁻¹ y, summed over outputs
    jitter: float

    @classmethod
    def of(
        cls, K: np.ndarray, targets: np.ndarray, noise: np.ndarray, prior_variance: float
    ) -> ExactPosterior:  # (n, n), (n, m), (n,)
        # K is symmetric, and its transpose is in the order of LAPACK: no copy
        C = prior_variance * PackedMatrix.of(K.T)
        C.add_to_diagonal(noise)
        factor, jitter = factorise(C)
        weights = factor.solve(targets)
        return cls(factor, weights, prior_variance, float(np.sum(targets * weights)), jitter)

    def mean(self, cross: np.ndarray) -> np.ndarray:  # k(x, X) (n*, n) -> (n*, m)
        return self.prior_variance * (cross @ self.weights)

    def half(self, cross: np.ndarray) -> np.ndarray:  # (n*, n) -> (n, n*)
        """s L⁻¹ k(X, x)."""
        return self.prior_variance * self.factor.half_solve(cross.T)

    def variance(self, cross: np.ndarray, diagonal: np.ndarray) -> np.ndarray:  # -> (n*,)
        half = self.half(cross).T
        explained = np.einsum("ij,ij->i", half, half)
        return np.maximum(self.prior_variance * diagonal - explained, 0)

    def log_likelihood(self) -> float:
        n, m = self.weights.shape
        return float(log_density(m * self.factor.log_determinant(), self.square, n * m, False))


class ExactGP(TunedProcess):
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
    optimize : bool, "ard" or "common", default=False
    time_budget : float or None, default=None
        All as for `FeatureGPRegressor`; the search uses at most 3000 of the rows.
    verbose : bool, default=False
        Shows the steps of a search.

    Attributes
    ----------
    kernel_, noise_variance_, prior_variance_, posterior_, jitter_, relevances_, search_

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
        optimize: bool | str = False,
        time_budget: float | None = None,
        verbose: bool = False,
    ):
        self.kernel = kernel
        self.noise_variance = noise_variance
        self.prior_variance = prior_variance
        self.normalize_y = normalize_y
        self.optimize = optimize
        self.time_budget = time_budget
        self.verbose = verbose

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        noise_variance: Any = None,
        optimize: bool | str | None = None,
    ) -> ExactGPRegressor:
        """Fit to X (n, d) and y (n,) or (n, m); see `FeatureGPRegressor.fit`."""
        self._check_kernel()
        self._check_regressor()
        X, y = self._check_rows(X, y)
        X, y, noise_variance, counts = counted_rows(X, y, noise_variance, sample_weight)
        Y, self._flat = check_targets(y)
        self.X_train_ = double_rows(X)
        noise = check_noise(noise_variance, noise_variance is not None, len(Y))
        means, deviations = moments(Y, counts)
        self.means_, self.scales_ = self._normalisation(means, deviations)
        Y = (Y - self.means_) / self.scales_
        asked = self._asked(optimize)
        free = self._given_variances(noise is not None, bool(asked))
        if self._is_constant(means, deviations):
            free = free[0] or 1.0, free[1] or 1.0
        chosen = self._choose_kernel(Y, noise, counts, asked)
        self.kernel_ = resolved(chosen, self.X_train_, counts)
        K = gram(self.kernel_, self.X_train_)
        shared, self.prior_variance_ = best_variances(
            lambda: likelihood(K, Y, noise, counts), *free
        )
        self.noise_variance_ = None if noise is not None else shared
        rows = np.full(len(Y), shared) if noise is None else noise
        self.posterior_ = ExactPosterior.of(K, Y, rows / counts, self.prior_variance_)
        self._n = float(np.sum(counts))
        self._log_copies = Y.shape[1] * log_density_of_copies(rows, counts)
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
        density = self.posterior_.log_likelihood() + self._log_copies
        return density - self._n * float(np.sum(np.log(self.scales_)))

    def leave_one_out(
        self, X: Any, y: Any, *, noise_variance: Any = None
    ) -> tuple[np.ndarray, np.ndarray]:  # (n, d), (n,) or (n, m) -> twice the shape of y
        """Mean and standard deviation of y at training rows, each predicted from all the others.

        See `FeatureGPRegressor.leave_one_out`.
        """
        check_fitted(self)
        X, (Y, _) = self._test_rows(X), check_targets(y)
        by_row = check_noise(noise_variance, self.noise_variance_ is None, len(Y))
        noise = np.full(len(Y), self._shared_noise()) if by_row is None else by_row
        cross = gram(self.kernel_, X, self.X_train_)
        residuals = (Y - self.means_) / self.scales_ - self.posterior_.mean(cross)
        variance = self.posterior_.variance(cross, np.asarray(self.kernel_.diag(X)))
        residuals, variance = left_out(residuals, variance, noise)
        deviations = np.sqrt(variance)[:, None] * self.scales_
        return self._shaped(Y - self.scales_ * residuals), self._shaped(deviations)

    def _choose_kernel(
        self, Y: np.ndarray, noise: np.ndarray | None, counts: np.ndarray, asked: bool | str
    ) -> Any:
        """The kernel as given, or with the parameters of the greatest marginal likelihood."""
        self.search_ = None
        if not asked or not has_parameters(self.kernel):
            return self.kernel
        recorder = self._recorder()
        kernel = best_on_rows(
            self.kernel,
            self.X_train_,
            Y,
            noise,
            counts,
            per_column=self._per_column(asked),
            rng=np.random.default_rng(0),
            recorder=recorder,
        )
        self.search_ = recorder.finish("Exact marginal likelihood.")
        return kernel

    def _covariance(self, X: Array, cross: np.ndarray) -> np.ndarray:
        half = self.posterior_.half(cross)
        return self.prior_variance_ * gram(self.kernel_, X) - half.T @ half


def likelihood(
    K: np.ndarray, Y: np.ndarray, noise: np.ndarray | None, counts: np.ndarray
) -> Likelihood:  # (n, n), (n, m), (n,), (n,)
    """That of targets Y with the kernel K, noise variances if given, and rows that count."""
    noise = np.ones(len(K)) if noise is None else noise
    roots = np.sqrt(noise / counts)
    found = kernel_likelihood(K / np.outer(roots, roots), Y / roots[:, None])
    return found.weighted(-float(np.sum(counts * np.log(noise))), float(np.sum(counts)))


def counted_rows(
    X: Array, y: Any, noise_variance: Any, sample_weight: Any
) -> tuple[Array, Any, Any, np.ndarray]:
    """The rows with positive weights, and how often they count."""
    columns = Rows((X, y, noise_variance, sample_weight)).columns
    X, y, noise_variance, counts = columns or ()
    return X, y, noise_variance, np.ones(X.shape[0]) if counts is None else counts


def gram(kernel: Any, X: Array, Y: Array | None = None) -> np.ndarray:  # -> (n, n) or (n, m)
    """The Gram matrix in double precision."""
    return np.asarray(kernel(X) if Y is None else kernel(X, Y), dtype=np.float64)


def resolved(kernel: Any, X: Array, counts: np.ndarray) -> Any:
    """A copy of the kernel with parameters that depend on data set from X."""
    if not hasattr(kernel, "resolve"):
        return clone(kernel)
    return clone(kernel.resolve(copies((X, None, None, counts))[0]))


def double_rows(X: Any) -> Any:
    """Rows in double precision, dense or sparse."""
    return X.astype(np.float64)

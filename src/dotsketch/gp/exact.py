"""Exact Gaussian processes: the reference that the approximations are measured by.

The same interface as the estimators on features, with the Gram matrix of all rows: memory grows
with n² and time with n³, so a few thousand rows are the limit.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, MultiOutputMixin, RegressorMixin, clone
from sklearn.utils import check_random_state, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from .. import _packed
from .._arrays import Array, as_generator, host
from ..linear_gaussian import factorise, log_density
from ..metrics import mean_negative_log_likelihood
from .base import DTYPES, check_positive
from .dirichlet import (
    ALPHAS,
    VALIDATION_ROWS,
    DirichletLabels,
    check_classification,
    check_two_classes,
    class_weights,
    expected_softmax,
)
from .evidence import Spectrum, best_variances
from .lengthscale import best_lengthscale
from .regression import NORMALIZATIONS, check_noise, check_targets


class ExactPosterior:
    """f ~ GP(0, s k) after targets (n, m) with noise variances (n,): C = s K + diag σ² = L Lᵀ."""

    def __init__(self, K: np.ndarray, targets: np.ndarray, noise: np.ndarray, prior: float):
        C = prior * K
        C[np.diag_indices(len(C))] += noise
        self.prior_variance = prior
        self.factor, self.jitter = factorise(_packed.pack(C))
        self.weights = _packed.solve(self.factor, targets)
        self.square = float(np.sum(targets * self.weights))

    def mean(self, cross: np.ndarray) -> np.ndarray:  # k(x, X) (n*, n) -> (n*, m)
        return self.prior_variance * (cross @ self.weights)

    def half(self, cross: np.ndarray) -> np.ndarray:  # (n*, n) -> (n, n*)
        """s L⁻¹ k(X, x)."""
        return self.prior_variance * _packed.half_solve(self.factor, cross.T)

    def variance(self, cross: np.ndarray, diagonal: np.ndarray) -> np.ndarray:  # -> (n*,)
        explained = np.sum(self.half(cross) ** 2, axis=0)
        return np.maximum(self.prior_variance * diagonal - explained, 0)

    def log_likelihood(self, n_outputs: int) -> float:
        n = _packed.size_of(self.factor)
        determinant = n_outputs * _packed.log_determinant(self.factor)
        return float(log_density(determinant, self.square, n * n_outputs, False))


class ExactGP(BaseEstimator):
    """What the exact estimators share: the kernel and its Gram matrices in double precision."""

    kernel: Any

    def _check_kernel(self) -> None:
        if not callable(self.kernel) or not hasattr(self.kernel, "diag"):
            raise TypeError(f"kernel must be a kernel, such as Gaussian(); got {self.kernel!r}.")

    def _gram(self, X: Array, Y: Array | None = None) -> np.ndarray:
        return np.asarray(self.kernel_(X) if Y is None else self.kernel_(X, Y), dtype=np.float64)

    def _resolved(self, kernel: Any, X: Array) -> Any:
        kernel = kernel.resolve(X) if hasattr(kernel, "resolve") else kernel
        return clone(kernel)

    def _test_rows(self, X: Any) -> Array:
        X = validate_data(self, host(X), accept_sparse="csr", dtype=DTYPES, reset=False)
        return _double(X)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class ExactGPRegressor(RegressorMixin, MultiOutputMixin, ExactGP):
    """Exact Gaussian process regression.

    Parameters
    ----------
    kernel : kernel of this library, or of scikit-learn (its parameters stay as they are)
    noise_variance : float or "auto", default="auto"
    prior_variance : float or "auto", default=1.0
    normalize_y : {"mean", "standard", None}, default="mean"
        All as for `FeatureGPRegressor`.

    Attributes
    ----------
    kernel_, noise_variance_, prior_variance_, posterior_, jitter_

    Examples
    --------
    >>> import numpy as np
    >>> from dotsketch import ExactGPRegressor, Gaussian
    >>> X = np.linspace(0, 3, 20)[:, None]
    >>> gp = ExactGPRegressor(Gaussian(lengthscale=1.0), noise_variance=1e-4).fit(X, np.sin(X[:, 0]))
    >>> gp.predict(np.array([[1.5]])).round(2)
    array([1.])
    """

    def __init__(
        self,
        kernel: Any,
        *,
        noise_variance: float | str = "auto",
        prior_variance: float | str = 1.0,
        normalize_y: str | None = "mean",
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
        check_positive("noise_variance", self.noise_variance, ("auto",))
        check_positive("prior_variance", self.prior_variance, ("auto",))
        if self.normalize_y not in NORMALIZATIONS:
            raise ValueError(
                f"normalize_y must be one of {NORMALIZATIONS}; got {self.normalize_y!r}."
            )
        X, y = validate_data(
            self, host(X), host(y), accept_sparse="csr", dtype=DTYPES, multi_output=True, y_numeric=True
        )
        Y, self._flat = check_targets(y)
        self.X_train_ = _double(X)
        noise = check_noise(noise_variance, noise_variance is not None, len(Y))
        Y = self._normalise(Y, noise)
        self._choose(Y, noise, optimize)
        rows = np.full(len(Y), self.noise_variance_) if noise is None else noise
        self.posterior_ = ExactPosterior(self._gram(self.X_train_), Y, rows, self.prior_variance_)
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
        check_is_fitted(self)
        if return_std and return_cov:
            raise RuntimeError("At most one of return_std or return_cov can be requested.")
        if include_noise and self.noise_variance_ is None:
            raise ValueError("The noise was given by row: add that of the rows to predict.")
        X = self._test_rows(X)
        cross = self._gram(X, self.X_train_)
        mean = self._shaped(self.posterior_.mean(cross) * self.scales_ + self.means_)
        noise = self.noise_variance_ if include_noise else 0.0
        if return_std:
            variance = self.posterior_.variance(cross, np.asarray(self.kernel_.diag(X))) + noise
            return mean, self._shaped(np.sqrt(variance)[:, None] * self.scales_)
        if return_cov:
            covariance = self._covariance(X, cross) + noise * np.eye(len(cross))
            return mean, self._shaped(covariance[:, :, None] * self.scales_**2)
        return mean

    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = 0) -> np.ndarray:
        """Draws of f at the rows of X, (n, n_samples) or (n, m, n_samples)."""
        check_is_fitted(self)
        X = self._test_rows(X)
        cross = self._gram(X, self.X_train_)
        values, vectors = np.linalg.eigh(self._covariance(X, cross))
        root = vectors * np.sqrt(np.maximum(values, 0))
        m = len(self.means_)
        noise = as_generator(random_state).standard_normal((len(root), m * n_samples))
        draws = (root @ noise).reshape(-1, m, n_samples) + self.posterior_.mean(cross)[:, :, None]
        draws = draws * self.scales_[:, None] + self.means_[:, None]
        return draws[:, 0] if self._flat else draws

    def log_marginal_likelihood(self) -> float:
        """log p(y) of the training targets at the fitted variances, in units of y."""
        check_is_fitted(self)
        n, m = len(self.posterior_.weights), len(self.means_)
        return self.posterior_.log_likelihood(m) - n * float(np.sum(np.log(self.scales_)))

    def _normalise(self, Y: np.ndarray, noise: np.ndarray | None) -> np.ndarray:
        weights = np.ones(len(Y)) if noise is None else 1 / noise
        self.means_, self.scales_ = np.zeros(Y.shape[1]), np.ones(Y.shape[1])
        if self.normalize_y is not None:
            self.means_ = np.average(Y, axis=0, weights=weights)
        if self.normalize_y == "standard":
            deviations = np.sqrt(np.average((Y - self.means_) ** 2, axis=0, weights=weights))
            self.scales_ = np.where(deviations > 0, deviations, 1.0)
        return (Y - self.means_) / self.scales_

    def _choose(self, Y: np.ndarray, noise: np.ndarray | None, optimize: bool) -> None:
        """The kernel and the variances: given, or of the greatest marginal likelihood."""
        given = [
            None if optimize or value == "auto" else float(value)
            for value in (self.noise_variance, self.prior_variance)
        ]
        if noise is not None:
            given[0] = 1.0

        def spectrum(kernel: Any) -> Spectrum:
            self.kernel_ = self._resolved(kernel, self.X_train_)
            K = self._gram(self.X_train_)
            if noise is None:
                return Spectrum.of_kernel(K, Y)
            roots = np.sqrt(noise)
            found = Spectrum.of_kernel(K / np.outer(roots, roots), Y / roots[:, None])
            return found.weighted(-float(np.sum(np.log(noise))))

        def evidence(kernel: Any) -> float:
            found = spectrum(kernel)
            return found.log_likelihood(*best_variances(found, given[0], given[1]))

        kernel = best_lengthscale(self.kernel, self.X_train_, evidence) if optimize else self.kernel
        if None in given:
            given = list(best_variances(spectrum(kernel), given[0], given[1]))
        self.kernel_ = self._resolved(kernel, self.X_train_)
        self.noise_variance_ = None if noise is not None else given[0]
        self.prior_variance_ = given[1]

    def _covariance(self, X: Array, cross: np.ndarray) -> np.ndarray:
        half = self.posterior_.half(cross)
        return self.prior_variance_ * self._gram(X) - half.T @ half

    def _shaped(self, values: np.ndarray) -> np.ndarray:
        return values[..., 0] if self._flat else values


class ExactGPClassifier(ClassifierMixin, ExactGP):
    """Exact Gaussian process classification by Dirichlet labels, one factorisation for every class.

    Parameters
    ----------
    kernel : kernel of this library, or of scikit-learn
    alpha, prior_variance, class_weight, probabilities, n_samples, random_state :
        As for `FeatureGPClassifier`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from dotsketch import ExactGPClassifier, Gaussian
    >>> X, y = load_iris(return_X_y=True)
    >>> bool(ExactGPClassifier(Gaussian(), alpha=0.01).fit(X, y).score(X, y) > 0.95)
    True
    """

    def __init__(
        self,
        kernel: Any,
        *,
        alpha: float | str = "auto",
        prior_variance: float | str = "labels",
        class_weight: Any = None,
        probabilities: str = "monte_carlo",
        n_samples: int = 1000,
        random_state: Any = 0,
    ):
        self.kernel = kernel
        self.alpha = alpha
        self.prior_variance = prior_variance
        self.class_weight = class_weight
        self.probabilities = probabilities
        self.n_samples = n_samples
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> ExactGPClassifier:
        """Fit to X (n, d) and labels y (n,)."""
        self._check_kernel()
        check_positive("prior_variance", self.prior_variance, ("labels",))
        check_classification(self.alpha, self.probabilities, self.n_samples)
        X, y = validate_data(self, host(X), host(y), accept_sparse="csr", dtype=DTYPES)
        y = column_or_1d(y, warn=True)
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        check_two_classes(self.classes_)
        self._seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        self.X_train_, self._codes = _double(X), codes
        self.kernel_ = self._resolved(self.kernel, self.X_train_)
        counts = np.bincount(codes).astype(np.float64)
        self.class_weights_ = class_weights(self.class_weight, self.classes_, counts)
        weighted = counts * self.class_weights_
        self._frequencies = weighted / weighted.sum()
        K = self._gram(self.X_train_)
        self.alpha_ = self._choose_alpha(K)
        self.labels_ = DirichletLabels.of(self.alpha_, self._frequencies)
        self.prior_variance_ = self._prior(self.labels_)
        self.posteriors_ = self._posteriors(K, codes, self.labels_)
        self.jitter_ = max(p.jitter for p in self.posteriors_)
        return self

    def predict_latent(self, X: Any) -> tuple[np.ndarray, np.ndarray]:  # (n, d) -> (n, C), (n, C)
        """Mean and standard deviation of the latent function of every class."""
        check_is_fitted(self)
        X = self._test_rows(X)
        cross, diagonal = self._gram(X, self.X_train_), np.asarray(self.kernel_.diag(X))
        mean, variance = self._latent(cross, diagonal, self.posteriors_, self.labels_)
        return mean, np.sqrt(variance)

    def decision_function(self, X: Any) -> np.ndarray:  # (n, d) -> (n, C), or (n,) if C = 2
        """Mean of the latent functions; their difference if there are two classes."""
        check_is_fitted(self)
        cross = self._gram(self._test_rows(X), self.X_train_)
        mean = np.concatenate([p.mean(cross) for p in self.posteriors_], axis=1) + self.labels_.means
        return mean[:, 1] - mean[:, 0] if len(self.classes_) == 2 else mean

    def predict(self, X: Any) -> np.ndarray:  # (n, d) -> (n,)
        """The class of the greatest latent mean."""
        scores = self.decision_function(X)
        return self.classes_[scores.argmax(axis=1) if scores.ndim == 2 else (scores > 0).astype(int)]

    def predict_proba(self, X: Any) -> np.ndarray:  # (n, d) -> (n, C)
        """Probabilities of the classes: the softmax averaged over the latent functions."""
        mean, deviation = self.predict_latent(X)
        rng = np.random.default_rng(self._seed)
        return expected_softmax(mean, deviation**2, self.probabilities, self.n_samples, rng)

    def log_marginal_likelihood(self) -> float:
        """log p of the labels' targets at the fitted α, summed over classes."""
        check_is_fitted(self)
        return sum(p.log_likelihood(1) for p in self.posteriors_)

    def _prior(self, labels: DirichletLabels) -> float:
        return labels.prior_variance if self.prior_variance == "labels" else float(self.prior_variance)

    def _posteriors(
        self, K: np.ndarray, codes: np.ndarray, labels: DirichletLabels
    ) -> list[ExactPosterior]:
        found = []
        for c in range(len(self.classes_)):
            inside = codes == c
            targets = np.where(inside, labels.inside, labels.outside) - labels.means[c]
            noise = np.where(inside, labels.inside_variance, labels.outside_variance)
            noise = noise / self.class_weights_[codes]
            found.append(ExactPosterior(K, targets[:, None], noise, self._prior(labels)))
        return found

    def _latent(
        self, cross: np.ndarray, diagonal: np.ndarray, posteriors: list, labels: DirichletLabels
    ) -> tuple[np.ndarray, np.ndarray]:
        mean = np.concatenate([p.mean(cross) for p in posteriors], axis=1) + labels.means
        return mean, np.stack([p.variance(cross, diagonal) for p in posteriors], axis=1)

    def _choose_alpha(self, K: np.ndarray) -> float:
        if not isinstance(self.alpha, str):
            return float(self.alpha)
        codes, n = self._codes, len(K)
        candidates = [DirichletLabels.of(alpha, self._frequencies) for alpha in ALPHAS]
        if self.alpha == "evidence":
            scores = [
                sum(p.log_likelihood(1) for p in self._posteriors(K, codes, labels))
                + n * len(self.classes_) * np.log(labels.inside - labels.outside)
                for labels in candidates
            ]
            return ALPHAS[int(np.argmax(scores))]
        order = np.random.default_rng(self._seed).permutation(n)
        held = min(max(n // 10, 1), VALIDATION_ROWS)
        test, train = order[:held], order[held:]
        losses = []
        for labels in candidates:
            found = self._posteriors(K[np.ix_(train, train)], codes[train], labels)
            latent = self._latent(K[np.ix_(test, train)], np.diag(K)[test], found, labels)
            rng = np.random.default_rng(self._seed)
            p = expected_softmax(*latent, "closed_form", 1, rng)
            losses.append(mean_negative_log_likelihood(codes[test], p))
        return ALPHAS[int(np.argmin(losses))]


def _double(X: Array) -> Array:
    return X.astype(np.float64)

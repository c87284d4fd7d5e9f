"""Gaussian processes with approximate kernels, measured against the exact one.

The protocol of Section 6.1: the regularisation (noise variance, or α of Dirichlet labels) is
chosen by the likelihood of validation rows with a baseline method, and shared by all methods.
Frobenius error and KL divergence are measured on at most m training and test rows, where the
exact Gaussian process is affordable; prediction error and likelihood with all rows. Targets of
regression are standardised, so that the kernel's variance σ² = Var y is one; likelihoods are
reported in units of y.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from dotsketch.gp import (
    ExactGPClassifier,
    ExactGPRegressor,
    FeatureGPClassifier,
    FeatureGPRegressor,
)
from dotsketch.kernels import DotProductKernel
from dotsketch.metrics import (
    error_rate,
    gaussian_kl,
    mean_negative_log_likelihood,
    normalized_mean_squared_error,
)

from .data import Prepared
from .experiment import Row
from .kernel_errors import gram_errors
from .methods import Method

NOISE_VARIANCES = tuple(2.0**k for k in range(-15, 16))
ALPHAS = tuple(10.0**k for k in range(-5, 1))

# The classifiers of the paper have neither a prior variance nor a temperature that is chosen
AUTHORS: Any = {"prior_variance": "labels", "temperature": 1.0}


@dataclass(frozen=True, eq=False)
class Task:
    """Data of one seed with the kernel to approximate; `size` rows are for the exact process."""

    data: Prepared
    kernel: DotProductKernel
    size: int
    n_samples: int = 1000  # of the Monte Carlo average of class probabilities

    @property
    def is_classification(self) -> bool:
        return self.data.task == "classification"

    @property
    def scale(self) -> float:
        """The unit of y that is one unit of the standardised targets."""
        return 1.0 if self.is_classification else float(np.std(self.data.y_train)) or 1.0

    @property
    def train(self) -> tuple[np.ndarray, np.ndarray]:
        y = self.data.y_train
        return self.data.X_train, y if self.is_classification else self.standardised(y)

    @property
    def test(self) -> tuple[np.ndarray, np.ndarray]:
        y = self.data.y_test
        return self.data.X_test, y if self.is_classification else self.standardised(y)

    def standardised(self, y: np.ndarray) -> np.ndarray:
        result: np.ndarray = (y - np.mean(self.data.y_train)) / self.scale
        return result

    def subset(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Rows and targets of training, and rows of testing, for the exact process."""
        X, y = self.train
        return X[: self.size], y[: self.size], self.data.X_test[: self.size]


@dataclass(frozen=True, eq=False)
class Latent:
    """Mean and variance of the latent function(s) at the test rows."""

    mean: np.ndarray
    variance: np.ndarray


def make_gp(task: Task, features: Any, regularisation: float, posterior: str = "real") -> Any:
    if task.is_classification:
        return FeatureGPClassifier(
            features,
            alpha=regularisation,
            posterior=posterior,
            variance_correction=None,
            n_samples=task.n_samples,
            **AUTHORS,
        )
    return FeatureGPRegressor(
        features,
        noise_variance=regularisation,
        prior_variance=1.0,
        posterior=posterior,
        variance_correction=None,
        normalize_y=None,
    )


def latent(gp: Any, X: np.ndarray) -> Latent:
    """The posterior of f, without noise."""
    if hasattr(gp, "predict_latent"):
        mean, deviation = gp.predict_latent(X)
    else:
        mean, deviation = gp.predict(X, return_std=True)
    return Latent(mean, deviation**2)


def scores(task: Task, gp: Any, X: np.ndarray, y: np.ndarray) -> Row:
    """Test error (misclassified share, or normalised squared error) and MNLL in units of y."""
    if task.is_classification:
        p = gp.predict_proba(X)
        mnll = mean_negative_log_likelihood(y, p, classes=gp.classes_)
        return {"test_error": error_rate(y, gp.classes_[p.argmax(axis=1)]), "mnll": mnll}
    mean, deviation = gp.predict(X, return_std=True, include_noise=True)
    mnll = mean_negative_log_likelihood(y, mean, deviation**2) + np.log(task.scale)
    error = normalized_mean_squared_error(y, mean)
    squared = float(np.mean((mean - y) ** 2)) * task.scale**2  # in squared units of y
    return {"test_error": error, "squared_error": squared, "mnll": float(mnll)}


def choose_regularisation(task: Task, baseline: Method, n_features: int, seed: int) -> float:
    """The value with the least MNLL on a tenth of the training rows, learned on the others."""
    X, y = task.train
    n_validation = max(1, len(X) // 10)
    X, y, X_validation, y_validation = (
        X[n_validation:],
        y[n_validation:],
        X[:n_validation],
        y[:n_validation],
    )
    grid = ALPHAS if task.is_classification else NOISE_VARIANCES
    gp = make_gp(task, baseline.make(task.kernel, n_features, seed), grid[0])
    fit_on(gp, task, X, y)
    losses = []
    for value in grid:
        gp.set_params(**{"alpha" if task.is_classification else "noise_variance": value})
        losses.append(scores(task, gp.refit(), X_validation, y_validation)["mnll"])
    return grid[int(np.nanargmin(losses))]


def fit_on(gp: Any, task: Task, X: np.ndarray, y: np.ndarray) -> Any:
    """Fit; classes of which a subset has no rows are known all the same."""
    if task.is_classification and isinstance(gp, FeatureGPClassifier):
        return gp.fit(X, y, classes=np.unique(task.data.y_train))
    return gp.fit(X, y)


def exact_process(task: Task, regularisation: float) -> tuple[Latent, Row]:
    """The exact posterior on the subset, and its scores on the test rows."""
    X, y, X_test = task.subset()
    if task.is_classification:
        gp: Any = ExactGPClassifier(
            task.kernel, alpha=regularisation, n_samples=task.n_samples, **AUTHORS
        )
    else:
        gp = ExactGPRegressor(
            task.kernel, noise_variance=regularisation, prior_variance=1.0, normalize_y=None
        )
    gp.fit(X, y)
    y_test = task.test[1][: task.size]
    return latent(gp, X_test), scores(task, gp, X_test, y_test)


def measure(
    task: Task,
    method: Method,
    n_features: int,
    seed: int,
    regularisation: float,
    exact: Latent,
    K: np.ndarray,
) -> Row:
    """All metrics of one method. Complex features have the paper's complex posterior.

    K is the exact Gram matrix of the test rows of the subset.
    """
    X, y, X_test = task.subset()
    features = method.make(task.kernel, n_features, seed)
    posterior = "complex" if method.is_complex and method.family != "beyond" else "real"
    begin = time.perf_counter()
    gp = fit_on(make_gp(task, features, regularisation, posterior), task, X, y)
    seconds = time.perf_counter() - begin
    row = gram_errors(K, np.asarray(gp.features_.transform(X_test)))
    row |= divergences(latent(gp, X_test), exact)
    if len(task.data.X_train) > task.size:
        fit_on(gp, task, *task.train)
    return row | scores(task, gp, *task.test) | {"fit_seconds": seconds}


def divergences(approximate: Latent, exact: Latent) -> Row:
    """KL(approximate ‖ exact), as the authors compute it, and the other way round."""
    ours = approximate.mean, np.maximum(approximate.variance, 1e-12)
    theirs = exact.mean, np.maximum(exact.variance, 1e-12)
    return {"kl": gaussian_kl(*ours, *theirs), "kl_reverse": gaussian_kl(*theirs, *ours)}

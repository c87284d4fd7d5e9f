"""Exact Gaussian process classification by Dirichlet labels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from .._arrays import host
from .base import DTYPES
from .class_sums import VALIDATION_ROWS, row_hashes
from .classifier import DirichletClassifier
from .dirichlet import DirichletLabels
from .exact_regression import ExactGP, ExactPosterior, double_rows, gram, resolved


class ExactGPClassifier(DirichletClassifier, ExactGP):
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
        self._check_classifier()
        X, y = validate_data(self, host(X), host(y), accept_sparse="csr", dtype=DTYPES)
        y = column_or_1d(y, warn=True)
        check_classification_targets(y)
        classes, self._codes = np.unique(y, return_inverse=True)
        self._set_classes(classes, np.bincount(self._codes).astype(np.float64))
        self._seed = self._draw_seed()
        self.X_train_ = double_rows(X)
        self.kernel_ = resolved(self.kernel, self.X_train_)
        K = gram(self.kernel_, self.X_train_)
        self.labels_ = self._choose_labels(len(y) * len(classes), self._held_out(K))
        self.alpha_, self.prior_variance_ = self.labels_.alpha, self._prior(self.labels_)
        self.posteriors_ = self._posteriors(K, self._codes, self.labels_)
        self.jitter_ = max(p.jitter for p in self.posteriors_)
        return self

    def _latent_mean(self, X: Any) -> np.ndarray:
        cross = gram(self.kernel_, self._test_rows(X), self.X_train_)
        return latent_mean(cross, self.posteriors_, self.labels_)

    def _latent_blocks(self, X: Any) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        X = self._test_rows(X)
        cross, diagonal = gram(self.kernel_, X, self.X_train_), np.asarray(self.kernel_.diag(X))
        variance = [p.variance(cross, diagonal) for p in self.posteriors_]
        yield latent_mean(cross, self.posteriors_, self.labels_), np.stack(variance, axis=1)

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

    def _log_evidence(self, labels: DirichletLabels) -> float:
        K = gram(self.kernel_, self.X_train_)
        return sum(p.log_likelihood(1) for p in self._posteriors(K, self._codes, labels))

    def _held_out(self, K: np.ndarray) -> Any:
        """A function from labels to latent means, variances and classes of rows held out."""
        order = np.argsort(row_hashes(self._seed, 0, len(K)))
        held = min(max(len(K) // 10, 1), VALIDATION_ROWS)
        test, train = order[:held], order[held:]

        def held_out(labels: DirichletLabels) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
            found = self._posteriors(K[np.ix_(train, train)], self._codes[train], labels)
            cross, diagonal = K[np.ix_(test, train)], np.diag(K)[test]
            variance = np.stack([p.variance(cross, diagonal) for p in found], axis=1)
            return latent_mean(cross, found, labels), variance, self._codes[test]

        return held_out


def latent_mean(
    cross: np.ndarray, posteriors: list[ExactPosterior], labels: DirichletLabels
) -> np.ndarray:  # (n*, n) -> (n*, C)
    """Means of the latent functions from k(x, X)."""
    return np.concatenate([p.mean(cross) for p in posteriors], axis=1) + labels.means

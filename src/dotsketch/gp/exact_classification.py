"""Exact Gaussian process classification: a process of Dirichlet labels for every class."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from .._arrays import host
from .base import DTYPES
from .choice import HeldOut
from .class_sums import VALIDATION_ROWS, row_hashes
from .dirichlet import DirichletClassifier, DirichletLabels
from .evidence import log_density_of_copies
from .exact import ExactGP, ExactPosterior, counted_rows, double_rows, gram, resolved


class ExactGPClassifier(DirichletClassifier, ExactGP):
    """Exact Gaussian process classification by Dirichlet labels, one factorisation for every class.

    Parameters
    ----------
    kernel : kernel of this library, or of scikit-learn
    alpha, prior_variance, temperature, class_weight, probabilities, n_samples, random_state :
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
        prior_variance: float | str = "auto",
        temperature: float | str = "auto",
        class_weight: Any = None,
        probabilities: str = "monte_carlo",
        n_samples: int = 128,
        random_state: Any = 0,
    ):
        self.kernel = kernel
        self.alpha = alpha
        self.prior_variance = prior_variance
        self.temperature = temperature
        self.class_weight = class_weight
        self.probabilities = probabilities
        self.n_samples = n_samples
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> ExactGPClassifier:
        """Fit to X (n, d) and labels y (n,); `sample_weight` (n,) as for `FeatureGPClassifier`."""
        self._check_kernel()
        self._check_classifier()
        X, y = validate_data(self, host(X), host(y), accept_sparse="csr", dtype=DTYPES)
        y = column_or_1d(y, warn=True)
        check_classification_targets(y)
        X, y, _, self._counts = counted_rows(X, y, None, sample_weight)
        classes, self._codes = np.unique(y, return_inverse=True)
        self._set_classes(classes, np.bincount(self._codes, weights=self._counts))
        self._seed = self._draw_seed()
        self.X_train_ = double_rows(X)
        self.kernel_ = resolved(self.kernel, self.X_train_, self._counts)
        K = gram(self.kernel_, self.X_train_)
        n_values = len(classes) * float(np.sum(self._counts))
        self._choose(n_values, self._held_out(K), partial(self._evidence_of, K))
        rows = np.arange(len(y))
        self.posteriors_ = self._posteriors(K, rows, self.labels_, self.prior_variance_)
        self.jitter_ = max(p.jitter for p in self.posteriors_)
        return self

    def _latent_mean(self, X: Any) -> np.ndarray:
        cross = gram(self.kernel_, self._test_rows(X), self.X_train_)
        return _latent_mean_of(cross, self.posteriors_, self.labels_)

    def _latent_blocks(self, X: Any) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        X = self._test_rows(X)
        cross, diagonal = gram(self.kernel_, X, self.X_train_), np.asarray(self.kernel_.diag(X))
        variance = [p.variance(cross, diagonal) for p in self.posteriors_]
        yield _latent_mean_of(cross, self.posteriors_, self.labels_), np.stack(variance, axis=1)

    def _posteriors(
        self, K: np.ndarray, rows: np.ndarray, labels: DirichletLabels, prior_variance: float
    ) -> list[ExactPosterior]:
        """The posterior of every class from the training rows with these numbers."""
        found = []
        for c in range(len(self.classes_)):
            inside = self._codes[rows] == c
            targets = np.where(inside, labels.inside, labels.outside) - labels.means[c]
            noise = self._noise(labels, c)[rows] / self._counts[rows]
            found.append(ExactPosterior.of(K, targets[:, None], noise, prior_variance))
        return found

    def _noise(self, labels: DirichletLabels, c: int) -> np.ndarray:  # -> (n,)
        """The noise variances of class c, of one copy of every row."""
        inside = self._codes == c
        noise = np.where(inside, labels.inside_variance, labels.outside_variance)
        return noise / self.class_weights_[self._codes]

    def _log_evidence(self, labels: DirichletLabels, prior_variance: float) -> float:
        return self._evidence_of(gram(self.kernel_, self.X_train_), labels, prior_variance)

    def _evidence_of(
        self, K: np.ndarray, labels: DirichletLabels, prior_variance: float
    ) -> float:  # (n, n)
        """log p of the targets of all classes, for the Gram matrix of the training rows."""
        found = self._posteriors(K, np.arange(len(K)), labels, prior_variance)
        return sum(
            p.log_likelihood() + log_density_of_copies(self._noise(labels, c), self._counts)
            for c, p in enumerate(found)
        )

    def _held_out(self, K: np.ndarray) -> Callable[[DirichletLabels, float], HeldOut]:
        """A function from labels and prior variance to the prediction of rows held out."""
        order = np.argsort(row_hashes(self._seed, 0, len(K)))
        held = min(max(len(K) // 10, 1), VALIDATION_ROWS)
        test, train = order[:held], order[held:]

        def held_out(labels: DirichletLabels, prior_variance: float) -> HeldOut:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)  # of values that are not chosen
                found = self._posteriors(K[np.ix_(train, train)], train, labels, prior_variance)
            cross, diagonal = K[np.ix_(test, train)], np.diag(K)[test]
            variance = np.stack([p.variance(cross, diagonal) for p in found], axis=1)
            mean = _latent_mean_of(cross, found, labels)
            return HeldOut(mean, variance, self._codes[test], self._counts[test])

        return held_out


def _latent_mean_of(
    cross: np.ndarray, posteriors: list[ExactPosterior], labels: DirichletLabels
) -> np.ndarray:  # (n*, n) -> (n*, C)
    """Means of the latent functions from k(x, X)."""
    return np.concatenate([p.mean(cross) for p in posteriors], axis=1) + labels.means

"""Classification as regression on transformed labels (Milios et al., 2018; Appendix D).

A label is a sample of a Dirichlet distribution with concentration 1 + α for its class and α for all
others; its gamma variables are matched by log-normal ones. So every class has a latent function
that sees one target and one noise variance at its own rows, and another of both elsewhere.
`DirichletClassifier` is what the classifiers share: the choice of α, predictions from latent
functions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.special import softmax
from sklearn.base import ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from ..metrics import mean_negative_log_likelihood
from .targets import check_positive

ALPHAS = (1e-5, 1e-4, 1e-3, 0.01, 0.1, 1.0)  # the range searched in the paper
START = ALPHAS.index(0.01)  # where a search begins
PROBABILITIES = ("monte_carlo", "closed_form")


@dataclass(frozen=True)
class DirichletLabels:
    """Targets and noise variances of the latent functions for one α.

    ỹ = log(y + α) − σ²/2 and σ² = log(1/(y + α) + 1) for y = 1 (inside a class) and 0 (outside).
    As the authors do, the prior mean of class c is μ_c = log π_c + mean(ỹ − log π), and the prior
    variance is the variance of all ỹ_c − μ_c together.

    >>> labels = DirichletLabels.of(1.0, [0.5, 0.5])
    >>> round(labels.inside, 4), round(labels.outside, 4)
    (0.4904, -0.3466)
    """

    alpha: float
    inside: float
    outside: float
    inside_variance: float
    outside_variance: float
    means: np.ndarray  # (C,)
    prior_variance: float

    @classmethod
    def of(cls, alpha: float, frequencies: Any) -> DirichletLabels:  # number, (C,)
        """For classes of the given relative frequencies."""
        share = np.asarray(frequencies, dtype=np.float64)
        inside_variance, outside_variance = np.log1p(1 / (1 + alpha)), np.log1p(1 / alpha)
        inside = np.log1p(alpha) - inside_variance / 2
        outside = np.log(alpha) - outside_variance / 2
        centre = np.mean(share * inside + (1 - share) * outside - np.log(share))
        means = np.log(share) + centre
        square = share * (inside - means) ** 2 + (1 - share) * (outside - means) ** 2
        return cls(
            float(alpha),
            float(inside),
            float(outside),
            float(inside_variance),
            float(outside_variance),
            means,
            float(np.mean(square)),
        )


def expected_softmax(
    mean: np.ndarray, variance: np.ndarray, method: str, n_samples: int, seed: int
) -> np.ndarray:  # (n, C), (n, C) -> (n, C)
    """E softmax(f) for independent f_c ~ N(mean_c, variance_c).

    - "monte_carlo": the mean over `n_samples` draws, the same standard normal numbers for every
      row, with their negatives.
    - "closed_form": P(c beats j) ≈ σ((m_c − m_j)/√(1 + π(v_c + v_j)/8)), MacKay's approximation of
      the logistic of a Gaussian; 1/p_c − 1 is the sum of the odds against c, then normalised. Off
      by 0.02 at most for two classes; for ten, by 0.01 at variances of 0.1 and over 0.1 beyond 1.
    """
    n, C = mean.shape
    if method == "closed_form":
        result = np.empty_like(mean)
        for c in range(C):
            spread = np.sqrt(1 + np.pi / 8 * (variance[:, c : c + 1] + variance))
            against = np.clip((mean - mean[:, c : c + 1]) / spread, None, 700)
            result[:, c] = 1 / np.sum(np.exp(against), axis=1)  # j = c adds the one
        return result / result.sum(axis=1, keepdims=True)
    half = np.random.default_rng(seed).standard_normal((-(-n_samples // 2), C))
    draws = np.concatenate([half, -half])[:n_samples]
    result = np.zeros_like(mean)
    deviation = np.sqrt(variance)
    step = max(1, (1 << 21) // (n_samples * C))
    for start in range(0, n, step):
        rows = slice(start, start + step)
        latent = mean[rows, None, :] + deviation[rows, None, :] * draws
        result[rows] = softmax(latent, axis=2).mean(axis=1)
    return result


class DirichletClassifier(ClassifierMixin):
    """A Gaussian process for every class; a subclass knows the posteriors."""

    alpha: float | str
    prior_variance: float | str
    class_weight: Any
    probabilities: str
    n_samples: int
    random_state: Any

    def _latent_mean(self, X: Any) -> np.ndarray:  # (n, d) -> (n, C)
        raise NotImplementedError

    def _latent_blocks(self, X: Any) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Means and variances (n, C) of the latent functions, for blocks of rows."""
        raise NotImplementedError

    def _log_evidence(self, labels: DirichletLabels) -> float:
        raise NotImplementedError

    def predict(self, X: Any) -> np.ndarray:  # (n, d) -> (n,)
        """The class of the greatest latent mean, which takes no variances.

        The greatest of `predict_proba` can be another class where variances differ.
        """
        check_is_fitted(self)
        return self.classes_[self._latent_mean(X).argmax(axis=1)]

    def predict_latent(self, X: Any) -> tuple[np.ndarray, np.ndarray]:  # (n, d) -> (n, C), (n, C)
        """Mean and standard deviation of the latent function of every class."""
        check_is_fitted(self)
        means, variances = zip(*self._latent_blocks(X), strict=True)
        return np.concatenate(means), np.sqrt(np.concatenate(variances))

    def predict_proba(self, X: Any) -> np.ndarray:  # (n, d) -> (n, C)
        """Probabilities of the classes: the softmax averaged over the latent functions."""
        check_is_fitted(self)
        self._check_classifier()
        return np.concatenate(
            [
                expected_softmax(mean, variance, self.probabilities, self.n_samples, self._seed)
                for mean, variance in self._latent_blocks(X)
            ]
        )

    def log_marginal_likelihood(self) -> float:
        """log p of the labels' targets at the fitted α, summed over classes."""
        check_is_fitted(self)
        return self._log_evidence(self.labels_)

    def _check_classifier(self) -> None:
        check_positive("alpha", self.alpha, ("auto", "evidence"))
        check_positive("prior_variance", self.prior_variance, ("labels",))
        if self.probabilities not in PROBABILITIES:
            raise ValueError(
                f"probabilities must be one of {PROBABILITIES}; got {self.probabilities!r}."
            )
        if self.n_samples < 1:
            raise ValueError(f"n_samples must be positive; got {self.n_samples!r}.")

    def _draw_seed(self) -> int:
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _set_classes(self, classes: np.ndarray, counts: np.ndarray) -> None:  # (C,), (C,)
        """The classes, how much a row of each counts, and their frequencies."""
        check_two_classes(classes)
        self.classes_ = classes
        self.class_weights_ = class_weights(self.class_weight, classes, counts)
        weighted = np.maximum(counts, 0.5) * self.class_weights_  # no rows yet: half of one
        self.frequencies_ = weighted / weighted.sum()

    def _prior(self, labels: DirichletLabels) -> float:
        given = self.prior_variance
        return labels.prior_variance if isinstance(given, str) else float(given)

    def _choose_labels(
        self,
        n_values: int,
        held_out: Callable[[DirichletLabels], tuple[np.ndarray, np.ndarray, np.ndarray]],
    ) -> DirichletLabels:
        """The labels for the α that is given, or the best for held-out rows or the evidence.

        `held_out(labels)` gives latent means, variances and the true class of rows held out;
        `n_values` is how many real numbers the targets of all classes are (for the evidence).
        """
        if not isinstance(self.alpha, str):
            return DirichletLabels.of(float(self.alpha), self.frequencies_)
        candidates = [DirichletLabels.of(alpha, self.frequencies_) for alpha in ALPHAS]

        def loss(labels: DirichletLabels) -> float:
            if self.alpha == "evidence":
                # The same two-valued labels, stretched: densities compare after that change
                stretch = n_values * np.log(labels.inside - labels.outside)
                return -float(self._log_evidence(labels) + stretch)
            mean, variance, codes = held_out(labels)
            p = expected_softmax(mean, variance, "closed_form", 1, 0)
            return mean_negative_log_likelihood(codes, p)

        return candidates[downhill([partial(loss, labels) for labels in candidates], START)]


def downhill(losses: list[Callable[[], float]], start: int) -> int:
    """The place of a least loss among its neighbours, from `start`; few of them are computed."""
    known: dict[int, float] = {}

    def value(place: int) -> float:
        if not 0 <= place < len(losses):
            return np.inf
        if place not in known:
            known[place] = losses[place]()
        return known[place]

    best = start
    while True:
        nearest = min((best, best - 1, best + 1), key=value)
        if nearest == best:
            return best
        best = nearest


def class_weights(option: Any, classes: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """How often a row of every class counts: scikit-learn's class_weight."""
    if option is None:
        return np.ones(len(classes))
    if isinstance(option, str) and option == "balanced":
        return counts.sum() / (len(classes) * np.maximum(counts, 1))
    if not isinstance(option, dict):
        raise ValueError(f'class_weight must be None, "balanced" or a dict; got {option!r}.')
    unknown = [label for label in option if label not in classes.tolist()]
    if unknown:
        raise ValueError(f"class_weight names {unknown[0]!r}, which is no class: {classes}.")
    weights = np.array([float(option.get(label, 1.0)) for label in classes.tolist()])
    if not np.all(np.isfinite(weights)) or not np.all(weights > 0):
        raise ValueError(f"class_weight must be positive; got {option!r}.")
    return weights


def check_two_classes(classes: np.ndarray) -> None:
    if len(classes) < 2:
        raise ValueError(
            f"A classifier needs at least two classes in y; got one class: {classes.tolist()}."
        )

"""Classification as regression on transformed labels (Milios et al., 2018; Appendix D).

A label is a sample of a Dirichlet distribution with concentration 1 + α for its class and α for all
others; its gamma variables are matched by log-normal ones. So every class has a latent function
that sees one target and one noise variance at its own rows, and another of both elsewhere.
`DirichletClassifier` is what the classifiers share: the choice of α, prior variance and
temperature, predictions from latent functions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from .._support.parameters import check_positive, one_of
from ..rows.collections import over_collections
from ..rows.sources import Output
from .choice import (
    ALPHA_SPREAD,
    ALPHAS,
    PRIOR_SPREAD,
    PRIORS,
    START,
    HeldOut,
    downhill,
    penalty,
)
from .softmax import PROBABILITIES, expected_softmax


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


class DirichletClassifier(ClassifierMixin):
    """A Gaussian process for every class; a subclass knows the posteriors."""

    alpha: float | str
    prior_variance: float | str
    temperature: float | str
    class_weight: Any
    probabilities: str
    n_samples: int
    random_state: Any
    classes_: np.ndarray

    labels_: Any  # DirichletLabels, or None for another likelihood
    alpha_: Any

    def _latent_mean(self, X: Any) -> np.ndarray:  # (n, d) -> (n, C)
        raise NotImplementedError

    def _latent_blocks(self, X: Any) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Means and variances (n, C) of the latent functions, for blocks of rows."""
        raise NotImplementedError

    def _log_evidence(self, labels: DirichletLabels, prior_variance: float) -> float:
        raise NotImplementedError

    def _outputs(self, *names: str) -> tuple[Output, ...]:
        """What a method returns of a collection: numbers of every class, with these labels."""
        check_is_fitted(self)
        several = len(names) > 1
        classes = [str(label) for label in self.classes_.tolist()]
        return tuple(
            Output(name, np.float64, [f"{name}_{c}" for c in classes] if several else classes)
            for name in names
        )

    def _class_of_rows(self, X: Any) -> tuple[Output]:
        check_is_fitted(self)
        return (Output("class", self.classes_.dtype),)

    @over_collections(_class_of_rows)
    def predict(self, X: Any) -> np.ndarray:  # (n, d) -> (n,)
        """The class of the greatest latent mean, which takes no variances.

        The greatest of `predict_proba` can be another class where variances differ.
        """
        check_is_fitted(self)
        return self.classes_[self._latent_mean(X).argmax(axis=1)]

    @over_collections(lambda model, X: model._outputs("mean", "std"))
    def predict_latent(self, X: Any) -> tuple[np.ndarray, np.ndarray]:  # (n, d) -> (n, C), (n, C)
        """Mean and standard deviation of the latent function of every class."""
        check_is_fitted(self)
        means, variances = zip(*self._latent_blocks(X), strict=True)
        return np.concatenate(means), np.sqrt(np.concatenate(variances))

    @over_collections(lambda model, X: model._outputs("probability"))
    def predict_proba(self, X: Any) -> np.ndarray:  # (n, d) -> (n, C)
        """Probabilities of the classes: the softmax averaged over the latent functions."""
        check_is_fitted(self)
        self._check_classifier()
        T = self.temperature_
        return np.concatenate(
            [
                expected_softmax(mean / T, variance / T**2, *self._average)
                for mean, variance in self._latent_blocks(X)
            ]
        )

    @property
    def _average(self) -> tuple[str, int, int]:
        """How the softmax is averaged over the latent functions."""
        return self.probabilities, int(self.n_samples), self._seed

    def log_marginal_likelihood(self) -> float:
        """log p of the labels' targets at the fitted α, summed over classes."""
        check_is_fitted(self)
        if self.labels_ is None:
            raise ValueError(
                "log_marginal_likelihood is that of Dirichlet labels, and the fit has a softmax "
                'likelihood: use likelihood="dirichlet".'
            )
        return self._log_evidence(self.labels_, self.prior_variance_)

    def _check_classifier(self) -> None:
        check_positive("alpha", self.alpha, "auto", "evidence")
        check_positive("prior_variance", self.prior_variance, "auto", "labels")
        check_positive("temperature", self.temperature, "auto")
        one_of("probabilities", self.probabilities, PROBABILITIES)
        if self.n_samples < 1:
            raise ValueError(f"n_samples must be positive; got {self.n_samples!r}.")

    def _draw_seed(self) -> int:
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _set_classes(self, classes: np.ndarray, counts: np.ndarray) -> None:  # (C,), (C,)
        """The classes, how much a row of each counts, and their frequencies."""
        check_two_classes(classes)
        self.classes_ = classes
        self.class_weights_ = class_weights(self.class_weight, classes, counts)
        seen = np.where(counts > 0, counts, 0.5)  # no rows yet: half of one
        weighted = seen * self.class_weights_
        self.frequencies_ = weighted / weighted.sum()

    def _choose(
        self,
        n_values: float,
        held_out: Callable[[DirichletLabels, float], HeldOut],
        log_evidence: Callable[[DirichletLabels, float], float],
    ) -> None:
        """Set labels, prior variance and temperature: given, or the best for rows held out.

        `held_out(labels, prior_variance)` predicts rows that are held out, and `log_evidence` of
        the same is for α = "evidence"; `n_values` is how many real numbers the targets of all
        classes are.
        """
        alphas = ALPHAS if isinstance(self.alpha, str) else (float(self.alpha),)
        multiples = PRIORS if self.prior_variance == "auto" else (1.0,)

        def labels_and_prior(i: int, j: int) -> tuple[DirichletLabels, float]:
            labels = DirichletLabels.of(alphas[i], self.frequencies_)
            given = self.prior_variance
            is_given = not isinstance(given, str)
            return labels, float(given) if is_given else multiples[j] * labels.prior_variance

        @cache
        def predicted(i: int, j: int) -> HeldOut:
            return held_out(*labels_and_prior(i, j))

        def loss(i: int, j: int) -> float:
            if self.alpha == "evidence":
                labels, prior = labels_and_prior(i, j)
                # The same two-valued labels, stretched: densities compare after that change
                stretch = n_values * np.log(labels.inside - labels.outside)
                return -float(log_evidence(labels, prior) + stretch)
            found = predicted(i, j)
            n, rules = found.n, 0.0
            if len(multiples) > 1:
                rules += penalty(j - START[1], PRIOR_SPREAD, n)
            if self.temperature != "auto":
                return found.loss(float(self.temperature)) + rules
            if len(alphas) > 1:  # a temperature does almost what α does
                rules += penalty(i - START[0], ALPHA_SPREAD, n)
            return found.best_temperature()[1] + rules

        place = downhill(loss, (len(alphas), len(multiples)), START)
        self.labels_, self.prior_variance_ = labels_and_prior(*place)
        self.alpha_ = self.labels_.alpha
        if self.temperature == "auto":
            self.temperature_ = predicted(*place).best_temperature(*self._average)[0]
        else:
            self.temperature_ = float(self.temperature)


def class_weights(option: Any, classes: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """How often a row of every class counts: scikit-learn's class_weight."""
    if option is None:
        return np.ones(len(classes))
    if isinstance(option, str) and option == "balanced":
        # counts are fractions if rows have weights; a class without rows has the weight of one row
        divisors = len(classes) * np.where(counts > 0, counts, 1)
        return counts.sum() / divisors
    if not isinstance(option, dict):
        raise ValueError(f'class_weight must be None, "balanced" or a dict; got {option!r}.')
    unknown = [label for label in option if label not in classes.tolist()]
    if unknown:
        raise ValueError(
            f"class_weight names {unknown[0]!r}, which is not one of the classes {classes}."
        )
    weights = np.array([float(option.get(label, 1.0)) for label in classes.tolist()])
    if not np.all(np.isfinite(weights)) or not np.all(weights > 0):
        raise ValueError(f"class_weight must be positive; got {option!r}.")
    return weights


def check_two_classes(classes: np.ndarray) -> None:
    if len(classes) < 2:
        raise ValueError(
            f"A classifier needs at least two classes in y; got one class: {classes.tolist()}."
        )

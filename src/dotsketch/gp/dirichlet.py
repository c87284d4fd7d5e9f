"""Classification as regression on transformed labels (Milios et al., 2018; Appendix D).

A label is a sample of a Dirichlet distribution with concentration 1 + α for its class and α for all
others; its gamma variables are matched by log-normal ones. So every class has a latent function
that sees one target and one noise variance at its own rows, and another of both elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from scipy.special import expit, softmax

ALPHAS = tuple(10.0**power for power in range(-5, 1))  # the range searched in the paper
VALIDATION_ROWS = 1000
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
        numbers = (alpha, inside, outside, inside_variance, outside_variance)
        return cls(*map(float, numbers), means, float(np.mean(square)))


def expected_softmax(
    mean: np.ndarray, variance: np.ndarray, method: str, n_samples: int, rng: np.random.Generator
) -> np.ndarray:  # (n, C), (n, C) -> (n, C)
    """E softmax(f) for independent f_c ~ N(mean_c, variance_c).

    - "monte_carlo": the mean over `n_samples` draws, the same standard normal numbers for every
      row, with their negatives.
    - "closed_form": P(c beats j) ≈ σ((m_c − m_j)/√(1 + π(v_c + v_j)/8)), MacKay's approximation of
      the logistic of a Gaussian; 1/p_c − 1 is the sum of the odds against c, then normalised.
    """
    n, C = mean.shape
    if method == "closed_form":
        result = np.empty_like(mean)
        for c in range(C):
            spread = np.sqrt(1 + np.pi / 8 * (variance[:, c : c + 1] + variance))
            against = np.clip((mean - mean[:, c : c + 1]) / spread, None, 700)
            result[:, c] = 1 / np.sum(np.exp(against), axis=1)  # j = c adds the one
        return result / result.sum(axis=1, keepdims=True)
    half = rng.standard_normal((-(-n_samples // 2), C))
    draws = np.concatenate([half, -half])[:n_samples]
    result = np.zeros_like(mean)
    deviation = np.sqrt(variance)
    step = max(1, (1 << 21) // (n_samples * C))
    for start in range(0, n, step):
        rows = slice(start, start + step)
        latent = mean[rows, None, :] + deviation[rows, None, :] * draws
        result[rows] = softmax(latent, axis=2).mean(axis=1)
    return result


class Reservoir:
    """A uniform sample of the rows of a stream (Vitter's algorithm R), to choose α on.

    Draws depend on the number of rows seen only, so that a stream goes on where it stopped.
    """

    def __init__(self, size: int, seed: int):
        self.size = size
        self.seed = seed
        self.seen = 0
        self.rows: np.ndarray | None = None
        self.labels: np.ndarray | None = None

    def add(self, rows: np.ndarray, labels: np.ndarray) -> None:  # (n, D), (n,)
        if self.rows is None or self.labels is None:
            self.rows, self.labels = rows[:0].copy(), labels[:0].copy()
        free = self.size - len(self.rows)
        if free > 0:
            self.rows = np.concatenate([self.rows, rows[:free]])
            self.labels = np.concatenate([self.labels, labels[:free]])
        rng = np.random.default_rng([self.seed, self.seen])
        numbers = self.seen + np.arange(max(free, 0), len(rows))
        places = rng.integers(0, numbers + 1)
        self.labels = self.labels.astype(np.result_type(self.labels, labels), copy=False)
        for k in np.flatnonzero(places < self.size):
            self.rows[places[k]] = rows[k + max(free, 0)]
            self.labels[places[k]] = labels[k + max(free, 0)]
        self.seen += len(rows)

    def split(self, n: int) -> tuple[np.ndarray, np.ndarray]:
        """n of the rows and their labels."""
        assert self.rows is not None
        assert self.labels is not None
        chosen = np.random.default_rng(self.seed).permutation(len(self.rows))[:n]
        return self.rows[chosen], self.labels[chosen]


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


def check_classification(alpha: Any, probabilities: str, n_samples: int) -> None:
    """Raise if a parameter of the classifiers has no meaning."""
    known = alpha in ("auto", "evidence") if isinstance(alpha, str) else False
    number = isinstance(alpha, Real) and not isinstance(alpha, bool)
    if not known and (not number or not np.isfinite(alpha) or alpha <= 0):
        raise ValueError(
            f'alpha must be a positive number, "auto" or "evidence"; got {alpha!r}.'
        )
    if probabilities not in PROBABILITIES:
        raise ValueError(f"probabilities must be one of {PROBABILITIES}; got {probabilities!r}.")
    if n_samples < 1:
        raise ValueError(f"n_samples must be positive; got {n_samples!r}.")


def check_two_classes(classes: np.ndarray) -> None:
    if len(classes) < 2:
        raise ValueError(
            f"A classifier needs at least two classes in y; got one class: {classes.tolist()}."
        )


def binary_sigmoid(mean: np.ndarray) -> np.ndarray:
    return expit(mean)

"""Classification as regression on transformed labels (Milios et al., 2018; Appendix D).

A label is a sample of a Dirichlet distribution with concentration 1 + α for its class and α for all
others; its gamma variables are matched by log-normal ones. So every class has a latent function
that sees one target and one noise variance at its own rows, and another of both elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import softmax

ALPHAS = (1e-5, 1e-4, 1e-3, 0.01, 0.1, 1.0)  # the range searched in the paper


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

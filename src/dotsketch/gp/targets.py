"""Targets of a regression: their normalisation, their noise, and the variances they choose."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtri

from .._arrays import like
from .algebra import Likelihood, left_out_of_kernel
from .sums import positive_rows

NORMALIZATIONS = ("standard", "mean", None)


class Targets(NamedTuple):
    """What is subtracted from every output, what it is divided by, and whether y was (n,)."""

    means: np.ndarray  # (m,)
    scales: np.ndarray  # (m,)
    is_flat: bool
    constant: np.ndarray  # (m,): outputs that are zero after that, which choose no variances

    @classmethod
    def of(
        cls, means: np.ndarray, deviations: np.ndarray, normalize: str | None, is_flat: bool
    ) -> Targets:
        # up to the rounding of their mean
        constant = deviations <= 10 * np.finfo(np.float64).eps * np.abs(means)
        shifts, scales = np.zeros_like(means), np.ones_like(means)
        if normalize is not None:
            shifts = means
        if normalize == "standard":
            scales = np.where(constant, 1.0, deviations)
        return cls(shifts, scales, is_flat, constant & (normalize is not None))


def chosen_variances(
    likelihood: Callable[[], Likelihood],
    noise_variance: float | str,
    prior_variance: float | str,
    by_row: bool,
    normal: Targets,
    level: float | None = None,
) -> tuple[np.ndarray, np.ndarray]:  # -> (m,), (m,)
    """Noise (1 if the weights of the rows hold it) and prior variance of every output.

    They are given, or of the greatest likelihood. Those of constant outputs are 1: their likelihood
    grows without bound as the variances vanish. `level` is the mean k(x, x) of features that
    vanish, and so say nothing about s, which multiplies all of k(x, x) in predictions: f then
    varies like y.
    """
    m = len(normal.means)
    noise = 1.0 if by_row else None if isinstance(noise_variance, str) else float(noise_variance)
    prior = None if isinstance(prior_variance, str) else float(prior_variance)
    if np.all(normal.constant):
        noise, prior = noise or 1.0, prior or 1.0
    if noise is not None and prior is not None:
        return np.full(m, noise), np.full(m, prior)
    solved = likelihood()
    vanishing = level is not None and prior is None
    noises, priors = solved.best_variances(noise, 1.0 if vanishing else prior)
    if vanishing and level is not None:
        priors = np.where(solved.energies > 0, solved.energies, 1.0) / level
    noises = np.where(normal.constant & (noise is None), 1.0, noises)
    return noises, np.where(normal.constant & (prior is None), 1.0, priors)


def noise_at(noise: np.ndarray | None, by_row: Any, n: int) -> np.ndarray:  # (m,), (n,)
    """The noise variances of n rows to predict: (m,), or (n, 1) if they are given by row."""
    if by_row is not None:
        return np.asarray(positive_rows("noise_variance by row", by_row, n))[:, None]
    if noise is None:
        raise ValueError(
            "The noise was given by row in fit: give that of these rows as noise_variance=."
        )
    return noise


def left_out_of_kernels(
    K: np.ndarray, priors: np.ndarray, Y: np.ndarray, noise: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:  # (n, n), (m,), (n, m), (n, m) -> (n, m), (n, m)
    """Residuals and variances of rows that are left out, for every output."""
    parts = [left_out_of_kernel(s * K, Y[:, j : j + 1], noise[:, j]) for j, s in enumerate(priors)]
    residuals = np.concatenate([residual for residual, _ in parts], axis=1)
    return residuals, np.stack([variance for _, variance in parts], axis=1)


def number_of(values: np.ndarray) -> Any:  # (m,) -> a number for one output
    return float(values[0]) if len(values) == 1 else values


def check_levels(name: str, levels: Any) -> np.ndarray:  # -> (q,)
    """Probabilities between 0 and 1."""
    values = np.atleast_1d(np.asarray(levels, dtype=np.float64))
    if values.ndim != 1 or not np.all((values > 0) & (values < 1)):
        raise ValueError(f"{name} must lie between 0 and 1; got {levels!r}.")
    return values


def gaussian_quantiles(mean: Any, std: Any, quantiles: Any) -> Any:
    """mean + Φ⁻¹(q) · standard deviation, along a new last axis."""
    return mean[..., None] + std[..., None] * like(ndtri(check_levels("quantiles", quantiles)), std)

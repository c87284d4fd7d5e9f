"""How far a Gaussian process on features is from the exact one, on a sample of the rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve, solve_triangular
from sklearn.utils import check_array

from .._arrays import host
from ..features import FeatureMap
from ..features.degenerate import without_degenerate_warnings
from ..features.errors import Beaten
from ..features.study import Study
from ..metrics import gaussian_kl
from ..spectrum import Spectrum, best_variances

ROWS_PER_COLUMN = 8  # the posterior is that of so many rows for every column, as far as there are
FITTED_ROWS = 1000, 4096  # at least, if there are so many, and at most
HELD_ROWS, HELD_SHARE = 200, 5  # at most so many held out, and a fifth of the rows
SPECTRUM_ROWS = 1000  # the variances are chosen on so many
LEAST_NOISE = 1e-6  # of the variance of y: with less, the roundings of a solution are measured
DRAWS = 3, 16  # of a candidate, at least and at most
OPERATIONS = 3e9  # of a candidate: as many draws as they allow
PRECISION = 0.05  # a standard error relative to the mean that ends the draws
HOPELESS = 3.0  # one draw of so many times the divergence to beat is enough
TARGETS_NEEDED = (
    'objective="posterior" compares posteriors, which depend on y: give plan(..., y=y), or '
    "fit(X, y)"
)


class Divergence(NamedTuple):
    """KL(approximate ‖ exact) in nats per row held out: mean over draws, and its standard error."""

    mean: float
    standard_error: float


@dataclass(frozen=True, kw_only=True)
class PosteriorSetting:
    """What the divergences of a plan stand on.

    noise_variance and prior_variance are in squared units of the standardised y, as those of
    `FeatureGPRegressor`; the prior variance multiplies the kernel. They are the same for the exact
    and all approximate posteriors.
    """

    n_fitted: int
    n_held: int
    noise_variance: float
    prior_variance: float


class PosteriorReference:
    """The exact posterior of a sample of the rows, and the distance of features to it.

    The exact Gaussian process and one on features learn from the same rows, with the same kernel,
    noise and prior variance, and predict rows held out. The variance k(x, x) − E k̂(x, x) that the
    features lack is added to their predictions where `FeatureGPRegressor` does it by default
    (`FeatureMap.lacks_variance`).

    Parameters
    ----------
    study : Study of the rows X (n, d)
    y : (n,) or (n, m), targets. Text is taken as classes, with a column of 0 and 1 for each
    n_components : the largest number of columns of a candidate
    noise_variance : of the standardised y; None maximises the marginal likelihood of the exact
        process on 1000 rows, as for the prior variance in any case
    """

    def __init__(
        self, study: Study, y: Any, n_components: int, noise_variance: float | None = None
    ):
        Y = check_targets(y, study.n_rows)
        wanted = int(np.clip(ROWS_PER_COLUMN * n_components, *FITTED_ROWS))
        numbers = study.numbers(wanted + HELD_ROWS)
        n_held = min(HELD_ROWS, len(numbers) // HELD_SHARE)
        if n_held < 2:
            raise ValueError(
                f'objective="posterior" holds a fifth of the rows out: X has {len(numbers)} rows, '
                "at least 10 are needed."
            )
        n_fitted = len(numbers) - n_held
        if 2 * n_components > n_fitted and len(numbers) < study.n_rows:
            raise ValueError(
                f'objective="posterior" compares with an exact posterior of {n_fitted} rows, which '
                f"says little about {n_components} columns: use {n_fitted // 2} columns or fewer, "
                'or objective="error".'
            )
        rows, Y = study.rows(len(numbers)), Y[numbers]
        self.held, self.fitted = rows[:n_held], rows[n_held:]
        self.study, self.kernel = study, study.kernel
        means, scales = Y[n_held:].mean(axis=0), Y[n_held:].std(axis=0)
        self.Y = (Y[n_held:] - means) / np.where(scales > 0, scales, 1.0)
        K = self.kernel(self.fitted)
        noise, prior = self._variances(K, noise_variance)
        self.setting = PosteriorSetting(
            n_fitted=n_fitted, n_held=n_held, noise_variance=noise, prior_variance=prior
        )
        self._diagonal = self.kernel.diag(self.held)
        cross = self.kernel(self.fitted, self.held)
        self._exact = exact_posterior(K, cross, self._diagonal, self.Y, noise / prior)

    def _variances(self, K: np.ndarray, noise: float | None) -> tuple[float, float]:
        some = slice(SPECTRUM_ROWS)
        if not np.any(self.Y):  # y is constant
            return noise or 1.0, 1.0
        noise, prior = best_variances(
            lambda: Spectrum.of_kernel(K[some, some], self.Y[some]), noise, None
        )
        return max(noise, LEAST_NOISE), prior

    def measure(self, candidate: FeatureMap, to_beat: float = np.inf) -> Divergence:
        """The divergence of features with n_components columns; Unsuited if they are too few.

        Draws are repeated 3 to 16 times, and end where the standard error is below 5 %. `Beaten` is
        raised if the divergence is above `to_beat` by more than two standard errors, or the first
        draw by a factor of three.
        """
        n, D = len(self.fitted), candidate.n_components
        operations = (n + D) * min(n, D) ** 2 + n * min(n, D) * len(self.fitted[0])
        n_draws = int(np.clip(OPERATIONS / operations, *DRAWS))
        found: list[float] = []
        features = None
        for child in np.random.SeedSequence(self.study.streams.entropy).spawn(n_draws):
            seed = int(child.generate_state(1)[0])
            with without_degenerate_warnings():
                features = self._drawn(candidate, features, seed)
                found.append(self.divergence(features))
            mean, error = float(np.mean(found)), np.inf
            if found[0] > HOPELESS * to_beat:
                raise Beaten(found[0] / HOPELESS)
            if len(found) >= DRAWS[0]:
                error = float(np.std(found, ddof=1) / np.sqrt(len(found)))
                if mean - 2 * error > to_beat:
                    raise Beaten(mean - 2 * error)
                if error <= PRECISION * mean:
                    break
        return Divergence(mean, error)

    def _drawn(self, candidate: FeatureMap, drawn: FeatureMap | None, seed: int) -> FeatureMap:
        """The first draw is a fit; others keep what is the same for all."""
        if drawn is not None:
            return drawn.redrawn(self.fitted, seed)
        # A sample has fewer rows than X, and so have features that take one for every column
        most = candidate.most_components(Study(self.kernel, self.fitted))
        D = min(candidate.n_components, most or candidate.n_components)
        described = candidate.for_kernel(self.kernel, D, random_state=seed)
        return described.fit_planned(self.fitted, self.study)

    def divergence(self, features: FeatureMap) -> float:
        """KL(approximate ‖ exact) of predictions with noise, per row held out."""
        Z, Z_held = (real_columns(features.transform(rows)) for rows in (self.fitted, self.held))
        noise, prior = self.setting.noise_variance, self.setting.prior_variance
        mean, variance = posterior_of_features(Z, Z_held, self.Y, noise / prior)
        missing = np.where(np.any(Z_held, axis=1), 0.0, self._diagonal)
        if features.lacks_variance:
            expected = features.expected_diagonal(self.held, Z_held)
            missing = np.maximum(self._diagonal - expected, 0.0)
        shape = mean.shape
        pairs = (mean, variance + missing), self._exact
        (m, v), (m0, v0) = (
            (a, np.broadcast_to((prior * b + noise)[:, None], shape)) for a, b in pairs
        )
        return gaussian_kl(m, v, m0, v0) / len(self.held)


def exact_posterior(
    K: np.ndarray, cross: np.ndarray, diagonal: np.ndarray, Y: np.ndarray, noise: float
) -> tuple[np.ndarray, np.ndarray]:  # (n, n), (n, h), (h,), (n, m) -> (h, m), (h,)
    """Mean and variance of f at h rows; `noise` and the variance are relative to the prior's."""
    factor = cho_factor(K + noise * np.eye(len(K)), lower=True)
    half = solve_triangular(factor[0], cross, lower=True)
    mean = cross.T @ cho_solve(factor, Y)
    return mean, np.maximum(diagonal - np.sum(half**2, axis=0), 0.0)


def posterior_of_features(
    Z: np.ndarray, Z_held: np.ndarray, Y: np.ndarray, noise: float
) -> tuple[np.ndarray, np.ndarray]:  # (n, D), (h, D), (n, m) -> (h, m), (h,)
    """`exact_posterior` of the kernel Z Zᵀ, by the smaller one of two systems."""
    n, D = Z.shape
    if n < D:
        return exact_posterior(Z @ Z.T, Z @ Z_held.T, np.sum(Z_held**2, axis=1), Y, noise)
    factor = cho_factor(Z.T @ Z + noise * np.eye(D), lower=True)
    half = solve_triangular(factor[0], Z_held.T, lower=True)
    return Z_held @ cho_solve(factor, Z.T @ Y), noise * np.sum(half**2, axis=0)


def real_columns(Z: Any) -> np.ndarray:
    """Features in double precision; complex ones as [Re, Im], whose kernel is Re k̂."""
    Z = np.asarray(host(Z))
    return np.concatenate([Z.real, Z.imag], axis=1) if np.iscomplexobj(Z) else np.asarray(Z, float)


def check_targets(y: Any, n_rows: int) -> np.ndarray:  # -> (n, m)
    """Finite numbers, one row for every row of X; classes that are text as columns of 0 and 1."""
    if y is None:
        raise ValueError(f"{TARGETS_NEEDED}.")
    y = np.asarray(host(y))
    if y.dtype.kind not in "biuf":
        y = (y.reshape(len(y), -1)[:, :1] == np.unique(y)).astype(np.float64)
    Y: np.ndarray = check_array(y, ensure_2d=False, dtype=np.float64, input_name="y")
    if len(Y) != n_rows:
        raise ValueError(f"y has {len(Y)} values for {n_rows} rows of X.")
    return Y.reshape(n_rows, -1)

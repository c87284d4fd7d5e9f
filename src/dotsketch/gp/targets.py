"""Targets, noise and variances: what the regressors share."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import ndtri
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.utils import check_array
from sklearn.utils.validation import validate_data

from .._arrays import Array, host
from .._support.parameters import check_positive, one_of
from .base import DTYPES
from .sums import positive_rows

NORMALIZATIONS = ("standard", "mean", None)
LARGEST = 1e140


class GaussianRegressor(RegressorMixin, MultiOutputMixin):
    """Parameters of a Gaussian process regression, and the shape of its outputs."""

    noise_variance: float | str
    prior_variance: float | str
    normalize_y: str | None
    noise_variance_: float | None
    means_: np.ndarray
    scales_: np.ndarray
    _flat: bool
    predict: Any

    def predict_quantiles(
        self, X: Any, quantiles: Any = (0.025, 0.5, 0.975), *, include_noise: bool = True
    ) -> np.ndarray:  # (n, d) -> (n, q) or (n, m, q)
        """Quantiles of y at the rows of X, or of f without the noise.

        The predictive distribution is Gaussian: mean + Φ⁻¹(q) · standard deviation.
        """
        levels = np.atleast_1d(np.asarray(quantiles, dtype=np.float64))
        if levels.ndim != 1 or not np.all((levels > 0) & (levels < 1)):
            raise ValueError(f"quantiles must lie between 0 and 1; got {quantiles!r}.")
        mean, std = self.predict(X, return_std=True, include_noise=include_noise)
        return mean[..., None] + std[..., None] * ndtri(levels)

    def _check_regressor(self) -> None:
        check_positive("noise_variance", self.noise_variance, "auto")
        check_positive("prior_variance", self.prior_variance, "auto")
        one_of("normalize_y", self.normalize_y, NORMALIZATIONS)

    def _check_rows(self, X: Any, y: Any, *, reset: bool = True) -> tuple[Array, np.ndarray]:
        """Training rows in memory and their targets."""
        return validate_data(
            self,
            host(X),
            host(y),
            accept_sparse="csr",
            dtype=DTYPES,
            multi_output=True,
            y_numeric=True,
            reset=reset,
        )

    def _normalisation(
        self, means: np.ndarray, deviations: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:  # (m,), (m,) -> (m,), (m,)
        """What is subtracted from every output, and what it is divided by."""
        shifts, scales = np.zeros_like(means), np.ones_like(means)
        if self.normalize_y is not None:
            shifts = means
        if self.normalize_y == "standard":
            scales = np.where(is_rounding(deviations, means), 1.0, deviations)
        return shifts, scales

    def _is_constant(self, means: np.ndarray, deviations: np.ndarray) -> bool:
        """Whether targets less their means are zero, so that variances cannot be learnt from them.

        Those that are to be chosen are then 1: the likelihood grows without bound as they vanish,
        and with them the standard deviations of predictions.
        """
        return self.normalize_y is not None and bool(np.all(is_rounding(deviations, means)))

    def _given_variances(self, by_row: bool, optimize: bool) -> tuple[float | None, float | None]:
        """Noise (1 if the weights of the rows hold it) and prior variance; None: to be chosen."""
        noise, prior = (
            None if optimize or value == "auto" else float(value)
            for value in (self.noise_variance, self.prior_variance)
        )
        return 1.0 if by_row else noise, prior

    def _shaped(self, values: np.ndarray) -> np.ndarray:
        """Outputs are the last axis, which targets of one dimension do not have."""
        return values[..., 0] if self._flat else values

    def _samples(self, draws: np.ndarray) -> np.ndarray:  # (n, m, k) -> (n, m, k) or (n, k)
        """Draws of the normalised f in units of y."""
        draws = draws * self.scales_[:, None] + self.means_[:, None]
        return draws[:, 0] if self._flat else draws

    def _accept_noise_of(self, other: Any) -> None:
        """Called after a fit to noise by row that another regressor has found."""

    def _shared_noise(self) -> float:
        """The noise variance of a row to predict."""
        if self.noise_variance_ is None:
            raise ValueError("The noise was given by row: add that of the rows to predict.")
        return self.noise_variance_

    @staticmethod
    def _check_request(return_std: bool, return_cov: bool) -> None:
        if return_std and return_cov:
            raise RuntimeError("At most one of return_std or return_cov can be requested.")


def is_rounding(deviations: np.ndarray, means: np.ndarray) -> np.ndarray:  # (m,), (m,) -> (m,)
    """Whether targets are constant up to the rounding of their mean."""
    return deviations <= 10 * np.finfo(np.float64).eps * np.abs(means)


def check_targets(y: Any) -> tuple[np.ndarray, bool]:  # (n,) or (n, m) -> (n, m), was it (n,)
    """Finite targets in double precision, and so their squares."""
    # `check_array` takes longer than the features of a small block
    plain = type(y) is np.ndarray and y.dtype == np.float64 and y.ndim in (1, 2) and y.size
    if plain and np.max(np.abs(y)) <= LARGEST:
        return (y[:, None], True) if y.ndim == 1 else (y, False)
    Y = check_array(host(y), ensure_2d=False, dtype=np.float64, input_name="y")
    if np.max(np.abs(Y)) > LARGEST:
        raise ValueError(f"y has values beyond {LARGEST:.0e}, whose squares overflow: scale it.")
    return (Y[:, None], True) if Y.ndim == 1 else (Y, False)


def left_out(
    residuals: np.ndarray, variance: np.ndarray, noise: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:  # (n, m), (n,), (n,) -> (n, m), (n,)
    """What is left of y, and its variance, if a row is predicted from all others.

    From the residuals y − μ and the variances v of f at rows that were learnt from, with noise σ²:
    the posterior without the row has the residual (y − μ)/(1 − v/σ²) and, for y, the variance
    v/(1 − v/σ²) + σ² = σ²/(1 − v/σ²).

    >>> import numpy as np
    >>> left_out(np.array([[1.0]]), np.array([0.5]), np.array([1.0]))  # y = 2 alone, prior N(0, 1)
    (array([[2.]]), array([2.]))
    """
    # rounding alone may leave nothing of a row that has the model to itself
    rest = np.maximum(1 - variance / noise, np.finfo(np.float64).eps)
    return residuals / rest[:, None], noise / rest


def moments(
    Y: np.ndarray, counts: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:  # (n, m), (n,) -> (m,), (m,)
    """Mean and standard deviation of every output, of rows that count so often."""
    means = np.average(Y, axis=0, weights=counts)
    return means, np.sqrt(np.average((Y - means) ** 2, axis=0, weights=counts))


def check_noise(noise: Any, expected: bool, n: int) -> np.ndarray | None:
    """Positive variances of the noise of n rows, or None where none are expected."""
    if (noise is not None) != expected:
        raise ValueError("The noise variance must be given for all rows or for none.")
    return positive_rows("noise_variance by row", noise, n)

"""The variance that features do not carry: what training rows and predictions add for it."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._arrays import Array
from ..rows.sources import Block, Rows
from .evidence import CorrectedRows
from .iterative import compressed
from .regression_sums import RegressionSums
from .targets import moments

CORRECTIONS = ("auto", None, "posterior", "fitc")
CORRECTED_ROWS = 2000  # variances are chosen on so many rows if those are corrected
# Noise that the marginal likelihood chose holds what the features lack on most training rows: this
# quantile over so many of them. (Coverage of 95 % intervals on pol, elevators, kin40k and protein
# was 0.94 to 0.96; 0.97 to 1.00 where all that is missing is added to that noise again.)
USUAL, DEFICIT_ROWS = 0.9, 500


class CorrectedRegression(RegressionSums):
    """`variance_correction` of a regression."""

    prior_variance_: float
    _corrects_rows: bool
    _noise_holds_lack: bool
    _usual_lack: float

    def _measured_deficit(self, X: Any) -> float:
        """The share of k(x, x) that features usually lack on training rows, if it counts."""
        if self.variance_correction != "auto" or self._correction is None:
            return 0.0
        if self._unseen_level is not None:
            return 0.0
        rows = self._check_block(Rows((X,)).sample(DEFICIT_ROWS)[0])
        shares = self._deficit(rows, self._map(rows)) / self._positive_diagonal(rows)
        return float(np.quantile(shares, USUAL))

    def _positive_diagonal(self, X: Array) -> np.ndarray:  # (n, d) -> (n,)
        return np.maximum(np.asarray(self._prior_diagonal(X)), np.finfo(float).tiny)

    def _missing(self, X: Array, Z: np.ndarray) -> np.ndarray:  # (n, d), (n, D) -> (n,)
        """What predictions add: nothing of what the chosen noise holds, all of it at zero rows."""
        missing = super()._missing(X, Z)
        if not self._noise_holds_lack:
            return missing
        prior, usual = self._positive_diagonal(X), min(self._usual_lack, 1 - 1e-6)
        return prior * np.clip((missing / prior - usual) / (1 - usual), 0, 1)

    def _accept_noise_of(self, other: Any) -> None:
        # the noise of rows that it has found, and what was added to it, holds this too
        self._noise_holds_lack = self._usual_lack > 0 and bool(other._noise_holds_lack)

    def _corrected_variances(self, sample: Block) -> tuple[float, float]:
        """Noise and prior variance for rows with corrections, on some of the sample."""
        noise_variance, prior = self._given_variances(self._noise_by_row, self.optimized_)
        if noise_variance is not None and prior is not None:
            return noise_variance, prior
        X, Y, noise, counts = self._columns(Rows(sample).sample(CORRECTED_ROWS))
        Z, counts = self._map(X), np.ones(len(Y)) if counts is None else counts
        means, scales = self._normalisation(*moments(Y, counts))
        Y, deficits = (Y - means) / scales, self._deficit(X, Z)
        rows = CorrectedRows(compressed(Z), Y, deficits, noise, counts)
        return rows.best_variances(noise_variance, prior)

    def _extra_variance(self, X: Array, Z: np.ndarray, include_noise: bool) -> np.ndarray:
        """What is added to the variance of f at rows to predict (in normalised units)."""
        extra = self.prior_variance_ * self._missing(X, Z)
        return extra + self._shared_noise() if include_noise else extra

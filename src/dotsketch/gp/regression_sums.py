"""Rows of a regression: blocks of features and targets, sums, and the variances they choose."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from .._arrays import Array
from ..rows.sources import Block, Rows, sample_weights
from ..spectrum import Spectrum, best_variances
from .base import FeatureGP
from .evidence import spectrum_of_features
from .iterative import DIRECT_ROWS, compressed
from .sums import SufficientStatistics
from .targets import GaussianRegressor, check_noise, check_targets


class RegressionSums(GaussianRegressor, FeatureGP):
    """From blocks of rows to sums, and from sums to noise and prior variance."""

    offset_: np.ndarray  # what is subtracted from the targets before they are summed
    optimized_: bool
    _noise_by_row: bool
    _row_variances: tuple[float, float] | None  # what the sums assume, for "fitc"

    def _columns(
        self, block: Block
    ) -> tuple[Array, np.ndarray, np.ndarray | None, np.ndarray | None]:
        """Validated rows, targets, noise variances and sample weights of a block."""
        X, (Y, _) = self._check_block(block[0]), check_targets(block[1])
        if Y.shape[1] != len(self.offset_):
            raise ValueError(f"y has {Y.shape[1]} outputs; {len(self.offset_)} are expected.")
        noise = block[2] if len(block) > 2 else None
        return X, Y, check_noise(noise, self._noise_by_row, len(Y)), sample_weights(block)

    def _block(self, columns: Block, first: int = 0) -> tuple[Any, ...]:
        """Features, targets, weights and counts of a block."""
        X, Y, noise, counts = self._columns(columns)
        Z = self._map(X)
        return Z, Y - self.offset_, self._row_weights(X, Z, noise), counts

    def _row_weights(self, X: Array, Z: np.ndarray, noise: np.ndarray | None) -> np.ndarray | None:
        """The inverse noise variances of training rows, or None if all are the same."""
        if self._row_variances is not None:
            base, prior = self._row_variances
            noise = (base if noise is None else noise) + prior * self._deficit(X, Z)
        return None if noise is None else 1 / noise

    def _sums(self, rows: Rows, checkpoint: Any = None) -> SufficientStatistics:
        assumed = self.offset_.tolist(), self._row_variances
        result: SufficientStatistics = self._gather(
            rows, self._block, self._no_rows, assumed=assumed, path=checkpoint
        )
        return result

    def _no_rows(self) -> SufficientStatistics:
        return SufficientStatistics.zeros(self.n_columns_, len(self.offset_), self._dtype)

    def _sample_sums(self, sample: Block) -> SufficientStatistics:
        """The sums over some rows, in as few columns as these rows need."""
        Z, *others = self._block(sample)
        return SufficientStatistics.of(compressed(Z), *others)

    def _units(self, statistics: SufficientStatistics) -> tuple[np.ndarray, np.ndarray]:
        """What is subtracted from every output, and what it is divided by."""
        return self._normalisation(statistics.means() + self.offset_, statistics.deviations())

    def _spectrum(self, statistics: SufficientStatistics) -> Spectrum:
        means, scales = self._units(statistics)
        return spectrum_of_features(statistics, *statistics.centred(means - self.offset_, scales))

    def _choose_variances(self, statistics: SufficientStatistics) -> tuple[float, float]:
        """Noise and prior variance: given, or of the greatest marginal likelihood."""
        noise, prior = self._given_variances(self._noise_by_row, self.optimized_)
        means, deviations = statistics.means() + self.offset_, statistics.deviations()
        if self._is_constant(means, deviations):
            return noise or 1.0, prior or 1.0
        spectrum = cache(lambda: self._spectrum(statistics))
        found = best_variances(spectrum, noise, prior)
        if prior is not None or self._unseen_level is None:
            return found
        # features that vanish say nothing about s, which multiplies all of k(x, x) in predictions:
        # f does not vary by more than y
        squares = (deviations**2 + (means - self.means_) ** 2) / self.scales_**2
        largest = (float(np.mean(squares)) or 1.0) / self._unseen_level
        return found if found[1] <= largest else best_variances(spectrum, noise, largest)

    def _variances_on_sample(self, rows: Rows) -> tuple[float, float]:
        """Noise and prior variance: given, or chosen by the direct path on some rows."""
        noise, prior = self._given_variances(self._noise_by_row, self.optimized_)
        if noise is not None and prior is not None:
            return noise, prior
        return self._choose_variances(self._sample_sums(rows.sample(DIRECT_ROWS)))

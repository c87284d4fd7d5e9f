"""Rows of a regression: blocks of features and targets, sums, and the variances they choose."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from .._arrays import Array
from ..rows.sources import Block, Rows, len_of, sample_weights
from ..spectrum import Likelihood, best_variances
from .base import FeatureGP
from .evidence import likelihood_of_features
from .iterative import DIRECT_ROWS, compressed
from .solvers.passes import block_rows
from .sums import SufficientStatistics, sampled_columns
from .targets import GaussianRegressor, check_noise, check_targets

# Variances of the iterative solver: so many more rows, with so many columns at most, correct the
# choice on DIRECT_ROWS with all columns. Noise of kin8nm (D = 4096): 0.0755 on all rows, 0.0975 on
# 2000, 0.0754 with the correction
MORE_ROWS, FEWER_COLUMNS = 20_000, 2048
LARGEST_CHANGE = 10.0  # more would be no correction; and more rows do not add noise


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
        return self._gather(rows, self._block, self._no_rows, assumed=assumed, path=checkpoint)

    def _no_rows(self) -> SufficientStatistics:
        return SufficientStatistics.zeros(self.n_columns_, len(self.offset_), self._dtype)

    def _sample_sums(self, sample: Block) -> SufficientStatistics:
        """The sums over some rows, in as few columns as these rows need."""
        Z, *others = self._block(sample)
        return SufficientStatistics.of(compressed(Z), *others)

    def _units(self, statistics: SufficientStatistics) -> tuple[np.ndarray, np.ndarray]:
        """What is subtracted from every output, and what it is divided by."""
        return self._normalisation(statistics.means() + self.offset_, statistics.deviations())

    def _likelihood(self, statistics: SufficientStatistics) -> Likelihood:
        means, scales = self._units(statistics)
        return likelihood_of_features(statistics, *statistics.centred(means - self.offset_, scales))

    def _choose_variances(self, statistics: SufficientStatistics) -> tuple[float, float]:
        """Noise and prior variance: given, or of the greatest marginal likelihood."""
        noise, prior = self._given_variances(self._noise_by_row, self.optimized_)
        means, deviations = statistics.means() + self.offset_, statistics.deviations()
        if self._is_constant(means, deviations):
            return noise or 1.0, prior or 1.0
        likelihood = cache(lambda: self._likelihood(statistics))
        found = best_variances(likelihood, noise, prior)
        if prior is not None or self._unseen_level is None:
            return found
        # features that vanish say nothing about s, which multiplies all of k(x, x) in predictions:
        # f does not vary by more than y
        squares = (deviations**2 + (means - self.means_) ** 2) / self.scales_**2
        largest = (float(np.mean(squares)) or 1.0) / self._unseen_level
        return found if found[1] <= largest else best_variances(likelihood, noise, largest)

    def _variances_on_sample(self, rows: Rows) -> tuple[float, float]:
        """Noise and prior variance: given, or chosen by the direct path on some rows.

        Few rows show less detail than many, so that the noise of few is too large. So both are
        chosen on few rows with all columns, and multiplied by what more rows change with fewer
        columns.
        """
        noise, prior = self._given_variances(self._noise_by_row, self.optimized_)
        if noise is not None and prior is not None:
            return noise, prior
        sample, more = rows.sample(DIRECT_ROWS), rows.sample(MORE_ROWS)
        if len_of(more[0]) <= len_of(sample[0]):
            return self._choose_variances(self._sample_sums(sample))
        Z, *others = self._block(sample)
        places, factors = sampled_columns(np.einsum("ij,ij->j", Z, Z), FEWER_COLUMNS)
        many = self._choose_variances(self._sums_of_columns(more, places, factors))
        if len(places) == self.n_columns_:
            return many
        few, found = (
            self._choose_variances(SufficientStatistics.of(columns, *others))
            for columns in (Z[:, places] * factors, compressed(Z))
        )
        limits = (1 / LARGEST_CHANGE, 1.0), (1 / LARGEST_CHANGE, LARGEST_CHANGE)
        noise, prior = (
            float(a * np.clip(b / c, *limit))
            for a, b, c, limit in zip(found, many, few, limits, strict=True)
        )
        return noise, prior

    def _sums_of_columns(
        self, sample: Block, places: np.ndarray, factors: np.ndarray
    ) -> SufficientStatistics:
        """The sums over some rows of the columns at these places, times factors."""
        total = SufficientStatistics.zeros(len(places), len(self.offset_))
        for block in Rows(sample).blocks(block_rows(self.n_columns_)):
            Z, *others = self._block(block)
            total.update(Z[:, places] * factors, *others)
        return total

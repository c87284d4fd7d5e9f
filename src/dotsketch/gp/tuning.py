"""The search for the kernel of a regression on features: the rows it sees, and the score."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._support.progress import progress
from ..rows.fold import chained, fingerprint
from ..rows.sources import Block, Rows, len_of, sample_weights
from ..spectrum import best_variances
from .iterative import DIRECT_ROWS, MOST_COLUMNS
from .regression_sums import RegressionSums
from .search import Journal, Judge, Score, tuned_features
from .targets import check_noise, check_targets, moments

SCORED_ROWS = 25_000  # a common factor of the lengthscales is chosen on so many
COMPARED_ROWS = 10_000  # kernels are compared on so many


class TunedRegression(RegressionSums):
    """`optimize` of a regression on features."""

    def _tuned_features(
        self, features: Any, rows: Rows, sample: Block, optimize: bool | str, checkpoint: Any
    ) -> Any:
        """These features with the kernel of the greatest marginal likelihood."""
        X = sample[0] if rows.in_memory else self._check_sample(sample[0])
        (Y, _), noise = check_targets(sample[1]), sample[2] if self._noise_by_row else None
        counts = sample_weights(sample)
        scales = self._normalisation(*moments(Y, np.ones(len(Y)) if counts is None else counts))[1]
        scored = rows.sample(SCORED_ROWS) if rows.in_memory else (X, *sample[1:])
        n_scored, journal = len_of(scored[0]), None
        if checkpoint is not None:
            given = repr(features), optimize, self.normalize_y, n_scored
            journal = Journal(f"{checkpoint}.search", chained(fingerprint(given), sample))
        recorder = self._recorder(journal)
        found, message = tuned_features(
            features,
            X,
            Y / scales,
            check_noise(noise, self._noise_by_row, len(Y)),
            counts,
            fitting=self._fitting_rows(rows)[1],
            judge=self._judge(scored),
            quick=self._judge(Rows(scored).sample(COMPARED_ROWS)),
            per_column=self._per_column(optimize),
            rng=np.random.default_rng(0),
            recorder=recorder,
        )
        self.search_ = recorder.finish(message)
        return found

    def _judge(self, block: Block) -> Judge:
        """The judgement of some rows."""
        n = len_of(block[0])
        return Judge(lambda features: self._score(features, Rows(block), n), n)

    def _score(self, features: Any, rows: Rows, n_rows: int) -> Score:
        """What features reach on rows: the evidence at the best variances, and those."""
        self._fit_features(rows, features, is_final=False)
        if self.n_columns_ > MOST_COLUMNS:  # too many for sums over all rows
            statistics = self._sample_sums(rows.sample(DIRECT_ROWS))
        else:
            statistics = self._no_rows()
            with progress("rows", n_rows, self.verbose) as advance:
                for block in rows.blocks(self._block_rows()):
                    statistics.update(*self._block(block))
                    advance(len(block[1]))
        likelihood = self._likelihood(statistics)
        free = self._given_variances(self._noise_by_row, True)
        noise, prior = best_variances(lambda: likelihood, *free)
        return likelihood.log_likelihood(noise, prior) / likelihood.n, noise, prior

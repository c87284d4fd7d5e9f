"""Predictions of a regression on features: means, variances, draws, and rows left out."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._arrays import as_generator
from .._support.parameters import positive_integer
from ..features.validation import check_fitted
from ..rows.collections import over_collections
from ..rows.sources import Output, Rows
from .base import check_test_rows
from .corrections import CorrectedRegression
from .evidence import log_evidence
from .functions import SampledFunctions
from .iterative import check_direct
from .posterior import evaluate
from .solvers import System
from .sums import SufficientStatistics
from .targets import left_out


class RegressionPredictions(CorrectedRegression):
    """What a fitted regression says about f and y."""

    statistics_: SufficientStatistics
    posterior_: Any
    solver_: str
    _unit_noise: float

    def _predicted(
        self, X: Any, return_std: bool = False, return_cov: bool = False, **noise: Any
    ) -> tuple[Output, ...]:
        """What `predict` returns of a collection."""
        check_fitted(self)
        if return_cov:
            raise ValueError(
                "return_cov is a matrix of all pairs of rows, too large for a collection: use "
                "return_std, or rows in memory."
            )
        labels = ("mean", "std") if return_std else ("mean",)
        if self._flat:
            return tuple(Output(label, np.float64) for label in labels)
        outputs = range(len(self.means_))
        return tuple(
            Output(label, np.float64, [f"{label}{k}" for k in outputs]) for label in labels
        )

    @over_collections(_predicted)
    def predict(
        self,
        X: Any,
        return_std: bool = False,
        return_cov: bool = False,
        *,
        include_noise: bool = False,
    ) -> Any:  # (n, d) -> (n,) or (n, m); std of the same shape; covariance (n, n) or (n, n, m)
        """Mean of f at the rows of X, and its standard deviation or covariance.

        `include_noise` adds the noise variance, for the spread of y instead of f. Predictions for
        a Dask collection are Dask collections, computed when they are asked for.
        """
        check_fitted(self)
        self._check_request(return_std, return_cov)
        means, variances, parts = [], [], []
        for rows, Z in self._prediction_blocks(X):
            means.append(self.posterior_.mean(Z))
            if return_std:
                extra = self._extra_variance(rows, Z, include_noise)
                variances.append(self.posterior_.variance(Z) + extra)
            if return_cov:
                parts.append((Z, self._extra_variance(rows, Z, include_noise)))
        mean = self._shaped(np.concatenate(means) * self.scales_ + self.means_)
        if return_std:
            deviations = np.sqrt(np.concatenate(variances))
            return mean, self._shaped(deviations[:, None] * self.scales_)
        if return_cov:
            covariance = self.posterior_.covariance(np.concatenate([Z for Z, _ in parts]))
            covariance[np.diag_indices(len(covariance))] += np.concatenate([e for _, e in parts])
            return mean, self._shaped(covariance[:, :, None] * self.scales_**2)
        return mean

    def sample_y(
        self, X: Any, n_samples: int = 1, random_state: Any = 0
    ) -> np.ndarray:  # (n, d) -> (n, n_samples) or (n, m, n_samples)
        """Draws of f at the rows of X: `sample_functions`, and the variance that they lack.

        Where features lack some of k(x, x) and predictions add it (`variance_correction`), it is
        white noise: drawn for every row, not part of a function.
        """
        rng = as_generator(random_state)
        functions = self.sample_functions(n_samples, rng)
        draws = []
        for rows, Z in self._prediction_blocks(X):
            values = evaluate(Z, functions.weights)
            extra = self._extra_variance(rows, Z, False)
            if np.any(extra):
                values = values + np.sqrt(extra)[:, None, None] * rng.standard_normal(values.shape)
            draws.append(values)
        return functions.in_units(np.concatenate(draws))

    def sample_functions(self, n_functions: int = 1, random_state: Any = None) -> SampledFunctions:
        """Functions drawn from the posterior: an object `f` with `f(X)` (n, n_functions).

        Every call of `f` evaluates the same functions, in NumPy, PyTorch or JAX, with gradients to
        X: they can be maximised (Thompson sampling) or integrated. Their mean and covariance are
        those of `predict` as far as the features carry them: the variance that predictions add
        where features lack some of k(x, x) (`variance_correction`) is not part of any function;
        `sample_y` adds it. With m outputs `f(X)` is (n, m, n_functions).
        """
        check_fitted(self)
        n = positive_integer("n_functions", n_functions)
        weights = self.posterior_.sample_weights(n, as_generator(random_state))
        return SampledFunctions(
            self.features_, weights, self.means_, self.scales_, self._joins_parts, self._flat
        )

    def log_marginal_likelihood(self) -> float:
        """log p(y) of the training targets at the fitted variances, in units of y."""
        check_fitted(self)
        check_direct(self, "log_marginal_likelihood")
        statistics, noise = self.statistics_, self._unit_noise
        cross, squares = statistics.centred(self.means_ - self.offset_, self.scales_)
        system = System(statistics.second_moment, cross / noise)
        log_noise = statistics.n * np.log(noise) - statistics.log_weights
        square = float(np.sum(squares)) / noise
        density = log_evidence(system, self.posterior_, square, log_noise, statistics.n)
        units = statistics.n * np.sum(np.log(self.scales_))
        return density - float(units) * (2 if np.iscomplexobj(cross) else 1)

    def leave_one_out(
        self, X: Any, y: Any, *, noise_variance: Any = None
    ) -> tuple[np.ndarray, np.ndarray]:  # (n, d), (n,) or (n, m) -> twice the shape of y
        """Mean and standard deviation of y at training rows, each predicted from all the others.

        Nearly free: with the posterior mean μ and variance v of f at a row, and the noise σ² of its
        target, the posterior without this row has the mean y − (y − μ)/(1 − v/σ²) and the variance
        v/(1 − v/σ²); the noise is added. Features, variances, mean and scale of y stay those of all
        rows. X and y are the training rows or some of them, noise_variance (n,) theirs if it was
        given by row; a row with a sample_weight loses one of its copies. Needs the variances of
        solver="cholesky".

        Examples
        --------
        >>> import numpy as np
        >>> from dotsketch import FeatureGPRegressor, Gaussian, NystromFeatures
        >>> X = np.linspace(0, 6, 60)[:, None]
        >>> y = np.sin(X[:, 0]) + 0.1 * np.random.default_rng(0).standard_normal(60)
        >>> gp = FeatureGPRegressor(NystromFeatures(Gaussian(), n_components=9, random_state=0))
        >>> mean, std = gp.fit(X, y).leave_one_out(X, y)
        >>> bool(np.mean(np.abs(y - mean) < 2 * std) > 0.9)
        True
        """
        check_fitted(self)
        if self.solver_ != "cholesky":
            raise ValueError(
                f"leave_one_out needs exact variances, and those of solver={self.solver_!r} are "
                'estimates: fit with solver="cholesky".'
            )
        means, variances = [], []
        for columns in Rows((check_test_rows(self, X), y, noise_variance)).blocks(
            self._block_rows()
        ):
            rows, Y, row_noise, _ = self._columns(columns)
            # in double precision: what a row of its own leaves of its noise is a small difference
            Z = self._map(rows).astype(self._dtype, copy=False)
            weights = self._row_weights(rows, Z, row_noise)
            noise = self._unit_noise / (np.ones(len(Y)) if weights is None else weights)
            residuals = (Y - self.means_) / self.scales_ - self.posterior_.mean(Z)
            residuals, variance = left_out(residuals, self.posterior_.variance(Z), noise)
            means.append(Y - self.scales_ * residuals)
            if not self._corrects_rows:  # with "fitc" the noise of a row holds what is missing
                variance += self.prior_variance_ * self._missing(rows, Z)
            variances.append(variance)
        deviations = np.sqrt(np.concatenate(variances))[:, None] * self.scales_
        return self._shaped(np.concatenate(means)), self._shaped(deviations)

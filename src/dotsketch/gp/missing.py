"""Regression on rows with missing values, with intervals that are as wide as these rows deserve.

A value that is filled in is wrong by some amount, and so is the prediction. Rows with imputed
values therefore have more noise than the others, both when they are learnt from and when they are
predicted:

    Var y = Var f(x) + σ² + Σ_j τ_j²   over the missing columns j.

σ² is the noise of complete rows, τ_j² the mean squared change of the prediction when a known value
of column j is replaced by what is filled in. One factor for all τ_j² makes the residuals of the
imputed rows as large as the model says they are, for values that are not missing at random.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.impute import SimpleImputer
from sklearn.utils.validation import check_is_fitted, validate_data

from ..rows.sources import Block, Rows, is_stream
from .base import DTYPES

SAMPLE_ROWS = 5000  # on which the variances are found
SPREAD_ROWS = 500  # whose known values are replaced, column by column
LEAST_COMPLETE = 30  # and a tenth of the sample; with fewer complete rows all rows are taken
PRIOR_ROWS = 10  # the factor starts at 1, and so many rows' worth of evidence hold it there


class ImputedGPRegressor(RegressorMixin, BaseEstimator):
    """A Gaussian process for rows with missing values (NaN), which have a variance of their own.

    Parameters
    ----------
    regressor : FeatureGPRegressor or ExactGPRegressor
        A clone is fitted to the filled rows, with a noise variance for every row.
    imputer : transformer or None, default=None
        Fills NaN in, one column for every input and then indicators of missing values; None is
        `SimpleImputer(add_indicator=True)`, which takes the mean.
    one_hot : sequence of (start, stop), default=()
        Columns of X that encode a category as 0 and 1: the category is missing where all are 0.

    Attributes
    ----------
    regressor_, imputer_ : the fitted parts
    noise_variance_ : float, of rows without missing values, in squared units of y
    missing_variances_ : array, what a missing value adds: of every column outside `one_hot`, then
        of every category; in squared units of y
    n_complete_ : int, rows without missing values among those that the variances were found on

    Examples
    --------
    >>> import numpy as np
    >>> from dotsketch import FeatureGPRegressor, Gaussian, NystromFeatures
    >>> from dotsketch.gp import ImputedGPRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((400, 2))
    >>> y = 3 * X[:, 0] + X[:, 1] + 0.1 * rng.standard_normal(400)
    >>> X[::20, 0] = np.nan
    >>> features = NystromFeatures(Gaussian(lengthscale=3.0), n_components=40, random_state=0)
    >>> gp = ImputedGPRegressor(FeatureGPRegressor(features)).fit(X, y)
    >>> mean, std = gp.predict(X[:2], return_std=True, include_noise=True)
    >>> bool(2 < std[0] < 4), bool(std[1] < 0.2)
    (True, True)
    """

    def __init__(self, regressor: Any, *, imputer: Any = None, one_hot: Any = ()):
        self.regressor = regressor
        self.imputer = imputer
        self.one_hot = one_hot

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def fit(self, X: Any, y: Any = None, *, sample: Any = None) -> ImputedGPRegressor:
        """Find the variances on at most 5000 rows, then fit to all.

        X (n, d) may have NaN; or it is a stream of batches (X, y), or a function that returns one.
        `sample` are the rows (X, y) that the variances are found on: evenly spaced ones if it is
        None, the first of a stream.
        """
        rows = self._rows(X, y)
        some = (rows if sample is None else Rows(tuple(sample))).sample(SAMPLE_ROWS)
        given, targets = _rows_and_targets(some)
        targets = np.asarray(targets, dtype=np.float64)
        if rows.columns is None or sample is not None:
            is_first = rows.columns is None
            given = validate_data(
                self, given, dtype=DTYPES, ensure_all_finite="allow-nan", reset=is_first
            )
        imputer = self.imputer
        if imputer is None:
            imputer = SimpleImputer(add_indicator=True, keep_empty_features=True)
        self.imputer_ = clone(imputer).fit(given, None)  # frozen ones ask for a target
        found = self._find_variances(given, targets)
        self.regressor_ = clone(self.regressor)
        if self.regressor_.normalize_y == "standard":  # all variances are in units of y instead
            prior = self.regressor_.prior_variance
            prior = prior if isinstance(prior, str) else prior * float(found.scales_[0]) ** 2
            self.regressor_.set_params(normalize_y="mean", prior_variance=prior)
        if rows.columns is not None:
            X, y = rows.columns
            self.regressor_.fit(self.imputer_.transform(X), y, noise_variance=self._noise(X))
            self.regressor_._accept_noise_of(found)
            return self

        def filled() -> Iterator[tuple[Any, ...]]:
            for block in rows.blocks(SAMPLE_ROWS):
                batch, values = _rows_and_targets(block)
                batch = self._check(batch)
                yield self.imputer_.transform(batch), values, self._noise(batch)

        self.regressor_.fit(filled if rows.repeatable else filled())
        self.regressor_._accept_noise_of(found)
        return self

    def predict(
        self, X: Any, return_std: bool = False, *, include_noise: bool = False
    ) -> Any:  # (n, d) -> (n,), or twice
        """Mean of f, and its standard deviation: missing values make f uncertain.

        `include_noise` adds the noise of complete rows, for the spread of y.
        """
        check_is_fitted(self, "regressor_")
        X = self._check(X)
        found = self.regressor_.predict(self.imputer_.transform(X), return_std=return_std)
        if not return_std:
            return found
        mean, deviation = found
        variance = deviation**2 + self.missing(X) @ self.missing_variances_
        return mean, np.sqrt(variance + self.noise_variance_ if include_noise else variance)

    def leave_one_out(self, X: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
        """As `FeatureGPRegressor.leave_one_out`, with the noise of these rows."""
        check_is_fitted(self, "regressor_")
        X = self._check(X)
        filled = self.imputer_.transform(X)
        return self.regressor_.leave_one_out(filled, y, noise_variance=self._noise(X))

    def missing(self, X: Any) -> np.ndarray:  # (n, d) -> (n, q)
        """Which values of rows are missing: those of columns outside `one_hot`, then categories."""
        X = np.asarray(X)
        groups = [~np.any(X[:, start:stop], axis=1) for start, stop in self.one_hot]
        numeric = np.isnan(X[:, self._numeric(X.shape[1])])
        return np.concatenate([numeric, *(group[:, None] for group in groups)], axis=1)

    def _numeric(self, width: int) -> list[int]:
        """The columns of X outside `one_hot`."""
        encoded = {column for start, stop in self.one_hot for column in range(start, stop)}
        return [column for column in range(width) if column not in encoded]

    def _rows(self, X: Any, y: Any) -> Rows:
        if is_stream(X):
            if y is not None:
                raise ValueError("A stream gives batches (X, y): leave y out.")
            return Rows(stream=X)
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None."
            )
        X, y = validate_data(
            self, X, y, dtype=DTYPES, ensure_all_finite="allow-nan", y_numeric=True
        )
        return Rows((X, y))

    def _check(self, X: Any) -> np.ndarray:
        return validate_data(self, X, dtype=DTYPES, ensure_all_finite="allow-nan", reset=False)

    def _noise(self, X: np.ndarray) -> np.ndarray:  # (n, d) -> (n,)
        return self.noise_variance_ + self.missing(X) @ self.missing_variances_

    def _find_variances(self, X: np.ndarray, y: np.ndarray) -> Any:
        """Set the variances; the regressor that they are found with."""
        missing = self.missing(X)
        is_complete = ~missing.any(axis=1)
        self.n_complete_ = int(is_complete.sum())
        enough = self.n_complete_ >= max(LEAST_COMPLETE, len(X) // 10)
        chosen = is_complete if enough else np.ones(len(X), dtype=bool)
        gp = clone(self.regressor).fit(self._filled(X[chosen]), y[chosen])
        self.noise_variance_ = float(gp.noise_variance_ * gp.scales_[0] ** 2)
        [some] = Rows((X[chosen],)).sample(SPREAD_ROWS)
        self.missing_variances_ = self._spreads(gp, some)
        imputed = ~chosen  # rows that the model has not seen
        if not imputed.any():
            return gp
        mean, deviation = gp.predict(self._filled(X[imputed]), return_std=True)
        excess = (y[imputed] - mean) ** 2 - deviation**2 - self.noise_variance_
        claimed = missing[imputed] @ self.missing_variances_
        held = PRIOR_ROWS * float(claimed.mean())
        if held > 0:
            factor = (float(excess.sum()) + held) / (float(claimed.sum()) + held)
            self.missing_variances_ = self.missing_variances_ * max(factor, 0.0)
        return gp

    def _filled(self, X: np.ndarray) -> np.ndarray:
        """Filled rows whose indicators are off: the model has not learnt yet what they say."""
        filled = np.array(self.imputer_.transform(X))
        filled[:, self.n_features_in_ :] = 0
        return filled

    def _spreads(self, gp: Any, X: np.ndarray) -> np.ndarray:  # -> (q,)
        """The mean squared change of the prediction where a known value is filled in instead."""
        known, before = ~self.missing(X), gp.predict(self._filled(X))
        places: list[Any] = [[column] for column in self._numeric(X.shape[1])]
        places += [list(range(start, stop)) for start, stop in self.one_hot]
        found = []
        for source, columns in enumerate(places):
            changed = X.copy()
            changed[:, columns] = 0.0 if len(places) - source <= len(self.one_hot) else np.nan
            difference = (gp.predict(self._filled(changed)) - before)[known[:, source]]
            found.append(float(np.mean(difference**2)) if len(difference) else 0.0)
        return np.array(found)


def _rows_and_targets(block: Block) -> Block:
    """X and y of a block; there must be nothing else in it."""
    if any(column is not None for column in block[2:]):
        raise ValueError(
            "ImputedGPRegressor finds the noise of its rows and takes no weights: give batches "
            "(X, y)."
        )
    return block[:2]

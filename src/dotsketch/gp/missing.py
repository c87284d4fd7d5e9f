"""Regression on rows with missing values, with intervals that are as wide as these rows deserve.

A value that is filled in is wrong by some amount, and so is the prediction. Rows with imputed
values therefore have more noise than the others, both when they are learnt from and when they are
predicted:

    Var y = Var f(x) + σ² + Σ_j τ_j²   over the missing inputs j.

σ² is the noise of complete rows, τ_j² the mean squared change of the prediction when a present
value of input j is replaced by what is filled in. One factor for all τ_j² makes the residuals of
the imputed rows as large as the model says they are, for values that are not missing at random.
"""

from __future__ import annotations

from collections.abc import Iterator
from numbers import Integral
from typing import Annotated, Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.impute import SimpleImputer
from sklearn.utils.validation import check_is_fitted, validate_data

from .._support.stored import array, stored
from ..rows import Block, Rows, is_stream
from .base import DTYPES

SAMPLE_ROWS = 5000  # that the variances are estimated on
SPREAD_ROWS = 500  # whose values are replaced, input by input


@stored
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
    missing_variances_ : array, what a missing value adds: of every input outside `one_hot`, then of
        every category; in squared units of y
    n_complete_ : int, rows without missing values among those that the variances are estimated on

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

    missing_variances_: Annotated[np.ndarray, array("f", "q")]

    def __init__(self, regressor: Any, *, imputer: Any = None, one_hot: Any = ()):
        self.regressor = regressor
        self.imputer = imputer
        self.one_hot = one_hot

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def fit(self, X: Any, y: Any = None, *, sample: Any = None) -> ImputedGPRegressor:
        """Estimate the variances on at most 5000 rows, then fit to all.

        X (n, d) may have NaN; or it is a stream of batches (X, y), or a function that returns one.
        `sample` are the rows (X, y) that the variances are estimated on: random ones if it is None
        (of a one-shot iterator the first).
        """
        inputs = type(self)(None)  # holds the number and names of inputs, until all is done
        if is_stream(X):
            if y is not None:
                raise ValueError("A stream gives batches (X, y): leave y out.")
            rows = Rows.of(X)
        else:
            if y is None:
                raise ValueError(
                    f"{type(self).__name__} requires y to be passed, but the target y is None."
                )
            X, y = _validated(inputs, X, y, reset=True)
            rows = Rows.of(X, y)
        drawn = (rows if sample is None else Rows.of(*sample)).sample(
            SAMPLE_ROWS, np.random.default_rng(0)
        )
        X_some, y_some = _rows_and_targets(drawn)
        if not rows.in_memory or sample is not None:
            is_first = not hasattr(inputs, "n_features_in_")
            X_some = _validated(inputs, X_some, reset=is_first)
        imputer = self.imputer
        if imputer is None:
            imputer = SimpleImputer(add_indicator=True, keep_empty_features=True)
        imputer = clone(imputer).fit(X_some, None)  # frozen ones ask for a target
        missing = MissingValues(imputer, tuple(map(tuple, self.one_hot)), X_some.shape[1])
        first, noise, spreads, n_complete = _estimated(
            self.regressor, missing, X_some, np.asarray(y_some, dtype=np.float64)
        )
        regressor = _settled(self.regressor, first, rows.n_rows or len(X_some))

        def row_noise(X: np.ndarray) -> np.ndarray:  # (n, d) -> (n,)
            return noise + missing(X) @ spreads

        def filled() -> Iterator[tuple[Any, ...]]:
            for block in rows.blocks(SAMPLE_ROWS):
                batch, values = _rows_and_targets(block)
                batch = _validated(inputs, batch, reset=False)
                yield imputer.transform(batch), values, row_noise(batch)

        if rows.in_memory:
            regressor.fit(imputer.transform(X), y, noise_variance=row_noise(X))
        else:
            regressor.fit(filled if rows.repeatable else filled())
        if hasattr(first, "_noise_holds_lack"):  # noise that was chosen, though it is given by row
            regressor._noise_holds_lack = first._noise_holds_lack
        names = ("n_features_in_", "feature_names_in_")
        private = {name: value for name, value in vars(self).items() if name.startswith("_")}
        self.__dict__ = {
            **self.get_params(deep=False),
            **private,
            **{name: getattr(inputs, name) for name in names if hasattr(inputs, name)},
            "imputer_": imputer,
            "regressor_": regressor,
            "noise_variance_": noise,
            "missing_variances_": spreads,
            "n_complete_": n_complete,
        }
        return self

    def predict(
        self, X: Any, return_std: bool = False, *, include_noise: bool = False
    ) -> Any:  # (n, d) -> (n,), or twice
        """Mean of f, and its standard deviation: missing values make f uncertain.

        `include_noise` adds the noise of complete rows, for the spread of y.
        """
        check_is_fitted(self, "regressor_")
        X = _validated(self, X, reset=False)
        prediction = self.regressor_.predict(self.imputer_.transform(X), return_std=return_std)
        if not return_std:
            return prediction
        mean, deviation = prediction
        variance = deviation**2 + self.missing(X) @ self.missing_variances_
        return mean, np.sqrt(variance + self.noise_variance_ if include_noise else variance)

    def leave_one_out(self, X: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
        """As `FeatureGPRegressor.leave_one_out`, with the noise of these rows."""
        check_is_fitted(self, "regressor_")
        X = _validated(self, X, reset=False)
        noise = self.noise_variance_ + self.missing(X) @ self.missing_variances_
        return self.regressor_.leave_one_out(self.imputer_.transform(X), y, noise_variance=noise)

    def missing(self, X: Any) -> np.ndarray:  # (n, d) -> (n, q)
        """Which values of rows are missing: those of inputs outside `one_hot`, then categories."""
        X = np.asarray(X)
        return MissingValues(None, tuple(map(tuple, self.one_hot)), X.shape[1])(X)


class MissingValues(NamedTuple):
    """Which values of rows are missing, and what fills them in."""

    imputer: Any
    one_hot: tuple[Any, ...]
    n_inputs: int

    @property
    def sources(self) -> list[list[int]]:
        """The columns of X of every input outside `one_hot`, then of every category."""
        encoded = {column for start, stop in self.one_hot for column in range(start, stop)}
        numeric = [[column] for column in range(self.n_inputs) if column not in encoded]
        return numeric + [list(range(start, stop)) for start, stop in self.one_hot]

    def __call__(self, X: np.ndarray) -> np.ndarray:  # (n, d) -> (n, q)
        n_numeric = len(self.sources) - len(self.one_hot)
        return np.stack(
            [
                np.isnan(X[:, columns[0]]) if k < n_numeric else ~np.any(X[:, columns], axis=1)
                for k, columns in enumerate(self.sources)
            ],
            axis=1,
        )

    def filled(self, X: np.ndarray) -> np.ndarray:
        """Filled rows whose indicators are off: the model has not learnt yet what they say."""
        rows = np.array(self.imputer.transform(X))
        rows[:, self.n_inputs :] = 0
        return rows

    def spreads(self, gp: Any, X: np.ndarray) -> np.ndarray:  # -> (q,)
        """The mean squared change of the prediction where a present value is filled in instead."""
        present, before = ~self(X), gp.predict(self.filled(X))
        n_numeric, squares = len(self.sources) - len(self.one_hot), []
        for k, columns in enumerate(self.sources):
            changed = X.copy()
            changed[:, columns] = np.nan if k < n_numeric else 0.0
            difference = (gp.predict(self.filled(changed)) - before)[present[:, k]]
            squares.append(float(np.mean(difference**2)) if len(difference) else 0.0)
        return np.array(squares)


def _estimated(
    regressor: Any, missing: MissingValues, X: np.ndarray, y: np.ndarray
) -> tuple[Any, float, np.ndarray, int]:
    """A regressor of complete rows, σ², τ² and the number of complete rows."""
    lacks = missing(X)
    is_complete = ~lacks.any(axis=1)
    n_complete = int(is_complete.sum())
    # with few complete rows all rows are taken
    enough = n_complete >= max(30, len(X) // 10)
    chosen = is_complete if enough else np.ones(len(X), dtype=bool)
    gp = clone(regressor).fit(missing.filled(X[chosen]), y[chosen])
    noise = float(gp.noise_variance_ * gp.scales_[0] ** 2)
    order = np.random.default_rng(0).permutation(int(chosen.sum()))
    spreads = missing.spreads(gp, X[chosen][order[:SPREAD_ROWS]])
    imputed = ~chosen  # rows that the model has not seen
    if imputed.any():
        mean, deviation = gp.predict(missing.filled(X[imputed]), return_std=True)
        excess = (y[imputed] - mean) ** 2 - deviation**2 - noise
        claimed = lacks[imputed] @ spreads
        held = 10 * float(claimed.mean())  # the factor starts at 1, with the weight of ten rows
        if held > 0:
            factor = (float(excess.sum()) + held) / (float(claimed.sum()) + held)
            spreads = spreads * max(factor, 0.0)
    return gp, noise, spreads, n_complete


def _settled(regressor: Any, first: Any, n_rows: int) -> Any:
    """An unfitted regressor with the kernel that the first one has, and variances in units of y."""
    settled = clone(regressor)
    if getattr(first, "search_", None) is not None:
        if hasattr(first, "X_train_"):
            settled.set_params(kernel=first.kernel_, optimize=False)
        elif isinstance(regressor.features, str):
            settled.set_params(features=first.kernel_, optimize=False)
        else:
            features = clone(first.features_)
            if isinstance(regressor.features, Integral):
                features.set_params(n_components=min(int(regressor.features), n_rows))
            settled.set_params(features=features, optimize=False)
    if settled.normalize_y == "standard":
        prior = settled.prior_variance
        prior = prior if isinstance(prior, str) else prior * float(first.scales_[0]) ** 2
        settled.set_params(normalize_y="mean", prior_variance=prior)
    return settled


def _validated(inputs: Any, X: Any, *y: Any, reset: bool) -> Any:
    options = {"y_numeric": True} if y else {}
    return validate_data(
        inputs, X, *y, dtype=DTYPES, ensure_all_finite="allow-nan", reset=reset, **options
    )


def _rows_and_targets(block: Block) -> Block:
    """X and y of a block; there must be nothing else in it."""
    if any(column is not None for column in block[2:]):
        raise ValueError(
            "ImputedGPRegressor estimates the noise of its rows and takes no weights: give batches "
            "(X, y)."
        )
    return block[:2]

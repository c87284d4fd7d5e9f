"""What regressors predict: means, quantiles, densities and intervals of y, from blocks of rows.

A fitted regressor is four values: `columns_`, a function from rows to columns; `posterior_`, which
says what f is at columns; `noise_`; and `outputs_`, which leads from f to y.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Annotated, Any

import numpy as np
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from .._arrays import host, is_foreign
from .._support.parameters import one_of
from .._support.stored import array
from ..rows import is_collection, lazy
from .base import (
    column_blocks,
    fitted_html,
    mimebundle,
    plot_relevances,
    relevances,
    row_noise,
    test_rows,
    without_sums,
)
from .noise import Jackknife, Noise
from .outputs import Outputs, check_levels, joined, number_of


class RegressionProcess(RegressorMixin, MultiOutputMixin, BaseEstimator):
    """The one base class of regressors: how they predict. `fit` is theirs."""

    variance_correction: str | None = "auto"
    columns_: Any
    posterior_: Any
    noise_: Noise
    outputs_: Outputs
    jackknife_: Jackknife | None
    residuals_: Annotated[np.ndarray, array("f", "iterations")]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    relevances_ = property(relevances)
    plot_relevances = plot_relevances
    _repr_html_inner = fitted_html
    _repr_mimebundle_ = mimebundle

    def _facts(self) -> list[tuple[str, Any]]:
        """What a notebook shows of a fit, beside its kernel and its search."""
        tails = np.array2string(self.outputs_.tails.degrees, precision=3)
        varies = "varying with x" if self.noise_.function is not None else "constant"
        return [
            ("noise variance", f"{self.noise_variance_}, {varies}"),
            ("prior variance", self.prior_variance_),
            ("degrees of freedom of y", tails),
        ]

    @property
    def features_(self) -> Any:
        """The fitted feature map."""
        return self.columns_.features

    @property
    def kernel_(self) -> Any:
        """The kernel; of features in a pipeline, that of its last step; None if they name none."""
        return self.columns_.kernel

    @property
    def noise_variance_(self) -> Any:
        """The noise variance, or (m,) for several outputs; None if it was given by row."""
        return None if self.noise_.variances is None else number_of(self.noise_.variances)

    @property
    def prior_variance_(self) -> Any:
        """What multiplies the kernel, or (m,) for several outputs."""
        return number_of(self.posterior_.prior_variances)

    def predict(
        self,
        X: Any,
        return_std: bool = False,
        return_cov: bool = False,
        *,
        include_noise: bool = False,
        noise_variance: Any = None,
    ) -> Any:  # (n, d) -> (n,) or (n, m); std of the same shape; covariance (n, n) or (n, n, m)
        """Mean of f at the rows of X, and its standard deviation or covariance.

        They describe f unless `include_noise` adds the noise variance, for the spread of y; all
        other methods describe y. If the noise was given by row in `fit`, `noise_variance` (n,) is
        that of these rows. With `target_transform`, the mean is that of y, and the standard
        deviation that of w⁻¹(f), or of y.

        Rows of PyTorch and JAX give results of the same library, with gradients to X. Predictions
        for a Dask collection are Dask collections, computed when they are asked for.
        """
        check_is_fitted(self)
        if return_std and return_cov:
            raise RuntimeError("At most one of return_std or return_cov can be requested.")
        has_warp = self.outputs_.warp is not None
        if is_collection(X):
            if return_cov or noise_variance is not None:
                raise ValueError(
                    "return_cov and noise_variance are for rows in memory; a collection has "
                    "return_std."
                )
            return self._lazy_prediction(X, return_std, include_noise)
        if noise_variance is not None and not include_noise:
            raise ValueError("noise_variance is the noise of y: set include_noise=True, too.")
        if return_cov and (is_foreign(X) or has_warp):
            raise ValueError(
                "return_cov is for NumPy rows and targets without a warp; return_std has gradients."
            )
        if return_cov:
            return self._prediction_with_covariance(X, include_noise, noise_variance)
        # the mean of y after a warp depends on the noise; where it is not known, that of w⁻¹(f)
        is_known = include_noise or (has_warp and self.noise_.variances is not None)
        mean, variance, noise = self._moments(
            X, noise_variance, with_variance=return_std or has_warp, with_noise=is_known
        )
        center, deviation = self.outputs_.moments(mean, variance, noise, include_noise)
        return (center, deviation) if return_std else center

    def predict_quantiles(
        self,
        X: Any,
        quantiles: Any = (0.025, 0.5, 0.975),
        *,
        include_noise: bool = True,
        noise_variance: Any = None,
    ) -> Any:  # (n, d) -> (n, q) or (n, m, q)
        """Quantiles of y at the rows of X, or of f without the noise."""
        levels = check_levels("quantiles", quantiles)
        moments = self._moments(X, noise_variance, with_noise=include_noise)
        return self.outputs_.quantiles(*moments, levels)

    def predict_density(
        self, X: Any, points: Any, *, noise_variance: Any = None
    ) -> np.ndarray:  # (n, d), (k,) -> (n, k) or (n, m, k)
        """The density of y at given points, for every row of X."""
        points = np.asarray(points, dtype=np.float64)
        if points.ndim != 1 or not np.all(np.isfinite(points)):
            raise ValueError(f"points must be finite numbers (k,); got the shape {points.shape}.")
        mean, variance, noise = map(host, self._moments(X, noise_variance))
        return self.outputs_.density(mean, variance + noise, points)

    def predict_interval(
        self,
        X: Any,
        coverage: float = 0.9,
        method: str = "posterior",
        *,
        noise_variance: Any = None,
    ) -> np.ndarray:  # (n, d) -> (n, 2) or (n, m, 2)
        """An interval for y at every row of X.

        "posterior" is the central interval of the predictive distribution. "jackknife+" holds for
        any distribution (Barber, Candès, Ramdas and Tibshirani, 2021): from up to 1,000 random
        training rows that are left out in closed form, without a refit, normalised by the predicted
        standard deviation so that widths follow x. If training and new rows are exchangeable, the
        new y lies inside with a probability of at least 1 − 2(1 − coverage), and usually of about
        `coverage`, on average over rows. It promises nothing for rows of another distribution, nor
        for every x separately. What the left-out rows have taken part in choosing, the features,
        the kernel's parameters, the variances and v(x), is not chosen again without each of them.
        """
        one_of("method", method, ("posterior", "jackknife+"))
        [level] = check_levels("coverage", coverage)
        if method == "posterior":
            levels = (0.5 - level / 2, 0.5 + level / 2)
            bounds = self.predict_quantiles(X, levels, noise_variance=noise_variance)
            return np.asarray(host(bounds))
        check_is_fitted(self)
        if self.jackknife_ is None:
            raise ValueError(
                'method="jackknife+" needs rows left out: fit FeatureGPRegressor with '
                'solver="cholesky", posterior="real", all rows at once and without sample_weight.'
            )
        bounds = []
        for Z, mean, variance, noise in self._blocks(host(X), noise_variance):
            total = variance + noise
            ends = self.jackknife_.interval(self.posterior_, Z, mean, total, float(level))
            bounds.append(np.stack(ends, axis=-1))
        return self.outputs_.values(np.concatenate(bounds))

    # -- moments, in units of the model ------------------------------------------------------------

    def _moments(self, X: Any, noise_variance: Any = None, **options: bool) -> tuple[Any, Any, Any]:
        """Means and variances of f, and of the noise, (n, m) each, in the array library of X."""
        _, *parts = zip(*self._blocks(X, noise_variance, **options), strict=True)
        mean, variance, noise = (None if part[0] is None else joined(list(part)) for part in parts)
        return mean, variance, noise

    def _blocks(
        self, X: Any, noise_variance: Any, *, with_variance: bool = True, with_noise: bool = True
    ) -> Iterator[tuple[Any, Any, Any, Any]]:
        """The columns of blocks of rows, and their moments."""
        check_is_fitted(self)
        if noise_variance is not None:
            noise_variance = row_noise(noise_variance, True, np.shape(X)[0])
        start = 0
        for rows, Z in column_blocks(self, X):
            own = None if noise_variance is None else noise_variance[start : start + len(Z)]
            start += len(Z)
            mean, variance = self.posterior_.mean(Z), None
            if with_variance:
                variance = self.posterior_.variance(Z) + self._added_variance(rows, Z)
                # what is subtracted from k(x, x) may exceed it by rounding
                variance = variance if is_foreign(variance) else np.maximum(variance, 0)
            yield Z, mean, variance, self.noise_.at(Z, own) + 0 * mean if with_noise else None

    def _added_variance(self, rows: Any, Z: Any) -> Any:  # (n, d), (n, D) -> (n, m)
        """What predictions add to the variance that the columns carry."""
        return self.columns_.added_variance(
            rows,
            Z,
            self.variance_correction,
            self.columns_.usual_lack if self.noise_.is_chosen else 0.0,
            self.posterior_.prior_variances,
        )

    def _covariance(self, rows: Any, Z: Any) -> np.ndarray:  # (n, d), (n, D) -> (n, n, m)
        """Of f at the rows; what the columns do not carry is independent between rows."""
        covariance = self.posterior_.covariance(Z)
        places = np.arange(len(covariance))
        covariance[places, places] += self._added_variance(rows, Z)
        return covariance

    def _prediction_with_covariance(
        self, X: Any, include_noise: bool, noise_variance: Any
    ) -> tuple[np.ndarray, np.ndarray]:
        rows, outputs = test_rows(self, X), self.outputs_
        Z = self.columns_(rows)
        center, _ = outputs.moments(self.posterior_.mean(Z), None, None, False)
        covariance = self._covariance(rows, Z)
        if include_noise:
            places = np.arange(len(covariance))
            covariance[places, places] += self.noise_.at(Z, noise_variance)
        return center, outputs.shaped(covariance * outputs.scales**2)

    def _lazy_prediction(self, X: Any, return_std: bool, include_noise: bool) -> Any:
        call = partial(
            without_sums(self).predict, return_std=return_std, include_noise=include_noise
        )
        labels = ("mean", "std") if return_std else ("mean",)
        outputs = self.outputs_
        names = [
            None if outputs.is_flat else [f"{label}{k}" for k in range(len(outputs.means))]
            for label in labels
        ]
        results = lazy(call, X, dtypes=len(labels) * [np.float64], names=names)
        return results if return_std else results[0]

"""Positive random features of the exponential kernel exp(x·y), and of the Gaussian kernel.

exp(x·y) = E[exp(ωᵀx − |x|²/2) · exp(ωᵀy − |y|²/2)] over Gaussian ω (Choromanski et al., 2021,
FAVOR+): features that are never negative, so that attention weights made of them are none either.
The relative variance is exp(|x + y|²) − 1: small where the kernel is small, huge where |x + y| is.

`PositiveMap` is the description; its inputs are already scaled by the kernel. `PositiveFeatures`
is the estimator.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .._arrays import (
    Array,
    ArrayT,
    HostParts,
    as_generator,
    dense,
    double,
    host,
    is_foreign,
    is_traced,
    join,
    like,
    namespace,
    plain,
)
from .._backends.chunks import map_rows
from .._support.parameters import check_even, one_of
from .._support.stored import array, stored
from ..kernels import DotProductKernel, Exponential, Gaussian
from ..projections import PROJECTIONS, Frequencies, orthogonal_covariance
from .base import FeatureMap, fitted_kernel, suited
from .degenerate import warn_if_degenerate
from .errors import ExpectedError, Unsuited
from .samples import data_centre
from .study import Study
from .waves import FrequencyFeatures


@stored
@dataclass(frozen=True)
class PositiveMap:
    """A random feature map z > 0 with E[z(x)·z(y)] = exp(x·y).

    Parameters
    ----------
    n_components : D ≥ 1, the number of columns
    projection : "independent", "orthogonal" or "sorf", see `Frequencies`
    hyperbolic : bool
        Use every frequency twice, as ω and −ω: half as many products, and less variance for
        the same number of columns (D must be even).

    Examples
    --------
    >>> import numpy as np
    >>> positive = PositiveMap(4000)
    >>> weights = positive.sample(2, np.random.default_rng(0))
    >>> x, y = np.array([[0.3, 0.1]]), np.array([[0.5, -0.2]])
    >>> estimate = np.exp(positive.log_features(x, weights) + positive.log_features(y, weights))
    >>> bool(abs(estimate.sum() - np.exp(x @ y.T)) < 0.1)
    True
    """

    n_components: int
    projection: str = "orthogonal"
    hyperbolic: bool = False

    def __post_init__(self) -> None:
        if self.hyperbolic:
            check_even(self.n_components, "hyperbolic features come in pairs")
        _ = self.frequencies  # refuses what has no meaning

    @cached_property
    def frequencies(self) -> Frequencies:
        return Frequencies(self.n_components // (1 + self.hyperbolic), self.projection)

    def sample(self, dimension: int, rng: np.random.Generator) -> Any:
        """Weights of one map on R^dimension."""
        return self.frequencies.sample(dimension, rng)

    def log_features(
        self,
        X: ArrayT,
        weights: Any,
        *,
        preprocess: Callable[[Array], tuple[Array, Array]] | None = None,
        exponentiate: bool = False,
        n_jobs: int | None = None,
    ) -> ArrayT:  # (n, d) -> (n, n_components)
        """log z(x) = ωᵀx − |x|²/2 − log(D)/2 of all rows, in chunks: finite for any finite row.

        `preprocess` maps rows to inputs and a number (n,) that is added to all their logarithms;
        `exponentiate` asks for z(x) itself.
        """
        prepared = self.frequencies.prepared(weights, X)

        def inputs_of(rows: Array) -> tuple[Array, Array]:
            inputs, offset = (rows, 0) if preprocess is None else preprocess(rows)
            offset = offset - namespace(inputs).vecdot(inputs, inputs) / 2
            return inputs, (offset - math.log(self.n_components) / 2)[:, None]

        def columns(rows: Array) -> tuple[Array, None]:
            inputs, offset = inputs_of(rows)
            products = prepared(inputs)[0]
            if self.hyperbolic:
                products = join((products, -products), "complex_to_real")
            found = products + offset
            return (namespace(found).exp(found) if exponentiate else found), None

        def write(rows: Array, out: HostParts) -> None:  # the same in the memory of the result
            inputs, offset = inputs_of(rows)
            found, n = out[0], self.frequencies.n_frequencies
            prepared(inputs, out=(found[:, :n], None))
            if self.hyperbolic:
                np.negative(found[:, :n], out=found[:, n:])
            found += offset
            if exponentiate:
                np.exp(found, out=found)

        width = max(X.shape[1], self.n_components)
        chunk = max(16, (1 << 21) // (8 * width))
        return map_rows(columns, X, "real", self.n_components, chunk, write=write, n_jobs=n_jobs)

    def relative_variance(self, squared_sum: Any, dimension: int) -> np.ndarray:
        """Var[k̂]/k² from s = |x + y|² (an array of any shape), on the host.

        One frequency has e^s − 1, or (e^s − 1)² e^(−s)/2 if it is used with both signs; two of
        one block have the covariance `orthogonal_covariance` ≤ 0, relative to k² too. For "sorf"
        this is the expression for orthogonal frequencies in R^p, an approximation. It becomes
        infinite where it leaves the range of floating numbers, from s = 709 on.
        """
        s = np.asarray(squared_sum, dtype=np.float64)
        frequencies = self.frequencies
        share = np.full(frequencies.n_frequencies, 1 / frequencies.n_frequencies)
        squares, pairs = frequencies.pair_sums(share, dimension)
        with np.errstate(over="ignore"):
            single = np.expm1(-s) ** 2 * np.exp(s) / 2 if self.hyperbolic else np.expm1(s)
        total = squares * single
        if pairs:
            ambient = frequencies.ambient_dimension(dimension)
            total = total + pairs * orthogonal_covariance(s / 2, ambient, sign=1)
        return np.maximum(total, 0)

    def variance(self, squared_sum: Any, values: np.ndarray, dimension: int) -> np.ndarray:
        """Var[k̂] of pairs with |x + y|² and k, arrays of one shape."""
        relative = self.relative_variance(squared_sum, dimension)
        with np.errstate(over="ignore", invalid="ignore"):
            variance = values**2 * relative
        # 0 · ∞: a kernel that underflows, times a variance that overflows
        return np.where(np.isnan(variance), np.inf, variance)

    def cost(self, dimension: int) -> float:
        """About how many arithmetic operations the features of one row take."""
        return self.frequencies.cost(dimension) + 20.0 * self.n_components


@stored
class Shift(NamedTuple):
    """Arrays that stay on the host stand in named tuples, as the weights do."""

    centre: Annotated[np.ndarray, array("f", "d")]


class PositiveFeatures(FrequencyFeatures):
    """Positive random features of exp(x·y/l²), the kernel of softmax attention (FAVOR+).

    z(x) = exp(ωᵀx/l − |x/l|²/2)/√D is positive, so that sums of k̂ over keys are never negative
    or zero. Its variance is that of heavy tails: k²(exp(|x + y|²/l²) − 1)/D. Where |x + y| is
    several lengthscales, `MaclaurinFeatures` or (Gaussian kernel) `FourierFeatures` are far
    better; `variance` gives it in advance.

    Parameters
    ----------
    kernel : Exponential or Gaussian
        For the Gaussian kernel, rows are centred at the mean of the training rows (the kernel
        does not see it, the variance does) and weighted with exp(−|x/l|²/2).
    projection : {"orthogonal", "independent", "sorf"}, default="orthogonal"
        See `FourierFeatures`; "orthogonal" is unbiased and never worse than "independent".
    n_components : int, default=100
        The number of columns that `transform` returns.
    hyperbolic : bool, default=False
        Use every frequency as ω and as −ω: half the products, and for the same number of columns
        less variance. n_components must be even.
    n_jobs : int or None, default=None
        Threads that `transform` uses on NumPy rows (-1: all).
    random_state : int, RandomState, Generator or None

    Attributes
    ----------
    kernel_ : the kernel with data-dependent parameters resolved
    map_ : PositiveMap, the description that was drawn from
    weights_ : its random weights (NumPy arrays)
    centre_ : (d,) what is subtracted from the rows
    n_features_in_ : int

    Examples
    --------
    >>> import numpy as np
    >>> from dotsketch import Exponential, PositiveFeatures
    >>> X = np.random.default_rng(0).standard_normal((20, 8)) / 5
    >>> features = PositiveFeatures(Exponential(), n_components=256, random_state=0)
    >>> Z = features.fit_transform(X)
    >>> bool(np.all(Z > 0))
    True
    >>> np.sqrt(features.variance(X).mean()).round(2)
    np.float64(0.06)
    """

    family = "positive"
    output = "real"  # there are no others

    def __init__(
        self,
        kernel: DotProductKernel,
        *,
        projection: str = "orthogonal",
        n_components: int = 100,
        hyperbolic: bool = False,
        n_jobs: int | None = None,
        random_state: Any = None,
    ):
        self.kernel = kernel
        self.projection = projection
        self.n_components = n_components
        self.hyperbolic = hyperbolic
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, X: Array, y: Any = None) -> PositiveFeatures:
        """Resolve the kernel on X (n, d) and draw frequencies for rows of its width."""
        if not isinstance(self.kernel, (Exponential, Gaussian)):
            raise TypeError(
                f"Positive features are for Exponential() and Gaussian(); got {self.kernel!r}. "
                "MaclaurinFeatures supports every dot product kernel."
            )
        self._begin_fit()
        self.map_ = self._map()
        X = self._validate(X, reset=True)
        self.kernel_ = fitted_kernel(self.kernel, X)
        warn_if_degenerate(self.kernel_, X)
        shifts = self.kernel_.shift_invariant
        self._shift = Shift(
            data_centre(X, self.kernel_) if shifts else np.zeros(self.n_features_in_)
        )
        self.weights_ = self.map_.sample(self.n_features_in_, as_generator(self.random_state))
        return self

    def label(self) -> str:
        return f"positive: {self.projection}{', hyperbolic' if self.hyperbolic else ''}"

    def check_study(self, study: Study) -> None:
        one_of("projection", self.projection, PROJECTIONS)
        # For the Gaussian kernel they are far worse than Fourier features
        if not isinstance(study.kernel, Exponential):
            raise Unsuited("positive features are planned for the exponential kernel")

    def expected_error(self, study: Study) -> ExpectedError:
        """By formula, also for "sorf", which gets that of orthogonal frequencies: the error has
        heavy tails, and a few draws would nearly always flatter it."""
        features, squared_sum = self._map(), study.lengths(1) ** 2
        total = np.sum(features.variance(squared_sum, study.kernel_values, study.dimension))
        variance = float(total) / len(study.kernel_values)
        return study.error(0.0, variance, features.cost(study.dimension))

    def _map(self) -> PositiveMap:
        return PositiveMap(self.n_components, self.projection, bool(self.hyperbolic))

    @classmethod
    def variants(cls, study: Study) -> list[FeatureMap]:
        return suited(
            (cls(study.kernel, hyperbolic=hyperbolic) for hyperbolic in (False, True)), study
        )

    def columns_up_to(self, n_components: int, n_rows: int) -> int:
        return n_components - n_components % (2 if self.hyperbolic else 1)

    @property
    def centre_(self) -> np.ndarray:
        return self._shift.centre

    def log_transform(self, X: Array) -> Array:  # (n, d) -> (n, n_components)
        """log z(x): finite where the features themselves leave the range of numbers.

        Attention subtracts from it the maximum of every row (queries) or of all (keys) before the
        exponential: a factor that the normalisation of the weights cancels.
        """
        check_is_fitted(self)
        self.kernel_.validate()
        return self._logarithms(self._validate(X, reset=False))

    def _logarithms(self, X: ArrayT, exponentiate: bool = False) -> ArrayT:
        centre = like(self.centre_, X) if self.kernel_.shift_invariant else None
        variance = plain(self.kernel_.variance)

        def inputs(rows: Array) -> tuple[Array, Array]:
            rows = dense(rows)
            S = self.kernel_.scale(rows if centre is None else rows - centre)
            log = namespace(variance).log if is_foreign(variance) else math.log
            return S, self.kernel_.log_weight(S) + log(variance) / 2

        return self.map_.log_features(
            X, self.weights_, preprocess=inputs, exponentiate=exponentiate, n_jobs=self.n_jobs
        )

    def _features(self, X: ArrayT) -> ArrayT:
        with np.errstate(over="ignore", under="ignore"):  # an error follows
            Z = self._logarithms(X, exponentiate=True)
        if not is_traced(Z):
            check_range(Z, X.dtype)
        return Z

    def variance(self, X: Array, Y: Array | None = None) -> Array:
        """Variance of the approximate kernel between rows of X and of Y, (n, d), (m, d) -> (n, m).

        Exact for "independent" and "orthogonal" projections, an approximation for "sorf"; see
        `PositiveMap.relative_variance`.
        """
        check_is_fitted(self)
        kernel = self.kernel_.detached()
        X = self._validate(X, reset=False)
        Y = X if Y is None else self._validate(Y, reset=False)
        A, B = (np.asarray(double(host(dense(rows)))) - self.centre_ for rows in (X, Y))
        S, T = kernel.scale(A), kernel.scale(B)
        squares = np.sum(S * S, axis=1)[:, None] + np.sum(T * T, axis=1)[None, :]
        squared_sum = np.maximum(squares + 2 * S @ T.T, 0)
        with np.errstate(over="ignore"):
            values = kernel(A, B)
        return like(self.map_.variance(squared_sum, values, self.n_features_in_), X)


def check_range(Z: Array, dtype: Any) -> None:
    """Raise for features beyond their dtype, warn of rows that became zero."""
    xp = namespace(Z)
    if not bool(xp.isfinite(xp.max(Z))):  # NaN if one is
        raise ValueError(
            f"The features overflow {dtype}: use a larger lengthscale, float64, or the "
            "logarithms of the features (log_transform)."
        )
    # rows are looked at one by one only if there is any zero
    if not bool(xp.min(Z) > 0) and not bool(xp.all(xp.max(Z, axis=1) > 0)):
        warnings.warn(
            f"All features of some rows are below the smallest number of {dtype}, so they are "
            "zero: use a larger lengthscale, float64, or log_transform.",
            stacklevel=4,
        )

"""Positive random features of the exponential kernel exp(x·y), and of the Gaussian kernel.

exp(x·y) = E[exp(ωᵀx − |x|²/2) · exp(ωᵀy − |y|²/2)] over Gaussian ω (Choromanski et al., 2021,
FAVOR+): features that are never negative, so that attention weights made of them are none either.
The relative variance is exp(|x + y|²) − 1: small where the kernel is small, huge where |x + y| is.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any

import numpy as np

from .._arrays import (
    Array,
    ArrayT,
    HostParts,
    Parts,
    is_foreign,
    is_traced,
    join,
    like,
    namespace,
    plain,
)
from .._backends import Prepared
from .._support.parameters import check_even
from .._support.stored import array, stored
from ..kernels import DotProductKernel, Exponential, Gaussian
from ..projections import Frequencies, orthogonal_covariance
from .base import FeatureMap
from .design import Design
from .study import Study, check_kernel


@stored
@dataclass(frozen=True, eq=False, kw_only=True)
class PositiveDesign(Design):
    """z > 0 with E[z(x)·z(y)] = k(x, y).

    projection : "independent", "orthogonal" or "sorf", see `Frequencies`
    hyperbolic : whether every frequency is used twice, as ω and −ω
    centre : (d,) what is subtracted from rows, or None
    """

    outputs = ("real",)
    projection: str = "orthogonal"
    hyperbolic: bool = False
    centre: Annotated[np.ndarray | None, array("f", "dimension")] = None
    # Also for "sorf", which gets that of orthogonal frequencies: the error has heavy tails, and a
    # few draws would nearly always flatter it
    has_formula = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.hyperbolic:
            check_even(self.n_components, "hyperbolic features come in pairs")

    @cached_property
    def frequencies(self) -> Frequencies:
        return Frequencies(self.n_components // (1 + self.hyperbolic), self.projection)

    @property
    def cost(self) -> float:
        return self.frequencies.cost(self.dimension) + 20.0 * self.n_components

    def sample(self, rng: np.random.Generator, rows: Array | None = None) -> Any:
        return self.frequencies.sample(self.dimension, rng)

    def check_weights(self, weights: Any) -> None:
        self.frequencies.check_weights(weights, self.dimension)

    def prepare(self, weights: Any, rows: Array) -> Prepared:
        """z(x) = exp(ωᵀs(x) − |s(x)|²/2 + log w(x)) / √D."""
        products = self.frequencies.prepared(weights, rows)
        n, hyperbolic = self.frequencies.n_frequencies, self.hyperbolic

        def columns(rows: Array) -> Parts:
            inputs, offset = self._scaled(rows)
            values = products(inputs)[0]
            if hyperbolic:
                values = join((values, -values), "complex_to_real")
            return namespace(values).exp(values + offset), None

        def write(rows: Array, row_scale: Any, out: HostParts) -> None:
            inputs, offset = self._scaled(rows)
            view = out[0]
            products(inputs, out=(view[:, :n], None))
            if hyperbolic:
                np.negative(view[:, :n], out=view[:, n:])
            view += offset
            np.exp(view, out=view)

        widest = max(rows.shape[1], self.n_components)
        return Prepared(columns, widest, write, chunk_bytes=1 << 21)

    def _scaled(self, rows: Array) -> tuple[Array, Any]:  # (n, d) -> (n, d), (n, 1)
        """s(x), and what is added to all products of a row."""
        kernel = self.kernel
        S = kernel.scale(rows if self.centre is None else rows - like(self.centre, rows))
        variance = plain(kernel.variance)
        log = namespace(variance).log if is_foreign(variance) else math.log
        offset = kernel.log_weight(S) + log(variance) / 2 - namespace(S).vecdot(S, S) / 2
        return S, (offset - math.log(self.n_components) / 2)[:, None]

    def checked(self, Z: ArrayT, X: Array) -> ArrayT:
        """Raise for features beyond their dtype, warn of rows that became zero."""
        if is_traced(Z):
            return Z
        xp = namespace(Z)
        if not bool(xp.isfinite(xp.max(Z))):  # NaN if one is
            raise ValueError(
                f"The features overflow {X.dtype}: use a larger lengthscale, or float64."
            )
        # rows are looked at one by one only if there is any zero
        if not bool(xp.min(Z) > 0) and not bool(xp.all(xp.max(Z, axis=1) > 0)):
            warnings.warn(
                f"All features of some rows are below the smallest number of {X.dtype}, so they "
                "are zero: use a larger lengthscale, or float64.",
                stacklevel=6,
            )
        return Z

    def relative_variance(self, squared_sum: Any) -> np.ndarray:
        """Var[k̂]/k² from s = |x + y|² (an array of any shape), in lengthscales.

        One frequency has e^s − 1, or (e^s − 1)² e^(−s)/2 if it is used with both signs; two of
        one block have the covariance `orthogonal_covariance` ≤ 0, relative to k² too. For "sorf"
        this is the expression for orthogonal frequencies in R^p, an approximation. It becomes
        infinite where it leaves the range of floating numbers, from s = 709 on.
        """
        s = np.asarray(squared_sum, dtype=np.float64)
        frequencies = self.frequencies
        share = np.full(frequencies.n_frequencies, 1 / frequencies.n_frequencies)
        squares, pairs = frequencies.pair_sums(share, self.dimension)
        with np.errstate(over="ignore"):
            single = np.expm1(-s) ** 2 * np.exp(s) / 2 if self.hyperbolic else np.expm1(s)
        total = squares * single
        if pairs:
            ambient = frequencies.ambient_dimension(self.dimension)
            total = total + pairs * orthogonal_covariance(s / 2, ambient, sign=1)
        return np.maximum(total, 0)

    def variance(self, A: np.ndarray, B: np.ndarray, part: str) -> np.ndarray:
        kernel = self.kernel.detached()
        if self.centre is not None:
            A, B = A - self.centre, B - self.centre
        S, T = kernel.scale(A), kernel.scale(B)
        squares = np.sum(S * S, axis=1)[:, None] + np.sum(T * T, axis=1)[None, :]
        squared_sum = np.maximum(squares + 2 * S @ T.T, 0)
        with np.errstate(over="ignore", invalid="ignore"):
            variance = kernel(A, B) ** 2 * self.relative_variance(squared_sum)
        # 0 · ∞: a kernel that underflows, times a variance that overflows
        return np.where(np.isnan(variance), np.inf, variance)


class PositiveFeatures(FeatureMap):
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
    design_ : PositiveDesign, what was drawn from; `design_.centre` (d,) is subtracted from rows
    weights_ : its random weights (NumPy arrays)
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

    def design(self, study: Study) -> PositiveDesign:
        check_kernel(
            study.unresolved,
            (Exponential, Gaussian),
            "Positive features are for Exponential() and Gaussian(), MaclaurinFeatures for every "
            "dot product kernel",
        )
        options = {"projection": self.projection, "hyperbolic": bool(self.hyperbolic)}
        return self.of_study(PositiveDesign, study, centre=study.centre, **options)

    def label(self) -> str:
        return f"positive: {self.projection}{', hyperbolic' if self.hyperbolic else ''}"

    def columns_up_to(self, n_components: int, n_rows: int) -> int:
        return n_components - n_components % (2 if self.hyperbolic else 1)

    @classmethod
    def variants(cls, study: Study) -> list[FeatureMap]:
        """For the exponential kernel: for the Gaussian one they are far worse than Fourier
        features."""
        if not isinstance(study.kernel, Exponential):
            return []
        return [cls(study.kernel, hyperbolic=hyperbolic) for hyperbolic in (False, True)]

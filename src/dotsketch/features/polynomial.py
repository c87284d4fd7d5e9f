"""Features of one polynomial kernel."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import scipy.sparse
from array_api_compat import is_numpy_array
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from .._arrays import (
    OUTPUTS,
    Array,
    ArrayT,
    as_generator,
    dense,
    double,
    host,
    is_sparse,
    namespace,
    square_root,
)
from .._backends import largest_entry
from .._support.parameters import one_of
from ..kernels import DotProductKernel, Polynomial
from ..pairs import PairStatistics
from ..sketches import SKETCHES, Sketch, make_sketch
from .base import FeatureMap, check_part, suited
from .errors import ExpectedError, Unsuited
from .study import Study
from .validation import check_overflow, warn_of_underflow


class PolynomialSketch(FeatureMap):
    """Random features of the polynomial kernel (gamma x·y + coef0)^degree.

    Parameters
    ----------
    degree : int, default=3
    gamma, coef0 : float, default=1.0 and 0.0
        coef0 > 0 is reduced to the homogeneous kernel by appending √coef0 to every row.
    sketch : str, default="tensor_srht"
        "gaussian", "rademacher", "tensor_srht", "tensor_sketch", "balanced_tensor_sketch",
        "tree_rademacher" or "tree_srht"; see `dotsketch.sketches`.
    n_components : int, default=100
        The number of columns that `transform` returns.
    output : {"real", "complex", "complex_to_real"}, default="real"
        Real features; complex features, with k ≈ Z Zᴴ; or the columns [Re Z, Im Z] of half as
        many complex features, whose Gram matrix is exactly Re(Z Zᴴ). Complex features have less
        variance on nonnegative data.
    weights : None, "rademacher", "circle" or q in [0, 1], default=None
        The distribution of the weights of sketch="rademacher" (see RademacherSketch).
    compact : int or None, default=None
        Sketch to compact · n_components features first, then project them down.
    n_jobs : int or None, default=None
        Threads that `transform` uses on NumPy rows (-1: all). With the compiled kernels the result
        has the same bits for any number; what BLAS computes agrees to rounding.
    random_state : int, RandomState, Generator or None

    Attributes
    ----------
    sketch_ : Sketch, the description that was drawn from
    weights_ : its random weights (NumPy arrays)
    n_features_in_ : int

    Examples
    --------
    >>> import numpy as np
    >>> from dotsketch import Polynomial, PolynomialSketch, relative_frobenius_error
    >>> X = np.random.default_rng(0).random((50, 8)) / 8**0.5
    >>> features = PolynomialSketch(3, coef0=1.0, n_components=512, random_state=0)
    >>> Z = features.fit_transform(X)
    >>> Z.shape
    (50, 512)
    >>> bool(relative_frobenius_error(Polynomial(3)(X), Z @ Z.T) < 0.1)
    True
    >>> np.sqrt(features.variance(X).mean()).round(2)  # the error, known beforehand
    np.float64(0.18)
    """

    family = "polynomial"
    checks_rows: ClassVar[bool] = True

    def __init__(
        self,
        degree: int = 3,
        *,
        gamma: float = 1.0,
        coef0: float = 0.0,
        sketch: str = "tensor_srht",
        n_components: int = 100,
        output: str = "real",
        weights: str | float | None = None,
        compact: int | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
    ):
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.sketch = sketch
        self.n_components = n_components
        self.output = output
        self.weights = weights
        self.compact = compact
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, X: Array, y: Any = None) -> PolynomialSketch:
        """Draw the weights for inputs of the width of X (n, d); its values do not matter."""
        self.kernel_ = Polynomial(self.degree, gamma=self.gamma, coef0=self.coef0)
        n_projections = self._begin_fit()
        self.sketch_ = self._make_sketch(n_projections)
        self._validate(X, reset=True)
        rng = as_generator(self.random_state)
        self.weights_ = self.sketch_.sample(self._dimension, rng)
        return self

    def redrawn(self, X: Array | None, random_state: Any) -> PolynomialSketch:
        weights = self.sketch_.sample(self._dimension, as_generator(random_state))
        return self._with_weights(random_state, weights)

    def label(self) -> str:
        extras = [
            f", {name}={value}"
            for name, value in (("weights", self.weights), ("compact", self.compact))
            if value is not None
        ]
        return f"polynomial: {self.sketch}, {self.output}{''.join(extras)}"

    def options(self) -> dict[str, Any]:
        own = ("degree", "gamma", "coef0")  # they stand for the kernel
        return {name: value for name, value in super().options().items() if name not in own}

    def for_kernel(
        self, kernel: DotProductKernel, n_components: int, **shared: Any
    ) -> PolynomialSketch:
        if not isinstance(kernel, Polynomial):
            raise Unsuited(f"a polynomial sketch is for Polynomial(); got {kernel!r}")
        root = kernel.variance ** (1 / kernel.degree)  # the sketch has no variance of its own
        return clone(self).set_params(
            degree=kernel.degree,
            gamma=kernel.gamma * root,
            coef0=kernel.coef0 * root,
            n_components=n_components,
            **shared,
        )

    def check_study(self, study: Study) -> None:
        one_of("sketch", self.sketch, SKETCHES)
        one_of("output", self.output, OUTPUTS)
        if not isinstance(study.kernel, Polynomial):
            raise Unsuited("a polynomial sketch is for polynomial kernels")

    def expected_error(self, study: Study) -> ExpectedError:
        sketch = self._make_sketch(self._count_projections())
        of, pairs = self._variance_of(sketch), homogeneous(study)
        kernel = study.kernel
        variance = float(kernel.variance) ** 2 * float(np.mean(of(pairs)))
        return study.error(0.0, variance, float(sketch.cost(pairs.dimension)), kernel.degree)

    @classmethod
    def variants(cls, study: Study) -> list[FeatureMap]:
        return suited((cls(output=output) for output in ("real", "complex_to_real")), study)

    def _variance_of(self, sketch: Sketch) -> Callable[..., Any]:
        """The variance of the kernel value that the user gets."""
        return sketch.variance if self.output == "complex" else sketch.real_part_variance

    def check_stored(self) -> None:
        if hasattr(self, "weights_"):
            self.sketch_.check_weights(self.weights_, self._dimension)

    def _make_sketch(self, n_projections: int) -> Sketch:
        return make_sketch(
            self.sketch,
            self.degree,
            n_projections,
            "real" if self.output == "real" else "complex",
            weights=self.weights,
            compact=self.compact,
        )

    def _features(self, X: ArrayT) -> ArrayT:
        largest: list[float] = []

        def inputs(rows: Array) -> Array:
            if is_sparse(rows) or is_numpy_array(rows):  # while the rows are in the cache
                largest.append(largest_entry(rows))
                if not math.isfinite(largest[-1]):
                    self._validate(X, reset=False)  # it says what is wrong
            return self._inputs(rows)

        with np.errstate(over="ignore", invalid="ignore"):  # an error follows
            Z = self.sketch_.apply(
                X,
                self.weights_,
                output=self.output_,
                preprocess=inputs,
                n_jobs=self.n_jobs,
            )

        def entry() -> float:
            if not largest:
                largest.append(largest_entry(X))
            return max(largest)

        check_overflow(Z, X, lambda: self._largest_feature(entry()))
        return warn_of_underflow(Z, X, lambda: self._usual_feature(entry()))

    def variance(self, X: Array, Y: Array | None = None, *, part: str | None = None) -> Array:
        """Variance of the approximate kernel between rows of X and of Y, (n, d), (m, d) -> (n, m).

        It is the variance of the kernel value that the user gets: real for "real", the complex
        value Z Zᴴ for "complex", its real part for "complex_to_real". `part="real"` asks for the
        real part's, `part="complex"` for that of the complex value.
        """
        check_is_fitted(self)
        part = check_part(part, "complex" if self._is_complex else "real")
        A = self._inputs(self._dense(X))
        B = A if Y is None else self._inputs(self._dense(Y))
        of = self.sketch_.variance if part == "complex" else self.sketch_.real_part_variance
        rows = max(1, (1 << 21) // max(B.shape[0], 1))  # 16 MiB an array of statistics
        blocks = [
            of(PairStatistics.between(A[a : min(a + rows, A.shape[0]), :], B))
            for a in range(0, max(A.shape[0], 1), rows)
        ]
        return blocks[0] if len(blocks) == 1 else namespace(A).concat(blocks, axis=0)

    @property
    def _dimension(self) -> int:
        return self.n_features_in_ + (not is_number_zero(self.kernel_.coef0))

    @property
    def _constant(self) -> Any:
        return 0 if is_number_zero(self.kernel_.coef0) else square_root(self.kernel_.coef0)

    def _inputs(self, X: Array) -> Array:  # (n, d) -> (n, d) or (n, d + 1)
        """√gamma x with √coef0 appended: the homogeneous kernel of these is the kernel."""
        X = self.kernel_.scale(X)
        if is_number_zero(self.kernel_.coef0):
            return X
        if is_sparse(X):
            column = np.full((X.shape[0], 1), self._constant, dtype=X.dtype)
            return scipy.sparse.hstack([X, column], format="csr", dtype=X.dtype)
        xp = namespace(X)
        return xp.concat([X, xp.ones_like(X[:, :1]) * self._constant], axis=1)

    def _dense(self, X: Array) -> Array:
        X = self._validate(X, reset=False)
        return double(dense(X))

    def _largest_feature(self, entry: float) -> float:
        """Logarithm of a bound on the features of rows with entries up to this one."""
        root_gamma = float(host(square_root(self.kernel_.gamma)))
        constant = float(host(self._constant))
        largest = self.n_features_in_ * entry * root_gamma + constant
        return self.sketch_.log_largest(math.log(max(largest, 1e-300)))

    def _usual_feature(self, entry: float) -> float:
        """Logarithm of the size of the features of the row with the largest entry, or less."""
        if entry == 0 or not is_number_zero(self.kernel_.coef0):
            return math.inf  # rows of zeros have features zero; a constant is of usual size
        root_gamma = float(host(square_root(self.kernel_.gamma)))
        n_projections = self.sketch_.n_projections
        return self.degree * math.log(root_gamma * entry) - math.log(n_projections) / 2


def homogeneous(study: Study) -> PairStatistics[np.ndarray]:
    """Of √gamma x with √coef0 appended, whose dot product is the base of a polynomial."""

    def compute() -> PairStatistics[np.ndarray]:
        kernel, scaled = study.kernel, study.kernel.scale(study.sample)
        column = np.full((len(scaled), 1 if kernel.coef0 else 0), np.sqrt(kernel.coef0))
        return PairStatistics.between(np.hstack([scaled, column])).at(study.distinct)

    return study.once("homogeneous pairs", compute)


def is_number_zero(value: Any) -> bool:
    """Whether a hyperparameter is the plain number zero (an array may have a gradient)."""
    return isinstance(value, (int, float, np.number)) and value == 0

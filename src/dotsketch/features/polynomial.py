"""Features of one polynomial kernel."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.base import clone

from .._arrays import Array, ArrayT, host, is_sparse, is_traced, namespace, square_root
from .._backends import Prepared, largest_entry
from .._support.parameters import one_of
from .._support.stored import stored
from ..kernels import Kernel, Polynomial
from ..pairs import PairStatistics
from ..sketches import SKETCHES, Sketch, make_sketch
from .base import FeatureMap
from .design import Design
from .study import Study, check_kernel


@stored
@dataclass(frozen=True, eq=False, kw_only=True)
class PolynomialDesign(Design):
    """A sketch of ⟨u(x), u(y)⟩ᵖ, where u(x) is √gamma x with √coef0 appended."""

    sketch: Sketch
    has_formula = True

    @property
    def cost(self) -> float:
        return float(self.sketch.cost(self.dimension + self.has_constant))

    @property
    def has_constant(self) -> bool:
        """Whether a column is appended: not for the plain number zero (an array may be trained)."""
        coef0 = self.kernel.coef0
        return not (isinstance(coef0, (int, float, np.number)) and coef0 == 0)

    def sample(self, rng: np.random.Generator, rows: Array | None = None) -> Any:
        return self.sketch.sample(self.dimension + self.has_constant, rng)

    def check_weights(self, weights: Any) -> None:
        sketch = self.sketch
        columns = sketch.n_projections, sketch.is_complex
        if columns != (self.n_projections, self.output != "real"):
            raise ValueError(f"{sketch} has other columns than the design.")
        sketch.check_weights(weights, self.dimension + self.has_constant)

    def prepare(self, weights: Any, rows: Array) -> Prepared:
        return self.sketch.prepared(weights, rows)

    def inputs(self, rows: Array) -> Array:  # (n, d) -> (n, d) or (n, d + 1)
        """√gamma x with √coef0 appended: the homogeneous kernel of these is the kernel."""
        S = self.kernel.scale(rows)
        if not self.has_constant:
            return S
        constant = square_root(self.kernel.coef0)
        if is_sparse(S):
            column = np.full((S.shape[0], 1), constant, dtype=S.dtype)
            return scipy.sparse.hstack([S, column], format="csr", dtype=S.dtype)
        xp = namespace(S)
        return xp.concat([S, xp.ones_like(S[:, :1]) * constant], axis=1)

    def variance(self, A: np.ndarray, B: np.ndarray, part: str) -> np.ndarray:
        of = self.sketch.variance if part == "complex" else self.sketch.real_part_variance
        plain = replace(self, kernel=self.kernel.detached())
        S, T = (np.asarray(plain.inputs(rows)) for rows in (A, B))
        return float(plain.kernel.variance) ** 2 * of(PairStatistics.between(S, T))

    def checked(self, Z: ArrayT, X: Array) -> ArrayT:
        """Features are looked through only if a bound on their size allows them to overflow."""
        if is_traced(X) or is_traced(Z):
            return Z
        limits = np.finfo(X.dtype) if is_sparse(X) else namespace(X).finfo(X.dtype)
        root_gamma = float(host(square_root(self.kernel.gamma)))
        constant = float(host(square_root(self.kernel.coef0))) if self.has_constant else 0.0
        xp, sums = namespace(Z), self.dimension * largest_entry(X) * root_gamma + constant
        bound = self.sketch.log_largest(math.log(max(sums, 1e-300)))
        if bound > math.log(float(limits.max)) and not bool(xp.all(xp.isfinite(Z))):
            raise ValueError(
                f"The features overflow {X.dtype}: scale the rows of X to about unit norm, "
                "lower gamma, or use float64."
            )
        return Z


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
    kernel_ : Polynomial
    design_ : PolynomialDesign; `design_.sketch` is the description that was drawn from
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

    def _kernel(self) -> Polynomial:
        return Polynomial(self.degree, gamma=self.gamma, coef0=self.coef0)

    def design(self, study: Study) -> PolynomialDesign:
        check_kernel(study.unresolved, Polynomial, "A polynomial sketch is for Polynomial()")
        one_of("sketch", self.sketch, SKETCHES)
        kernel: Any = study.resolved
        plain = Design(kernel, study.dimension, self.n_components, self.output)
        sketch = make_sketch(
            self.sketch,
            kernel.degree,
            plain.n_projections,
            "real" if self.output == "real" else "complex",
            weights=self.weights,
            compact=self.compact,
        )
        return self.of_study(PolynomialDesign, study, sketch=sketch)

    def label(self) -> str:
        extras = [
            f", {name}={value}"
            for name, value in (("weights", self.weights), ("compact", self.compact))
            if value is not None
        ]
        return f"polynomial: {self.sketch}, {self.output}{''.join(extras)}"

    def for_kernel(self, kernel: Kernel, n_components: int, **shared: Any) -> PolynomialSketch:
        check_kernel(kernel, Polynomial, "A polynomial sketch is for Polynomial()")
        polynomial: Any = kernel
        root = polynomial.variance ** (1 / polynomial.degree)  # there is no variance of its own
        return clone(self).set_params(
            degree=polynomial.degree,
            gamma=polynomial.gamma * root,
            coef0=polynomial.coef0 * root,
            n_components=n_components,
            **shared,
        )

    @classmethod
    def variants(cls, study: Study) -> list[FeatureMap]:
        if not isinstance(study.kernel, Polynomial):
            return []
        return [cls(output=output) for output in ("real", "complex_to_real")]

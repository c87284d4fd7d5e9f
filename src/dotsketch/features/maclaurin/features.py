"""Features of any dot product kernel through its Maclaurin series."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import is_numpy_array
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from ..._arrays import (
    Array,
    Parts,
    as_generator,
    column_views,
    fill,
    is_foreign,
    is_sparse,
    map_rows,
    namespace,
    positive_integer,
)
from ...kernels import DotProductKernel
from ...sketches import MonomialSketch, Sketch, make_sketch, separable_sketch
from ..base import FeatureMap
from ..degenerate import warn_if_degenerate
from ..study import data_centre, sample_rows
from .allocation import (
    COEFFICIENTS,
    SOLVERS,
    Allocation,
    allocate,
    evaluate,
    random_projections,
)
from .moments import ExpansionMoments
from .series import Inputs, expand


class SketchedBlock(NamedTuple):
    """One block of an expansion with its random feature map; no sketch for a constant."""

    number: int  # which weight function of the expansion
    root: float  # √θ
    sketch: Sketch | None
    weights: Any


class MaclaurinFeatures(FeatureMap):
    """Random features of a dot product kernel, with the budget spread over degrees by error.

    The kernel's series Σ a_n ⟨x, y⟩ⁿ is truncated, and every power gets a polynomial sketch of
    its own with D_n projections. Truncation and D_n minimise the mean squared error of the
    approximate kernel over pairs of training rows, known in closed form before any feature is
    computed (Algorithms 2 to 4 of the paper).

    Parameters
    ----------
    kernel : DotProductKernel
        `Polynomial`, `Exponential`, `Gaussian`, `Maclaurin` or `ArcCosine`. For the Gaussian
        kernel the data are centred at their mean (at their median, if outliers pull the mean off
        the rows), which it does not see.
    sketch : str, default="tensor_srht"
        "gaussian", "rademacher", "tensor_srht", "tensor_sketch" or "balanced_tensor_sketch".
    allocation : "optimal", "random" or a list, default="optimal"
        "optimal" minimises the predicted error; "random" draws degrees (Kar and Karnick); a list
        gives the projections of degree 1, 2, … (0 where the kernel has no such term).
    coefficients : "taylor" or "fitted", default="taylor"
        "fitted" also minimises over the coefficients of the powers: a smaller mean squared error
        of the kernel, at the price of shrunken k̂(x, x).
    n_components : int, default=100
        The number of columns that `transform` returns. The constant takes one (two columns for
        "complex_to_real").
    output : {"real", "complex", "complex_to_real"}, default="real"
    min_degree, max_degree : int, default=1 and 10
        Where the truncation is searched.
    n_pairs_sample : int, default=2000
        How many rows of X the averages over pairs are taken of.
    solver : "greedy" or "exact", default="greedy"
        "exact" optimises the true variance of TensorSRHT by dynamic programming; slower, and
        rarely better by more than a few percent.
    exact_monomials : bool, default=True
        Use all d coordinates for degree 1, and all products for degree 2, where that is better
        than sketching them.
    mean_split : bool, default=False
        Split off the component along the mean of the data, and sketch only what is orthogonal to
        it: for raw nonnegative data the error falls several times. A shift-invariant kernel
        centres its data instead.
    measure_base, h01 : float and bool, default=2.0 and False
        For allocation="random": degrees are drawn ∝ base^−(n+1); `h01` takes degree 0 and 1
        exactly and draws from degree 2 on.
    n_jobs : int or None, default=None
        Threads that `transform` uses on NumPy rows (-1: all). With the compiled kernels the result
        has the same bits for any number; what BLAS computes agrees to rounding.
    random_state : int, RandomState, Generator or None

    Attributes
    ----------
    kernel_ : the kernel with data-dependent parameters resolved
    allocation_ : Allocation, a readable table
    expected_squared_error_ : float, mean of E(k − k̂)² over pairs of distinct rows
    expected_relative_error_ : float, its root relative to the root mean square of k
    expansion_, blocks_ : what `transform` evaluates

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from dotsketch import Gaussian, MaclaurinFeatures
    >>> X = load_digits().data
    >>> features = MaclaurinFeatures(Gaussian(), n_components=500, random_state=0).fit(X)
    >>> round(features.expected_relative_error_, 2)
    0.01
    >>> features.transform(X).shape
    (1797, 500)
    """

    def __init__(
        self,
        kernel: DotProductKernel,
        *,
        sketch: str = "tensor_srht",
        allocation: Any = "optimal",
        coefficients: str = "taylor",
        n_components: int = 100,
        output: str = "real",
        min_degree: int = 1,
        max_degree: int = 10,
        n_pairs_sample: int = 2000,
        solver: str = "greedy",
        exact_monomials: bool = True,
        mean_split: bool = False,
        measure_base: float = 2.0,
        h01: bool = False,
        n_jobs: int | None = None,
        random_state: Any = None,
    ):
        self.kernel = kernel
        self.sketch = sketch
        self.allocation = allocation
        self.coefficients = coefficients
        self.n_components = n_components
        self.output = output
        self.min_degree = min_degree
        self.max_degree = max_degree
        self.n_pairs_sample = n_pairs_sample
        self.solver = solver
        self.exact_monomials = exact_monomials
        self.mean_split = mean_split
        self.measure_base = measure_base
        self.h01 = h01
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, X: Array, y: Any = None) -> MaclaurinFeatures:
        """Choose truncation, projections and coefficients on a sample of X (n, d); draw weights."""
        budget = self._begin_fit()
        self._check_parameters()
        X = self._validate(X, reset=True)
        rng = as_generator(self.random_state)
        sample_rng, allocation_rng, weights_rng = rng.spawn(3)
        sample = sample_rows(X, self.n_pairs_sample, sample_rng)
        self.kernel_ = self.kernel.resolve(X)
        if not self.kernel_.is_differentiable:
            self.kernel_ = clone(self.kernel_)  # later changes of the given kernel are not ours
        kernel = self.kernel_.detached()  # the statistics are of numbers on the host
        with np.errstate(over="ignore", invalid="ignore"):  # an error follows
            expansion = expand(
                kernel, self.max_degree, sample, data_centre(X, kernel), mean_split=self.mean_split
            )
            inputs = expansion.inputs(sample)
        [moments] = ExpansionMoments.of(
            inputs,
            expansion.degrees,
            kernel,
            [(separable_sketch(self.sketch, self._field), self._part)],
        )
        self.expansion_ = replace(expansion, kernel=self.kernel_)
        self.allocation_ = self._allocate(moments, budget, allocation_rng)
        self.expected_squared_error_ = self.allocation_.expected_squared_error
        self.expected_relative_error_ = self.allocation_.expected_relative_error
        self.blocks_ = self._draw(weights_rng)
        share = median_share(kernel, sample, inputs, self.allocation_)
        warn_if_degenerate(kernel, X, share, degree=self.allocation_.max_degree)
        return self

    def _redrawn(self, random_state: Any) -> MaclaurinFeatures:
        """A copy of these fitted features with the same allocation and the weights that a fit
        with this random_state draws."""
        check_is_fitted(self)
        other = copy(self)
        other.random_state = random_state
        other.blocks_ = other._draw(as_generator(random_state).spawn(3)[2])  # as in fit
        return other

    def _features(self, X: Array) -> Array:
        prepared: list[Any] = [
            None if block.sketch is None else block.sketch.prepare(block.weights, X)
            for block in self.blocks_
        ]

        def weighted(rows: Array) -> tuple[Array, list[Array]]:
            """The inputs of the sketches, and the weights (n, 1) of their features."""
            with np.errstate(over="ignore", invalid="ignore"):  # an error follows
                inputs = self.expansion_.inputs(rows.toarray() if is_sparse(rows) else rows)
            columns = (inputs.weights[:, b.number : b.number + 1] for b in self.blocks_)
            scales = [b.root * w for b, w in zip(self.blocks_, columns, strict=True)]
            check_weights(scales, self.blocks_, X.dtype)
            return inputs.unit, scales

        def parts(rows: Array) -> Parts:
            unit, scales = weighted(rows)
            found = []
            for block, weights, scale in zip(self.blocks_, prepared, scales, strict=True):
                if block.sketch is None:
                    found.append((scale, None if self._field == "real" else 0 * scale))
                else:
                    found.append(weights(unit, row_scale=scale))
            return self._concatenate(found, 0 * unit[:, :1])

        def write(rows: Array, out: Parts) -> None:
            unit, scales = weighted(rows)
            start = 0
            for block, weights, scale in zip(self.blocks_, prepared, scales, strict=True):
                stop = start + (1 if block.sketch is None else block.sketch.n_projections)
                views = column_views(out, start, stop)
                if block.sketch is None:
                    fill(views, (scale, 0.0))
                else:
                    weights(unit, row_scale=scale, out=views)
                start = stop
            fill(column_views(out, start, None), (0.0, 0.0))

        return map_rows(
            parts,
            X,
            self.output_,
            self.n_projections_,
            max(16, (1 << 22) // (16 * max(self.n_features_in_, 2 * self.n_projections_))),
            write=write,
            n_jobs=self.n_jobs,
        )

    def _concatenate(self, parts: list[Parts], zeros: Array) -> Parts:
        """All blocks side by side, and zero columns for what is left of the budget."""
        xp = namespace(zeros)
        if self.allocation_.unused:
            zeros = xp.broadcast_to(zeros, (zeros.shape[0], self.allocation_.unused))
            parts = [*parts, (zeros, None if self._field == "real" else zeros)]
        real = xp.concat([part[0] for part in parts], axis=1)
        if self._field == "real":
            return real, None
        return real, xp.concat([part[1] for part in parts], axis=1)

    @property
    def _part(self) -> str:
        """Which variance the user sees: of the complex value, or of its real part."""
        return "complex" if self.output_ == "complex" else "real"

    def _check_parameters(self) -> None:
        if not isinstance(self.kernel, DotProductKernel):
            raise TypeError(
                f"kernel must be a kernel of dotsketch, such as Gaussian(); got {self.kernel!r}."
            )
        if is_foreign(getattr(self.kernel, "coef0", None)):
            raise TypeError(
                "coef0 is a constant of the series, to which no gradient flows here: give a "
                "number, or use PolynomialSketch."
            )
        for name in ("min_degree", "max_degree", "n_pairs_sample"):
            positive_integer(name, getattr(self, name))
        for name, known in (("coefficients", COEFFICIENTS), ("solver", SOLVERS)):
            if getattr(self, name) not in known:
                raise ValueError(f"{name} must be one of {known}; got {getattr(self, name)!r}.")
        if self.min_degree > self.max_degree:
            raise ValueError(
                f"min_degree must not exceed max_degree; got {self.min_degree} and "
                f"{self.max_degree}."
            )
        if isinstance(self.allocation, str) and self.allocation not in ("optimal", "random"):
            raise ValueError(
                f'allocation must be "optimal", "random" or a list of projections for the '
                f"degrees 1, 2, …; got {self.allocation!r}."
            )
        if not isinstance(self.allocation, str) or self.allocation == "random":
            if self.coefficients == "fitted":
                raise ValueError('coefficients="fitted" is for allocation="optimal".')
            if self.mean_split and isinstance(self.allocation, str):
                raise ValueError('mean_split is for allocation="optimal".')
        if not (isinstance(self.measure_base, Real) and 1 < self.measure_base < np.inf):
            raise ValueError(f"measure_base must be a number above 1; got {self.measure_base!r}.")

    def _allocate(
        self, moments: ExpansionMoments, budget: int, rng: np.random.Generator
    ) -> Allocation:
        if isinstance(self.allocation, str) and self.allocation == "optimal":
            return allocate(
                moments,
                budget,
                min_degree=self.min_degree,
                max_degree=self.max_degree,
                solver=self.solver,
                coefficients=self.coefficients,
                exact_monomials=self.exact_monomials,
            )
        degrees = moments.degrees
        constants = int(np.sum(degrees == 0))
        exact = np.zeros(len(degrees), dtype=bool)
        if not isinstance(self.allocation, str):
            return evaluate(moments, *given_projections(self.allocation, degrees, budget), None)
        linear = moments.exact_projections(1) if self.h01 and 1 in degrees else 0
        rest = budget - constants - linear
        drawn = degrees if not linear else np.where(degrees == 1, 0, degrees)
        if rest < 0 or (rest == 0 and np.any(drawn > 0)):
            raise ValueError(
                f"n_components={self.n_components} leaves no projection to draw: the exact part "
                f"takes {constants + linear}."
            )
        projections, theta = random_projections(drawn, rest, self.measure_base, rng)
        if linear:
            exact = degrees == 1
            projections = np.where(exact, linear, projections)
        found = evaluate(moments, projections, exact, theta)
        return replace(found, unused=budget - int(projections.sum()))

    def _draw(self, rng: np.random.Generator) -> list[SketchedBlock]:
        """Sketches and weights of the blocks in use, one random stream each."""
        table = self.allocation_
        d = self.n_features_in_
        blocks = []
        for b, stream in zip(
            np.flatnonzero(table.projections), rng.spawn(len(table.degrees)), strict=False
        ):
            degree, D = int(table.degrees[b]), int(table.projections[b])
            root = float(np.sqrt(table.coefficients[b]))
            if degree == 0:
                blocks.append(SketchedBlock(int(b), root, None, ()))
                continue
            sketch: Sketch
            if table.exact[b]:
                packed = self.output_ == "complex_to_real"
                sketch = MonomialSketch.of(degree, d, self._field, packed)
            else:
                sketch = make_sketch(self.sketch, degree, D, self._field)
            blocks.append(SketchedBlock(int(b), root, sketch, sketch.sample(d, stream)))
        return blocks


def median_share(
    kernel: DotProductKernel, sample: np.ndarray, inputs: Inputs, allocation: Allocation
) -> float:
    """The median over rows of E[k̂(x, x)] / k(x, x), where E[k̂(x, x)] = Σ_b θ_b ω_b(x)²."""
    with np.errstate(over="ignore", invalid="ignore"):
        exact = kernel.diag(sample)
        held = inputs.weights**2 @ allocation.coefficients
        share = np.divide(held, exact, out=np.ones_like(exact), where=exact > 0)
    return float(np.median(share))


def check_weights(scales: list[Array], blocks: list[SketchedBlock], dtype: Any) -> None:
    """Raise if features may leave the range of their dtype: weights times √d to the degree."""
    for scale, block in zip(scales, blocks, strict=True):
        if not is_numpy_array(scale) or not scale.size:
            continue
        largest = float(np.max(np.abs(scale)))  # NaN stays NaN
        degree = 0 if block.sketch is None else block.sketch.degree
        if not np.log(max(largest, 1e-300)) + 4 * degree < np.log(np.finfo(dtype).max):
            raise ValueError(
                f"The features overflow {dtype}: scale X down, use a larger lengthscale or a "
                "smaller gamma, or use float64."
            )


def given_projections(
    counts: Any, degrees: np.ndarray, budget: int
) -> tuple[np.ndarray, np.ndarray]:
    """Projections of every block from a list for the degrees 1, 2, …"""
    given, counts = counts, np.asarray(counts)
    if counts.ndim != 1 or counts.dtype.kind not in "iu" or np.any(counts < 0):
        raise ValueError(f"allocation must be a list of counts ≥ 0; got {given!r}.")
    padded = np.zeros(max(int(degrees.max()), len(counts)) + 1, dtype=int)
    padded[1 : len(counts) + 1] = counts
    missing = [n for n in np.flatnonzero(padded).tolist() if n not in degrees]
    if missing:
        raise ValueError(
            f"allocation gives projections to degrees without a term: {missing}. Give them 0, or "
            "raise max_degree."
        )
    padded[0] = 1
    projections = padded[degrees]
    if projections.sum() != budget:
        raise ValueError(
            f"allocation has {projections.sum()} projections with the constant, and n_components "
            f"gives {budget}: they must be equal."
        )
    return projections, np.zeros(len(degrees), dtype=bool)

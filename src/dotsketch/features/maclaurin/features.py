"""Features of any dot product kernel through its Maclaurin series."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import Annotated, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..._arrays import OUTPUTS, Array, ArrayT, as_generator
from ..._backends.chunks import map_rows
from ..._support.parameters import one_of
from ..._support.stored import MOST_DEGREE, Count
from ...kernels import ExpandedKernel
from ...sketches import separable_sketch
from ..base import FeatureMap, owned, suited
from ..degenerate import warn_if_degenerate
from ..errors import ExpectedError, Unsuited
from ..study import FitStudy, Study
from .allocation import Allocation, evaluate
from .blocks import BlockColumns, SketchedBlock, blocks_cost, blocks_diagonal, draw_blocks
from .design import (
    MaclaurinDesign,
    SeriesOptions,
    drawn_degrees,
    given_projections,
    median_share,
)
from .moments import ExpansionMoments
from .parameters import check_parameters
from .search import allocate


class MaclaurinFeatures(FeatureMap):
    """Random features of a dot product kernel, with the budget spread over degrees by error.

    The kernel's series Σ a_n ⟨x, y⟩ⁿ is truncated, and every power gets a polynomial sketch of
    its own with D_n projections. Truncation and D_n minimise the mean squared error of the
    approximate kernel over pairs of training rows, known in closed form before any feature is
    computed (Algorithms 2 to 4 of the paper).

    Parameters
    ----------
    kernel : ExpandedKernel
        `Polynomial`, `Exponential`, `Gaussian`, `Maclaurin`, `ArcCosine`, sums and products of
        these, or `Tanimoto`. For the Gaussian kernel the data are centred at their mean (at their
        median, if outliers pull the mean off the rows), which it does not see.
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
    exact_monomials : bool or int, default=True
        Write out all C(d + p − 1, p) monomials of a degree p (the d coordinates, all their
        products, …) where that fits and is better than sketching them. A number is the largest
        degree that may be written out.
    mean_split : bool, default=False
        Split off the component along the mean of the data, and sketch only what is orthogonal to
        it: for raw nonnegative data the error falls several times. A shift-invariant kernel
        centres its data instead.
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

    family = "maclaurin"
    max_degree: Annotated[int, Count(MOST_DEGREE)]

    def __init__(
        self,
        kernel: ExpandedKernel,
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
        exact_monomials: bool | int = True,
        mean_split: bool = False,
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
        self.n_jobs = n_jobs
        self.random_state = random_state

    def check_stored(self) -> None:
        columns = 0
        for block in getattr(self, "blocks_", ()):
            if block.sketch is not None:
                block.sketch.check_weights(block.weights, self.n_features_in_)
            columns += 1 if block.sketch is None else block.sketch.n_projections
        if columns > getattr(self, "n_projections_", 0):
            raise ValueError("MaclaurinFeatures.blocks_ have more columns than n_projections_.")

    def fit(self, X: Array, y: Any = None) -> MaclaurinFeatures:
        """Choose truncation, projections and coefficients on a sample of X (n, d); draw weights."""
        X, (sample_rng, *rngs) = self._begin(X)
        study = FitStudy(
            self.kernel, X, n_pairs_sample=self.n_pairs_sample, random_state=sample_rng
        )
        share = self._fit_study(study, *rngs)
        warn_if_degenerate(study.kernel, X, share, degree=self.allocation_.max_degree)
        return self

    def _begin(self, X: Array) -> tuple[Array, list[np.random.Generator]]:
        """Validated rows, and the generators of the sample, the allocation and the weights."""
        self._begin_fit()
        check_parameters(self)
        return self._validate(X, reset=True), as_generator(self.random_state).spawn(3)

    def _fit_study(
        self, study: Study, allocation_rng: np.random.Generator, weights_rng: np.random.Generator
    ) -> float:
        """Make the design for a study, and draw its weights; the median share of k(x, x) that the
        features hold."""
        design = self.design(study, allocation_rng)
        self.kernel_ = owned(study.resolved)
        self.expansion_ = replace(design.expansion, kernel=self.kernel_)
        self.allocation_ = design.allocation
        self.expected_squared_error_ = self.allocation_.expected_squared_error
        self.expected_relative_error_ = self.allocation_.expected_relative_error
        self.blocks_ = self._draw(weights_rng)
        inputs = self._series.inputs(study, "fitting")
        return median_share(study.kernel, study.fitting, inputs, self.allocation_)

    # -- what the data decide --------------------------------------------------------------------

    def design(self, study: Study, rng: np.random.Generator | None = None) -> MaclaurinDesign:
        """The expansion and the allocation for the rows of the study; one per study.

        Only allocation="random" needs `rng`, and is drawn anew.
        """
        budget = self._count_projections()
        expansion = self._series.expansion(study)
        moments = self._series.moments(study, "fitting")
        if isinstance(self.allocation, str) and self.allocation == "random":
            return MaclaurinDesign(expansion, drawn_degrees(moments, budget, as_generator(rng)))
        # The rows are those of the study, whatever number this estimator would look at
        options = {k: v for k, v in self.options().items() if k != "n_pairs_sample"}
        key = ("maclaurin design", repr(sorted(options.items())), budget)
        allocation = study.once(key, lambda: self._allocate(moments, budget))
        return MaclaurinDesign(expansion, allocation)

    @property
    def _series(self) -> SeriesOptions:
        return SeriesOptions(self.sketch, self.output, self.max_degree, self.mean_split)

    # -- planning --------------------------------------------------------------------------------

    def label(self) -> str:
        named = isinstance(self.allocation, str)
        extras = {
            "random degrees": named and self.allocation == "random",
            "given degrees": not named,
            "fitted": self.coefficients == "fitted",
            "mean split": self.mean_split,
        }
        shown = [text for text, holds in extras.items() if holds]
        return ", ".join([f"maclaurin: {self.sketch}", self.output, *shown])

    def check_study(self, study: Study) -> None:
        if not isinstance(study.kernel, ExpandedKernel):
            raise Unsuited("Maclaurin features are for kernels with an expansion")
        separable_sketch(self.sketch)
        one_of("output", self.output, OUTPUTS)
        check_parameters(self)
        if self.mean_split and study.kernel.shift_invariant:
            raise Unsuited("a shift-invariant kernel centres its data: there is no mean to split")
        if not study.kernel.has_terms(self.max_degree):
            raise Unsuited(f"the kernel has no term up to max_degree={self.max_degree}")

    def expected_error(self, study: Study) -> ExpectedError:
        """Of the allocation for the rows "fitting" on the pairs of the sample."""
        moments = self._series.moments(study, "sample")
        if isinstance(self.allocation, str) and self.allocation == "random":
            rng = np.random.default_rng(self._count_projections())
            draws = [drawn_degrees(moments, self._count_projections(), rng) for _ in range(16)]
            return self._error(study, moments, draws)
        allocation = _evaluated(moments, self.design(study).allocation)
        return self._error(study, moments, [allocation])

    def expected_error_on(self, X: Array, *, n_pairs_sample: int = 500) -> ExpectedError:
        check_is_fitted(self)
        if self.mean_split:
            raise NotImplementedError(
                "The blocks of mean_split=True belong to the rows of the fit."
            )
        kernel, X = self.kernel_.detached(), self._validate(X, reset=False)
        study = Study(kernel, X, n_pairs_sample=n_pairs_sample)
        moments = self._series.moments(study, "sample")
        return self._error(study, moments, [_evaluated(moments, self.allocation_)])

    def _error(
        self, study: Study, moments: ExpansionMoments, draws: list[Allocation]
    ) -> ExpectedError:
        return study.error(
            float(np.mean([draw.squared_bias for draw in draws])),
            float(np.mean([draw.variance for draw in draws])),
            self.n_components + blocks_cost(draws[0], self.sketch, self.output, moments.dimension),
            draws[0].max_degree,
        )

    @classmethod
    def variants(cls, study: Study) -> list[FeatureMap]:
        return suited(
            (
                cls(study.kernel, sketch=sketch, coefficients="fitted", mean_split=mean_split)
                for sketch in ("tensor_srht", "balanced_tensor_sketch")
                for mean_split in (False, True)
            ),
            study,
        )

    def expected_diagonal(self, X: Array, Z: Array) -> np.ndarray:  # (n, d), (n, D) -> (n,)
        return blocks_diagonal(self.expansion_, self.blocks_, X)

    def redrawn(self, X: Array | None, random_state: Any) -> MaclaurinFeatures:
        """A copy with the same allocation, which is expensive, and other weights."""
        check_is_fitted(self)
        other = copy(self)
        other.random_state = random_state
        other.blocks_ = other._draw(as_generator(random_state).spawn(3)[2])  # as in fit
        return other

    def _features(self, X: ArrayT) -> ArrayT:
        unused, is_complex = self.allocation_.unused, self.output_ != "real"
        columns = BlockColumns(self.expansion_, self.blocks_, unused, is_complex, X)
        return map_rows(
            columns,
            X,
            self.output_,
            self.n_projections_,
            max(16, (1 << 22) // (16 * max(self.n_features_in_, 2 * self.n_projections_))),
            write=columns,
            n_jobs=self.n_jobs,
        )

    def _allocate(self, moments: ExpansionMoments, budget: int) -> Allocation:
        if not isinstance(self.allocation, str):
            projections, exact = given_projections(self.allocation, moments.degrees, budget)
            return evaluate(moments, projections, exact, None)
        return allocate(
            moments,
            budget,
            min_degree=self.min_degree,
            max_degree=self.max_degree,
            solver=self.solver,
            coefficients=self.coefficients,
            exact_monomials=self.exact_monomials,
        )

    def _draw(self, rng: np.random.Generator) -> list[SketchedBlock]:
        return draw_blocks(self.allocation_, self.sketch, self.n_features_in_, self.output_, rng)


def _evaluated(moments: ExpansionMoments, found: Allocation) -> Allocation:
    """The error of an allocation on other pairs."""
    return evaluate(moments, found.projections, found.exact, found.coefficients)

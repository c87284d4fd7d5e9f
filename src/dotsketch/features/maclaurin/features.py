"""Features of any dot product kernel through its Maclaurin series."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any

import numpy as np
from array_api_compat import is_numpy_array

from ..._arrays import Array, HostParts, Parts, dense, is_foreign, namespace
from ..._backends import Prepared, dense_like, fill
from ..._support.parameters import one_of, positive_integer
from ..._support.stored import MOST_DEGREE, Count, stored
from ...kernels import DotProductKernel, ExpandedKernel
from ...pairs import PairStatistics
from ...sketches import MonomialSketch, Sketch, make_sketch, separable_sketch
from ..base import NO_SERIES, FeatureMap
from ..design import Design, Unsuited
from ..study import Study, check_kernel
from .allocation import Allocation, allocate, drawn_degrees
from .expansion import Expansion, expand
from .moments import ExpansionMoments


@stored
@dataclass(frozen=True, eq=False, kw_only=True)
class MaclaurinDesign(Design):
    """An expansion of the kernel, and the projections and coefficients of its blocks."""

    expansion: Expansion
    allocation: Allocation
    sketch: str
    has_formula = True

    @cached_property
    def numbers(self) -> list[int]:
        """The blocks of the expansion in use."""
        return np.flatnonzero(self.allocation.projections).tolist()

    @cached_property
    def sketches(self) -> list[Sketch | None]:
        """Those of the blocks in use; None for a constant."""
        table, sketches = self.allocation, list[Sketch | None]()
        for b in self.numbers:
            degree, D = int(table.degrees[b]), int(table.projections[b])
            if degree == 0:
                sketches.append(None)
            elif table.exact[b]:
                packed = self.output == "complex_to_real"
                sketches.append(MonomialSketch.of(degree, self.dimension, self.field, packed))
            else:
                sketches.append(make_sketch(self.sketch, degree, D, self.field))
        return sketches

    @property
    def widths(self) -> list[int]:
        """The projections of the blocks in use, and those that are left over."""
        used = [1 if sketch is None else sketch.n_projections for sketch in self.sketches]
        return [*used, self.allocation.unused]

    @property
    def field(self) -> str:
        return "real" if self.output == "real" else "complex"

    @property
    def cost(self) -> float:
        sketched = [s for s in self.sketches if s is not None and not isinstance(s, MonomialSketch)]
        return self.n_components + float(sum(s.cost(self.dimension) for s in sketched))

    def sample(self, rng: np.random.Generator, rows: Array | None = None) -> tuple[Any, ...]:
        """Weights of the blocks in use, one random stream each."""
        streams = rng.spawn(1)[0].spawn(len(self.allocation.degrees))
        return tuple(
            () if sketch is None else sketch.sample(self.dimension, stream)
            for sketch, stream in zip(self.sketches, streams, strict=False)
        )

    def check_weights(self, weights: Any) -> None:
        if self.allocation.degrees.tolist() != list(self.expansion.degrees):
            raise ValueError("The allocation is not one of the expansion.")
        if sum(self.widths) != self.n_projections:
            raise ValueError("The blocks of the allocation have other columns than the design.")
        for sketch, drawn in zip(self.sketches, weights, strict=True):
            if sketch is not None:
                sketch.check_weights(drawn, self.dimension)

    def prepare(self, weights: Any, rows: Array) -> Prepared:
        """The columns of all blocks side by side, and zeros for what is left of the budget."""
        keeps_sparse, is_complex = self.expansion.keeps_sparse, self.output != "real"
        units = rows if keeps_sparse else dense_like(rows)
        steps: list[Any] = [  # columns of one block, times the weights of the rows
            None if sketch is None else sketch.prepared(drawn, units)
            for sketch, drawn in zip(self.sketches, weights, strict=True)
        ]
        widths = self.widths
        stops = np.cumsum(widths).tolist()

        def inputs(rows: Array) -> tuple[Array, list[Any]]:
            return self._inputs(rows if keeps_sparse else dense(rows), rows.dtype)

        def columns(rows: Array) -> Parts:
            unit, scales = inputs(rows)
            real: list[Any] = []
            imaginary: list[Any] = []
            xp = namespace(unit)
            for step, scale, width in zip((*steps, None), scales, widths, strict=True):
                if step is not None:
                    part = step(unit, row_scale=scale)
                elif width == 0:
                    continue
                else:  # a block without a sketch: the weights of the rows themselves
                    values = xp.broadcast_to(scale, (scale.shape[0], width))
                    part = values, 0 * values if is_complex else None
                real.append(part[0])
                imaginary.append(part[1])
            return xp.concat(real, axis=1), xp.concat(imaginary, axis=1) if is_complex else None

        def write(rows: Array, row_scale: Any, out: HostParts) -> None:
            unit, scales = inputs(rows)
            for step, scale, start, stop in zip(
                (*steps, None), scales, [0, *stops], stops, strict=False
            ):
                views: Any = tuple(None if part is None else part[:, start:stop] for part in out)
                if step is None:
                    fill(views, (scale, 0.0))
                else:
                    step(unit, row_scale=scale, out=views)

        # chunks are of an L2 cache and more: the temporaries of a block are as wide as the widest
        widest = max(self.dimension, 2 * self.n_projections)
        return Prepared(columns, widest, write, accepts_sparse=True, chunk_bytes=1 << 21)

    def _inputs(self, rows: Array, dtype: Any) -> tuple[Array, list[Any]]:
        """The inputs of the sketches, and the weights (n, 1) of their columns; zeros at the end."""
        with np.errstate(over="ignore", invalid="ignore"):  # an error follows
            inputs = self.expansion.inputs(rows, self.numbers)
        scales, table = [], self.allocation
        for i, b in enumerate(self.numbers):
            scale: Any = math.sqrt(table.coefficients[b]) * inputs.weights[:, i : i + 1]
            # weights times √d to the degree must stay in the range of the dtype
            if is_numpy_array(scale) and scale.size:
                largest = float(np.max(np.abs(scale)))  # NaN stays NaN
                bound = np.log(max(largest, 1e-300)) + 4 * table.degrees[b]
                if not bound < np.log(np.finfo(dtype).max):
                    raise ValueError(
                        f"The features overflow {dtype}: scale X down, use a larger "
                        "lengthscale or a smaller gamma, or use float64."
                    )
            scales.append(scale)
        return inputs.unit, [*scales, 0 * scales[0]]

    def variance(self, A: np.ndarray, B: np.ndarray, part: str) -> np.ndarray:
        """Σ_b θ_b² ω_b(x)² ω_b(y)² V_b over the blocks that are sketched."""
        x, y = (self.expansion.inputs(rows) for rows in (A, B))
        table = self.allocation
        is_sketched = (table.projections > 0) & ~table.exact & (table.degrees > 0)
        total = np.zeros((len(A), len(B)))
        if not np.any(is_sketched):
            return total
        pairs = PairStatistics.between(np.asarray(x.unit), np.asarray(y.unit))
        sketch = separable_sketch(self.sketch, self.field)
        highest = int(table.degrees[is_sketched].max())
        every_degree = sketch.terms(pairs, highest, part, every_budget=True)
        for degree, terms in enumerate(every_degree, start=1):
            for b in np.flatnonzero(is_sketched & (table.degrees == degree)).tolist():
                D = int(table.projections[b])
                values = np.maximum(sketch.combine(terms, D, self.dimension), 0)
                weight = table.coefficients[b] * np.outer(x.weights[:, b], y.weights[:, b])
                total += weight**2 * values
        return total

    def bias(self, A: np.ndarray, B: np.ndarray) -> np.ndarray:
        """Σ_b θ_b ω_b(x) ω_b(y) ⟨u(x), u(y)⟩^{n_b} − k(x, y)."""
        x, y = (self.expansion.inputs(rows) for rows in (A, B))
        cosines = np.asarray(x.unit) @ np.asarray(y.unit).T
        total = -np.asarray(self.kernel.detached()(A, B))
        table = self.allocation
        for b in np.flatnonzero(table.projections).tolist():
            weights = table.coefficients[b] * np.outer(x.weights[:, b], y.weights[:, b])
            total += weights * cosines ** int(table.degrees[b])
        return total

    def expected_diagonal(self, rows: Array, Z: Array) -> np.ndarray:  # (n, d), (n, D) -> (n,)
        """Σ over the blocks of coefficient · ω(x)² |u(x)|²ⁿ, in float64."""
        degrees = self.allocation.degrees[self.numbers]
        roots = np.sqrt(self.allocation.coefficients[self.numbers])
        total = np.empty(rows.shape[0])
        step = 1 + (1 << 19) // rows.shape[1]
        for start in range(0, len(total), step):  # sparse rows are made dense a few at a time
            some = np.asarray(dense(rows[start : start + step]), dtype=np.float64)
            inputs = self.expansion.inputs(some, self.numbers)
            lengths = np.sum(inputs.unit**2, axis=1)  # one, or zero for a zero row
            squares = (roots * inputs.weights) ** 2
            total[start : start + step] = np.sum(squares * lengths[:, None] ** degrees, axis=1)
        return total

    def cautions(self, study: Study) -> Iterator[str]:
        """Also of a truncated series that holds little of k(x, x)."""
        messages = list(super().cautions(study))
        yield from messages
        rows = study.few_rows
        if messages or self.is_differentiable or not len(rows):
            return
        with np.errstate(over="ignore", invalid="ignore"):
            held, exact = self.expected_diagonal(rows, rows), self.kernel.diag(rows)
            share = np.median(np.divide(held, exact, out=np.ones_like(exact), where=exact > 0))
        if share < 0.01:
            yield (
                f"The features hold at most {share:.2g} of k(x, x) for half of the training rows, "
                "so they are nearly zero there: the rows are too far from the centre for the "
                f"series of {self.kernel} up to degree {self.allocation.max_degree}. Use a larger "
                "lengthscale or a smaller gamma, a larger max_degree, more columns, or "
                "NystromFeatures."
            )


ALLOCATIONS = ("optimal", "sketched", "random")


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
    allocation : "optimal", "sketched" or "random", default="optimal"
        "optimal" minimises the predicted error, and writes out all C(d + p − 1, p) monomials of a
        degree p (the d coordinates, all their products, …) where that fits and is better than
        sketching them. "sketched" sketches all powers, as the paper does. "random" draws degrees
        (Kar and Karnick).
    coefficients : "taylor" or "fitted", default="taylor"
        "fitted" also minimises over the coefficients of the powers: a smaller mean squared error
        of the kernel, at the price of shrunken k̂(x, x).
    n_components : int, default=100
        The number of columns that `transform` returns. The constant takes one (two columns for
        "complex_to_real").
    output : {"real", "complex", "complex_to_real"}, default="real"
    max_degree : int, default=10
        Where the truncation is searched.
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
    expected_squared_error_ : float, mean of E(k − k̂)² over pairs of 2000 training rows
    expected_relative_error_ : float, its root relative to the root mean square of k
    design_ : MaclaurinDesign, what was drawn from
    weights_ : its random weights, one named tuple for every block in use

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
        allocation: str = "optimal",
        coefficients: str = "taylor",
        n_components: int = 100,
        output: str = "real",
        max_degree: int = 10,
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
        self.max_degree = max_degree
        self.mean_split = mean_split
        self.n_jobs = n_jobs
        self.random_state = random_state

    def design(self, study: Study) -> MaclaurinDesign:
        """The expansion and the allocation for the rows `fitting` of the study."""
        self._check_parameters(study.unresolved)
        kernel: Any = study.kernel
        plain = Design(study.resolved, study.dimension, self.n_components, self.output)
        sketch = separable_sketch(self.sketch, "real" if self.output == "real" else "complex")
        with np.errstate(over="ignore", invalid="ignore"):  # an error follows
            rows = study.fitting
            expansion = expand(
                kernel, self.max_degree, rows, study.centre, mean_split=self.mean_split
            )
            inputs = expansion.inputs(rows)
        moments = ExpansionMoments.of(
            inputs, expansion.degrees, kernel, sketch, plain.part, plain.n_projections
        )
        expansion = replace(expansion, kernel=study.resolved)
        allocation = self._allocate(moments, study.streams[1])
        decided = {"expansion": expansion, "allocation": allocation, "sketch": self.sketch}
        return self.of_study(MaclaurinDesign, study, **decided)

    def _allocate(self, moments: ExpansionMoments, rng: np.random.Generator) -> Allocation:
        if self.allocation == "random":
            return drawn_degrees(moments, rng)
        return allocate(
            moments,
            max_degree=self.max_degree,
            coefficients=self.coefficients,
            writes_out=self.allocation == "optimal",
        )

    def _check_parameters(self, kernel: Any) -> None:
        """Raise unless the parameters mean something together."""
        check_kernel(kernel, ExpandedKernel, NO_SERIES)
        parameters = kernel.get_params()
        for name in kernel.constants:
            if is_foreign(parameters[name]):
                raise TypeError(
                    f"{name} is a constant of the series, to which no gradient flows here: give a "
                    "number, or use PolynomialSketch or NystromFeatures."
                )
        positive_integer("max_degree", self.max_degree)
        one_of("allocation", self.allocation, ALLOCATIONS)
        is_series = isinstance(kernel, DotProductKernel)  # others have several terms of a degree
        plain = self.coefficients == "taylor" and not self.mean_split and is_series
        if self.allocation == "random" and not plain:
            raise Unsuited(
                'allocation="random" is for the Taylor coefficients of a dot product kernel: '
                f'coefficients="fitted", mean_split and {kernel} need allocation="optimal".'
            )

    def label(self) -> str:
        words = {"optimal": "", "random": "random degrees", "sketched": "all sketched"}
        fitted = "fitted" if self.coefficients == "fitted" else ""
        split = "mean split" if self.mean_split else ""
        parts = (f"maclaurin: {self.sketch}", self.output, words[self.allocation], fitted, split)
        return ", ".join(filter(None, parts))

    @classmethod
    def variants(cls, study: Study) -> list[FeatureMap]:
        kernel = study.kernel
        if not isinstance(kernel, ExpandedKernel) or not kernel.has_terms(10):
            return []
        centres = kernel.shift_invariant and isinstance(kernel, DotProductKernel)
        return [
            cls(kernel, sketch=sketch, coefficients="fitted", mean_split=mean_split)
            for sketch in ("tensor_srht", "balanced_tensor_sketch")
            for mean_split in ((False,) if centres else (False, True))
        ]

    @property
    def allocation_(self) -> Allocation:
        allocation: Allocation = self.design_.allocation
        return allocation

    @property
    def expected_squared_error_(self) -> float:
        return self.allocation_.expected_squared_error

    @property
    def expected_relative_error_(self) -> float:
        return self.allocation_.expected_relative_error

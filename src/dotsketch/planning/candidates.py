"""One class per family of features: which kernels it supports, its error, how it is built.

`predict` gives the error of a candidate on a `Study` at a number of columns, in closed form where
one is known, otherwise measured on rows held out. `build` gives the estimator.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import scipy.linalg

from .._arrays import OUTPUTS
from ..features import MaclaurinFeatures, NystromFeatures, PolynomialSketch
from ..features.base import FeatureMap
from ..features.maclaurin.allocation import COEFFICIENTS, allocate, evaluate, random_projections
from ..features.maclaurin.moments import relative_error
from ..kernels import DotProductKernel, Polynomial
from ..sketches import SKETCHES, make_sketch, separable_sketch
from .study import Measurement, Study
from .table import PlannedCandidate


class Setup(NamedTuple):
    """What it takes once, before the first row: arithmetic operations, and bytes of memory."""

    operations: float = 0.0
    bytes: float = 0.0


@dataclass(frozen=True)
class Candidate:
    """A family of features with its options, all but the kernel and the number of columns."""

    family: ClassVar[str]
    estimator: ClassVar[Any]  # the class of features; its parameters have the names of the options
    is_monotone: ClassVar[bool] = True  # whether more columns never mean a larger error

    @property
    def is_measured(self) -> bool:
        """Whether the error is measured on rows held out, for want of a closed form."""
        return False

    def serves(self, study: Study) -> bool:
        """Whether these features approximate the kernel on rows like those of the study."""
        raise NotImplementedError

    def predict(self, study: Study, n_components: int) -> PlannedCandidate | None:
        """The error and cost with at most n_components columns; None if they are too few."""
        raise NotImplementedError

    def setup(self, study: Study, n_components: int) -> Setup:
        """What a fit takes, as far as it may be much more than the plan itself."""
        return Setup()

    def build(
        self, kernel: DotProductKernel, n_components: int, random_state: Any = None, **options: Any
    ) -> FeatureMap:
        """The estimator with these options; others, such as n_jobs, may be given."""
        return self.estimator(
            kernel,
            n_components=n_components,
            random_state=random_state,
            **asdict(self),
            **options,
        )

    @property
    def columns_at_once(self) -> int:
        """Columns come in multiples of this number."""
        return 2 if getattr(self, "output", "real") == "complex_to_real" else 1

    def _projections(self, n_components: int) -> int:
        return n_components // self.columns_at_once

    @property
    def _field(self) -> str:
        return "real" if getattr(self, "output", "real") == "real" else "complex"

    def _planned(
        self, study: Study, n_components: int, squared_bias: float, variance: float, **values: Any
    ) -> PlannedCandidate:
        return PlannedCandidate(
            candidate=self,
            n_components=n_components,
            relative_error=relative_error(squared_bias + variance, study.kernel_square),
            squared_bias=squared_bias,
            variance=variance,
            **values,
        )

    def _measured(self, study: Study, n_components: int, cost: float) -> PlannedCandidate:
        """The error of features drawn for rows held out."""

        def approximate(
            fitting: np.ndarray, held: np.ndarray, rng: np.random.Generator
        ) -> np.ndarray:
            features = self.build(study.kernel, n_components, random_state=rng)
            Z = features.fit(fitting).transform(held)
            return Z @ Z.T

        m = study.n_held
        found = study.measure(approximate, 1, m * cost + m * m * n_components)
        return self._measured_row(n_components, found, cost)

    def _measured_row(
        self, n_components: int, found: Measurement, cost: float, n_measured: int | None = None
    ) -> PlannedCandidate:
        return PlannedCandidate(
            candidate=self,
            n_components=n_components,
            relative_error=found.relative_error,
            squared_bias=math.nan,
            variance=math.nan,
            cost=cost,
            source="measured",
            standard_error=found.standard_error,
            n_measured=n_measured,
        )


def check_option(name: str, value: Any, known: Any) -> None:
    if value not in known:
        names = ", ".join(map(repr, known))
        raise ValueError(f"{name} must be one of {names}; got {value!r}.")


@dataclass(frozen=True)
class MaclaurinCandidate(Candidate):
    """Parameters of `MaclaurinFeatures`; supports every kernel with a term up to max_degree."""

    family: ClassVar[str] = "maclaurin"
    estimator: ClassVar[Any] = MaclaurinFeatures
    is_monotone: ClassVar[bool] = False

    sketch: str = "tensor_srht"
    output: str = "real"
    allocation: str = "optimal"
    coefficients: str = "taylor"
    mean_split: bool = False

    def __post_init__(self) -> None:
        separable_sketch(self.sketch)
        check_option("output", self.output, OUTPUTS)
        check_option("allocation", self.allocation, ("optimal", "random"))
        check_option("coefficients", self.coefficients, COEFFICIENTS)
        if self.allocation == "random" and (self.coefficients == "fitted" or self.mean_split):
            raise ValueError('Fitted coefficients and the mean split are for allocation="optimal".')

    def __str__(self) -> str:
        extras = [
            text
            for text, holds in (
                ("random degrees", self.allocation == "random"),
                ("fitted", self.coefficients == "fitted"),
                ("mean split", self.mean_split),
            )
            if holds
        ]
        return ", ".join([f"maclaurin: {self.sketch}", self.output, *extras])

    def serves(self, study: Study) -> bool:
        # Centred data, as a shift-invariant kernel has them, have no mean to split off
        has_split = not (self.mean_split and study.kernel.shift_invariant)
        return has_split and bool(np.any(study.kernel.series(study.max_degree) > 0))

    def predict(self, study: Study, n_components: int) -> PlannedCandidate | None:
        fitting, moments = study.moments(self.sketch, self.output, self.mean_split)
        budget = self._projections(n_components)
        constants = int(np.sum(moments.degrees == 0))
        if budget < 1 or (self.allocation == "random" and budget <= constants):
            return None
        if self.allocation == "random":
            rng = np.random.default_rng(budget)
            draws = [
                evaluate(moments, D, np.zeros(len(D), dtype=bool), theta)
                for D, theta in (
                    random_projections(moments.degrees, budget - constants, 2.0, rng)
                    for _ in range(16)
                )
            ]
        else:
            found = allocate(
                fitting,
                budget,
                max_degree=study.max_degree,
                coefficients=self.coefficients,
            )
            draws = [evaluate(moments, found.projections, found.exact, found.coefficients)]
        cost = sum(
            make_sketch(self.sketch, int(n), int(D), self._field).cost(moments.dimension)
            for n, D, exact in zip(
                draws[0].degrees, draws[0].projections, draws[0].exact, strict=True
            )
            if n > 0 and D > 0 and not exact
        )
        return self._planned(
            study,
            budget * self.columns_at_once,
            float(np.mean([draw.squared_bias for draw in draws])),
            float(np.mean([draw.variance for draw in draws])),
            cost=float(cost + n_components),
            max_degree=draws[0].max_degree,
        )


@dataclass(frozen=True)
class PolynomialCandidate(Candidate):
    """Parameters of `PolynomialSketch`: one sketch of the whole polynomial kernel."""

    family: ClassVar[str] = "polynomial"
    estimator: ClassVar[Any] = PolynomialSketch
    is_monotone: ClassVar[bool] = False

    sketch: str = "tensor_srht"
    output: str = "real"

    def __post_init__(self) -> None:
        check_option("sketch", self.sketch, SKETCHES)
        check_option("output", self.output, OUTPUTS)

    def __str__(self) -> str:
        return f"polynomial: {self.sketch}, {self.output}"

    def serves(self, study: Study) -> bool:
        return isinstance(study.kernel, Polynomial)

    def predict(self, study: Study, n_components: int) -> PlannedCandidate | None:
        D = self._projections(n_components)
        if D < 1:
            return None
        kernel = study.kernel
        sketch = make_sketch(self.sketch, kernel.degree, D, self._field)
        part = sketch.variance if self.output == "complex" else sketch.real_part_variance
        pairs = study.homogeneous_pairs
        return self._planned(
            study,
            D * self.columns_at_once,
            0.0,
            float(kernel.variance) ** 2 * float(np.mean(part(pairs))),
            cost=float(sketch.cost(pairs.dimension)),
            max_degree=kernel.degree,
        )

    def build(
        self, kernel: DotProductKernel, n_components: int, random_state: Any = None, **options: Any
    ) -> PolynomialSketch:
        root = kernel.variance ** (1 / kernel.degree)  # the sketch has no variance of its own
        return PolynomialSketch(
            kernel.degree,
            gamma=kernel.gamma * root,
            coef0=kernel.coef0 * root,
            sketch=self.sketch,
            output=self.output,
            n_components=n_components,
            random_state=random_state,
            **options,
        )


@dataclass(frozen=True)
class NystromCandidate(Candidate):
    """Nyström features: the kernel with landmark rows, whitened. Its error is measured."""

    family: ClassVar[str] = "nystrom"
    estimator: ClassVar[Any] = NystromFeatures

    def __str__(self) -> str:
        return "nystrom: uniform landmarks"

    def serves(self, study: Study) -> bool:
        return study.has_finite_diagonal

    @property
    def is_measured(self) -> bool:
        return True

    def setup(self, study: Study, n_components: int) -> Setup:
        """An eigendecomposition of a D × D matrix, of which three copies are held."""
        D, d = float(n_components), study.dimension
        return Setup(10 * D**3 + 2 * D * D * d, 8 * (3 * D * D + D * d))

    def predict(self, study: Study, n_components: int) -> PlannedCandidate | None:
        """The error with n_components landmarks, as many as X leaves beside the rows held out.

        K̂ = Bᵀ B with K_ll = L Lᵀ and B = L⁻¹ K_lx: a Cholesky factor, which is much cheaper than
        the eigenvectors that the features need.
        """
        if not 1 <= n_components <= study.n_rows:
            return None

        def approximate(
            landmarks: np.ndarray, held: np.ndarray, rng: np.random.Generator
        ) -> np.ndarray:
            K = study.kernel(landmarks)
            # Landmarks may be nearly dependent, or zero
            K[np.diag_indices_from(K)] += 1e-12 * np.trace(K) + np.finfo(float).tiny
            L = scipy.linalg.cholesky(K, lower=True, overwrite_a=True, check_finite=False)
            B = scipy.linalg.solve_triangular(
                L, study.kernel(landmarks, held), lower=True, check_finite=False
            )
            return B.T @ B

        m, D, d = study.n_held, n_components, study.dimension
        operations = D * D * (D / 3 + m + 2 * d) + 2.0 * D * m * (m + d)
        found = study.measure(approximate, D, operations)
        fewer = found.n_fitting if found.n_fitting < D else None
        return self._measured_row(D, found, 2.0 * D * (d + D), fewer)

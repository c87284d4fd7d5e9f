"""What features and the solver take on this machine, measured by small runs; columns that fit.

A kind of features is timed at two numbers of columns, which gives the time of a row as a D + b D²
(b is for the landmarks, whose number grows with D). The solver of a Gaussian process takes D² per
row for its sums, and D³ once. One run times a product of matrices, one a band and a factor.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from functools import partial
from inspect import signature
from typing import Any

import numpy as np
from scipy.linalg import cho_factor

from ..features import FeatureMap
from ..features.degenerate import without_degenerate_warnings
from ..features.errors import Unsuited
from ..features.study import Study
from ..spectrum import band_of

TIMED_COLUMNS = 32, 128
TIMED_ROWS = 512
SOLVER_COLUMNS = 512
REPEATS = 3  # the best of them: whatever else the machine does only adds time


@dataclass(frozen=True, kw_only=True)
class TimedFeatures:
    """The microseconds per row of one kind of features, at two numbers of columns.

    >>> run = TimedFeatures(label="", columns=(10, 20), microseconds=(3.0, 8.0))
    >>> [round(run.at(n), 9) for n in (10, 20, 40)]
    [3.0, 8.0, 24.0]
    """

    label: str
    columns: tuple[int, int]
    microseconds: tuple[float, float]

    def at(self, n_components: int) -> float:
        """a D + b D², through both runs as far as a and b are positive, through the second else."""
        (few, many), (short, long) = self.columns, self.microseconds
        slope = 0.0
        if many > few:
            slope = max(0.0, (long / many - short / few) / (many - few))
        slope = min(slope, long / many**2)
        return n_components * (long / many + slope * (n_components - many))


@dataclass(frozen=True, kw_only=True)
class MeasuredCost:
    """What was measured, and what was asked for: a plan by time depends on both.

    Attributes
    ----------
    n_rows : int, the rows to be fitted
    time_budget : float or None, seconds for features and solver
    microseconds_per_row : float or None, for features alone
    features : tuple of TimedFeatures
    operation_seconds : float, of one operation in a product of matrices: sums take D² per row
    factor_seconds : float, the band and the factor of a D × D matrix over D³
    """

    n_rows: int
    time_budget: float | None
    microseconds_per_row: float | None
    features: tuple[TimedFeatures, ...]
    operation_seconds: float
    factor_seconds: float

    def __str__(self) -> str:
        texts = []
        if self.microseconds_per_row is not None:
            texts.append(f"{self.microseconds_per_row:g} µs per row for the features")
        if self.time_budget is not None:
            texts.append(f"{self.time_budget:g} s for features and solver of {self.n_rows:,} rows")
        return f"Columns that take at most {' and '.join(texts)}, by a measurement on this machine"

    def solver_seconds(self, n_components: int) -> float:
        """The sums over all rows, the choice of variances and the solution of the system."""
        D = float(n_components)
        return self.n_rows * D * D * self.operation_seconds + D**3 * self.factor_seconds


class Budget:
    """How many columns of each candidate are within a time.

    Parameters
    ----------
    study : Study, of rows as they are given: in their library and precision
    candidates : unfitted features
    time_budget : seconds for the features of n_rows rows, their set-up and the direct solver
    microseconds_per_row : for the features of a row alone
    n_rows : the number of rows to be fitted; None: that of X
    most : the largest number of columns; there are never more than rows to be fitted
    """

    def __init__(
        self,
        study: Study,
        candidates: Iterable[FeatureMap],
        *,
        time_budget: float | None = None,
        microseconds_per_row: float | None = None,
        n_rows: int | None = None,
        most: int,
    ):
        self.study = study
        n = study.n_rows if n_rows is None else n_rows
        self.most = min(most, n)
        kinds: dict[Hashable, FeatureMap] = {}
        for candidate in candidates:  # of each kind the one that is nearest to the defaults
            known = kinds.get(kind_of(candidate))
            if known is None or n_changed(candidate) < n_changed(known):
                kinds[kind_of(candidate)] = candidate
        with without_degenerate_warnings():
            timed = {kind: timed_features(one, study) for kind, one in kinds.items()}
        self.timed = {kind: run for kind, run in timed.items() if run is not None}
        operation, factor = solver_times()
        self.cost = MeasuredCost(
            n_rows=n,
            time_budget=time_budget,
            microseconds_per_row=microseconds_per_row,
            features=tuple(self.timed.values()),
            operation_seconds=operation,
            factor_seconds=factor,
        )

    def microseconds(self, candidate: FeatureMap) -> float:
        """Of the features of a row."""
        run = self.timed.get(kind_of(candidate))
        return np.inf if run is None else run.at(candidate.n_components)

    def seconds(self, candidate: FeatureMap) -> float:
        """Of the set-up, the features of all rows and the solver."""
        setup = candidate.setup(self.study.dimension).operations * self.cost.operation_seconds
        features = self.cost.n_rows * self.microseconds(candidate) / 1e6
        return setup + features + self.cost.solver_seconds(candidate.n_components)

    def fits(self, candidate: FeatureMap) -> bool:
        """Whether this number of columns is within the time."""
        seconds, row = self.cost.time_budget, self.cost.microseconds_per_row
        return (seconds is None or self.seconds(candidate) <= seconds) and (
            row is None or self.microseconds(candidate) <= row
        )

    def columns(self, candidate: FeatureMap) -> int:
        """The largest number of columns that fits; 0 if none does."""
        step, kernel = candidate.columns_at_once, self.study.kernel
        low, high = 0, self.most // step + 1
        while high - low > 1:
            middle = (low + high) // 2
            fits = self.fits(candidate.for_kernel(kernel, middle * step))
            low, high = (middle, high) if fits else (low, middle)
        return low * step


def kind_of(candidate: FeatureMap) -> Hashable:
    """Equal for candidates of one kind: a run of one says what the others take."""
    options = candidate.options()
    names = options if candidate.timed_options is None else candidate.timed_options
    return type(candidate), repr([(name, options[name]) for name in names])


def n_changed(candidate: FeatureMap) -> int:
    """How many options are not those that features have by default."""
    parameters = signature(type(candidate)).parameters
    options = candidate.options().items()
    return sum(repr(value) != repr(parameters[name].default) for name, value in options)


def timed_features(candidate: FeatureMap, study: Study) -> TimedFeatures | None:
    """Two runs on some rows of X; None if the features cannot be so few."""
    X = study.given(TIMED_ROWS)
    step = candidate.columns_at_once
    most = candidate.most_components(study) or TIMED_COLUMNS[1]
    columns = sorted({max(step, min(n, most) // step * step) for n in TIMED_COLUMNS})
    found = []
    for n in columns:
        features = candidate.for_kernel(study.kernel, n, random_state=0)
        try:
            transform = features.fit(X).transform
        except Unsuited:
            return None
        found.append(1e6 * least_seconds(partial(transform, X)) / X.shape[0])
    return TimedFeatures(
        label=candidate.label(),
        columns=(columns[0], columns[-1]),
        microseconds=(found[0], found[-1]),
    )


def solver_times() -> tuple[float, float]:
    """Seconds of one operation in a product Zᵀ Z, and of a band and a factor over D³."""
    D = SOLVER_COLUMNS
    Z = np.random.default_rng(0).standard_normal((4 * D, D))
    A = Z.T @ Z

    def solve() -> None:
        band_of(A, Z[:D, :1])
        cho_factor(A, lower=True)

    product = least_seconds(lambda: Z.T @ Z) / (len(Z) * D * D)
    return product, least_seconds(solve) / D**3


def least_seconds(work: Callable[[], Any]) -> float:
    found = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        work()
        found.append(time.perf_counter() - start)
    return min(found)

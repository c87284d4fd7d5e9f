"""The estimator that follows its own plan: the best features for the kernel and the data."""

from __future__ import annotations

import math
import warnings
from numbers import Real
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from .._arrays import Array, ArrayT, as_generator
from .._support.parameters import check_positive, positive_integer
from ..features.base import FeatureMap
from ..features.study import Study, check_kernel
from ..kernels import Kernel
from .components import least_components
from .means import Aim
from .search import (
    Assessment,
    Selection,
    assess,
    select,
    tabulate,
)
from .table import Plan, PlannedCandidate


class AutoFeatures(FeatureMap):
    """The features with the least error, chosen on a sample of the data.

    `fit` predicts the error of every family that supports the kernel (Maclaurin features with all
    sketches, polynomial sketches, Fourier, spherical and positive features, Nyström) on a sample
    of X, picks the best, and fits it. Errors are closed forms where one is known; the others are
    measured on held-out rows, with a standard error in `plan_`. With n_components, candidates that
    cannot be the best by a cheap bound, or by the first draws of a measurement, are not computed in
    full: `plan_.dropped` lists them. Candidates that you name are always computed, and `plan`
    computes all.

    Candidates that you did not name are left out if they cost far more than others, as in `plan`;
    `plan_.left_out` lists them.

    Spherical features may be chosen if all rows of X have norm one; they then refuse rows of
    another norm in `transform`.

    Parameters
    ----------
    kernel : Kernel
    n_components : int or None, default=None
        The largest number of columns. If X has fewer rows than that, Nyström features with one
        column per row are exact, and are chosen.
    tolerance : float or None, default=None
        The relative error √(E(k − k̂)²/E k²) to reach: the candidate that needs the fewest columns
        is chosen. A measured error plus twice its standard error must be within the tolerance. With
        n_components as well, that is the upper limit; if it is not enough, the best candidate with
        n_components columns is used, with a warning.
    objective : {"error", "error_per_time", "posterior"}, default="error"
        What is compared: see `plan`. "posterior" needs `fit(X, y)`; Gaussian processes on these
        features pass y on.
    time_budget, microseconds_per_row, n_rows, noise_variance : numbers or None, default=None
        As for `plan`. With a time limit the choice may differ from run to run, even with the same
        random_state.
    candidates : "all", a family, or a list of families or unfitted features, default="all"
        What may be chosen: see `plan`. ("maclaurin", "fourier", "spherical", "polynomial",
        "positive") leaves out Nyström features, whose cost per row grows with the square of the
        columns; ("all", "nystrom") compares them whatever they cost.
    cost_weight : float, default=0.0
        With c > 0, error · costᶜ is minimised, where cost counts the arithmetic operations of one
        row: c = 0.5 accepts features with twice the error if they are four times cheaper.
    max_degree, n_pairs_sample : int, default=10 and 500
        The largest degree of Maclaurin features, and the number of rows whose pairs errors are
        averaged over.
    max_components : int, default=65536
        Where the search for a tolerance ends.
    n_jobs : int or None, default=None
        Threads of `transform`, as for the features chosen.
    random_state : int, RandomState, Generator or None
    verbose : bool, default=False
        Whether to show a progress bar: with thousands of columns a plan takes some seconds.

    Attributes
    ----------
    plan_ : Plan, candidates with their errors, a readable table (`plan_.plot()`)
    chosen_ : PlannedCandidate, the row of the plan that was chosen
    features_ : the fitted estimator
    kernel_ : the kernel with data-dependent parameters resolved

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from dotsketch import AutoFeatures, Polynomial
    >>> X = load_digits().data / 64
    >>> auto = AutoFeatures(Polynomial(3), n_components=200, random_state=0).fit(X)
    >>> auto.transform(X).shape
    (1797, 200)
    >>> auto.chosen_ is auto.plan_.best
    True
    >>> auto.chosen_.relative_error < 0.01
    True
    """

    n_components: Any  # other feature maps have an int here; None: as many as the tolerance needs

    def __init__(
        self,
        kernel: Kernel,
        *,
        n_components: int | None = None,
        tolerance: float | None = None,
        objective: str = "error",
        noise_variance: float | None = None,
        time_budget: float | None = None,
        microseconds_per_row: float | None = None,
        n_rows: int | None = None,
        candidates: Any = "all",
        cost_weight: float = 0.0,
        max_degree: int = 10,
        n_pairs_sample: int = 500,
        max_components: int = 1 << 16,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: bool = False,
    ):
        self.kernel = kernel
        self.n_components = n_components
        self.tolerance = tolerance
        self.objective = objective
        self.noise_variance = noise_variance
        self.time_budget = time_budget
        self.microseconds_per_row = microseconds_per_row
        self.n_rows = n_rows
        self.candidates = candidates
        self.cost_weight = cost_weight
        self.max_degree = max_degree
        self.n_pairs_sample = n_pairs_sample
        self.max_components = max_components
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Array, y: Any = None) -> AutoFeatures:
        """Plan on a sample of X (n, d), and y if the objective needs it; fit what is best."""
        self._check_parameters()
        X = self._validate(X, reset=True)
        study_rng, features_rng = as_generator(self.random_state).spawn(2)
        study = Study(
            self.kernel,
            X,
            max_degree=self.max_degree,
            n_pairs_sample=self.n_pairs_sample,
            random_state=study_rng,
        )
        self.plan_ = self._plan(study, y)
        self.chosen_: PlannedCandidate = self.plan_.best
        candidate = self.chosen_.candidate
        if candidate.n_components > study.n_rows:
            warnings.warn(
                f"{candidate.label()} has {candidate.n_components} columns for {study.n_rows} "
                f"rows: NystromFeatures with {study.n_rows} columns represents the kernel matrix "
                "of these rows exactly. Add it to candidates, or use an exact Gaussian process.",
                UserWarning,
                stacklevel=2,
            )
        shared = {"n_jobs": self.n_jobs, "random_state": int(features_rng.integers(2**31))}
        if "n_pairs_sample" in candidate.options():  # that of the plan, whose design is kept
            shared["n_pairs_sample"] = self.n_pairs_sample
        features = candidate.for_kernel(study.resolved, candidate.n_components, **shared)
        self.features_ = features.fit_planned(X, study)
        self.kernel_ = self.features_.kernel_
        return self

    def _features(self, X: ArrayT) -> ArrayT:
        return self.features_._features(X)

    def choose_rows(self, X: Array) -> None:
        if self.features_.n_components <= X.shape[0]:  # otherwise some rows must be chosen twice
            self.features_.choose_rows(X)

    def settled(self, X: Array, y: Any = None) -> FeatureMap:
        """The features that are chosen for X: a plan for every kernel would take too long."""
        return clone(clone(self).fit(X, y).features_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = self.objective == "posterior"
        return tags

    def expected_diagonal(self, X: Array, Z: Array) -> np.ndarray:  # (n, d), (n, D) -> (n,)
        """That of the features chosen."""
        return self.features_.expected_diagonal(X, Z)

    @property
    def lacks_variance(self) -> bool:  # type: ignore[override]
        """Whether the features chosen do."""
        return self.features_.lacks_variance

    @property
    def _n_features_out(self) -> int:
        return self.features_._n_features_out

    @property
    def _is_complex(self) -> bool:
        return self.features_._is_complex

    def _plan(self, study: Study, y: Any) -> Plan:
        selection = select(self.candidates, study)
        if self.tolerance is not None:
            found = self._within(self.tolerance, study, selection)
            if found:
                return found
        n_components = self.max_components if self.n_components is None else self.n_components
        means = self._aim(y).means(study, selection.candidates, n_components)
        assessed = assess(study, selection, means, verbose=self.verbose, best_by=self.cost_weight)
        table = tabulate(study, assessed, means, self.cost_weight)
        if self.tolerance is not None:
            message = (
                f"tolerance={self.tolerance} is not reached with {n_components} columns: the least "
                f"error is {table.best.relative_error:.3g} ± {table.best.standard_error:.1g} "
                f"({table.best.label})."
            )
            if self.n_components is None:
                raise ValueError(f"{message} Raise max_components or max_degree.")
            warnings.warn(f"{message} It is used as it is.", stacklevel=3)
        return table

    def _aim(self, y: Any = None) -> Aim:
        return Aim(
            self.objective,
            y,
            self.noise_variance,
            self.time_budget,
            self.microseconds_per_row,
            self.n_rows,
        )

    def _within(self, tolerance: float, study: Study, selection: Selection) -> Plan | None:
        """Candidates that reach the tolerance, by their number of columns; None without any."""
        most = self.max_components if self.n_components is None else self.n_components
        level = 0
        assessed = Assessment([], [])
        rows: list[PlannedCandidate] = []
        while not rows and level < most:  # all at a few numbers of columns, until one reaches it
            level = min(max(8, 4 * level), most)
            assessed = assess(study, selection, level, verbose=self.verbose)
            rows = [row for row in assessed.rows if row.upper_error <= tolerance]
        found: list[PlannedCandidate] = []
        for row in sorted(rows, key=lambda row: row.relative_error):
            # Then each by bisection, as long as it may need the fewest
            fewest = min((other.n_components for other in found), default=level)
            least = least_components(study, row.candidate, tolerance, fewest, 1 + level // 4)
            if least is not None:
                found.append(least)
        if not found:
            return None
        assessed = Assessment(found, assessed.left_out)
        return tabulate(study, assessed, level, self.cost_weight, by_columns=True)

    def _check_parameters(self) -> None:
        check_kernel(self.kernel)
        if self.n_components is None and self.tolerance is None and not self._aim().is_timed:
            raise ValueError(
                "AutoFeatures needs n_components, the number of columns; or tolerance, the "
                "relative error of the kernel to reach (0.05, say); or time_budget."
            )
        for name in ("n_components", "max_components", "max_degree", "n_pairs_sample"):
            if name != "n_components" or self.n_components is not None:
                positive_integer(name, getattr(self, name))
        if self.tolerance is not None:
            check_positive("tolerance", self.tolerance)
        aim = self._aim()
        aim.check()
        if self.tolerance is not None and (self.objective != "error" or aim.is_timed):
            raise ValueError(
                "tolerance limits the kernel's error, whatever the time: use n_components or a "
                "time budget with other objectives."
            )
        if not (isinstance(self.cost_weight, Real) and 0 <= self.cost_weight < math.inf):
            raise ValueError(f"cost_weight must be a number ≥ 0; got {self.cost_weight!r}.")

    def explain(self) -> str:
        """What was chosen, why, and what comes next."""
        check_is_fitted(self)
        best = self.chosen_
        how = "predicted"
        if best.source == "measured":
            how = f"± {best.standard_error:.2g}, measured on rows held out"
        found = f"relative error {best.relative_error:.3g} ({how})"
        if best.divergence is not None:
            found = (
                f"{self.plan_.unit} held out: {best.divergence:.3g} "
                f"(± {best.divergence_error:.2g}, measured), {found}"
            )
        lines = [
            f"{best.label}: {best.n_components} columns, {found}, the best of "
            f"{len(self.plan_) + len(self.plan_.dropped)} candidates."
        ]
        if best.seconds is not None:
            lines.append(
                f"{best.microseconds:.3g} µs per row, {best.seconds:.3g} s for features and "
                f"solver. {self.plan_.cost}."
            )
        others = [row for row in self.plan_[1:] if row.family != best.family]
        dropped = [one for one in self.plan_.dropped if one.candidate.family != best.family]
        if dropped and not others:
            lines.append(f"Next family: {dropped[0]}.")
        if others:
            lines.append(
                f"Next family: {others[0].label}, {others[0].n_components} columns, "
                f"{others[0].value:.3g}."
            )
        limit = self.plan_.limit
        if limit is not None and limit.relative_error > 0:
            times = best.relative_error / limit.relative_error
            lines.append(
                f"{times:.2g} times the {limit} ({limit.relative_error:.3g}, between "
                f"{limit.lowest:.2g} and {limit.highest:.2g})."
            )
        lines += map(str, self.plan_.left_out)
        return "\n".join(lines)

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        text: str = super().__repr__(N_CHAR_MAX)
        try:
            return f"{text}\n{self.explain()}"
        except NotFittedError:
            return text

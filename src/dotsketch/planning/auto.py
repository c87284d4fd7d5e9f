"""The estimator that follows its own plan: the best features for the kernel and the data."""

from __future__ import annotations

import warnings
from copy import copy
from typing import Any

from sklearn.utils.validation import check_is_fitted

from .._arrays import Array, as_generator
from .._support.parameters import check_positive, positive_integer
from ..features import FeatureMap, Study, check_kernel
from ..kernels import Kernel
from .components import least_components
from .plan import Plan, PlannedCandidate, compare, ordered


class AutoFeatures(FeatureMap):
    """The features with the least error, chosen on a sample of the data.

    `fit` compares 6 to 10 candidates of all families that support the kernel (Maclaurin features,
    polynomial sketches, Fourier, spherical and positive features, Nyström) on a sample of X, picks
    the one with the least predicted error, and fits it. Errors are closed forms where one is known;
    the others are measured on held-out rows. `plan` makes the same table without a fit.

    Spherical features may be chosen if all rows of X have norm one; they then refuse rows of
    another norm in `transform`.

    Parameters
    ----------
    kernel : Kernel
    n_components : int or None, default=None
        The largest number of columns.
    tolerance : float or None, default=None
        The relative error √(E(k − k̂)²/E k²) to reach: the candidate that needs the fewest columns
        is chosen. The predicted error plus twice its standard error must be within the tolerance.
        With n_components as well, that is the upper limit; if it is not enough, the best candidate
        with n_components columns is used, with a warning.
    candidates : "all", a family, or a list of families or unfitted features, default="all"
        What may be chosen: see `plan`. ("maclaurin", "fourier", "spherical", "polynomial",
        "positive") leaves out Nyström features, whose cost per row grows with the square of the
        columns; ("all", "nystrom") compares them whatever they cost.
    n_pairs_sample : int, default=500
        The number of rows whose pairs errors are averaged over.
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
    plan_: Plan
    chosen_: PlannedCandidate
    features_: FeatureMap

    def __init__(
        self,
        kernel: Kernel,
        *,
        n_components: int | None = None,
        tolerance: float | None = None,
        candidates: Any = "all",
        n_pairs_sample: int = 500,
        max_components: int = 1 << 16,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: bool = False,
    ):
        self.kernel = kernel
        self.n_components = n_components
        self.tolerance = tolerance
        self.candidates = candidates
        self.n_pairs_sample = n_pairs_sample
        self.max_components = max_components
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Array, y: Any = None) -> AutoFeatures:
        """Plan on a sample of X (n, d), and fit what is best."""
        check_kernel(self.kernel)
        if self.n_components is None and self.tolerance is None:
            raise ValueError(
                "AutoFeatures needs n_components, the number of columns; or tolerance, the "
                "relative error of the kernel to reach (0.05, say)."
            )
        name = "max_components" if self.n_components is None else "n_components"
        most = positive_integer(name, getattr(self, name))
        if self.tolerance is not None:
            check_positive("tolerance", self.tolerance)
        fitted = copy(self)  # a fit that fails leaves this estimator as it was
        X = fitted._validate(X, reset=True)
        study_rng, features_rng = as_generator(self.random_state).spawn(2)
        kernel = self.kernel.named(getattr(fitted, "feature_names_in_", None))
        study = Study(kernel, X, n_pairs_sample=self.n_pairs_sample, random_state=study_rng)
        plan = self._within_tolerance(study, most)
        if plan is None:
            plan = compare(study, self.candidates, most, verbose=self.verbose)
            self._tell_missed(plan.best, most)
        chosen = plan.best.candidate
        shared = {"n_jobs": self.n_jobs, "random_state": int(features_rng.integers(2**31))}
        features = chosen.for_kernel(study.resolved, chosen.n_components, **shared).fit(X)
        fitted.plan_, fitted.chosen_, fitted.features_ = plan, plan.best, features
        self.__dict__ = fitted.__dict__
        return self

    def _within_tolerance(self, study: Study, most: int) -> Plan | None:
        """Candidates that reach the tolerance, by their number of columns; None without any."""
        if self.tolerance is None:
            return None
        level, table = 0, None
        reached: list[PlannedCandidate] = []
        while not reached and level < most:  # all at a few numbers of columns, until one is enough
            level = min(max(8, 4 * level), most)
            table = compare(study, self.candidates, level, verbose=self.verbose)
            reached = [row for row in table if row.upper_error <= self.tolerance]
        least: list[PlannedCandidate] = []
        for row in reached:  # then each by bisection, as long as it may need the fewest
            fewest = min((other.n_components for other in least), default=level)
            first = min(1 + level // 4, fewest)
            smallest = least_components(study, row.candidate, self.tolerance, fewest, first)
            least += [] if smallest is None else [smallest]
        if table is None or not least:
            return None
        return ordered(least, study, table.left_out, by_columns=True)

    def _tell_missed(self, best: PlannedCandidate, most: int) -> None:
        """Warn, or raise without n_components, if there is a tolerance that was not reached."""
        if self.tolerance is None:
            return
        message = (
            f"tolerance={self.tolerance} is not reached with {most} columns: the least error is "
            f"{best.relative_error:.3g} ± {best.standard_error:.1g} ({best.label})."
        )
        if self.n_components is None:
            raise ValueError(f"{message} Raise max_components or the tolerance.")
        warnings.warn(f"{message} It is used as it is.", stacklevel=3)

    @property
    def lacks_variance(self) -> bool:  # type: ignore[override]
        """Whether the features chosen do."""
        return self.features_.lacks_variance

    @property
    def kernel_(self) -> Any:  # type: ignore[override]
        return self.features_.kernel_

    @property
    def design_(self) -> Any:
        return self.features_.design_

    @property
    def weights_(self) -> Any:
        return self.features_.weights_

    def explain(self) -> str:
        """What was chosen, why, and what comes next."""
        check_is_fitted(self)
        best, limit = self.chosen_, self.plan_.limit
        lines = [
            f"{best.label}: {best.n_components} columns, relative error {best.relative_error:.3g} "
            f"± {best.standard_error:.2g} ({best.source}), the best of {len(self.plan_)} "
            "candidates."
        ]
        for other in [row for row in self.plan_ if row.family != best.family][:1]:
            columns = f"{other.n_components} columns, {other.relative_error:.3g}"
            lines.append(f"Next family: {other.label}, {columns}.")
        if limit is not None and limit.relative_error > 0:
            lines.append(
                f"{best.relative_error / limit.relative_error:.2g} times the {limit} "
                f"({limit.relative_error:.3g}, between {limit.lowest:.2g} and "
                f"{limit.highest:.2g})."
            )
        return "\n".join([*lines, *self.plan_.left_out])

"""Which candidate is best, and the columns needed to reach a tolerance."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from numbers import Real
from typing import Any, NamedTuple

from .._arrays import Array, positive_integer
from .._support.progress import progress
from ..kernels import DotProductKernel
from .candidates import Candidate, MaclaurinCandidate, Setup
from .families import FAMILIES, all_candidates
from .study import Study
from .table import LeftOut, Plan, PlannedCandidate

# What nobody asked for is compared up to these: some ten seconds and a small part of the memory
MOST_SETUP_OPERATIONS = 1e11
MOST_SETUP_BYTES = 1 << 30
MOST_ROW_OPERATIONS = 1e7
MOST_ROW_RATIO = 100.0  # to the cheapest candidate, if there are more operations than these


def plan(
    kernel: DotProductKernel,
    X: Array,
    *,
    n_components: int,
    candidates: str | Iterable[str | Candidate] = "all",
    cost_weight: float = 0.0,
    max_degree: int = 10,
    n_pairs_sample: int = 500,
    random_state: Any = 0,
    verbose: bool = False,
) -> Plan:
    """The predicted error and cost of every candidate on a sample of X (n, d).

    All are compared at the same number of returned real columns. `candidates` is "all"; the name
    of a family or a list of names ("maclaurin", "polynomial", "fourier", "spherical",
    "positive", "nystrom"); or a list of `Candidate` objects. Families that do not support the
    kernel, and candidates that need more than n_components columns, are left out.

    Errors are closed forms wherever one is known; others (SORF, Nyström) are measured on rows
    held out, and marked so, with a standard error. With a cost_weight c > 0 the order is that of
    error · costᶜ. `verbose` shows a progress bar.

    Cost counts in any case: what "all" stands for leaves out candidates whose set-up takes more
    than 10¹¹ operations (Nyström features beyond about 2100 columns, orthogonal frequencies of
    very wide rows) or 1 GiB, or whose features take more than 10⁷ operations per row and 100
    times those of the cheapest candidate. The plan lists them as `left_out`. A family that is
    named, as in candidates=["all", "nystrom"], is always compared.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from dotsketch import Gaussian, plan
    >>> table = plan(Gaussian(), load_digits().data, n_components=300, candidates="maclaurin")
    >>> table.best.relative_error < table[-1].relative_error
    True
    """
    n_components = positive_integer("n_components", n_components)
    study = Study(
        kernel,
        X,
        max_degree=max_degree,
        n_pairs_sample=n_pairs_sample,
        random_state=random_state,
    )
    assessed = assess(study, select(candidates, study), n_components, verbose=verbose)
    return tabulate(study, assessed, n_components, cost_weight)


class Selection(NamedTuple):
    """The candidates of a plan, and those among them that nobody named."""

    candidates: list[Candidate]
    unasked: frozenset[Candidate]


class Assessment(NamedTuple):
    """The predictions at one number of columns, and what was too costly to be made."""

    rows: list[PlannedCandidate]
    left_out: list[LeftOut]


def tabulate(
    study: Study,
    assessed: Assessment,
    n_components: int,
    cost_weight: float,
    *,
    by_columns: bool = False,
) -> Plan:
    """The plan of an assessment, which says on how many rows it stands; not an empty one."""
    if not assessed.rows:
        why = "".join(f" {line}" for line in assessed.left_out)
        raise ValueError(f"n_components={n_components} is too few for every candidate.{why}")
    return Plan(
        assessed.rows,
        cost_weight,
        by_columns=by_columns,
        left_out=assessed.left_out,
        n_pairs_sample=len(study.sample),
        reduced_from=study.n_pairs_sample if study.is_reduced else None,
    )


def select(candidates: Any, study: Study) -> Selection:
    """The candidates that "all", names of families or a list ask for, as far as they suit."""
    asked: list[Any] = [candidates] if isinstance(candidates, str) else list(candidates)
    if not asked:
        raise ValueError("candidates is empty.")
    found: list[Candidate] = []
    for one in asked:
        if isinstance(one, Candidate):
            if not one.serves(study):
                raise ValueError(f"{one} does not support {study.kernel} {_limits(study)}.")
            found.append(one)
        elif one == "all" or one in FAMILIES:
            found += all_candidates(study, one)
        else:
            names = ", ".join(map(repr, FAMILIES))
            raise ValueError(
                f'candidates must be "all", families ({names}) or a list of Candidate; got {one!r}.'
            )
    if not found:
        raise ValueError(
            f"No candidate of {candidates!r} supports {study.kernel} {_limits(study)}."
        )
    named = {candidate for candidate in found if candidate in asked or candidate.family in asked}
    return Selection(list(dict.fromkeys(found)), frozenset(found) - named)


def _limits(study: Study) -> str:
    return f"on these data up to max_degree={study.max_degree}"


def assess(
    study: Study, selection: Selection, n_components: int, *, verbose: bool = False
) -> Assessment:
    """The predictions of all candidates that have one at so many columns and are not too costly."""
    candidates, left_out = [], []
    for candidate in selection.candidates:
        reason = _costly_setup(candidate.setup(study, n_components))
        if reason and candidate in selection.unasked:
            left_out.append(LeftOut(candidate, n_components, reason))
        else:
            candidates.append(candidate)
    study.prepare_moments(
        (c.sketch, c.output, c.mean_split) for c in candidates if isinstance(c, MaclaurinCandidate)
    )
    rows = []
    with progress(f"candidates, {n_components} columns", len(candidates), verbose) as tell:
        for candidate in candidates:
            row = candidate.predict(study, n_components)
            if row is not None:
                rows.append(row)
            tell(1)
    limit = max(MOST_ROW_OPERATIONS, MOST_ROW_RATIO * min((row.cost for row in rows), default=0.0))
    costly = [row for row in rows if row.cost > limit and row.candidate in selection.unasked]
    left_out += [
        LeftOut(row.candidate, n_components, f"{row.cost:.2g} operations per row") for row in costly
    ]
    return Assessment([row for row in rows if row not in costly], left_out)


def _costly_setup(setup: Setup) -> str:
    """Why a set-up is too much for what nobody named; empty if it is not."""
    if setup.operations <= MOST_SETUP_OPERATIONS and setup.bytes <= MOST_SETUP_BYTES:
        return ""
    return f"its set-up takes {setup.operations:.2g} operations and {setup.bytes / 2**30:.2g} GiB"


def required_components(
    kernel: DotProductKernel,
    X: Array,
    *,
    tolerance: float,
    sketch: str = "tensor_srht",
    output: str = "real",
    coefficients: str = "taylor",
    mean_split: bool = False,
    max_degree: int = 10,
    n_pairs_sample: int = 1000,
    max_components: int = 1 << 18,
    random_state: Any = 0,
) -> int:
    """The least n_components of `MaclaurinFeatures` with a predicted error within tolerance.

    `AutoFeatures(kernel, tolerance=...)` does it for every family of features.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from dotsketch import Polynomial, required_components
    >>> X = load_digits().data / 50
    >>> coarse, fine = (
    ...     required_components(Polynomial(2), X, tolerance=t) for t in (0.1, 0.05)
    ... )
    >>> coarse < fine
    True
    """
    candidate = MaclaurinCandidate(sketch, output, "optimal", coefficients, mean_split)
    study = Study(
        kernel,
        X,
        max_degree=max_degree,
        n_pairs_sample=n_pairs_sample,
        random_state=random_state,
    )
    found = least_components(study, candidate, tolerance, max_components)
    if found is None:
        step = candidate.columns_at_once
        row = candidate.predict(study, max_components // step * step)
        error = math.nan if row is None else row.relative_error
        raise ValueError(
            f"tolerance={tolerance} is not reached with {max_components} components: the "
            f"predicted error is {error:.3g}, truncated at max_degree={max_degree}. Raise "
            "max_degree, or another sketch or coefficients may do."
        )
    return found.n_components


def least_components(
    study: Study,
    candidate: Candidate,
    tolerance: float,
    max_components: int,
    min_components: int = 1,
) -> PlannedCandidate | None:
    """The candidate with the least number of columns whose `upper_error` is within tolerance.

    The search begins at min_components; None if max_components are not enough.
    """
    if not (isinstance(tolerance, Real) and tolerance > 0):
        raise ValueError(f"tolerance must be a positive number; got {tolerance!r}.")
    step = candidate.columns_at_once
    known: dict[int, PlannedCandidate | None] = {}

    def enough(units: int) -> bool:
        if units not in known:
            known[units] = candidate.predict(study, units * step)
        row = known[units]
        return row is not None and row.upper_error <= tolerance

    most = max_components // step
    low, high = 0, min(max(1, min_components // step), most)
    if high < 1:
        return None
    while not enough(high):
        if high == most:
            return None
        low, high = high, min(2 * high, most)
    high = bisect(enough, low, high)
    # The variance of structured sketches is not quite monotone: look a little further down
    while not candidate.is_monotone and any(enough(high - k) for k in range(1, min(8, high))):
        high -= 1
    return known[high]


def bisect(enough: Callable[[int], bool], low: int, high: int) -> int:
    """The least number above low that is enough, as high is."""
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high

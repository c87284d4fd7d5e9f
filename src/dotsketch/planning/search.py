"""Which candidate is best."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from .._arrays import Array, as_generator
from .._support.parameters import positive_integer
from .._support.progress import progress
from ..features import FAMILIES, FeatureMap
from ..features.base import Setup
from ..features.errors import Unsuited
from ..features.samples import check_rows
from ..features.study import Study, check_kernel
from ..kernels import Kernel
from ..rows import in_memory_sample, is_collection
from .contest import Contest
from .limit import best_possible_later
from .means import MOST_COMPONENTS, Aim, Means
from .table import Dropped, LeftOut, Plan, PlannedCandidate

# What nobody asked for is compared up to these: some ten seconds and a small part of the memory
MOST_SETUP_OPERATIONS = 1e11
MOST_SETUP_BYTES = 1 << 30
MOST_ROW_OPERATIONS = 1e7
MOST_ROW_RATIO = 100.0  # to the cheapest candidate, if there are more operations than these


def plan(
    kernel: Kernel,
    X: Array,
    *,
    n_components: int | None = None,
    objective: str = "error",
    y: Any = None,
    candidates: str | Iterable[str | FeatureMap] = "all",
    cost_weight: float = 0.0,
    noise_variance: float | None = None,
    time_budget: float | None = None,
    microseconds_per_row: float | None = None,
    n_rows: int | None = None,
    max_degree: int = 10,
    n_pairs_sample: int = 500,
    random_state: Any = 0,
    verbose: bool = False,
) -> Plan:
    """The predicted error and cost of every candidate on a sample of X, best first.

    All candidates are compared at the same number of returned real columns. Errors are closed forms
    where one is known; others (SORF, Nyström) are measured on held-out rows and have a standard
    error. The last line is the best possible error with this number of columns (`plan.limit`), for
    up to 512 columns and a quarter of the rows: see `BestPossible`.

    Parameters
    ----------
    kernel : Kernel
    X : array of shape (n, d)
        Training rows, of which a sample is used.
    n_components : int or None, default=None
        The number of columns; with a time limit, the largest number.
    objective : {"error", "error_per_time", "posterior"}, default="error"
        What is compared:

        - "error": the relative error of the kernel at equal columns
        - "error_per_time": the same at equal time per row. Every candidate has as many columns as
          it can compute in `microseconds_per_row`
        - "posterior": how far the predictions of a Gaussian process on the features are from those
          of the exact one, KL(approximate ‖ exact) in nats per row. Both learn from the same sample
          of at most 4096 rows and predict 200 others (or a fifth of the rows); every candidate is
          drawn 3 to 16 times. With more rows than in the sample a posterior is sharper, and needs
          more columns for the same divergence
    y : array of shape (n,) or (n, m), or None
        Targets, for objective="posterior".
    candidates : str or list, default="all"
        "all"; the name of a family or a list of names ("maclaurin", "polynomial", "fourier",
        "spherical", "positive", "nystrom"); or a list of unfitted estimators, whose kernel and
        number of columns are replaced by those of the plan. Families that do not support the
        kernel, and candidates that need more than n_components columns, are left out, by "all" also
        expensive ones: more than 10¹¹ operations (Nyström features beyond about 4500 columns) or
        1 GiB of set-up, or more than 10⁷ operations per row and 100 times those of the cheapest
        candidate. `plan.left_out` lists them; a family that is named, as in ["all", "nystrom"], is
        always compared.
    cost_weight : float, default=0.0
        With c > 0, candidates are ordered by error · costᶜ.
    noise_variance : float or None, default=None
        For objective="posterior", in units of the standardised y. None maximises the marginal
        likelihood of the exact process.
    time_budget : float or None, default=None
        Seconds that the features **and** the direct solver of a Gaussian process may take for
        `n_rows` rows; the plan itself is not included. Every candidate has as many columns as fit
        into it, and at most one per row. Times are measured in small runs, about a second in total,
        and kept as `plan.cost`. They vary, so plans by time are not reproducible.
    microseconds_per_row : float or None, default=None
        For objective="error_per_time".
    n_rows : int or None, default=None
        The number of rows to be fitted, if X is only a sample of them.
    max_degree : int, default=10
        The largest degree of Maclaurin features.
    n_pairs_sample : int, default=500
        The number of rows whose pairs errors are averaged over.
    random_state : int, RandomState, Generator or None, default=0
    verbose : bool, default=False
        Whether to show a progress bar.

    Returns
    -------
    Plan
        A sequence of `PlannedCandidate`, which prints as a table.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from dotsketch import Gaussian, plan
    >>> table = plan(Gaussian(), load_digits().data, n_components=300, candidates="maclaurin")
    >>> table.best.relative_error < table[-1].relative_error
    True
    """
    if is_collection(X):
        X = in_memory_sample(X, 10_000, as_generator(random_state))
    check_kernel(kernel)  # before X: the two are easily swapped
    aim = Aim(objective, y, noise_variance, time_budget, microseconds_per_row, n_rows)
    aim.check()
    if n_components is None and not aim.is_timed:
        raise ValueError("Give n_components, or a budget of time: see time_budget.")
    if n_components is not None:
        n_components = positive_integer("n_components", n_components)
    study = Study(
        kernel,
        check_rows(X),
        max_degree=max_degree,
        n_pairs_sample=n_pairs_sample,
        random_state=random_state,
    )
    selection = select(candidates, study)
    means = aim.means(study, selection.candidates, n_components or MOST_COMPONENTS)
    return tabulate(study, assess(study, selection, means, verbose=verbose), means, cost_weight)


class Selection(NamedTuple):
    """The candidates of a plan, and those among them that nobody named."""

    candidates: list[FeatureMap]
    unasked: list[FeatureMap]


class Assessment(NamedTuple):
    """The predictions at one number of columns, what was too costly, and what was not worth it."""

    rows: list[PlannedCandidate]
    left_out: list[LeftOut]
    dropped: Sequence[Dropped] = ()


def tabulate(
    study: Study,
    assessed: Assessment,
    means: Means | int,
    cost_weight: float,
    *,
    by_columns: bool = False,
) -> Plan:
    """The plan of an assessment, which says on how many rows it stands; not an empty one."""
    means = Means(means) if isinstance(means, int) else means
    if not assessed.rows:
        why = "".join(f" {line}" for line in assessed.left_out)
        verb = "is" if means.budget is None else "are"
        raise ValueError(f"{means} {verb} too few for every candidate.{why}")
    best = Plan(assessed.rows, cost_weight, by_columns=by_columns).best
    return Plan(
        assessed.rows,
        cost_weight,
        by_columns=by_columns,
        left_out=assessed.left_out,
        dropped=assessed.dropped,
        n_pairs_sample=len(study.sample),
        reduced_from=study.n_pairs_sample if study.is_reduced else None,
        objective=means.objective,
        posterior=None if means.posterior is None else means.posterior.setting,
        cost=None if means.budget is None else means.budget.cost,
        limit=best_possible_later(study, best.n_components),
    )


def variants(study: Study, family: str = "all") -> list[FeatureMap]:
    """What is worth comparing of a family (or of all), as far as it suits kernel and data."""
    chosen = FAMILIES.values() if family == "all" else [FAMILIES[family]]
    return [candidate for estimator in chosen for candidate in estimator.variants(study)]


def select(candidates: Any, study: Study) -> Selection:
    """The candidates that "all", names of families or a list ask for, as far as they suit."""
    single = isinstance(candidates, (str, FeatureMap))
    asked: list[Any] = [candidates] if single else list(candidates)
    if not asked:
        raise ValueError("candidates is empty.")
    found: dict[Any, FeatureMap] = {}
    named = set()
    for one in asked:
        if isinstance(one, FeatureMap) and hasattr(one, "family"):
            try:
                one.for_kernel(study.kernel, one.n_components).check_study(study)
            except Unsuited as error:
                raise ValueError(
                    f"{one.label()} does not support {study.kernel} on these data: {error}."
                ) from None
            chosen: list[FeatureMap] = [one]
        elif one == "all" or (isinstance(one, str) and one in FAMILIES):
            chosen = variants(study, one)
        else:
            names = ", ".join(map(repr, FAMILIES))
            raise ValueError(
                f'candidates must be "all", families ({names}) or a list of unfitted features; '
                f"got {one!r}."
            )
        found |= {identity(candidate): candidate for candidate in chosen}
        named |= set(map(identity, chosen)) if one != "all" else set()
    if not found:
        raise ValueError(
            f"No candidate of {candidates!r} supports {study.kernel} on these data up to "
            f"max_degree={study.max_degree}."
        )
    unasked = [candidate for key, candidate in found.items() if key not in named]
    return Selection(list(found.values()), unasked)


def identity(candidate: FeatureMap) -> tuple[type[FeatureMap], str]:
    """Equal for candidates that differ at most in the kernel and the number of columns."""
    return type(candidate), repr(sorted(candidate.options().items()))


def at_columns(candidate: FeatureMap, study: Study, n_components: int) -> FeatureMap | None:
    """The candidate with the kernel of the study and at most so many columns, if it has any."""
    n_components = min(n_components, candidate.most_components(study) or n_components)
    n = n_components // candidate.columns_at_once * candidate.columns_at_once
    return candidate.for_kernel(study.kernel, n) if n else None


def predict(candidate: FeatureMap, study: Study, n_components: int) -> PlannedCandidate | None:
    """The error and cost with at most n_components columns; None if they are too few."""
    described = at_columns(candidate, study, n_components)
    if described is None:
        return None
    try:
        return PlannedCandidate.of(described, study)
    except Unsuited:
        return None


def assess(
    study: Study,
    selection: Selection,
    means: Means | int,
    *,
    verbose: bool = False,
    best_by: float | None = None,
) -> Assessment:
    """The predictions of all candidates that have one with these means and are not too costly.

    `means` may be a number of columns.

    With `best_by`, a cost_weight, those that nobody named and that cannot be the best are dropped.
    """
    means = Means(means) if isinstance(means, int) else means
    chosen, droppable, left_out = _affordable(study, selection, means)
    contest = Contest(
        study,
        chosen,
        set() if best_by is None else droppable,
        cost_weight=best_by or 0.0,
        most_operations=MOST_ROW_OPERATIONS,
        posterior=means.posterior,
    )
    columns = "" if means.budget is not None else f", {means.n_components} columns"
    with progress(f"candidates{columns}", len(chosen), verbose) as tell:
        for i in contest.order():
            contest.compare(i)
            tell(1)
    costs = [row.cost for row in contest.rows.values()]
    if costs and min(max(costs), MOST_ROW_RATIO * min(costs)) > MOST_ROW_OPERATIONS:
        contest.compare_dropped()  # the cheapest of all decides whether another costs too much
        costs = [row.cost for row in contest.rows.values()]
    limit = max(MOST_ROW_OPERATIONS, MOST_ROW_RATIO * min(costs, default=0.0))
    rows = []
    for i, row in sorted(contest.rows.items()):
        if row.cost > limit and i in droppable:
            left_out.append(LeftOut(row.candidate, f"{row.cost:.2g} operations per row"))
        else:
            rows.append(means.timed(row))
    return Assessment(rows, left_out, list(contest.dropped.values()))


def _affordable(
    study: Study, selection: Selection, means: Means
) -> tuple[list[FeatureMap], set[int], list[LeftOut]]:
    """The candidates with their columns, those among them that nobody named, and the others."""
    chosen: list[FeatureMap] = []
    left_out: list[LeftOut] = []
    unasked = set(map(id, selection.unasked))
    droppable: set[int] = set()
    for candidate in selection.candidates:
        described = at_columns(candidate, study, means.columns(candidate))
        if described is None:
            if means.budget is not None:
                least = candidate.for_kernel(study.kernel, candidate.columns_at_once)
                left_out.append(LeftOut(least, "takes more time than there is", is_final=True))
            continue
        reason = _costly_setup(described.setup(study.dimension))
        if reason and id(candidate) in unasked:
            left_out.append(LeftOut(described, reason))
            continue
        if id(candidate) in unasked:
            droppable.add(len(chosen))
        chosen.append(described)
    return chosen, droppable, left_out


def _costly_setup(setup: Setup) -> str:
    """Why a set-up is too much for what nobody named; empty if it is not."""
    if setup.operations <= MOST_SETUP_OPERATIONS and setup.bytes <= MOST_SETUP_BYTES:
        return ""
    return f"its set-up takes {setup.operations:.2g} operations and {setup.bytes / 2**30:.2g} GiB"

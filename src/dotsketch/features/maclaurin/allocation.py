"""How a budget of projections is spread over the degrees of an expansion.

The mean squared error over pairs of data is, for coefficients θ_b (1 is the Taylor coefficient)
and projections D_b of every block b,

    E (k − Σ_b θ_b t_b)² + Σ_b θ_b² V_b(D_b),    t_b = ω_b(x) ω_b(y) ⟨u(x), u(y)⟩^{n_b},

squared bias plus variance. `ExpansionMoments` holds the averages that this depends on;
`allocate` minimises it over the truncation, the projections, and (if asked) the
coefficients, without looking at the data again.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np
from scipy.linalg import LinAlgError, cholesky, solve_triangular
from scipy.optimize import nnls
from sklearn.isotonic import isotonic_regression

from ..._support.parameters import one_of
from ..._support.stored import MOST_COLUMNS, MOST_DEGREE, Count, array, stored
from .moments import ExpansionMoments

COEFFICIENTS = ("taylor", "fitted")
FINISHED = 16  # allocations whose coefficients and projections are fitted to each other


@stored
@dataclass(frozen=True)
class Allocation:
    """Blocks with their degree, projections, coefficient and share of the error.

    `coefficients` multiply the Taylor coefficients: 1 throughout unless they were fitted or the
    degrees drawn at random. `exact` marks blocks that are written out in monomials.
    """

    degrees: Annotated[np.ndarray, array("iu", "blocks", below=MOST_DEGREE + 1)]
    projections: Annotated[np.ndarray, array("iu", "blocks", below=MOST_COLUMNS + 1)]
    coefficients: Annotated[np.ndarray, array("f", "blocks")]
    exact: Annotated[np.ndarray, array("b", "blocks")]
    variances: Annotated[np.ndarray, array("f", "blocks")]
    squared_bias: float
    kernel_square: float
    # projections that nothing is left to spend on: zero columns
    unused: Annotated[int, Count(MOST_COLUMNS)] = 0

    @property
    def variance(self) -> float:
        return float(self.variances.sum())

    @property
    def expected_squared_error(self) -> float:
        """Mean of E(k − k̂)² over pairs of distinct rows."""
        return self.squared_bias + self.variance

    @property
    def expected_relative_error(self) -> float:
        """√(E(k − k̂)² / E k²): the relative Frobenius error to expect."""
        if self.expected_squared_error == 0:
            return 0.0
        with np.errstate(divide="ignore"):  # a kernel that is zero
            return float(np.sqrt(np.divide(self.expected_squared_error, self.kernel_square)))

    @property
    def max_degree(self) -> int:
        return int(self.degrees[self.projections > 0].max(initial=0))

    def to_dict(self) -> dict[str, list[Any]]:
        """The table by columns."""
        share = self.variances / (self.expected_squared_error or 1.0)
        return {
            "degree": self.degrees.tolist(),
            "projections": self.projections.tolist(),
            "coefficient": self.coefficients.tolist(),
            "exact": self.exact.tolist(),
            "share_of_error": share.tolist(),
        }

    def __repr__(self) -> str:
        lines = ["degree  projections  coefficient  share of error"]
        for n, D, theta, exact, share in zip(*self.to_dict().values(), strict=True):
            if D == 0:
                continue
            note = "  exact" if exact else ""
            lines.append(f"{n:6d}  {D:11d}  {theta:11.4g}  {share:14.1%}{note}")
        bias = self.squared_bias / (self.expected_squared_error or 1.0)
        lines.append(f"truncation bias: {bias:.1%} of the squared error")
        lines.append(f"expected relative error: {self.expected_relative_error:.4g}")
        return "\n".join(lines)


def evaluate(
    moments: ExpansionMoments,
    projections: np.ndarray,
    exact: np.ndarray,
    coefficients: np.ndarray | None = None,
) -> Allocation:
    """The predicted error of given projections (0 leaves a block out) and coefficients."""
    used = projections > 0
    theta = used * (1.0 if coefficients is None else coefficients)
    sketched = used & ~exact & (moments.degrees > 0)
    variances = np.zeros(len(projections))
    for b in np.flatnonzero(sketched).tolist():
        variances[b] = theta[b] ** 2 * moments.variance(b, int(projections[b]))
    return Allocation(
        degrees=moments.degrees,
        projections=projections,
        coefficients=theta,
        exact=exact,
        variances=variances,
        squared_bias=moments.squared_bias(theta),
        kernel_square=moments.kernel_square,
    )


def fitted_coefficients(
    moments: ExpansionMoments, projections: np.ndarray, exact: np.ndarray
) -> np.ndarray:
    """argmin over θ ≥ 0 of the squared error: nonnegative least squares, diagonal penalty."""
    used = np.flatnonzero(projections > 0).tolist()
    if not used:
        return np.zeros(len(projections))
    variances = np.array(
        [
            0.0 if exact[b] or moments.degrees[b] == 0 else moments.variance(b, int(projections[b]))
            for b in used
        ]
    )
    quadratic = moments.gram[np.ix_(used, used)] + np.diag(variances)
    linear = moments.gram[used].sum(axis=1) + moments.tail[used]
    scale = 1 / np.sqrt(np.maximum(np.diag(quadratic), np.finfo(float).tiny))
    quadratic = scale[:, None] * quadratic * scale
    theta = np.zeros(len(projections))
    for jitter in (0.0, 1e-14, 1e-12, 1e-10):
        try:
            L = cholesky(quadratic + jitter * np.eye(len(used)), lower=True)
        except LinAlgError:
            continue
        target = solve_triangular(L, scale * linear, lower=True)
        theta[used] = scale * nnls(L.T, target)[0]
        return theta
    theta[used] = 1.0  # as good as singular: the Taylor coefficients
    return theta


def random_projections(
    degrees: np.ndarray, budget: int, base: float, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Kar and Karnick: degrees n ≥ 1 drawn with probability ∝ base^−(n+1).

    Returns the projections of every block and the coefficients D_n/(D μ(n)) that make the
    approximation unbiased for the series up to the largest degree.
    """
    constant = degrees == 0
    measure = np.where(degrees > 0, float(base) ** -(degrees + 1.0), 0.0)
    if not measure.any():
        return constant.astype(int), np.where(constant, 1.0, 0.0)
    measure = measure / measure.sum()
    projections = rng.multinomial(budget, measure)
    theta = np.divide(projections, budget * measure, out=np.zeros(len(measure)), where=measure > 0)
    return projections + constant, np.where(constant, 1.0, theta)


def allocate(
    moments: ExpansionMoments,
    budget: int,
    *,
    max_degree: int = 10,
    coefficients: str = "taylor",
    writes_out: bool = True,
) -> Allocation:
    """The best allocation of `budget` projections (Algorithms 2 and 3, and beyond).

    For every truncation up to max_degree and every choice of monomials that are written out, the
    rest of the budget goes where it lowers the convex surrogate of the variance most: the greedy
    loop, by one sort. The best by the true objective is returned. Degrees with a zero coefficient
    get nothing; every other degree up to the truncation gets at least one projection. Without
    `writes_out` all powers are sketched, as in the paper.
    """
    one_of("coefficients", coefficients, COEFFICIENTS)
    top = int(moments.degrees.max())
    search = AllocationSearch(moments, budget, writes_out)
    candidates = search.allocations(range(1, min(max_degree, top) + 1))
    if coefficients == "fitted":
        promising = _most_promising(moments, candidates)
        candidates = [_fit(moments, search, start) for start in promising]
    best = search.constant_only()
    for candidate in candidates:
        if best is None or _better(candidate, best):
            best = candidate
    if best is None:
        needed = len({n for n in moments.degrees.tolist() if n <= 1})
        raise ValueError(
            f"{budget} projections are too few: truncation at degree 1 needs at least {needed} "
            "(one for every degree and the constant); raise n_components."
        )
    return replace(best, unused=budget - int(best.projections.sum()))


def _better(one: Allocation, other: Allocation) -> bool:
    """Whether the error is less by more than rounding, or the same with more blocks in use."""
    margin = 1e-9 * other.expected_squared_error + 1e-24 * other.kernel_square
    difference = one.expected_squared_error - other.expected_squared_error
    more = np.count_nonzero(one.projections) > np.count_nonzero(other.projections)
    return bool(difference < -margin or (more and difference <= margin))


class AllocationSearch:
    """Solutions of the allocation problem for every truncation of one set of moments."""

    def __init__(self, moments: ExpansionMoments, budget: int, writes_out: bool = True):
        self.moments = moments
        self.budget = budget
        # the place of a block among those of its degree
        degrees = moments.degrees
        self.ranks = np.array([int(np.sum(degrees[:b] == n)) for b, n in enumerate(degrees)])
        possible = [
            n
            for n in sorted(set(degrees[degrees > 0].tolist()))
            if writes_out and moments.exact_projections(n) <= budget
        ]
        choices = _exact_choices(possible)
        self.exact_choices = [(choice, np.isin(degrees, list(choice))) for choice in choices]
        D = np.arange(1, max(budget, 1) + 1)
        self.gains: dict[int, np.ndarray] = {}
        for b in np.flatnonzero(moments.degrees > 0).tolist():
            surrogate = moments.sketch.surrogate(moments.terms[b], D, moments.dimension)
            # isotonic gains are the slopes of the largest convex curve below the surrogate
            gains = np.maximum(surrogate[:-1] - surrogate[1:], 0)
            self.gains[b] = isotonic_regression(gains, increasing=False) if len(gains) else gains

    def allocations(self, truncations: Iterable[int]) -> list[Allocation]:
        """All solutions with Taylor coefficients."""
        theta = np.ones(len(self.moments.degrees))
        return [
            evaluate(self.moments, projections, exact)
            for p in truncations
            for projections, exact in self.solutions(p, theta)
        ]

    def solutions(self, p: int, theta: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Projections and exact blocks: one for every choice of exact degrees and of blocks.

        The most exact choice comes first, so that it wins ties. Of several blocks of one degree
        (eigenfunctions, the largest first) the first, the first two or all may be used.
        """
        degrees = self.moments.degrees
        ranks = self.ranks
        for n_constants, n_others in itertools.product(
            _depths(ranks[degrees == 0]), _depths(ranks[(degrees > 0) & (degrees <= p)])
        ):
            active = ranks < np.where(degrees == 0, n_constants, n_others)
            active &= degrees <= p
            for degrees_taken, chosen in self.exact_choices:
                exact = chosen & active
                if not degrees_taken <= set(degrees[exact].tolist()):
                    continue
                projections = self.solve(active, exact, theta)
                if projections is not None and np.any(projections):
                    yield projections, exact
                    if np.all(exact | (degrees == 0) | ~active):
                        break  # nothing is sketched: no other choice is better

    def constant_only(self) -> Allocation | None:
        """The blocks of degree 0 alone, as many as the budget holds; None if there is none."""
        constant = self.moments.degrees == 0
        projections = np.where(constant & (np.cumsum(constant) <= self.budget), 1, 0)
        if not np.any(projections):
            return None
        return evaluate(self.moments, projections, np.zeros(len(constant), dtype=bool))

    def solve(self, active: np.ndarray, exact: np.ndarray, theta: np.ndarray) -> np.ndarray | None:
        """Projections of the active blocks, or None if the budget is too small."""
        degrees = self.moments.degrees
        projections = np.where(active & (degrees == 0), 1, 0)
        for b in np.flatnonzero(exact):
            projections[b] = self.moments.exact_projections(int(degrees[b]))
        blocks = np.flatnonzero(active & (degrees > 0) & ~exact)
        rest = self.budget - int(projections.sum())
        if rest < len(blocks):
            return None
        if len(blocks):
            projections[blocks] = self._greedy(blocks, rest, theta)
        return projections

    def _greedy(self, blocks: np.ndarray, budget: int, theta: np.ndarray) -> np.ndarray:
        """One projection each, and the rest where the surrogate falls most.

        Gains fall with the number of projections, so adding one at a time takes the largest
        budget − |blocks| of all gains: a selection, not a loop.
        """
        extra = budget - len(blocks)
        if extra == 0:
            return np.ones(len(blocks), dtype=int)
        gains = [theta[b] ** 2 * self.gains[b][:extra] for b in blocks]
        everything = np.concatenate(gains)
        threshold = np.partition(everything, len(everything) - extra)[len(everything) - extra]
        above = np.array([np.searchsorted(-g, -threshold, side="left") for g in gains])
        equal = np.array([np.searchsorted(-g, -threshold, side="right") for g in gains]) - above
        missing = extra - int(above.sum())
        ties = np.minimum(equal, np.maximum(missing - np.cumsum(equal) + equal, 0))
        return 1 + above + ties


def _exact_choices(degrees: list[int]) -> list[set[int]]:
    """Sets of degrees to write out, the largest first: all sets of up to three, runs of more.

    Columns per degree grow fast, so that more than three fit in small dimensions only. There the
    degrees that pay are a run: the first one or two, if negligible, and high ones do not.
    """
    if len(degrees) <= 3:
        sizes = reversed(range(len(degrees) + 1))
        return [set(c) for k in sizes for c in itertools.combinations(degrees, k)]
    n = len(degrees)
    runs = [set(degrees[a:b]) for a in range(3) for b in range(a + 1, n + 1)]
    return [*sorted(runs, key=len, reverse=True), set()]


def _depths(ranks: np.ndarray) -> list[int]:
    """How many blocks of a degree to use: one, two, or all."""
    deepest = int(ranks.max(initial=0)) + 1
    return sorted({1, min(2, deepest), deepest})


def _most_promising(moments: ExpansionMoments, starts: list[Allocation]) -> list[Allocation]:
    """Those whose error is least with coefficients fitted once, in the order they came.

    To alternate takes ten times as long; on the data sets of the paper the best of all was always
    among the sixteen best at this point.
    """
    errors = [
        evaluate(
            moments, a.projections, a.exact, fitted_coefficients(moments, a.projections, a.exact)
        ).expected_squared_error
        for a in starts
    ]
    return [starts[i] for i in sorted(np.argsort(errors, kind="stable")[:FINISHED].tolist())]


def _fit(moments: ExpansionMoments, search: AllocationSearch, start: Allocation) -> Allocation:
    """Alternate between the coefficients for given projections and the projections for those."""
    best = start
    projections = start.projections
    for _ in range(20):
        theta = fitted_coefficients(moments, projections, start.exact)
        candidate = evaluate(moments, projections, start.exact, theta)
        if not candidate.expected_squared_error < (1 - 1e-6) * best.expected_squared_error:
            return best
        best = candidate
        solved = search.solve(start.projections > 0, start.exact, np.maximum(theta, 1e-6))
        if solved is None or np.array_equal(solved, projections):
            return best
        projections = solved
    return best

"""The search for the best allocation: over truncations, exact monomials and projections."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np
from sklearn.isotonic import isotonic_regression

from ..._support.parameters import one_of
from .allocation import Allocation, evaluate, fitted_coefficients, highest_exact
from .moments import ExpansionMoments

SOLVERS = ("greedy", "exact")
COEFFICIENTS = ("taylor", "fitted")
_FINISHED = 16  # allocations whose coefficients and projections are fitted to each other


def allocate(
    moments: ExpansionMoments,
    budget: int,
    *,
    min_degree: int = 1,
    max_degree: int = 10,
    solver: str = "greedy",
    coefficients: str = "taylor",
    exact_monomials: bool | int = True,
) -> Allocation:
    """The best allocation of `budget` projections (Algorithms 2 and 3, and beyond).

    For every truncation from min_degree to max_degree and every choice of exact monomials the
    rest of the budget goes where it lowers the variance most: "greedy" on the convex surrogate
    (one sort in place of one loop a projection), "exact" by dynamic programming over the true
    variances. The best by the true objective is returned. Degrees with a zero coefficient get
    nothing; every other degree up to the truncation gets at least one projection.
    `exact_monomials` is False, True, or the largest degree that may be written out.
    """
    one_of("solver", solver, SOLVERS)
    one_of("coefficients", coefficients, COEFFICIENTS)
    top = int(moments.degrees.max())
    lowest = min(min_degree, max(top, 1))
    truncations = range(lowest, min(max_degree, top) + 1)
    # Fitted coefficients start from the same allocations as those of Taylor
    key = budget, solver, type(exact_monomials), exact_monomials, truncations
    if key not in moments.searched:
        search = AllocationSearch(moments, budget, solver, exact_monomials)
        moments.searched[key] = search, search.allocations(truncations)
    search, found = moments.searched[key]
    if coefficients == "fitted":
        found = [_fit(moments, search, start) for start in _most_promising(moments, found)]
    best = search.constant_only() if lowest <= 1 else None
    for candidate in found:
        if best is None or _better(candidate, best):
            best = candidate
    if best is None:
        needed = len({n for n in moments.degrees.tolist() if n <= lowest})
        raise ValueError(
            f"{budget} projections are too few: truncation at degree {lowest} needs at least "
            f"{needed} (one for every degree and the constant); raise n_components or lower "
            "min_degree."
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

    def __init__(self, moments: ExpansionMoments, budget: int, solver: str, exact: bool | int):
        self.moments = moments
        self.budget = budget
        self.solver = solver
        # the place of a block among those of its degree
        degrees = moments.degrees
        self.ranks = np.array([int(np.sum(degrees[:b] == n)) for b, n in enumerate(degrees)])
        highest = highest_exact(moments, exact)
        choices = _exact_choices(
            [
                n
                for n in sorted(set(degrees[degrees > 0].tolist()))
                if n <= highest and moments.exact_projections(n) <= self.budget
            ]
        )
        self.exact_choices = [(choice, np.isin(degrees, list(choice))) for choice in choices]
        D = np.arange(1, max(self.budget, 1) + 1)
        self.curves: dict[int, np.ndarray] = {}
        self.tables: dict[bytes, dict[tuple[int, ...], np.ndarray]] = {}
        self.gains: dict[int, np.ndarray] = {}
        for b in np.flatnonzero(moments.degrees > 0).tolist():
            terms = moments.terms[b]
            if solver == "exact":
                self.curves[b] = moments.variance(b, D)
            surrogate = moments.sketch.surrogate(terms, D, moments.dimension)
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
            spread = self._dynamic if self.solver == "exact" else self._greedy
            projections[blocks] = spread(blocks, rest, theta)
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

    def _dynamic(self, blocks: np.ndarray, budget: int, theta: np.ndarray) -> np.ndarray:
        """The exact minimum of Σ θ² V(D), by dynamic programming over the blocks.

        best[k][s] is the least variance of the first k blocks with s projections in all; one
        table covers every truncation. The choices are found again on the way back.
        """
        # θ² V(D) for D = 0 … budget; no projection is not allowed
        curves = [np.append(np.inf, theta[b] ** 2 * self.curves[b][: self.budget]) for b in blocks]
        best = self.tables.setdefault(theta.tobytes(), {})
        for k in range(1, len(blocks) + 1):
            state = tuple(blocks[:k].tolist())
            if state in best:
                continue
            if k == 1:
                best[state] = curves[0]
                continue
            before, total = best[state[:-1]], np.full(self.budget + 1, np.inf)
            for D in range(1, self.budget):
                candidate = before[: self.budget + 1 - D] + curves[k - 1][D]
                np.minimum(total[D:], candidate, out=total[D:])
            best[state] = total
        projections = np.zeros(len(blocks), dtype=int)
        rest = budget
        for k in range(len(blocks) - 1, 0, -1):
            before = best[tuple(blocks[:k].tolist())]
            counts = np.arange(1, rest)
            projections[k] = counts[np.argmin(before[rest - counts] + curves[k][counts])]
            rest -= projections[k]
        projections[0] = rest
        return projections


def _exact_choices(degrees: list[int]) -> list[set[int]]:
    """Sets of degrees to write out, the largest first: all sets of up to three, runs of more.

    Columns per degree grow fast, so that more than three fit in small dimensions only. There the
    degrees that pay are a run: the first one or two, if negligible, and high ones do not.
    """
    if len(degrees) <= 3:
        sizes = reversed(range(len(degrees) + 1))
        return [set(c) for k in sizes for c in itertools.combinations(degrees, k)]
    n = len(degrees)
    found = [set(degrees[a:b]) for a in range(3) for b in range(a + 1, n + 1)]
    return [*sorted(found, key=len, reverse=True), set()]


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
    return [starts[i] for i in sorted(np.argsort(errors, kind="stable")[:_FINISHED].tolist())]


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

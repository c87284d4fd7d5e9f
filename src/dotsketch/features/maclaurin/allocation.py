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
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
from scipy.linalg import LinAlgError, cholesky, solve_triangular
from scipy.optimize import nnls

from ..._support.parameters import one_of
from ..._support.stored import MOST_COLUMNS, MOST_DEGREE, Count, array, stored
from ..design import Unsuited
from .moments import ExpansionMoments

COEFFICIENTS = ("taylor", "fitted")


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

    def __repr__(self) -> str:
        lines = ["degree  projections  coefficient  share of error"]
        total = self.expected_squared_error or 1.0
        for b in np.flatnonzero(self.projections):
            numbers = (
                f"{self.degrees[b]:6d}  {self.projections[b]:11d}  {self.coefficients[b]:11.4g}"
            )
            note = "  exact" if self.exact[b] else ""
            lines.append(f"{numbers}  {self.variances[b] / total:14.1%}{note}")
        lines.append(f"truncation bias: {self.squared_bias / total:.1%} of the squared error")
        lines.append(f"expected relative error: {self.expected_relative_error:.4g}")
        return "\n".join(lines)


def _variances(moments: ExpansionMoments, projections: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """Of every block at θ = 1; zero where nothing is sketched."""
    sketched = (projections > 0) & ~exact & (moments.degrees > 0)
    blocks = np.arange(len(projections))
    return np.where(sketched, moments.variances[blocks, np.where(sketched, projections, 1) - 1], 0)


def evaluate(
    moments: ExpansionMoments,
    projections: np.ndarray,
    exact: np.ndarray,
    coefficients: np.ndarray | None = None,
) -> Allocation:
    """The predicted error of these projections (0 leaves a block out) and coefficients θ.

    The squared bias is E (k − Σ θ_b t_b)², without cancellation where θ is near 1.
    """
    theta = (projections > 0) * (1.0 if coefficients is None else coefficients)
    missing = 1 - theta
    bias = moments.tail_square + 2 * missing @ moments.tail + missing @ moments.gram @ missing
    return Allocation(
        degrees=moments.degrees,
        projections=projections,
        coefficients=theta,
        exact=exact,
        variances=theta**2 * _variances(moments, projections, exact),
        squared_bias=max(float(bias), 0.0),
        kernel_square=moments.kernel_square,
    )


def fitted_coefficients(
    moments: ExpansionMoments, projections: np.ndarray, exact: np.ndarray
) -> np.ndarray:
    """argmin over θ ≥ 0 of the squared error: nonnegative least squares, diagonal penalty."""
    used = np.flatnonzero(projections > 0)
    theta = np.zeros(len(projections))
    if not len(used):
        return theta
    variances = _variances(moments, projections, exact)[used]
    quadratic = moments.gram[np.ix_(used, used)] + np.diag(variances)
    linear = moments.gram[used].sum(axis=1) + moments.tail[used]
    scale = 1 / np.sqrt(np.maximum(np.diag(quadratic), np.finfo(float).tiny))
    quadratic = scale[:, None] * quadratic * scale
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


def drawn_degrees(moments: ExpansionMoments, rng: np.random.Generator) -> Allocation:
    """Kar and Karnick: degrees n ≥ 1 drawn with probability μ(n) ∝ 2^−(n+1), and the constant.

    The coefficients D_n/(D μ(n)) make the approximation unbiased for the series up to the largest
    degree.
    """
    degrees, budget = moments.degrees, moments.budget
    constant = degrees == 0
    rest = budget - int(np.sum(constant))
    if rest < 0 or (rest == 0 and not np.all(constant)):
        raise Unsuited(
            f"{budget} projections leave none to draw: the constant takes {budget - rest}; raise "
            "n_components."
        )
    measure = np.where(constant, 0.0, 2.0 ** -(degrees + 1.0))
    projections, theta = constant.astype(int), np.where(constant, 1.0, 0.0)
    if np.any(measure):
        measure = measure / measure.sum()
        counts = rng.multinomial(rest, measure)
        projections = projections + counts
        theta[~constant] = counts[~constant] / (rest * measure[~constant])
    table = evaluate(moments, projections, np.zeros(len(degrees), dtype=bool), theta)
    return replace(table, unused=budget - int(projections.sum()))


def allocate(
    moments: ExpansionMoments,
    *,
    max_degree: int = 10,
    coefficients: str = "taylor",
    writes_out: bool = True,
) -> Allocation:
    """The best allocation of the budget of projections (Algorithms 2 and 3, and beyond).

    For every truncation up to max_degree and every choice of monomials that are written out, the
    rest of the budget goes where it lowers the convex surrogate of the variance most: the greedy
    loop, by one sort. The best by the true objective is returned. Degrees with a zero coefficient
    get nothing; every other degree up to the truncation gets at least one projection. Without
    `writes_out` all powers are sketched, as in the paper.
    """
    one_of("coefficients", coefficients, COEFFICIENTS)
    top = int(moments.degrees.max())
    truncations = range(1, min(max_degree, top) + 1)
    candidates = allocations(moments, truncations, writes_out=writes_out)
    if coefficients == "fitted":
        candidates = [_fit(moments, start) for start in _most_promising(moments, candidates)]
    best = constant_only(moments)
    for candidate in candidates:
        if best is None or _better(candidate, best):
            best = candidate
    if best is None:
        needed = len({n for n in moments.degrees.tolist() if n <= 1})
        raise ValueError(
            f"{moments.budget} projections are too few: truncation at degree 1 needs at least "
            f"{needed} (one for every degree and the constant); raise n_components."
        )
    return replace(best, unused=moments.budget - int(best.projections.sum()))


def _better(candidate: Allocation, other: Allocation) -> bool:
    """Whether the error is less by more than rounding, or the same with more blocks in use."""
    margin = 1e-9 * other.expected_squared_error + 1e-24 * other.kernel_square
    difference = candidate.expected_squared_error - other.expected_squared_error
    more = np.count_nonzero(candidate.projections) > np.count_nonzero(other.projections)
    return bool(difference < -margin or (more and difference <= margin))


def allocations(
    moments: ExpansionMoments, truncations: Iterable[int], *, writes_out: bool = True
) -> list[Allocation]:
    """The solutions for all truncations, choices of exact degrees and numbers of blocks.

    The most exact choice comes first, so that it wins ties. Of several blocks of one degree
    (eigenfunctions, the largest first) the first, the first two or all may be used.
    """
    degrees, theta = moments.degrees, np.ones(len(moments.degrees))
    # the place of a block among those of its degree
    ranks = np.array([int(np.sum(degrees[:b] == n)) for b, n in enumerate(degrees)])
    affordable = degrees[(degrees > 0) & (moments.exact_projections <= moments.budget)]
    choices = _exact_choices(sorted(set(affordable.tolist())) if writes_out else [])
    solutions = []
    for p in truncations:
        for n_constants, n_others in itertools.product(
            _depths(ranks[degrees == 0]), _depths(ranks[(degrees > 0) & (degrees <= p)])
        ):
            active = ranks < np.where(degrees == 0, n_constants, n_others)
            active &= degrees <= p
            for choice in choices:
                exact = np.isin(degrees, list(choice)) & active
                if not choice <= set(degrees[exact].tolist()):
                    continue
                projections = solve(moments, active, exact, theta)
                if projections is not None and np.any(projections):
                    solutions.append(evaluate(moments, projections, exact))
                    if np.all(exact | (degrees == 0) | ~active):
                        break  # nothing is sketched: no other choice is better
    return solutions


def constant_only(moments: ExpansionMoments) -> Allocation | None:
    """The blocks of degree 0 alone, as many as the budget holds; None if there is none."""
    constant = moments.degrees == 0
    projections = np.where(constant & (np.cumsum(constant) <= moments.budget), 1, 0)
    if not np.any(projections):
        return None
    return evaluate(moments, projections, np.zeros(len(constant), dtype=bool))


def solve(
    moments: ExpansionMoments, active: np.ndarray, exact: np.ndarray, theta: np.ndarray
) -> np.ndarray | None:
    """Projections of the active blocks, or None if the budget is too small.

    One projection each, and the rest where the surrogate falls most. Gains fall with the number of
    projections, so adding one at a time takes the largest of all gains: a selection, not a loop.
    """
    degrees = moments.degrees
    projections = np.where(active & (degrees == 0), 1, 0)
    projections = np.where(exact, moments.exact_projections, projections)
    blocks = np.flatnonzero(active & (degrees > 0) & ~exact)
    extra = moments.budget - int(projections.sum()) - len(blocks)
    if extra < 0:
        return None
    projections[blocks] = 1
    if extra and len(blocks):
        gains = theta[blocks, None] ** 2 * moments.gains[blocks, :extra]
        threshold = np.partition(gains, gains.size - extra, axis=None)[gains.size - extra]
        above = np.sum(gains > threshold, axis=1)
        equal = np.sum(gains == threshold, axis=1)
        missing = extra - int(above.sum())
        projections[blocks] += above
        projections[blocks] += np.minimum(equal, np.maximum(missing - np.cumsum(equal) + equal, 0))
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
    errors = []
    for a in starts:
        theta = fitted_coefficients(moments, a.projections, a.exact)
        errors.append(evaluate(moments, a.projections, a.exact, theta).expected_squared_error)
    return [starts[i] for i in sorted(np.argsort(errors, kind="stable")[:16].tolist())]


def _fit(moments: ExpansionMoments, start: Allocation) -> Allocation:
    """Alternate between the coefficients for given projections and the projections for those."""
    best = start
    projections = start.projections
    for _ in range(20):
        theta = fitted_coefficients(moments, projections, start.exact)
        candidate = evaluate(moments, projections, start.exact, theta)
        if not candidate.expected_squared_error < (1 - 1e-6) * best.expected_squared_error:
            return best
        best = candidate
        solved = solve(moments, start.projections > 0, start.exact, np.maximum(theta, 1e-6))
        if solved is None or np.array_equal(solved, projections):
            return best
        projections = solved
    return best

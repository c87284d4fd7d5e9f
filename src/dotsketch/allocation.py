"""How a budget of projections is spread over the degrees of an expansion.

The mean squared error over pairs of data is, for coefficients θ_b (1 is the Taylor coefficient)
and projections D_b of every block b,

    E (k − Σ_b θ_b t_b)² + Σ_b θ_b² V_b(D_b),    t_b = ω_b(x) ω_b(y) ⟨u(x), u(y)⟩^{n_b},

squared bias plus variance. `ExpansionMoments` holds the averages that this depends on, computed
once; `allocate` then minimises it over the truncation, the projections, and (if asked) the
coefficients, without looking at the data again.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, cholesky, solve_triangular
from scipy.optimize import nnls
from sklearn.isotonic import isotonic_regression

from ._transforms import pair_sums_into, uses_fast
from .expansions import Inputs
from .kernels import DotProductKernel
from .pairs import PairStatistics
from .sketches.base import SeparableSketch
from .sketches.independent import ProductSketch
from .sketches.monomials import monomial_projections

SOLVERS = ("greedy", "exact")
COEFFICIENTS = ("taylor", "fitted")


@dataclass(frozen=True)
class ExpansionMoments:
    """Averages over pairs of distinct rows (U-statistics) that decide an allocation.

    gram[b, c] = E[t_b t_c]; tail[b] = E[t_b R] and tail_square = E[R²] for the part R of the
    kernel that the expansion leaves out; kernel_square = E[k²]; terms[b] the mean variance terms
    of block b (`SeparableSketch.terms`, empty for degree 0).
    """

    degrees: np.ndarray
    gram: np.ndarray
    tail: np.ndarray
    tail_square: float
    kernel_square: float
    terms: list[list[float]]
    dimension: int
    sketch: SeparableSketch
    packed: bool
    _curves: dict[int, np.ndarray] = field(default_factory=dict, repr=False)

    @classmethod
    def of(
        cls,
        inputs: Inputs,
        degrees: tuple[int, ...],
        kernel: DotProductKernel,
        sketches: list[tuple[SeparableSketch, str]],
        block: int = 256,
    ) -> list[ExpansionMoments]:
        """One pass over the pairs of m rows for several sketches (and parts: real or complex).

        Works block by block: memory is a few times block · 4 block numbers a degree.
        """
        sums = _PairSums(inputs, np.array(degrees), len(sketches))
        for rows, columns, pair_weight in _pair_blocks(len(inputs.unit), block):
            sums.add(kernel, sketches, rows, columns, pair_weight)
        complete = series_is_complete(kernel, degrees)
        return [
            cls(
                degrees=np.array(degrees),
                gram=sums.gram / sums.count,
                tail=0 * sums.tail if complete else sums.tail / sums.count,
                tail_square=0.0 if complete else sums.rest_and_kernel[0] / sums.count,
                kernel_square=sums.rest_and_kernel[1] / sums.count,
                terms=[list(np.atleast_1d(total) / sums.count) for total in totals],
                dimension=inputs.unit.shape[1],
                sketch=sketch,
                packed=sketch.is_complex and part == "real",
            )
            for (sketch, part), totals in zip(sketches, sums.terms, strict=True)
        ]

    def variance(self, b: int, n_projections: Any) -> Any:
        """Mean variance of block b at θ = 1 with that many projections (a number or an array)."""
        largest = int(np.max(n_projections))
        if len(self._curves.get(b, ())) < largest:
            D = np.arange(1, 1 << largest.bit_length())
            curve = self.sketch.combine(self.terms[b], D, self.dimension)
            self._curves[b] = np.maximum(curve, 0.0)
        return self._curves[b][n_projections - 1]

    def squared_bias(self, theta: np.ndarray) -> float:
        """E (k − Σ θ_b t_b)²: no cancellation where θ is near 1."""
        missing = 1 - theta
        value = self.tail_square + 2 * missing @ self.tail + missing @ self.gram @ missing
        return max(float(value), 0.0)

    def exact_projections(self, degree: int) -> int:
        return monomial_projections(degree, self.dimension, self.packed)


@dataclass(frozen=True)
class Allocation:
    """Blocks with their degree, projections, coefficient and share of the error.

    `coefficients` multiply the Taylor coefficients: 1 throughout unless they were fitted or the
    degrees drawn at random. `exact` marks blocks that are written out in monomials.
    """

    degrees: np.ndarray
    projections: np.ndarray
    coefficients: np.ndarray
    exact: np.ndarray
    variances: np.ndarray
    squared_bias: float
    kernel_square: float
    unused: int = 0  # projections that nothing is left to spend on: zero columns

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
        ratio = self.expected_squared_error / self.kernel_square if self.kernel_square else np.inf
        return float(np.sqrt(ratio))

    @property
    def max_degree(self) -> int:
        return int(self.degrees[self.projections > 0].max(initial=0))

    def to_dict(self) -> dict[str, list]:
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
            note = "  exact" if exact else ""
            lines.append(f"{n:6d}  {D:11d}  {theta:11.4g}  {share:14.1%}{note}")
        bias = self.squared_bias / (self.expected_squared_error or 1.0)
        lines.append(f"truncation bias: {bias:.1%} of the squared error")
        lines.append(f"expected relative error: {self.expected_relative_error:.4g}")
        return "\n".join(lines)


def allocate(
    moments: ExpansionMoments,
    budget: int,
    *,
    min_degree: int = 1,
    max_degree: int = 10,
    solver: str = "greedy",
    coefficients: str = "taylor",
    exact_monomials: bool = True,
) -> Allocation:
    """The best allocation of `budget` projections (Algorithms 2 and 3, and beyond).

    For every truncation from min_degree to max_degree and every choice of exact monomials the
    rest of the budget goes where it lowers the variance most: "greedy" on the convex surrogate
    (one sort in place of one loop a projection), "exact" by dynamic programming over the true
    variances. The best by the true objective is returned. Degrees with a zero coefficient get
    nothing; every other degree up to the truncation gets at least one projection.
    """
    if solver not in SOLVERS:
        raise ValueError(f"solver must be one of {SOLVERS}; got {solver!r}.")
    if coefficients not in COEFFICIENTS:
        raise ValueError(f"coefficients must be one of {COEFFICIENTS}; got {coefficients!r}.")
    top = int(moments.degrees.max())
    constants = int(np.sum(moments.degrees == 0))
    search = _Search(moments, budget, solver, exact_monomials)
    best: Allocation | None = None
    for p in range(min(min_degree, max(top, 1)), min(max_degree, top) + 1):
        for projections, exact in search.solutions(p, np.ones(len(moments.degrees))):
            candidate = evaluate(moments, projections, exact)
            if coefficients == "fitted":
                candidate = _fit(moments, search, p, candidate)
            if best is None or _clearly_better(candidate, best):
                best = candidate
    if best is None and min(min_degree, top) <= 1 and constants > 0:
        best = evaluate(moments, search.constant_only(), np.zeros(len(moments.degrees), bool))
    if best is None:
        needed = int(np.sum(moments.degrees <= max(min_degree, 1)))
        raise ValueError(
            f"{budget} projections are too few: truncation at degree {min_degree} needs at least "
            f"{needed} (one for every degree and the constant); raise n_components or lower "
            "min_degree."
        )
    return replace(best, unused=budget - int(best.projections.sum()))


def _clearly_better(one: Allocation, other: Allocation) -> bool:
    """Whether the error is less by more than rounding, so that ties do not depend on it."""
    margin = 1e-9 * other.expected_squared_error + 1e-24 * other.kernel_square
    return one.expected_squared_error < other.expected_squared_error - margin


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


class _Search:
    """Solutions of the allocation problem for every truncation of one set of moments."""

    def __init__(self, moments: ExpansionMoments, budget: int, solver: str, exact: bool):
        self.moments = moments
        self.total = budget
        self.budget = budget - int(np.sum(moments.degrees == 0))
        self.solver = solver
        self.exact_degrees = [
            n
            for n in (1, 2)
            if exact and n in moments.degrees and moments.exact_projections(n) <= self.budget
        ]
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

    def solutions(self, p: int, theta: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Projections and exact blocks, one for every choice of degrees that are exact.

        The most exact choice comes first, so that it wins ties.
        """
        degrees = self.moments.degrees
        for k in reversed(range(len(self.exact_degrees) + 1)):
            for chosen in itertools.combinations(self.exact_degrees, k):
                exact = np.isin(degrees, chosen) & (degrees <= p)
                if len(chosen) and not np.all(np.isin(chosen, degrees[exact])):
                    continue
                projections = self.solve(p, exact, theta)
                if projections is not None:
                    yield projections, exact

    def constant_only(self) -> np.ndarray:
        """The blocks of degree 0, as many as the budget holds."""
        constant = self.moments.degrees == 0
        return np.where(constant & (np.cumsum(constant) <= self.total), 1, 0)

    def solve(self, p: int, exact: np.ndarray, theta: np.ndarray) -> np.ndarray | None:
        """Projections of every block, or None if the budget is too small."""
        degrees = self.moments.degrees
        projections = self.constant_only()
        for b in np.flatnonzero(exact):
            projections[b] = self.moments.exact_projections(int(degrees[b]))
        blocks = np.flatnonzero((degrees > 0) & (degrees <= p) & ~exact)
        rest = self.budget - int(projections[degrees > 0].sum())
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
        table serves every truncation. The choices are found again on the way back.
        """
        curves = [self._curve(b, theta) for b in blocks]
        key = theta.tobytes()
        best = self.tables.setdefault(key, {})
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
            D = np.arange(1, rest)
            projections[k] = D[np.argmin(before[rest - D] + curves[k][D])]
            rest -= projections[k]
        projections[0] = rest
        return projections

    def _curve(self, b: int, theta: np.ndarray) -> np.ndarray:
        """θ² V(D) of a block for D = 0 … budget; no projection is not allowed."""
        return np.concatenate([[np.inf], theta[b] ** 2 * self.curves[b][: self.budget]])


def _fit(moments: ExpansionMoments, search: _Search, p: int, start: Allocation) -> Allocation:
    """Alternate between the coefficients for given projections and the projections for those."""
    best = start
    projections = start.projections
    for _ in range(20):
        theta = fitted_coefficients(moments, projections, start.exact)
        candidate = evaluate(moments, projections, start.exact, theta)
        if not candidate.expected_squared_error < (1 - 1e-6) * best.expected_squared_error:
            return best
        best = candidate
        solved = search.solve(p, start.exact, np.maximum(theta, 1e-6))
        if solved is None or np.array_equal(solved, projections):
            return best
        projections = solved
    return best


def fitted_coefficients(
    moments: ExpansionMoments, projections: np.ndarray, exact: np.ndarray
) -> np.ndarray:
    """argmin over θ ≥ 0 of the squared error: nonnegative least squares, diagonal penalty."""
    used = np.flatnonzero(projections > 0).tolist()
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
    measure = np.where(degrees > 0, float(base) ** -(degrees + 1.0), 0.0)
    measure = measure / measure.sum()
    projections = rng.multinomial(budget, measure)
    theta = np.divide(projections, budget * measure, out=np.zeros(len(measure)), where=measure > 0)
    constant = degrees == 0
    return projections + constant, np.where(constant, 1.0, theta)


def series_is_complete(kernel: DotProductKernel, degrees: tuple[int, ...]) -> bool:
    """Whether the series ends within these degrees, so that nothing but rounding is left out."""
    further = kernel.coefficients(max(degrees) + 60)
    return np.flatnonzero(further > 0).tolist() == list(degrees)


class _PairSums:
    """Running sums over pairs, in float64."""

    def __init__(self, inputs: Inputs, degrees: np.ndarray, n_sketches: int):
        B = len(degrees)
        self.inputs = inputs
        self.degrees = degrees
        self.squared_unit = inputs.unit**2
        self.lengths = self.squared_unit.sum(axis=1)  # 1, or 0 for a zero row
        self.squared_weights = inputs.weights**2
        self.weights = np.ascontiguousarray(inputs.weights)
        self.gram, self.tail = np.zeros((B, B)), np.zeros(B)
        self.rest_and_kernel = np.zeros(2)  # Σ R², Σ k²
        self.count = 0.0
        self.terms: list[list[Any]] = [[0.0] * B for _ in range(n_sketches)]

    def add(
        self,
        kernel: DotProductKernel,
        sketches: list[tuple[SeparableSketch, str]],
        rows: slice,
        columns: slice,
        pair_weight: Any,
    ) -> None:
        """Add the pairs of a block of rows and a block of columns, each counted pair_weight."""
        unit = self.inputs.unit
        pairs = PairStatistics(
            dot=unit[rows] @ unit[columns].T,
            norms=self.lengths[rows, None] * self.lengths[None, columns],
            squares=self.squared_unit[rows] @ self.squared_unit[columns].T,
            dimension=unit.shape[1],
        )
        values = _kernel_values(kernel, self.inputs, rows, columns, pairs.dot)
        self.count += float(np.sum(np.broadcast_to(pair_weight, values.shape)))
        bare = True  # whether the sums that all sketches share are still to be added
        for (sketch, part), totals in zip(sketches, self.terms, strict=True):
            if uses_fast(values) and isinstance(sketch, ProductSketch):
                self._add_compiled(
                    sketch, part, pairs, values, rows, columns, pair_weight, totals, bare
                )
                bare = False
            else:
                self._add_terms(sketch, part, pairs, rows, columns, pair_weight, totals)
        if bare:
            self._add_powers(pairs.dot, values, rows, columns, pair_weight)

    def _add_powers(
        self, dot: np.ndarray, values: np.ndarray, rows: slice, columns: slice, pair_weight: Any
    ) -> None:
        """Add E[t t'], E[t R], E[R²] and E[k²] of the block."""
        powers = self._powers(dot, rows, columns)
        rest = values - powers.sum(axis=0)
        flat = powers.reshape(len(powers), -1)
        weighted = flat * np.ravel(np.broadcast_to(pair_weight, values.shape))
        self.gram += weighted @ flat.T
        self.tail += weighted @ rest.ravel()
        self.rest_and_kernel[0] += np.sum(pair_weight * rest * rest)
        self.rest_and_kernel[1] += np.sum(pair_weight * values * values)

    def _add_terms(
        self,
        sketch: SeparableSketch,
        part: str,
        pairs: PairStatistics,
        rows: slice,
        columns: slice,
        pair_weight: Any,
        totals: list[Any],
    ) -> None:
        """Add the variance terms of one sketch."""
        max_degree = int(self.degrees.max())
        if max_degree == 0:
            return
        every = sketch.terms(pairs, max_degree, part, every_budget=True)
        for n, terms in enumerate(every, start=1):
            for b in np.flatnonzero(self.degrees == n):
                u, v = self.squared_weights[rows, b], self.squared_weights[columns, b]
                totals[b] = totals[b] + np.array([u @ (pair_weight * t) @ v for t in terms])

    def _add_compiled(
        self,
        sketch: ProductSketch,
        part: str,
        pairs: PairStatistics,
        values: np.ndarray,
        rows: slice,
        columns: slice,
        pair_weight: Any,
        totals: list[Any],
        bare: bool,
    ) -> None:
        """All of the above in one compiled pass over the block."""
        block = sketch.block(pairs.dimension)
        is_square = np.ndim(pair_weight) > 0
        skip_diagonal = is_square and len(values) > 1
        arguments = (
            pairs.dot,
            pairs.squares,
            values,
            self.weights[rows],
            self.weights[columns],
            self.degrees.astype(np.int32),
            self.lengths[rows],
            self.lengths[columns],
            np.array(sketch.excess_weights(part), dtype=np.float64),
            1 / (block - 1) if block > 1 else 0.0,
            skip_diagonal,
        )
        shared = (self.gram, self.tail, self.rest_and_kernel)
        if not bare:
            shared = tuple(np.zeros_like(total) for total in shared)
        found = np.zeros((len(self.degrees), 2))
        pair_sums_into(arguments, (*shared, found), 1.0 if is_square else pair_weight)
        n_terms = 2 if block > 1 else 1
        for b in np.flatnonzero(self.degrees > 0):
            totals[b] = totals[b] + found[b, :n_terms]

    def _powers(self, dot: np.ndarray, rows: slice, columns: slice) -> np.ndarray:
        """t_b of every block, (n_blocks, rows, columns)."""
        left, right = self.inputs.weights[rows], self.inputs.weights[columns]
        powers = np.empty((len(self.degrees), *dot.shape))
        power = np.ones_like(dot)
        for n in range(int(self.degrees.max()) + 1):
            for b in np.flatnonzero(self.degrees == n):
                np.multiply(left[:, b, None] * power, right[None, :, b], out=powers[b])
            power = power * dot
        return powers


def _kernel_values(
    kernel: DotProductKernel, inputs: Inputs, rows: slice, columns: slice, cosines: np.ndarray
) -> np.ndarray:
    t = inputs.radius[rows, None] * inputs.radius[None, columns] * cosines
    if inputs.offset is not None:
        t = t + inputs.offset[rows, None] * inputs.offset[None, columns]
    return kernel.value(t, inputs.log_weight[rows, None] + inputs.log_weight[None, columns])


def _pair_blocks(m: int, block: int) -> Iterator[tuple[slice, slice, Any]]:
    """Blocks that cover every ordered pair i ≠ j: squares, and rectangles that count twice.

    A single row has no pair; then the pair of the row with itself stands in.
    """
    if m == 1:
        yield slice(0, 1), slice(0, 1), np.ones((1, 1))
        return
    for start in range(0, m, block):
        stop = min(start + block, m)
        yield slice(start, stop), slice(start, stop), 1.0 - np.eye(stop - start)
        for left in range(stop, m, 4 * block):
            yield slice(start, stop), slice(left, min(left + 4 * block, m)), 2.0

"""The error of every candidate before anything is computed, and how many features it takes.

`plan` ranks sketches, outputs, allocations and coefficients by their predicted error on a sample
of the data; `required_components` inverts it; `error_bound` is the worst-case guarantee of the
paper's Section 3.4; `complex_advantage` tells whether complex weights pay.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import check_array

from ._arrays import OUTPUTS, Array, as_generator, double, host, is_foreign, namespace
from .allocation import COEFFICIENTS, allocate, evaluate, random_projections
from .expansion_moments import ExpansionMoments, relative_error
from .expansions import column_means, expand, sample_rows
from .kernels import DotProductKernel
from .pairs import PairStatistics
from .sketches import separable_sketch
from .sketches.rademacher import RademacherSketch

PLANNED_SKETCHES = (
    "tensor_srht",
    "balanced_tensor_sketch",
    "tensor_sketch",
    "rademacher",
    "gaussian",
)
PLANNED_OUTPUTS = ("real", "complex_to_real")


@dataclass(frozen=True)
class Candidate:
    """Parameters of `MaclaurinFeatures` that a plan compares."""

    sketch: str = "tensor_srht"
    output: str = "real"
    allocation: str = "optimal"
    coefficients: str = "taylor"
    mean_split: bool = False

    def __post_init__(self) -> None:
        separable_sketch(self.sketch)
        for name, known in (
            ("output", OUTPUTS),
            ("allocation", ("optimal", "random")),
            ("coefficients", COEFFICIENTS),
        ):
            if getattr(self, name) not in known:
                raise ValueError(f"{name} must be one of {known}; got {getattr(self, name)!r}.")
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
        return ", ".join([self.sketch, self.output, *extras])


def all_candidates() -> list[Candidate]:
    """Every combination that `plan` compares by default."""
    found = []
    for sketch in PLANNED_SKETCHES:
        for output in PLANNED_OUTPUTS:
            found.append(Candidate(sketch, output, "random"))
            for coefficients in ("taylor", "fitted"):
                for mean_split in (False, True):
                    found.append(Candidate(sketch, output, "optimal", coefficients, mean_split))
    return found


@dataclass(frozen=True)
class PlannedCandidate:
    """The predicted error and cost of one candidate.

    relative_error is √((squared_bias + variance)/E k²), over pairs of distinct rows; cost is the
    number of arithmetic operations a row takes, a guide to the time.
    """

    candidate: Candidate
    n_components: int
    relative_error: float
    squared_bias: float
    variance: float
    max_degree: int
    cost: float


class Plan(Sequence):
    """Candidates in the order of their predicted error; the first is the best."""

    def __init__(self, rows: Iterable[PlannedCandidate]):
        self._rows = sorted(rows, key=lambda row: (row.relative_error, row.cost))

    def __getitem__(self, index: Any) -> Any:
        return self._rows[index]

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def best(self) -> PlannedCandidate:
        return self._rows[0]

    def to_dict(self) -> dict[str, list]:
        """The table by columns, for `pandas.DataFrame(plan.to_dict())`."""
        rows = []
        for row in self._rows:
            values = asdict(row)
            rows.append(values.pop("candidate") | values)
        return {key: [row[key] for row in rows] for key in rows[0]} if rows else {}

    def __repr__(self) -> str:
        lines = [
            f"{'candidate':58s} {'rel. error':>10s} {'bias':>9s} {'deviation':>9s} "
            f"{'degree':>6s} {'Mop/row':>8s}"
        ]
        for row in self._rows:
            lines.append(
                f"{row.candidate!s:58s} {row.relative_error:10.4g} "
                f"{math.sqrt(row.squared_bias):9.3g} {math.sqrt(row.variance):9.3g} "
                f"{row.max_degree:6d} {row.cost / 1e6:8.3f}"
            )
        return "\n".join(lines)

    def plot(self, ax: Any = None, most: int = 15) -> Any:
        """Horizontal bars of the predicted relative error, best first; returns the axes."""
        import matplotlib.pyplot as plt

        rows = self._rows[:most][::-1]
        if ax is None:
            _, ax = plt.subplots(figsize=(8, 0.35 * len(rows) + 1.2), layout="constrained")
        total = np.array([row.squared_bias + row.variance for row in rows])
        error = np.array([row.relative_error for row in rows])
        bias_share = np.array([row.squared_bias for row in rows]) / np.maximum(total, 1e-300)
        names = [str(row.candidate) for row in rows]
        ax.barh(names, error, color="#9ecae1", label="variance")
        ax.barh(names, error * bias_share, color="#08519c", label="truncation bias")
        ax.set_xlabel("predicted relative error (bars split by share of the squared error)")
        ax.legend(loc="lower right", frameon=False)
        return ax


def plan(
    kernel: DotProductKernel,
    X: Array,
    *,
    n_components: int,
    candidates: str | Iterable[Candidate] = "all",
    max_degree: int = 10,
    n_pairs_sample: int = 500,
    random_state: Any = 0,
) -> Plan:
    """The predicted error and cost of every candidate on a sample of X (n, d).

    `candidates` is "all" or a list of `Candidate`; all are compared at the same number of
    returned columns (real numbers: "all" has no output="complex", whose columns are two each).
    Candidates that need more than n_components columns are left out.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from dotsketch import Gaussian, plan
    >>> table = plan(Gaussian(), load_digits().data, n_components=300)
    >>> table.best.relative_error < table[-1].relative_error
    True
    """
    given = all_candidates() if isinstance(candidates, str) else list(candidates)
    if isinstance(candidates, str) and candidates != "all":
        raise ValueError(f'candidates must be "all" or a list of Candidate; got {candidates!r}.')
    if not given:
        raise ValueError("candidates is empty.")
    study = _Study(kernel, X, max_degree, n_pairs_sample, random_state)
    if study.kernel.shift_invariant and isinstance(candidates, str):
        given = [c for c in given if not c.mean_split]  # centred data have no mean to split off
    study.prepare(given)
    rows = (study.predict(candidate, n_components) for candidate in given)
    found = [row for row in rows if row is not None]
    if not found:
        raise ValueError(f"n_components={n_components} is too few for every candidate.")
    return Plan(found)


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
    """The least n_components whose predicted relative error is within tolerance.

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
    if not tolerance > 0:
        raise ValueError(f"tolerance must be positive; got {tolerance!r}.")
    candidate = Candidate(sketch, output, "optimal", coefficients, mean_split)
    study = _Study(kernel, X, max_degree, n_pairs_sample, random_state)
    study.prepare([candidate])
    step = 2 if output == "complex_to_real" else 1

    low = 0

    def enough(units: int) -> bool:
        row = study.predict(candidate, units * step)
        return row is not None and row.relative_error <= tolerance

    most = max_components // step
    high = 1
    while not enough(high):
        if high >= most:
            row = study.predict(candidate, high * step)
            error = math.nan if row is None else row.relative_error
            raise ValueError(
                f"tolerance={tolerance} is not reached with {high * step} components: the "
                f"predicted error is {error:.3g}, truncated at max_degree={max_degree}. Raise "
                "max_degree, or another sketch or coefficients may do."
            )
        low, high = high, min(2 * high, most)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    # The variance of structured sketches is not quite monotone: look a little further down
    while any(enough(high - k) for k in range(1, min(8, high))):
        high -= 1
    return high * step


class _Study:
    """A sample of the data, and the moments of the candidates on it."""

    def __init__(
        self,
        kernel: DotProductKernel,
        X: Array,
        max_degree: int,
        n_pairs_sample: int,
        random_state: Any,
    ):
        if not isinstance(kernel, DotProductKernel):
            raise TypeError(
                f"kernel must be a kernel of dotsketch, such as Gaussian(); got {kernel!r}."
            )
        if max_degree < 1 or n_pairs_sample < 1:
            raise ValueError(
                f"max_degree and n_pairs_sample must be positive; got {max_degree} and "
                f"{n_pairs_sample}."
            )
        X = check_rows(X)
        self.rng = as_generator(random_state)
        self.max_degree = max_degree
        self.kernel = kernel.resolve(X).detached()
        self.sample = sample_rows(X, n_pairs_sample, self.rng)
        self.mean = column_means(X)
        self.moments: dict[tuple[str, str, bool], ExpansionMoments] = {}

    def prepare(self, candidates: list[Candidate]) -> None:
        """The moments of all candidates: one pass over the pairs for every expansion."""
        for split in {candidate.mean_split for candidate in candidates}:
            keys = sorted({(c.sketch, c.output) for c in candidates if c.mean_split is split})
            expansion = expand(
                self.kernel, self.max_degree, self.sample, self.mean, mean_split=split
            )
            sketches = [
                (
                    separable_sketch(sketch, "real" if output == "real" else "complex"),
                    "complex" if output == "complex" else "real",
                )
                for sketch, output in keys
            ]
            found = ExpansionMoments.of(
                expansion.inputs(self.sample), expansion.degrees, self.kernel, sketches
            )
            for (sketch, output), moments in zip(keys, found, strict=True):
                self.moments[sketch, output, split] = moments

    def predict(self, candidate: Candidate, n_components: int) -> PlannedCandidate | None:
        """The best this candidate can do with so many columns; None if they are too few."""
        moments = self.moments[candidate.sketch, candidate.output, candidate.mean_split]
        budget = n_components // (2 if candidate.output == "complex_to_real" else 1)
        constants = int(np.sum(moments.degrees == 0))
        if budget < 1 or (candidate.allocation == "random" and budget <= constants):
            return None
        if candidate.allocation == "random":
            draws = [
                evaluate(moments, D, np.zeros(len(D), dtype=bool), theta)
                for D, theta in (
                    random_projections(moments.degrees, budget - constants, 2.0, self.rng)
                    for _ in range(16)
                )
            ]
        else:
            draws = [
                allocate(
                    moments,
                    budget,
                    max_degree=self.max_degree,
                    coefficients=candidate.coefficients,
                )
            ]
        squared_bias = float(np.mean([draw.squared_bias for draw in draws]))
        variance = float(np.mean([draw.variance for draw in draws]))
        sketch = moments.sketch
        cost = sum(
            type(sketch)(int(n), int(D), sketch.field).cost(moments.dimension)
            for n, D, exact in zip(
                draws[0].degrees, draws[0].projections, draws[0].exact, strict=True
            )
            if n > 0 and D > 0 and not exact
        )
        return PlannedCandidate(
            candidate=candidate,
            n_components=2 * budget if candidate.output == "complex_to_real" else budget,
            relative_error=relative_error(squared_bias + variance, moments.kernel_square),
            squared_bias=squared_bias,
            variance=variance,
            max_degree=draws[0].max_degree,
            cost=float(cost + n_components),
        )


def error_bound(
    x: Array,
    y: Array | None = None,
    *,
    degree: int,
    epsilon: float,
    delta: float = 0.05,
    field: str = "real",
    weights: str | float = "rademacher",
    scaling: str = "sharp",
) -> Any:
    """How many Rademacher projections guarantee a small error for a pair (Section 3.4).

    With D ≥ 2 (2/(3ε) + σ²/ε²) log(2/δ), the probability that |k̂ − ⟨x, y⟩ᵖ| exceeds
    ε |x|₁ᵖ |y|₁ᵖ is at most δ. σ² is the variance of one projection over (|x|₂|y|₂)²ᵖ in the
    theorem (`scaling="paper"`), and over (|x|₁|y|₁)²ᵖ with `scaling="sharp"`, which holds as well
    and asks for fewer. It is a worst case: `required_components` tells what is to be expected.

    Parameters
    ----------
    x, y : one vector each (d,), giving an int; or rows (n, d), (m, d), giving ints (n, m)
    field, weights : as for `RademacherSketch`

    Examples
    --------
    >>> import numpy as np
    >>> x, y = np.array([1.0, 2.0, 2.0]) / 3, np.array([2.0, 1.0, 2.0]) / 3
    >>> error_bound(x, y, degree=2, epsilon=0.1)
    91
    >>> error_bound(x, y, degree=2, epsilon=0.1, scaling="paper")
    2504
    """
    if not epsilon > 0 or not 0 < delta < 1:
        raise ValueError(f"epsilon must be positive and delta in (0, 1); got {epsilon}, {delta}.")
    if scaling not in ("sharp", "paper"):
        raise ValueError(f'scaling must be "sharp" or "paper"; got {scaling!r}.')
    single = np.ndim(host(x)) == 1 and (y is None or np.ndim(host(y)) == 1)
    X = _vectors(x)
    Y = X if y is None else _vectors(y)
    if X.shape[1] != Y.shape[1]:
        raise ValueError(f"x has {X.shape[1]} coordinates and y has {Y.shape[1]}.")
    sketch = RademacherSketch(degree, 1, field, weights)
    # Rows over their norms: the powers of large norms would overflow
    order = 1 if scaling == "sharp" else 2
    unit = []
    for rows in (X, Y):
        norms = np.linalg.norm(rows, order, axis=1, keepdims=True)
        unit.append(rows / np.where(norms > 0, norms, 1.0))
    sigma2 = sketch.variance(PairStatistics.between(*unit))
    bound = 2 * (2 / (3 * epsilon) + sigma2 / epsilon**2) * math.log(2 / delta)
    if np.any(bound > 2**62):
        raise ValueError(f"epsilon={epsilon} asks for more than 2⁶² projections.")
    counts = np.ceil(bound).astype(np.int64)
    return int(counts[0, 0]) if single else counts


def _vectors(x: Array) -> np.ndarray:
    """One vector or rows of them, as a finite float64 matrix."""
    return check_array(np.atleast_2d(np.asarray(host(x), dtype=np.float64)), ensure_min_features=1)


def check_rows(X: Array) -> Array:
    """X as finite floating rows: NumPy, CSR, or an array of another library."""
    if not is_foreign(X):
        return check_array(X, accept_sparse="csr", dtype=[np.float64, np.float32])
    xp = namespace(X)
    if X.ndim != 2 or not xp.isdtype(X.dtype, ("bool", "integral", "real floating")):
        raise ValueError(f"X must be a real matrix; got shape {tuple(X.shape)}, dtype {X.dtype}.")
    X = X if xp.isdtype(X.dtype, "real floating") else double(X)
    if not bool(xp.all(xp.isfinite(X))):
        raise ValueError("X contains NaN or infinity.")
    return X


class ComplexAdvantage(NamedTuple):
    """Whether Σ_{i≠j} x_i x_j y_i y_j ≥ 0, under which complex weights have less variance."""

    fraction: float  # of the pairs of distinct rows for which it holds
    mean: float  # its mean over them, relative to |x|²|y|²


def complex_advantage(X: Array, *, n_rows: int = 2000, random_state: Any = 0) -> ComplexAdvantage:
    """For how many pairs of rows of X complex weights beat real ones (Section 3.3).

    Always for nonnegative data, about half of the pairs for centred data.

    >>> import numpy as np
    >>> complex_advantage(np.eye(3) + 1).fraction
    1.0
    """
    sample = sample_rows(check_rows(X), n_rows, as_generator(random_state))
    if len(sample) < 2:
        raise ValueError("complex_advantage compares pairs: X needs at least two rows.")
    pairs = PairStatistics.between(sample)
    off_diagonal = ~np.eye(len(sample), dtype=bool)
    gamma = pairs.gamma[off_diagonal]
    norms = pairs.norms[off_diagonal]
    relative = gamma / np.where(norms > 0, norms, 1.0)
    return ComplexAdvantage(float(np.mean(relative >= -1e-15)), float(relative.mean()))

"""Guarantees that need no plan: the worst case of a pair, and where complex weights pay."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import check_array

from .._arrays import Array, as_generator, host
from .._support.stored import stored
from ..features import check_rows
from ..features.study import sample_rows
from ..pairs import PairStatistics
from ..sketches import RademacherSketch


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
    """The number of Rademacher projections that guarantees a small error for a pair (Section 3.4).

    With D ≥ 2 (2/(3ε) + σ²/ε²) log(2/δ), the probability that |k̂ − ⟨x, y⟩ᵖ| exceeds
    ε |x|₁ᵖ |y|₁ᵖ is at most δ. σ² is the variance of one projection over (|x|₂|y|₂)²ᵖ in the
    theorem (`scaling="paper"`), and over (|x|₁|y|₁)²ᵖ with `scaling="sharp"`, which holds as well
    and needs fewer. It is a worst case: `required_components` gives the expected number.

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
        raise ValueError(f"epsilon={epsilon} would need more than 2⁶² projections.")
    counts = np.ceil(bound).astype(np.int64)
    return int(counts[0, 0]) if single else counts


def _vectors(x: Array) -> np.ndarray:
    """One vector or rows of them, as a finite float64 matrix."""
    rows = np.atleast_2d(np.asarray(host(x), dtype=np.float64))
    return check_array(rows, ensure_min_features=1)


@stored
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

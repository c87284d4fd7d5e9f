"""The columns needed to reach a tolerance: expected, and guaranteed in the worst case."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from sklearn.utils import check_array

from .._arrays import Array, host
from .._support.parameters import check_positive
from ..features import FeatureMap, MaclaurinFeatures, Study, Unsuited, check_kernel, check_rows
from ..kernels import ExpandedKernel, Kernel
from ..pairs import PairStatistics
from ..sketches import RademacherSketch
from .plan import PlannedCandidate, predict_with


def required_components(
    kernel: Kernel,
    X: Array,
    *,
    tolerance: float,
    max_components: int = 1 << 18,
    random_state: Any = 0,
    **options: Any,
) -> int:
    """The smallest n_components of `MaclaurinFeatures` whose predicted error is within a tolerance.

    `AutoFeatures(kernel, tolerance=...)` searches all families of features.

    Parameters
    ----------
    kernel : Kernel
    X : array of shape (n, d)
    tolerance : float
        The relative error √(E(k − k̂)²/E k²) to reach.
    max_components : int, default=2¹⁸
        Where the search ends, with an error.
    random_state : int, RandomState, Generator or None, default=0
    options
        Parameters of `MaclaurinFeatures`, such as `sketch`, `output` and `max_degree`.

    Returns
    -------
    int

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
    check_kernel(
        kernel,
        ExpandedKernel,
        "required_components is for Maclaurin features, and they for kernels with a series: use "
        "AutoFeatures(kernel, tolerance=...), which compares all families",
    )
    check_positive("tolerance", tolerance)
    candidate = MaclaurinFeatures(kernel, **options)
    study = Study(kernel, check_rows(X), n_pairs_sample=1000, random_state=random_state)
    least = least_components(study, candidate, tolerance, max_components)
    if least is None:
        row = predict_with(candidate, study, max_components)
        error = math.nan if row is None else row.relative_error
        raise ValueError(
            f"tolerance={tolerance} is not reached with {max_components} components: the "
            f"predicted error is {error:.3g}, truncated at max_degree={candidate.max_degree}. "
            "Raise max_degree, or try another sketch or other coefficients."
        )
    return least.n_components


def least_components(
    study: Study,
    candidate: FeatureMap,
    tolerance: float,
    max_components: int,
    min_components: int = 1,
) -> PlannedCandidate | None:
    """The candidate with the least number of columns whose `upper_error` is within tolerance.

    The search begins at min_components; None if max_components are not enough.
    """
    rows: dict[int, PlannedCandidate | None] = {}

    def enough(n_components: int) -> bool:
        if n_components not in rows:
            try:
                rows[n_components] = predict_with(candidate, study, n_components)
            except Unsuited:
                rows[n_components] = None
        row = rows[n_components]
        return row is not None and row.upper_error <= tolerance

    low, high = 0, min(min_components, max_components)
    while not enough(high):
        if high == max_components:
            return None
        low, high = high, min(2 * high, max_components)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    best = rows[high]
    # The variance of structured sketches is not quite monotone: look a little further down
    while best is not None and best.source == "formula":
        fewer = [n for n in range(max(high - 7, 1), high) if enough(n)]
        if not fewer:
            break
        high = fewer[-1]
        best = rows[high]
    return best


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

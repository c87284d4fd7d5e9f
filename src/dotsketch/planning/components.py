"""The columns needed to reach a tolerance."""

from __future__ import annotations

import math
from typing import Any

from .._arrays import Array
from .._support.parameters import check_positive
from ..features import FeatureMap, MaclaurinFeatures, Study, Unsuited, check_kernel, check_rows
from ..kernels import ExpandedKernel, Kernel
from .plan import PlannedCandidate


def required_components(
    kernel: Kernel,
    X: Array,
    *,
    tolerance: float,
    sketch: str = "tensor_srht",
    output: str = "real",
    coefficients: str = "taylor",
    mean_split: bool = False,
    max_degree: int = 10,
    max_components: int = 1 << 18,
    random_state: Any = 0,
) -> int:
    """The smallest n_components of `MaclaurinFeatures` whose predicted error is within a tolerance.

    `AutoFeatures(kernel, tolerance=...)` searches all families of features.

    Parameters
    ----------
    kernel : Kernel
    X : array of shape (n, d)
    tolerance : float
        The relative error √(E(k − k̂)²/E k²) to reach.
    sketch, output, coefficients, mean_split, max_degree
        As for `MaclaurinFeatures`.
    max_components : int, default=2¹⁸
        Where the search ends, with an error.
    random_state : int, RandomState, Generator or None, default=0

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
    candidate = MaclaurinFeatures(
        kernel,
        sketch=sketch,
        output=output,
        coefficients=coefficients,
        mean_split=mean_split,
        max_degree=max_degree,
    )
    study = Study(kernel, check_rows(X), n_pairs_sample=1000, random_state=random_state)
    least = least_components(study, candidate, tolerance, max_components)
    if least is None:
        row = predict_with(candidate, study, max_components)
        error = math.nan if row is None else row.relative_error
        raise ValueError(
            f"tolerance={tolerance} is not reached with {max_components} components: the "
            f"predicted error is {error:.3g}, truncated at max_degree={max_degree}. Raise "
            "max_degree, or try another sketch or other coefficients."
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
            rows[n_components] = predict_with(candidate, study, n_components)
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


def predict_with(candidate: FeatureMap, study: Study, n_components: int) -> PlannedCandidate | None:
    """The error and cost with at most n_components columns; None if they are too few."""
    n = candidate.columns_up_to(n_components, study.n_rows)
    if n == 0:
        return None
    at_columns = candidate.for_kernel(study.kernel, n)
    try:
        return PlannedCandidate(candidate=at_columns, **vars(at_columns.expected_error(study)))
    except Unsuited:
        return None

"""The columns needed to reach a tolerance."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from .._arrays import Array
from .._support.parameters import check_positive
from ..features import FeatureMap, MaclaurinFeatures
from ..features.samples import check_rows
from ..features.study import Study, check_kernel
from ..kernels import ExpandedKernel, Kernel
from .search import predict
from .table import PlannedCandidate


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
    n_pairs_sample: int = 1000,
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
    sketch, output, coefficients, mean_split, max_degree, n_pairs_sample, random_state
        As for `MaclaurinFeatures`.
    max_components : int, default=2¹⁸
        Where the search ends, with an error.

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
        "AutoFeatures(kernel, tolerance=...), which knows every family",
    )
    candidate = MaclaurinFeatures(
        kernel,
        sketch=sketch,
        output=output,
        coefficients=coefficients,
        mean_split=mean_split,
        max_degree=max_degree,
    )
    study = Study(
        kernel,
        check_rows(X),
        max_degree=max_degree,
        n_pairs_sample=n_pairs_sample,
        random_state=random_state,
    )
    found = least_components(study, candidate, tolerance, max_components)
    if found is None:
        row = predict(candidate, study, max_components)
        error = math.nan if row is None else row.relative_error
        raise ValueError(
            f"tolerance={tolerance} is not reached with {max_components} components: the "
            f"predicted error is {error:.3g}, truncated at max_degree={max_degree}. Raise "
            "max_degree, or try another sketch or other coefficients."
        )
    return found.n_components


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
    check_positive("tolerance", tolerance)
    step = candidate.columns_at_once
    known: dict[int, PlannedCandidate | None] = {}

    def enough(units: int) -> bool:
        if units not in known:
            known[units] = predict(candidate, study, units * step)
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

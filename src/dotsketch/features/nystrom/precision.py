"""Whether float32 is enough for Nyström features, and checks of the kernel's values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..._arrays import Array, ArrayT, evenly_spaced, host, is_sparse, is_traced, namespace
from ...kernels import Kernel

# Roundings of k̂ in float32, relative to the error of k̂, that are safe: they add 0.5 % to it
SINGLE_IS_SAFE = 0.1
_PROBE_ROWS = 64, 512  # training rows they are measured on, at least and at most


def is_single(X: Array) -> bool:
    """Whether X is of float32, in any library."""
    return str(X.dtype).endswith("float32")


def probe_rows(n: int, landmarks: np.ndarray) -> np.ndarray:
    """Numbers of some of n rows; without landmarks, where k̂ has little error, if enough are left.

    Roundings would look larger beside their errors than they are on rows that come later.
    """
    least, most = _PROBE_ROWS
    rows = evenly_spaced(n, 4 * most)
    others = np.setdiff1d(rows, landmarks)
    rows = others if len(others) >= least else rows
    return rows[evenly_spaced(len(rows), most)]


def suited_to_single(
    kernel: Kernel, landmarks: Any, W: np.ndarray, X: Any, soften: Callable[[], np.ndarray] | None
) -> tuple[np.ndarray, float]:  # (m, d), (m, D), (n, d) -> (m, D)
    """W, or a softened one if float32 is safe only then; and the roundings of k̂ relative to its
    error."""
    error, rounding = single_errors(kernel, landmarks, W, X)
    if soften is not None and rounding > SINGLE_IS_SAFE * error:
        soft = soften()
        soft_error, soft_rounding = single_errors(kernel, landmarks, soft, X)
        as_good = soft_error <= (1 + SINGLE_IS_SAFE**2 / 2) * error
        if as_good and soft_rounding <= SINGLE_IS_SAFE * error:
            W, error, rounding = soft, soft_error, soft_rounding
    return W, rounding / error if error > 0 else np.inf


def single_errors(
    kernel: Kernel, landmarks: Any, W: np.ndarray, X: Any
) -> tuple[float, float]:  # (m, d), (m, D), (n, d)
    """|k − k̂| over pairs of distinct rows of X, and the roundings of k̂ in float32."""
    with np.errstate(over="ignore", invalid="ignore"):  # what leaves the range is not safe
        single = X.astype(np.float32)
        X = single.astype(np.float64)
        Z = kernel(single, landmarks.astype(np.float32)) @ W.astype(np.float32)
        Z, exact = Z.astype(np.float64), kernel(X, landmarks) @ W
        approximate = exact @ exact.T
        differences = kernel(X) - approximate, Z @ Z.T - approximate
    for difference in differences:
        np.fill_diagonal(difference, 0)
    error, rounding = (float(np.linalg.norm(difference)) for difference in differences)
    return error, rounding if rounding < np.inf else np.inf


def check_size(K: np.ndarray) -> None:
    """Raise if no landmark has a kernel value, or one of them an infinite one."""
    size = float(np.max(np.diagonal(K)))
    if not 0 < size < np.inf:
        raise ValueError(
            f"The largest k(x, x) of the drawn rows is {size}: scale X, or choose another "
            "lengthscale or gamma."
        )


def check_finite(Z: ArrayT, X: Array) -> ArrayT:
    """Z, unless values of the kernel left the range of their dtype."""
    xp = namespace(Z)
    if is_traced(Z) or bool(xp.all(xp.isfinite(Z))):
        return Z
    entries = X.data if is_sparse(X) else X
    largest = float(host(namespace(entries).max(namespace(entries).abs(entries))))
    raise ValueError(
        f"The features overflow {X.dtype}: the largest entry of X is {largest:.3g}; scale X down, "
        "use a smaller gamma or a larger lengthscale, or use float64."
    )

"""The second moment of whitened kernel values, over the training rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..._arrays import Array
from ...kernels import Kernel
from ..samples import keeps_sparse, most_rows, take_or_keep
from ..whitening import Whitening, second_moment

_MOMENT_ROWS = 10_000  # it is that of so many rows, unless 4 per landmark are more


def moment_of_rows(
    whitening: Whitening,
    kernel: Kernel,
    landmarks: Any,
    indices: np.ndarray,
    X: Array,
    rng: np.random.Generator,
) -> np.ndarray:  # -> (m, m)
    """Over the rows of X, or some of them if these are many."""
    m, n = landmarks.shape[0], X.shape[0]
    if n > n_moment_rows(m) or indices[0] < 0:
        return second_moment(whitening, kernel, landmarks, moment_rows(X, m, rng))
    others = row_blocks(X, np.setdiff1d(np.arange(n), indices))
    return second_moment(whitening, kernel, landmarks, others, and_landmarks=True)


def moment_rows(X: Array, n_landmarks: int, rng: np.random.Generator) -> Iterator[Any]:
    """Blocks of the rows that a second moment is averaged over."""
    n = min(X.shape[0], n_moment_rows(n_landmarks))
    chosen = np.arange(n) if n == X.shape[0] else np.sort(rng.permutation(X.shape[0])[:n])
    return row_blocks(X, chosen)


def row_blocks(X: Array, numbers: np.ndarray) -> Iterator[Any]:
    """The rows of these numbers, block by block."""
    n = len(numbers)
    step = max(1, n) if keeps_sparse(X) else most_rows(X.shape[1])
    for start in range(0, n, step):
        yield take_or_keep(X, numbers[start : start + step])


def n_moment_rows(n_landmarks: float) -> int:
    """How many rows a second moment is averaged over, if there are so many."""
    return int(max(_MOMENT_ROWS, 4 * n_landmarks))

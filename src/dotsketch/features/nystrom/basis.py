"""What a fit of Nyström features keeps: which rows, and the matrix that whitens their kernel."""

from __future__ import annotations

from copy import copy
from numbers import Integral, Real
from typing import Annotated, Any, NamedTuple

import numpy as np
from sklearn.utils import check_array

from ..._arrays import Array, dense, host
from ..._backends import keeps_prepared
from ..._support.stored import array
from ..._support.threads import suited_blas_threads
from ...kernels import Kernel
from ..landmarks import CLUSTERS, cluster_means, landmark_rule
from ..samples import keeps_sparse, take_or_keep
from ..whitening import JITTER, SINGLE_JITTER, Whitening, leading, softened
from .moment import moment_of_rows
from .precision import check_size, is_single, probe_rows, suited_to_single

_AUTO = 2.0, 2048  # landmarks per column by default, unless that is more than so many


@keeps_prepared
class Basis(NamedTuple):
    """What a fit keeps, on the host."""

    # CSR if the training rows are
    rows: Annotated[Any, array("f", "m", "d", sparse=True)]
    indices: Annotated[np.ndarray, array("iu", "m")]
    normalization: Annotated[np.ndarray, array("f", "m", "D")]
    single_error: float  # roundings of k̂ in float32, relative to the error of k̂

    @property
    def on_host(self) -> tuple[str, ...]:
        """What stays on the host when the others become tensors: code looks at its values."""
        return ("indices",)


def fitted_basis(
    kernel: Kernel, landmarks: Any, n_landmarks: int, D: int, X: Array, rng: np.random.Generator
) -> Basis:
    """D columns for a kernel of variance 1; `landmarks` are rows, or the name of a rule."""
    m = min(n_landmarks, X.shape[0])
    with suited_blas_threads(m if isinstance(landmarks, str) else np.shape(landmarks)[0]):
        rows, indices = _chosen_rows(kernel, landmarks, m, X, rng)
        return _whitened_rows(kernel, rows, indices, D, X, rng)


def _chosen_rows(
    kernel: Kernel, landmarks: Any, m: int, X: Array, rng: np.random.Generator
) -> tuple[Any, np.ndarray]:  # -> (m, d), (m,)
    """The landmarks, and their row numbers in X: −1 if they are no rows of it."""
    if not isinstance(landmarks, str):
        return landmarks, np.full(landmarks.shape[0], -1)
    if landmarks == CLUSTERS:
        return cluster_means(kernel, host(X), m, rng), np.full(m, -1)
    indices = landmark_rule(landmarks)(kernel, host(X), m, rng)
    return take_or_keep(X, indices), indices


def _whitened_rows(
    kernel: Kernel, rows: Any, indices: np.ndarray, D: int, X: Array, rng: np.random.Generator
) -> Basis:  # (m, d), (m,)
    """The matrix W of these landmarks, in a form that float32 suits if rows of X are of float32."""
    K = kernel(rows)
    check_size(K)
    whitening = Whitening(K)
    if rows.shape[0] == D:
        W = whitening.inverse()
    else:
        W = whitening.combined(leading(moment_of_rows(whitening, kernel, rows, indices, X, rng), D))

    def soften() -> np.ndarray:
        if rows.shape[0] == D:  # L⁻ᵀ is triangular: a third of the operations
            return Whitening(K, JITTER + SINGLE_JITTER).inverse()
        return softened(W, np.diagonal(K))

    probe = take_or_keep(X, probe_rows(X.shape[0], indices))
    W, error = suited_to_single(kernel, rows, W, probe, soften if is_single(X) else None)
    return Basis(rows, indices, W, error)


def count_landmarks(n_landmarks: Any, D: int) -> int:
    """How many landmarks D columns are made of, if there are so many rows."""
    if isinstance(n_landmarks, str) and n_landmarks == "auto":
        factor, most = _AUTO
        return max(D, min(int(factor * D), most))
    is_number = isinstance(n_landmarks, Real) and not isinstance(n_landmarks, bool)
    if not is_number or not 0 < n_landmarks < np.inf:
        raise ValueError(
            f'n_landmarks must be an integer, a factor such as 2.0, or "auto"; got {n_landmarks!r}.'
        )
    is_count = isinstance(n_landmarks, Integral)
    m = int(n_landmarks) if is_count else int(float(n_landmarks) * D)
    if m < D:
        raise ValueError(
            f"n_landmarks={n_landmarks!r} is fewer than n_components={D}: use {D} or more (1.0 or "
            "more times the columns)."
        )
    return m


def given_rows(landmarks: Any, n_components: int, n_features: int) -> Any:  # -> (m, d)
    """The landmarks that a user gives, checked; CSR if few of their entries are stored."""
    rows = check_array(host(landmarks), accept_sparse="csr", dtype=np.float64)
    if rows.shape[0] < n_components or rows.shape[1] != n_features:
        raise ValueError(
            f"landmarks must be n_components={n_components} rows or more, of {n_features} "
            f"features; got the shape {rows.shape}."
        )
    return rows.copy() if keeps_sparse(rows) else np.array(dense(rows))


def unit_kernel(kernel: Kernel) -> Kernel:
    """The kernel with variance 1, which only scales the features."""
    unit = copy(kernel)
    unit.variance = 1.0
    return unit

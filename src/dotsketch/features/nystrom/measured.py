"""The error of Nyström features, measured on rows held out."""

from __future__ import annotations

import numpy as np

from ..errors import Measurement
from ..landmarks import Rule, n_candidates, uniform_rows
from ..study import Study
from ..whitening import Whitening, leading, second_moment

_LEAST_MOMENT_ROWS = 2000  # that a second moment is averaged over


def measured(study: Study, rule: Rule, D: int, m: int) -> Measurement:
    """Of D columns from m landmarks, or as many as X leaves beside the rows held out.

    The second moment is that of 16 rows per column here (2000 at least), which is enough to tell
    its top eigenvectors, and much cheaper than all rows.
    """
    d, n_held = study.dimension, study.n_held
    kernel, _ = study.known_values
    # Uniform landmarks are the rows that a draw fits to; a rule chooses among more of them
    wanted = m if rule is uniform_rows else n_candidates(m)
    if m > D:
        wanted = max(wanted, 16 * D, _LEAST_MOMENT_ROWS)
    pool = max(m, min(wanted, study.n_rows - n_held))

    def approximate(fitting: np.ndarray, held: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        chosen = np.arange(min(m, len(fitting)))
        if rule is not uniform_rows:
            chosen = rule(kernel, fitting, len(chosen), rng)
        landmarks = fitting[chosen]
        whitening = Whitening(kernel(landmarks))
        A = whitening(kernel(landmarks, held))
        if len(landmarks) > D:
            others = [np.delete(fitting, chosen, axis=0)]
            S = second_moment(whitening, kernel, landmarks, others, and_landmarks=True)
            A = leading(S, D).T @ A
        return A.T @ A

    operations = m * m * (m / 3 + n_held + 2 * d) + 2.0 * m * n_held * (n_held + d)
    if m > D:
        operations += eigen_operations(m) + 2.0 * pool * m * (m + d)
    if rule is not uniform_rows:
        operations += 2.0 * pool * m * (m + d)
    return study.measure(approximate, pool, operations, is_random=m < pool, by_values=True)


def eigen_operations(n_landmarks: float) -> float:
    """Of eigenvectors, in products of matrices that take as long."""
    return 8 * n_landmarks**3


def has_finite_diagonal(study: Study) -> bool:
    """Whether k(x, x)² is finite for all rows, and with it k² for all pairs of them."""
    with np.errstate(over="ignore"):
        return all(
            bool(np.isfinite(np.sum(study.kernel.diag(rows) ** 2))) for rows in study.blocks()
        )

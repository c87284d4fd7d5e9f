"""Random splits, recomputed from a seed; nothing about them is stored."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .base import Dataset


@dataclass(frozen=True, eq=False)
class Split:
    """Disjoint parts of a data set; the validation part is None unless it was asked for."""

    X_train: np.ndarray
    y_train: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    X_validation: np.ndarray | None = None
    y_validation: np.ndarray | None = None


def train_test_split(
    dataset: Dataset,
    *,
    seed: int,
    test_size: float = 0.1,
    validation_size: float = 0.0,
    max_train: int | None = None,
    max_test: int | None = None,
) -> Split:
    """Shuffled, disjoint parts of a data set, the same for the same seed.

    Parameters
    ----------
    seed : int
    test_size : float in (0, 1), default=0.1
        Share of the rows that is the test part (the paper's 90/10). A predefined test part is
        taken instead where there is one.
    validation_size : float in [0, 1), default=0.0
        Share of the remaining rows that is the validation part; 0 makes none.
    max_train, max_test : int or None
        At most so many rows (max_train: of the training part, after validation is taken off).
    """
    if not 0 < test_size < 1 or not 0 <= validation_size < 1:
        raise ValueError(
            f"test_size must be in (0, 1) and validation_size in [0, 1); got {test_size} and "
            f"{validation_size}."
        )
    for limit, text in ((max_train, "max_train"), (max_test, "max_test")):
        if limit is not None and limit < 1:
            raise ValueError(f"{text} must be positive; got {limit}.")
    rng = np.random.default_rng(seed)
    rows = rng.permutation(len(dataset.X))
    if dataset.X_test is not None and dataset.y_test is not None:
        test = rng.permutation(len(dataset.X_test))[:max_test]
        X_test, y_test = dataset.X_test[test], dataset.y_test[test]
    else:
        test, rows = _take(rows, test_size, dataset.name)
        X_test, y_test = dataset.X[test[:max_test]], dataset.y[test[:max_test]]
    validation: tuple[np.ndarray, ...] = ()
    if validation_size:
        chosen, rows = _take(rows, validation_size, dataset.name)
        validation = (dataset.X[chosen], dataset.y[chosen])
    rows = rows[:max_train]
    return Split(dataset.X[rows], dataset.y[rows], X_test, y_test, *validation)


def _take(rows: np.ndarray, share: float, name: str) -> tuple[np.ndarray, np.ndarray]:
    """The first `share` of the rows, at least one, and the others, at least one."""
    if len(rows) < 2:
        raise ValueError(f"{name}: {len(rows)} row(s) are too few to split.")
    count = min(max(round(share * len(rows)), 1), len(rows) - 1)
    return rows[:count], rows[count:]

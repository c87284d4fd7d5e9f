"""What a data set is, and how arrays from anywhere become one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

TASKS = ("classification", "regression")


class DatasetError(ValueError):
    """A data set that is unknown, unreachable or damaged; the message is one line."""


@dataclass(frozen=True, eq=False)
class Dataset:
    """Rows and targets of one data set, neither scaled nor shuffled.

    X is (n, d) float32 in C order. y is (n,): int64 labels 0 … C−1 for classification, float64 for
    regression. X_test and y_test are the predefined test part, or None.
    """

    name: str
    task: str
    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray | None = None
    y_test: np.ndarray | None = None

    @property
    def dimension(self) -> int:
        return self.X.shape[1]

    @property
    def n_rows(self) -> int:
        """Rows of both parts."""
        return len(self.X) + (0 if self.X_test is None else len(self.X_test))

    @property
    def n_classes(self) -> int | None:
        """Number of labels, None for regression."""
        if self.task == "regression":
            return None
        labels = [self.y] if self.y_test is None else [self.y, self.y_test]
        return int(max(y.max() for y in labels)) + 1


@dataclass(frozen=True)
class DatasetInfo:
    """One line of `list_datasets`. Sizes are None where they are known only after fetching, and,
    with an empty task, where a file cannot be read as a data set.

    rows counts the predefined test part too; where is "folder", "scikit-learn" or "OpenML";
    available says whether `load_dataset` would find it now, without a network.
    """

    name: str
    task: str
    rows: int | None
    dimension: int | None
    classes: int | None
    where: str
    available: bool


def make_dataset(name: str, task: str | None, arrays: dict[str, np.ndarray]) -> Dataset:
    """A Dataset from X_train, y_train and perhaps X_test, y_test of any numeric dtype.

    `task=None` is inferred: integer targets are labels.
    """
    for part in ("train", "test"):
        if (f"X_{part}" in arrays) != (f"y_{part}" in arrays):
            raise DatasetError(f"{name}: only one of X_{part} and y_{part} is there.")
    if "X_train" not in arrays:
        raise DatasetError(f"{name}: there is no X_train; found {sorted(arrays)}.")
    task = task or infer_task(arrays["y_train"].dtype)
    if task not in TASKS:
        raise DatasetError(f"{name}: task must be one of {TASKS}; got {task!r}.")
    X, y = _rows(name, "train", task, arrays)
    if "X_test" not in arrays:
        return Dataset(name, task, X, y)
    X_test, y_test = _rows(name, "test", task, arrays)
    if X_test.shape[1] != X.shape[1]:
        raise DatasetError(
            f"{name}: X_train has {X.shape[1]} columns and X_test {X_test.shape[1]}."
        )
    return Dataset(name, task, X, y, X_test, y_test)


def infer_task(dtype: np.dtype) -> str:
    """Integer targets are labels."""
    return "classification" if dtype.kind in "iub" else "regression"


def _rows(
    name: str, part: str, task: str, arrays: dict[str, np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """X (n, d) and y (n,) of one part, checked and cast."""
    X, y = arrays[f"X_{part}"], arrays[f"y_{part}"]
    for array, what, ndim in ((X, "X", 2), (y, "y", 1)):
        if array.dtype.kind not in "iufb" or array.ndim != ndim:
            raise DatasetError(
                f"{name}: {what}_{part} must be numeric with {ndim} dimension(s); it is "
                f"{array.dtype} of shape {array.shape}."
            )
    if len(X) != len(y) or 0 in X.shape:
        raise DatasetError(
            f"{name}: X_{part} {X.shape} and y_{part} {y.shape} must have as many rows, and some."
        )
    # Values beyond float32 become inf, which is refused with the others
    with np.errstate(over="ignore"):
        X = np.ascontiguousarray(X, dtype=np.float32)
    if not np.isfinite(X).all() or not np.isfinite(y).all():
        raise DatasetError(f"{name}: there are missing or infinite values in the {part} part.")
    if task == "regression":
        return X, np.asarray(y, dtype=np.float64)
    labels = y.astype(np.int64)
    if np.any(labels != y) or labels.min() < 0:
        raise DatasetError(f"{name}: labels of the {part} part must be integers 0, 1, …")
    return X, labels

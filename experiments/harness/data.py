"""Data of an experiment, prepared as Section 6.1 of the paper has it.

Training and test rows are disjoint and drawn anew for every seed: 90 % and 10 % of the rows, or
random subsets of the two parts where a data set has a split of its own. Shift and scale are
learned from the training rows alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from dotsketch.datasets import Dataset, load_dataset
from dotsketch.pairs import PairStatistics

PREPROCESSINGS = ("raw", "centred", "standardised")

# What the paper and the authors' results call the data sets
PAPER_NAMES = {
    "adult": "Adult",
    "boston": "Boston",
    "cod_rna": "Cod_rna",
    "concrete": "Concrete",
    "covertype": "Covertype",
    "drive": "Drive",
    "eeg": "EEG",
    "energy": "Energy",
    "fashion_mnist": "FashionMNIST",
    "kin8nm": "kin8nm",
    "letter": "Letter",
    "magic": "Magic",
    "miniboone": "Miniboo",
    "mnist": "MNIST",
    "mocap": "Mocap",
    "naval": "Naval",
    "powerplant": "Powerplant",
    "protein": "Protein",
    "yacht": "Yacht",
}


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


@dataclass(frozen=True, eq=False)
class Prepared:
    """Preprocessed rows for training and testing, (n, d) and (m, d), with their targets."""

    task: str
    X_train: np.ndarray
    y_train: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray

    @property
    def padded_dimension(self) -> int:
        """d as the paper counts it: the next power of two."""
        return padded(self.X_train.shape[1])


def padded(dimension: int) -> int:
    return 1 << max(dimension - 1, 0).bit_length()


@lru_cache(maxsize=2)
def loaded(name: str) -> Dataset:
    """A data set, kept in memory for the next unit."""
    return load_dataset(name)


def prepare(
    name: str,
    seed: int,
    preprocessing: str,
    *,
    n_train: int | None = None,
    n_test: int | None = None,
    dtype: Any = np.float64,
) -> Prepared:
    """A split for a seed, at most n_train and n_test rows in random order (None: all)."""
    data = loaded(name)
    parts = train_test_split(data, seed=seed, max_train=n_train, max_test=n_test)
    train, test = preprocess(
        parts.X_train.astype(np.float64), parts.X_test.astype(np.float64), preprocessing
    )
    return Prepared(data.task, train.astype(dtype), parts.y_train, test.astype(dtype), parts.y_test)


def preprocess(train: np.ndarray, test: np.ndarray, how: str) -> tuple[np.ndarray, np.ndarray]:
    """Shift and scale, learned on the training rows.

    - "raw": nonnegative (the least value of each column subtracted), rows of unit norm
    - "centred": standardised columns, rows of unit norm
    - "standardised": standardised columns
    """
    if how not in PREPROCESSINGS:
        raise ValueError(f"preprocessing must be one of {PREPROCESSINGS}; got {how!r}.")
    if how == "raw":
        shift, scale = train.min(axis=0), np.ones(train.shape[1])
    else:
        shift, scale = train.mean(axis=0), train.std(axis=0)
        scale = np.where(scale > 0, scale, 1.0)
    train, test = (train - shift) / scale, (test - shift) / scale
    return (train, test) if how == "standardised" else (unit_rows(train), unit_rows(test))


def aligned_pairs(x: np.ndarray, y: np.ndarray) -> PairStatistics[np.ndarray]:
    """Statistics of the pairs (x_i, y_i) of two arrays of rows, (n, d) each."""
    return PairStatistics(
        dot=np.sum(x * y, axis=1),
        norms=np.sum(x * x, axis=1) * np.sum(y * y, axis=1),
        squares=np.sum(x * x * y * y, axis=1),
        dimension=x.shape[1],
    )


def unit_rows(X: np.ndarray) -> np.ndarray:
    """Rows divided by their norm; a zero row stays zero."""
    result: np.ndarray = X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-12)
    return result

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


Parts = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]  # X and y to train on, and to test


def train_test_split(
    dataset: Dataset, *, seed: int, max_train: int | None = None, max_test: int | None = None
) -> Parts:
    """Shuffled, disjoint parts of a data set, the same for the same seed, of at most so many rows.

    A tenth of the rows, at least one, are for testing (the paper's 90/10), or a predefined part.
    """
    rng = np.random.default_rng(seed)
    rows = rng.permutation(len(dataset.X))
    if dataset.X_test is not None and dataset.y_test is not None:
        test = rng.permutation(len(dataset.X_test))[:max_test]
        X_test, y_test = dataset.X_test[test], dataset.y_test[test]
    else:
        if len(rows) < 2:
            raise ValueError(f"{dataset.name}: {len(rows)} row(s) are too few to split.")
        count = max(round(0.1 * len(rows)), 1)
        test, rows = rows[:count][:max_test], rows[count:]
        X_test, y_test = dataset.X[test], dataset.y[test]
    rows = rows[:max_train]
    return dataset.X[rows], dataset.y[rows], X_test, y_test


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
    X, y, X_test, y_test = train_test_split(data, seed=seed, max_train=n_train, max_test=n_test)
    train, test = preprocess(X.astype(np.float64), X_test.astype(np.float64), preprocessing)
    return Prepared(data.task, train.astype(dtype), y, test.astype(dtype), y_test)


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

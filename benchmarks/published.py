"""Data of the paper, and the authors' published results, for scripts that compare with them.

Whole figures are compared by `dotsketch reproduce fig6 --reference paper_results.csv`.
"""

from __future__ import annotations

import csv
import math
from pathlib import Path

import numpy as np

DATA_SETS = {
    "FashionMNIST": "fashion_mnist",
    "Magic": "magic",
    "Letter": "letter",
    "Boston": "boston",
    "kin8nm": "kin8nm",
}


def load(name: str, folder: Path) -> np.ndarray:
    with np.load(folder / f"{name}.npz") as file:
        return np.asarray(file["X_train"], dtype=np.float64)


def split(X: np.ndarray, shift_name: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Disjoint training and test rows (at most 5000 and 1000), shifted and scaled."""
    order = np.random.default_rng(seed).permutation(len(X))
    n_test = min(1000, len(X) // 10)
    test, train = X[order[:n_test]], X[order[n_test : n_test + 5000]]
    shift = train.min(axis=0) if shift_name == "raw" else train.mean(axis=0)
    train, test = train - shift, test - shift
    if shift_name != "raw":  # "centred" columns have unit variance too, as in the authors' code
        deviation = train.std(axis=0)
        train, test = (A / np.where(deviation > 0, deviation, 1.0) for A in (train, test))
    if shift_name == "standardised":
        return train, test
    return tuple(
        A / np.maximum(np.linalg.norm(A, axis=1, keepdims=True), 1e-12) for A in (train, test)
    )


def relative_error(K: np.ndarray, Z: np.ndarray, keep_imaginary: bool) -> float:
    approximate = Z @ Z.conj().T
    approximate = approximate if keep_imaginary else approximate.real
    return float(np.linalg.norm(K - approximate) / np.linalg.norm(K))


def reference_rows(path: Path | None) -> list[dict]:
    if path is None:
        return []
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def published(rows: list[dict], **wanted: object) -> tuple[float, float]:
    """Mean and spread of one cell of the authors' results; NaN where there is none."""
    for row in rows:
        matches = all(row[key] == str(value) for key, value in wanted.items())
        if matches and row["k_rel_frob_error_mean"]:
            spread = row["k_rel_frob_error_std"]
            return float(row["k_rel_frob_error_mean"]), float(spread) if spread else math.nan
    return math.nan, math.nan

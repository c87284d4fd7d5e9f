"""Data of the paper, and the authors' published results, for scripts that compare with them.

Whole figures are compared by `python -m experiments fig6 --reference paper_results.csv`.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from dotsketch import relative_frobenius_error
from experiments.harness.data import PAPER_NAMES, Prepared, prepare
from experiments.harness.report import read_reference

NAMES = ("fashion_mnist", "magic", "letter", "boston", "kin8nm")
DATA_SETS = {PAPER_NAMES[name]: name for name in NAMES}


def prepared(label: str, preprocessing: str) -> Prepared:
    """Disjoint training and test rows, at most 5000 and 1000."""
    return prepare(DATA_SETS[label], 0, preprocessing, n_train=5000, n_test=1000)


def relative_error(K: np.ndarray, Z: np.ndarray, keep_imaginary: bool) -> float:
    approximate = Z @ Z.conj().T
    return float(relative_frobenius_error(K, approximate if keep_imaginary else approximate.real))


def reference_rows(path: Path | None) -> list[dict]:
    return [] if path is None else read_reference(path)


def published(rows: list[dict], **wanted: object) -> tuple[float, float]:
    """Mean and spread of one cell of the authors' results; NaN where there is none."""
    for row in rows:
        matches = all(row[key] == str(value) for key, value in wanted.items())
        if matches and row["k_rel_frob_error_mean"]:
            spread = row["k_rel_frob_error_std"]
            return float(row["k_rel_frob_error_mean"]), float(spread) if spread else math.nan
    return math.nan, math.nan

"""Our results beside the authors' own, cell by cell.

The authors' table has a line for each kernel, data set, method and number of features, with mean
and standard deviation over seeds. For each line that we have run too, two z-scores:

- `z_spread` = difference / √(s² + s'²): is our value a likely one among theirs?
- `z_mean` = difference / √(s²/n + s'²/n'): do the two means differ by more than chance?

Frobenius errors of polynomial kernels keep the imaginary part, as theirs do.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from .data import PAPER_NAMES
from .experiment import Row
from .methods import METHODS
from .plots import column

Key = tuple[Any, ...]  # what selects a line of the table

CENTRED = {"raw": "False", "centred": "True", "standardised": ""}
METRICS = {"test_kl": "kl", "test_error": "test_error", "test_mnll": "mnll"}
POLYNOMIAL_METRICS = {"k_rel_frob_error": "frobenius_error_complex", **METRICS}
GAUSSIAN_METRICS = {"k_rel_frob_error": "frobenius_error", **METRICS}


def read_reference(path: str | Path) -> list[Row]:
    """The authors' table; the columns that select a line must be there."""
    with open(path, newline="", encoding="utf-8") as file:
        rows: list[Row] = list(csv.DictReader(file))
    needed = {"kernel", "dataset", "centred", "method", "projection", "complex", "tree", "D"}
    if not rows or not needed <= set(rows[0]):
        raise ValueError(f"{path} is not a table of the authors' results: it needs {needed}.")
    return rows


def compare(rows: Iterable[Row], reference: list[Row]) -> list[Row]:
    """A line for every cell and metric that both have."""
    theirs = {_key(row): row for row in reference}
    ours: dict[Key, list[Row]] = {}
    for row in rows:
        key = _own_key(row)
        if key in theirs and not row.get("error"):
            ours.setdefault(key, []).append(row)
    lines = []
    for key, chosen in ours.items():
        metrics = GAUSSIAN_METRICS if chosen[0].get("degree") is None else POLYNOMIAL_METRICS
        for metric, name in metrics.items():
            line = _compare_cell(key, chosen, theirs[key], metric, name)
            if line is not None:
                lines.append(line)
    return lines


def _compare_cell(key: Key, chosen: list[Row], line: Row, metric: str, name: str) -> Row | None:
    if name == "test_error" and "squared_error" in chosen[0]:
        name = "squared_error"  # theirs are mean squared errors, in squared units of y
    found = column(chosen, name)
    if not len(found) or not line[f"{metric}_mean"]:
        return None
    mean, their_mean = float(found.mean()), float(line[f"{metric}_mean"])
    spread = float(found.std(ddof=1)) if len(found) > 1 else math.nan
    their_spread = float(line[f"{metric}_std"] or "nan")
    n, their_n = len(found), int(line["seeds"])
    difference = mean - their_mean
    return {
        "kernel": key[0],
        "dataset": key[1],
        "preprocessing": chosen[0]["preprocessing"],
        "method": chosen[0]["method"],
        "D": int(key[-1]),
        "metric": metric,
        "ours": mean,
        "our_std": spread,
        "our_seeds": n,
        "theirs": their_mean,
        "their_std": their_spread,
        "their_seeds": their_n,
        "z_spread": _ratio(difference, math.hypot(spread, their_spread)),
        "z_mean": _ratio(
            difference, math.hypot(spread / math.sqrt(n), their_spread / math.sqrt(their_n))
        ),
    }


def _ratio(difference: float, scale: float) -> float:
    return difference / scale if scale > 0 else math.nan


def _key(row: Row) -> Key:
    names = ("kernel", "dataset", "centred", "method", "projection", "complex", "tree", "D")
    return tuple(row[name] for name in names)


def _own_key(row: Row) -> Key | None:
    method = METHODS.get(row.get("method", ""))
    if method is None or not method.reference or "preprocessing" not in row:
        return None
    degree = row.get("degree")
    kernel = f"(1/2+x.y/2)^{degree}" if degree is not None else "gaussian median heuristic"
    dataset = PAPER_NAMES.get(row["dataset"], row["dataset"])
    columns = (method.reference[n] for n in ("method", "projection", "complex", "tree"))
    return (kernel, dataset, CENTRED[row["preprocessing"]], *columns, str(row["n_features"]))

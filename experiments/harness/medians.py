"""Our results beside the authors' in one line for each data set, kernel and preprocessing."""

from __future__ import annotations

import math
import statistics

from .experiment import Row

RATIOS = {"k_rel_frob_error": "Frobenius", "test_kl": "KL", "test_error": "error"}


def medians(lines: list[Row]) -> list[Row]:
    """Medians over methods and numbers of features of ours/theirs, and of ours − theirs for the
    MNLL, which may have any sign. Authors' errors of exactly 0 (constant targets) have no ratio."""
    keys = ("dataset", "kernel", "preprocessing")
    found = []
    for cell in sorted({tuple(line[key] for key in keys) for line in lines}):
        chosen = [line for line in lines if tuple(line[key] for key in keys) == cell]
        numbers = {
            title: _median(
                [
                    line["ours"] / line["theirs"]
                    for line in chosen
                    if line["metric"] == metric and line["theirs"]
                ],
                ".2g",
            )
            for metric, title in RATIOS.items()
        }
        losses = [r["ours"] - r["theirs"] for r in chosen if r["metric"] == "test_mnll"]
        name, kernel, how = cell
        found.append(
            {
                "data": name,
                "kernel": short(kernel),
                "rows": how,
                "cells": len({(line["method"], line["D"]) for line in chosen}),
                "seeds": min(line["our_seeds"] for line in chosen),
                **numbers,
                "MNLL": _median(losses, "+.2f"),
            }
        )
    return found


def short(kernel: str) -> str:
    """The authors' name of a kernel in a few letters: p = 3, or Gaussian."""
    degree = kernel.rpartition("^")[2]
    return f"p = {degree}" if degree.isdigit() else "Gaussian"


def _median(values: list[float], digits: str) -> str:
    finite = [value for value in values if math.isfinite(value)]
    return format(statistics.median(finite), digits) if finite else "–"

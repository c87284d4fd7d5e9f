"""Summaries of rows: means over seeds, as tables."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .experiment import Row
from .methods import METHODS
from .plots import column, mean, select, values

PAPER_FAMILIES = ("sketch", "tree", "maclaurin", "spherical", "fourier")


def number(value: float, spread: float = float("nan")) -> str:
    """Four significant digits, with the standard deviation if there is one."""
    if not np.isfinite(value):
        return "–"
    text = f"{value:.4g}"
    return f"{text} ± {spread:.2g}" if np.isfinite(spread) else text


def pivot(rows: list[Row], metric: str, across: Sequence[str], index: str = "method") -> list[Row]:
    """A line for each method, a column for each combination of values; mean ± deviation."""
    cells = list(dict.fromkeys(tuple(row[key] for key in across) for row in rows))
    lines = []
    for name in values(rows, index):
        line: Row = {index: METHODS[name].label if name in METHODS else name}
        for cell in cells:
            chosen = select(rows, **{index: name}, **dict(zip(across, cell, strict=True)))
            found = column(chosen, metric)
            spread = float(found.std(ddof=1)) if len(found) > 1 else float("nan")
            failed = not len(found) and any(
                row.get("error")
                for row in rows
                if row.get(index) == name and tuple(row[key] for key in across) == cell
            )
            text = "failed" if failed else number(mean(chosen, metric), spread)
            line[" ".join(_title(key, value) for key, value in zip(across, cell, strict=True))] = (
                text
            )
        lines.append(line)
    return lines


def _title(key: str, value: object) -> str:
    return {"degree": f"p={value}", "times": f"D={value}d"}.get(key, str(value))


def progress_beyond(rows: list[Row], metric: str, cells: Sequence[str]) -> list[Row]:
    """The best method of the paper beside the best of ours, at equal numbers of real columns.

    A cell is judged twice: with D and with 2D real columns, as many as D complex features take.
    """
    lines = []
    found = list(dict.fromkeys(tuple(row.get(key) for key in cells) for row in rows))
    for cell in found:
        chosen = select(rows, **dict(zip(cells, cell, strict=True)))
        if not chosen:
            continue
        D = chosen[0]["n_features"]
        for budget in (D, 2 * D):
            best = {
                side: _best([r for r in chosen if r["columns"] <= budget and belongs(r)], metric)
                for side, belongs in (("paper", _is_paper), ("ours", _is_beyond))
            }
            if best["paper"] is None or best["ours"] is None:
                continue
            lines.append(
                dict(zip(cells, cell, strict=True))
                | {
                    "columns": budget,
                    "best of the paper": f"{number(best['paper'][0])} ({best['paper'][1]})",
                    "best of ours": f"{number(best['ours'][0])} ({best['ours'][1]})",
                    "ratio": float(f"{best['ours'][0] / best['paper'][0]:.3g}"),
                }
            )
    return lines


def _is_paper(row: Row) -> bool:
    return row["method"] in METHODS and METHODS[row["method"]].family in PAPER_FAMILIES


def _is_beyond(row: Row) -> bool:
    return row["method"] in METHODS and METHODS[row["method"]].family == "beyond"


def _best(rows: list[Row], metric: str) -> tuple[float, str] | None:
    means = [
        (mean(select(rows, method=name), metric), METHODS[name].label)
        for name in values(rows, "method")
    ]
    finite = [pair for pair in means if np.isfinite(pair[0])]
    return min(finite, default=None)

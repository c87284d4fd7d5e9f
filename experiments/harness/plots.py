"""One look for all figures, and tables of means over seeds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from .experiment import Row
from .methods import METHODS

FAMILY_COLOURS = {
    "sketch": "#4477aa",
    "tree": "#66889a",
    "maclaurin": "#aa3377",
    "spherical": "#997744",
    "fourier": "#997744",
    "beyond": "#228866",
}
SHADES = (0.4, 0.7, 1.0)  # few, more, most features
STYLE: dict[Any, Any] = {
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.labelsize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "svg.fonttype": "path",
    "svg.hashsalt": "dotsketch",  # the same file for the same figure
    "figure.dpi": 100,
}


def style() -> Any:
    """A context in which figures are drawn and saved."""
    from matplotlib import rc_context

    return rc_context(STYLE)


def figure(
    n_rows: int = 1,
    n_columns: int = 1,
    *,
    width: float = 3.4,
    height: float = 2.7,
    margin: float = 0.0,
    **options: Any,
) -> tuple[Any, np.ndarray]:
    """A figure and its axes as an array (n_rows, n_columns).

    Sizes are of one panel, in inches; the margin is for long labels on the left.
    """
    from matplotlib.figure import Figure

    size = (max(6.5, margin + width * n_columns), height * n_rows)  # wide enough for a legend
    canvas = Figure(figsize=size, layout="constrained")
    return canvas, canvas.subplots(n_rows, n_columns, squeeze=False, **options)


def save(canvas: Any, path: Any, kind: str) -> None:
    canvas.savefig(path, format=kind, dpi=150, metadata={"Date": None} if kind == "svg" else {})


def values(rows: Iterable[Row], key: str) -> list[Any]:
    """The different values of a column, in the order of their appearance."""
    return list(dict.fromkeys(row[key] for row in rows if row.get(key) is not None))


def select(rows: Iterable[Row], **wanted: Any) -> list[Row]:
    """Rows that have these values and no error."""
    return [
        row
        for row in rows
        if not row.get("error") and all(row.get(key) == value for key, value in wanted.items())
    ]


def mean(rows: Sequence[Row], key: str) -> float:
    """The mean over rows of what is a finite number; NaN if there is none."""
    found = column(rows, key)
    return float(found.mean()) if len(found) else float("nan")


def deviation(rows: Sequence[Row], key: str) -> float:
    """The standard deviation over rows (of a sample); NaN for less than two."""
    found = column(rows, key)
    return float(found.std(ddof=1)) if len(found) > 1 else float("nan")


def column(rows: Sequence[Row], key: str) -> np.ndarray:
    found = [row[key] for row in rows if row.get(key) is not None]
    array = np.array(found, dtype=float)
    result: np.ndarray = array[np.isfinite(array)]
    return result


def method_dots(ax: Any, rows: list[Row], metric: str, methods: Sequence[str]) -> None:
    """A line for each method, a dot for each number of features; darker dots have more.

    Whiskers are one standard deviation over seeds. Points that lie beyond the axis because a
    method failed are not drawn; the report lists failures.
    """
    multiples = sorted(values(rows, "times"))
    for place, name in enumerate(methods):
        method = METHODS[name]
        colour = FAMILY_COLOURS[method.family]
        for times, shade in zip(multiples, SHADES[-len(multiples) :], strict=True):
            chosen = select(rows, method=name, times=times)
            centre = mean(chosen, metric)
            if not np.isfinite(centre):
                continue
            spread = deviation(chosen, metric)
            ax.errorbar(
                centre,
                place,
                xerr=spread if np.isfinite(spread) and spread < centre else None,
                fmt="o" if not method.is_complex else "D",
                markersize=4.5,
                color=colour,
                alpha=shade,
                elinewidth=0.8,
            )
    ax.set_yticks(range(len(methods)), [METHODS[name].label for name in methods])
    ax.set_ylim(len(methods) - 0.4, -0.6)
    ax.grid(axis="x", color="#dddddd", linewidth=0.6)
    families = [METHODS[name].family for name in methods]
    for place in range(1, len(families)):
        if families[place] != families[place - 1]:
            ax.axhline(place - 0.5, color="#bbbbbb", linewidth=0.6)


def method_bars(ax: Any, rows: list[Row], metric: str, methods: Sequence[str]) -> None:
    """A short bar on a method's line for each number of features, over `method_dots`."""
    for place, name in enumerate(methods):
        for times in values(rows, "times"):
            centre = mean(select(rows, method=name, times=times), metric)
            ax.plot(centre, place, "|", markersize=9, color="#333333", markeredgewidth=0.9)


def log_scale(ax: Any, axis: str = "x") -> None:
    """A log axis with plain numbers, as many as are readable where few decades are seen."""
    from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter, NullLocator

    getattr(ax, f"set_{axis}scale")("log")
    low, high = getattr(ax, f"get_{axis}lim")()
    which = getattr(ax, f"{axis}axis")
    if high / low > 1000:
        return
    if high / low < 5:
        which.set_major_locator(MaxNLocator(4))
        which.set_minor_locator(NullLocator())
    else:
        which.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high / low < 15 else (1.0, 3.0)))
    which.set_major_formatter(lambda value, _: f"{value:.3g}")
    which.set_minor_formatter(NullFormatter())


def dots_legend(canvas: Any, multiples: Sequence[int], bars: str | None = None) -> None:
    """What shades and marks (and bars, if there are any) mean, above the panels."""
    from matplotlib.lines import Line2D

    def mark(symbol: str, shade: float, text: str) -> Any:
        return Line2D([], [], marker=symbol, linestyle="", color="#444444", alpha=shade, label=text)

    entries = [
        mark("o", shade, f"D = {times}d" if times != 1 else "D = d")
        for times, shade in zip(multiples, SHADES[-len(multiples) :], strict=True)
    ]
    entries += [mark("o", 1.0, "real features"), mark("D", 1.0, "complex features")]
    if bars is not None:
        entries.append(mark("|", 1.0, bars))
    canvas.legend(handles=entries, loc="outside upper center", ncols=len(entries))


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
            failed = not len(column(chosen, metric)) and any(
                row.get("error")
                for row in rows
                if row.get(index) == name and tuple(row[key] for key in across) == cell
            )
            text = "failed" if failed else number(mean(chosen, metric), deviation(chosen, metric))
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

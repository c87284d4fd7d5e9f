"""The report of a comparison: one HTML page that needs nothing else."""

from __future__ import annotations

import html
import io
from importlib.metadata import version
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np

from .._support.files import atomic_write
from .errors import one_line
from .measure import Compared, Curves, HeldOut
from .page import image, page
from .scoring import ClassPrediction

COLOURS = ("#1b9e77", "#d95f02", "#7570b3", "#e7298a", "#66a61e", "#e6ab02", "#a6761d", "#666666")
MOST_POINTS = 500
MOST_CLASSES = 30


def write_report(
    path: Path,
    summary: dict[str, Any],
    compared: list[Compared],
    best: Compared,
    *,
    table: str,
    caption: str,
    curves: Curves,
    split: HeldOut,
) -> None:
    """Write the page: table, recommendation, plots."""
    escape = html.escape
    data = summary["data"]
    colours = {one.name: COLOURS[k % len(COLOURS)] for k, one in enumerate(compared)}
    plots = [
        ("Error of the kernel", plot_errors(compared, colours)),
        ("Error against the number of columns", plot_curves(curves, colours)),
        ("Score against time", plot_scores(compared, colours)),
        (f"Predictions: {best.name}", plot_predictions(best, split, literal(data["target"]))),
    ]
    figures = "\n".join(
        f"<h2>{escape(title)}</h2>\n{image(title, svg)}" for title, svg in plots if svg
    )
    classes = f", {len(data['classes'])} classes" if data["classes"] else ""
    body = f"""<h1>{escape(data["source"])}</h1>
<p>{escape(data["task"])} of <b>{escape(data["target"])}</b>{classes}: {data["rows"]:,} rows,
{data["numeric"]} numeric and {data["categorical"]} categorical columns
({data["dimension"]} after encoding)</p>
{table}
<p class="note">{escape(caption)}</p>
<h2>Recommended: {escape(best.name)}</h2>
<p>The cheapest whose likelihood on the rows held out is as good as the best's, within the standard
error of the difference. In Python, on the encoded columns:</p>
<pre>{escape(summary["python"])}</pre>
<p>On the command line:</p>
<pre>{escape(summary["command"])}</pre>
{figures}
<p class="note">dotsketch {escape(version("dotsketch"))}, seed {summary["seed"]}</p>"""
    with atomic_write(path) as file:
        file.write(page(f"dotsketch: {data['source']}", body).encode())


def new_figure(height: float) -> tuple[Any, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.5, height), layout="constrained")
    axes = figure.subplots()
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color="0.92", linewidth=0.8)
    axes.set_axisbelow(True)
    return figure, axes


def literal(text: Any) -> str:
    """Text of the data for a figure: `$` starts no formula, control characters are not drawn."""
    return one_line(str(text), 60).replace("$", r"\$")


def legend_height(n_entries: int) -> float:
    """The height of a figure with so many entries below it, two a line."""
    return 4.5 + 0.12 * n_entries


def draw(figure: Any) -> bytes:
    """A figure as SVG."""
    target = io.BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": "dotsketch"}):
        figure.savefig(target, format="svg", metadata={"Date": None})
    return target.getvalue()


def plot_errors(compared: list[Compared], colours: dict[str, str]) -> bytes:
    """Predicted and measured error of every candidate, best first."""
    shown = [one for one in compared if one.row is not None][::-1]
    figure, axes = new_figure(0.45 * len(shown) + 1.3)
    for height, one in enumerate(shown):
        axes.plot(one.predicted_error, height, "|", markersize=22, color="black")
        axes.errorbar(
            one.measured_error, height, xerr=one.error_spread, fmt="o", color=colours[one.name]
        )
    axes.plot([], [], "|", markersize=14, color="black", label="predicted")
    axes.plot([], [], "o", color="0.4", label="measured on rows held out (± between draws)")
    axes.set_yticks(range(len(shown)), [one.name for one in shown])
    axes.set_ylim(-0.6, len(shown) - 0.4)
    axes.set_xlabel("relative error of the kernel")
    errors = [e for one in shown for e in (one.predicted_error, one.measured_error) if e]
    if errors and max(errors) > 20 * min(errors):
        axes.set_xscale("log")
    else:
        axes.set_xlim(left=0)
    figure.legend(loc="outside upper right", ncols=2, frameon=False)
    return draw(figure)


def plot_curves(curves: Curves, colours: dict[str, str]) -> bytes:
    """Predicted error at several numbers of columns."""
    if not curves:
        return b""
    figure, axes = new_figure(legend_height(len(curves)))
    for name, (columns, errors) in curves.items():
        axes.plot(columns, errors, "o-", color=colours[name], markersize=4, label=name)
    columns = sorted({n for ns, _ in curves.values() for n in ns})
    axes.set(xscale="log", xlabel="columns", ylabel="predicted relative error")
    axes.set_xticks(columns, [f"{n:,}" for n in columns])
    axes.xaxis.minorticks_off()
    if any(error > 0 for _, errors in curves.values() for error in errors):
        axes.set_yscale("log")
        plain_numbers(axes.yaxis)
    figure.legend(loc="outside lower center", ncols=2, frameon=False)
    return draw(figure)


def plain_numbers(axis: Any) -> None:
    """Ticks at 1, 2 and 5 times a power of ten, written out."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def plot_scores(compared: list[Compared], colours: dict[str, str]) -> bytes:
    """Held-out loss against the time of a row."""
    figure, axes = new_figure(legend_height(len(compared)))
    for one in compared:
        loss = one.figures["mnll"]
        if one.row is None:
            axes.axhline(loss, color="0.5", linestyle="--", label=one.name)
        else:
            axes.plot(
                one.microseconds, loss, "o", markersize=8, color=colours[one.name], label=one.name
            )
    axes.set(
        xscale="log",
        xlabel="time of the features, µs per row",
        ylabel="held-out MNLL (smaller is better)",
    )
    plain_numbers(axes.xaxis)
    figure.legend(loc="outside lower center", ncols=2, frameon=False)
    return draw(figure)


def plot_predictions(best: Compared, split: HeldOut, target: str) -> bytes:
    """Predicted against observed values, or the confusion of classes."""
    if isinstance(best.prediction, ClassPrediction):
        return plot_confusion(best.prediction, split.y_test, target)
    figure, axes = new_figure(6)
    y = split.y_test[:MOST_POINTS]
    mean = best.prediction.mean[:MOST_POINTS]
    deviation = best.prediction.standard_deviation[:MOST_POINTS]
    axes.errorbar(
        y, mean, deviation, fmt="o", markersize=3, elinewidth=0.5, alpha=0.6, color=COLOURS[0]
    )
    ends = [min(y.min(), mean.min()), max(y.max(), mean.max())]
    axes.plot(ends, ends, color="black", linewidth=1)
    axes.set(xlabel=f"{target}, observed", ylabel=f"{target}, predicted ± standard deviation")
    return draw(figure)


def plot_confusion(prediction: ClassPrediction, y: np.ndarray, target: str) -> bytes:
    """How often every class was taken for every other."""
    classes = prediction.classes
    if len(classes) > MOST_CLASSES:
        return b""
    counts = (y[:, None] == classes).T.astype(float) @ (prediction.values[:, None] == classes)
    share = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    figure, axes = new_figure(min(3 + 0.35 * len(classes), 8))
    axes.grid(False)
    image = axes.imshow(share, cmap="Blues", vmin=0, vmax=1)
    if len(classes) <= 15:
        for (i, j), value in np.ndenumerate(counts):
            if value:
                colour = "white" if share[i, j] > 0.6 else "black"
                axes.text(j, i, f"{value:.0f}", ha="center", va="center", fontsize=8, color=colour)
    ticks, names = range(len(classes)), [literal(label) for label in classes]
    axes.set_xticks(ticks, names, rotation=90 if len(names[-1]) > 3 else 0)
    axes.set_yticks(ticks, names)
    axes.set(xlabel=f"{target}, predicted", ylabel=f"{target}, observed")
    figure.colorbar(image, label="share of the observed class")
    return draw(figure)

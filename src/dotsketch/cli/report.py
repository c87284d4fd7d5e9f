"""The report of a comparison: one HTML page that needs nothing else."""

from __future__ import annotations

import html
import io
from importlib.metadata import version
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from scipy.special import ndtri

from .._support.files import atomic_write
from .choice import Comparison
from .comparison_tables import caption, report_table
from .errors import one_line
from .measure import Compared, Curves, Difference, HeldOut
from .page import image, page
from .scoring import ClassPrediction

COLOURS = (
    *("#1b9e77", "#d95f02", "#7570b3", "#e7298a", "#66a61e", "#e6ab02", "#a6761d", "#666666"),
    *("#1f78b4", "#b2df8a", "#fb9a99", "#cab2d6"),
)
MOST_POINTS = 500
MOST_CLASSES = 30
MOST_BARS = 15
FEWEST_IN_BIN = 5


def write_report(
    path: Path,
    summary: dict[str, Any],
    found: Comparison,
    curves: Curves,
    split: HeldOut,
    relevance: dict[str, float],
) -> None:
    """Write the page: table, recommendation, plots."""
    escape = html.escape
    data = summary["data"]
    figures = "\n".join(
        f"<h2>{escape(title)}</h2>\n{image(title, svg)}"
        + (f'\n<p class="note">{escape(note)}</p>' if note else "")
        for title, note, svg in plots_of(data, found, curves, split, relevance)
        if svg
    )
    classes = f", {len(data['classes'])} classes" if data["classes"] else ""
    body = f"""<h1>{escape(data["source"])}</h1>
<p>{escape(data["task"])} of <b>{escape(data["target"])}</b>{classes}: {data["rows"]:,} rows,
{data["numeric"]} numeric and {data["categorical"]} categorical columns
({data["dimension"]} after encoding)</p>
{report_table(found, data["task"])}
<p class="note">{escape(caption(summary))}</p>
<h2>Recommendation</h2>
<p><b>{escape(summary["recommendation"])}</b></p>
<p>In Python, on the encoded columns:</p>
<pre>{escape(summary["python"])}</pre>
<p>On the command line:</p>
<pre>{escape(summary["command"])}</pre>
{figures}
<p class="note">dotsketch {escape(version("dotsketch"))}, seed {summary["seed"]}</p>"""
    with atomic_write(path) as file:
        file.write(page(f"dotsketch: {data['source']}", body).encode())


def plots_of(
    data: dict[str, Any],
    found: Comparison,
    curves: Curves,
    split: HeldOut,
    relevance: dict[str, float],
) -> list[tuple[str, str, bytes]]:
    """Titles, notes and figures; a figure is empty where there is nothing to draw."""
    compared, best = found.compared, found.best
    colours = {one.name: COLOURS[k % len(COLOURS)] for k, one in enumerate(compared)}
    lost = "accuracy" if data["task"] == "classification" else "R²"
    return [
        (
            "Error against time",
            "Left: share of wrong classes, or of the variance of the target that is not explained, "
            "± standard error. Right: how much larger the mean negative log likelihood is than "
            "that of the best, ± standard error of the difference. The baselines of scikit-learn "
            "have default settings; those without a likelihood are on the left only.",
            plot_scores(compared, best, colours),
        ),
        (f"Predictions: {best.name}", "", plot_predictions(best, split, literal(data["target"]))),
        (
            "Calibration",
            "The predictions of a calibrated model lie on the diagonal.",
            plot_calibration(best, split),
        ),
        (
            "Relevance of the columns",
            f"How much {lost} falls on rows held out when the values of one column are shuffled.",
            plot_relevances(relevance, lost),
        ),
        ("Error of the kernel", "", plot_errors(compared, colours)),
        ("Error against the number of columns", "", plot_curves(curves, colours)),
    ]


def new_figure(height: float, columns: int = 1) -> tuple[Any, Any]:
    """A figure and its axes, an array of them if there are several columns."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.5, height), layout="constrained")
    found = figure.subplots(1, columns)
    for axes in np.atleast_1d(found):
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(color="0.92", linewidth=0.8)
        axes.set_axisbelow(True)
    return figure, found


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
    """Ticks at 1, 2 and 5 times a power of ten, written out; powers alone on a long axis."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    low, high = axis.get_view_interval()
    if low > 0 and high > 1e4 * low:
        return
    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def plot_scores(compared: list[Compared], best: Compared, colours: dict[str, str]) -> bytes:
    """Held-out error, and loss above the best, against the time of a fit, with their errors."""
    figure, (left, right) = new_figure(legend_height(len(compared)), 2)
    for one in compared:
        marker = "^" if one.is_baseline else "s" if one.row is None else "o"
        style = {"fmt": marker, "markersize": 7, "capsize": 3, "color": colours[one.name]}
        share, error = one.error
        left.errorbar(one.fit_seconds, share, error, label=one.name, **style)
        difference = Difference.of(one, best)
        if difference is not None:
            right.errorbar(one.fit_seconds, *difference, **style)
    is_class = "accuracy" in best.figures
    left.set_ylabel("share of wrong classes" if is_class else "unexplained variance, 1 − R²")
    right.set_ylabel("MNLL above the best")
    for axes in (left, right):
        axes.set(xscale="log", xlabel="seconds to fit")
        plain_numbers(axes.xaxis)
    top = left.get_ylim()[1]
    left.set_ylim(0, min(top, 1.5) if top > 0 else 1)
    right.axhline(0, color="0.5", linewidth=1)
    figure.legend(loc="outside lower center", ncols=2, frameon=False)
    return draw(figure)


def plot_calibration(best: Compared, split: HeldOut) -> bytes:
    """How often the model is right against how often it says so."""
    prediction, y = best.prediction, split.y_test
    if prediction is None:
        return b""
    figure, axes = new_figure(5)
    axes.plot([0, 1], [0, 1], color="0.5", linewidth=1, label="perfect calibration")
    if isinstance(prediction, ClassPrediction):
        says = prediction.probabilities.ravel()  # of every class for every row
        is_so = (y[:, None] == prediction.classes).ravel()
        bins = np.minimum((says * 10).astype(int), 9)
        for tenth in range(10):
            part = bins == tenth
            if part.sum() < FEWEST_IN_BIN:  # no point that rests on a few
                continue
            share = float(is_so[part].mean())
            error = np.sqrt(share * (1 - share) / part.sum())
            axes.errorbar(says[part].mean(), share, error, fmt="o", capsize=3, color=COLOURS[0])
        axes.set(
            xlabel="probability of a class",
            ylabel="share of rows that are of it",
            xlim=(-0.02, 1.02),
            ylim=(-0.02, 1.02),
        )
    else:
        levels = np.linspace(0.05, 0.95, 19)
        distance = np.abs(y - prediction.mean) / prediction.standard_deviation
        covered = [np.mean(distance <= ndtri((1 + level) / 2)) for level in levels]
        axes.plot(levels, covered, "o-", color=COLOURS[0], label=best.name)
        axes.set(
            xlabel="probability of a central interval",
            ylabel="share of targets inside",
            xlim=(0, 1),
            ylim=(0, 1),
        )
        axes.legend(frameon=False, loc="upper left")
    return draw(figure)


def plot_relevances(relevance: dict[str, float], lost: str) -> bytes:
    """The columns that count most."""
    shown = list(relevance.items())[:MOST_BARS][::-1]
    if len(shown) < 2:
        return b""
    figure, axes = new_figure(0.3 * len(shown) + 1.2)
    axes.barh([literal(name) for name, _ in shown], [value for _, value in shown], color=COLOURS[0])
    axes.grid(visible=False, axis="y")
    rest = len(relevance) - len(shown)
    more = f" ({rest} others count less)" if rest else ""
    axes.set_xlabel(f"{lost} that is lost when the column is shuffled{more}")
    return draw(figure)


def plot_predictions(best: Compared, split: HeldOut, target: str) -> bytes:
    """Predicted against observed values, or the confusion of classes."""
    if best.prediction is None:
        return b""
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

"""A comparison as a table, and as one HTML page that needs nothing else."""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib
import numpy as np
from rich import box
from rich.table import Table as RichTable
from scipy.special import ndtri
from sklearn.metrics import ConfusionMatrixDisplay, confusion_matrix

from .._support.files import atomic_write
from .output import one_line
from .scoring import ClassPrediction

if TYPE_CHECKING:
    from .compare import Compared

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem;
       color: #222 }
h2 { margin-top: 2.5rem } h2 small { color: #555; font-weight: normal }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .92rem }
th, td { padding: .3rem .7rem; text-align: left; vertical-align: top;
         border-bottom: 1px solid #e4e4e4 }
.number { text-align: right; white-space: nowrap }
.best { background: #e8f5ec; font-weight: 600 }
.wide { overflow-x: auto } img { width: 56rem; max-width: 100%; height: auto }
@media (max-width: 40rem) { .wide img { width: 42rem; max-width: none } }
pre { background: #f6f6f6; padding: .8rem 1rem; white-space: pre-wrap; overflow-wrap: anywhere }
.note { color: #555; font-size: .92rem }
.yes { color: #17693a; font-weight: 600 } .no, .error { color: #a3262a; font-weight: 600 }
summary { cursor: pointer; color: #2a5c8a } nav a { margin-right: .9rem; white-space: nowrap }
"""
Cell = tuple[str, str]  # a text and the class of its style


COLOUR = "#1b9e77"
MOST_POINTS = 500
MOST_CLASSES = 30
MOST_BARS = 15
FEWEST_IN_BIN = 5  # no point of a plot rests on fewer rows


def page(title: str, body: str) -> str:
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{html.escape(title)}</title><style>{STYLE}</style></head><body>
{body}
</body></html>
"""


def table(headings: Sequence[str], rows: Iterable[Sequence[Cell]]) -> str:
    """One line per row, in a box that scrolls if it is wide."""
    head = "".join(f"<th>{html.escape(heading)}</th>" for heading in headings)
    lines = [
        "".join(f'<td class="{css}">{html.escape(text)}</td>' for text, css in row) for row in rows
    ]
    body = "\n".join(f"<tr>{line}</tr>" for line in (head, *lines))
    return f'<div class="wide"><table>\n{body}\n</table></div>'


def image(title: str, svg: bytes) -> str:
    """A figure whose bytes are in the page; on a narrow screen it scrolls and stays readable."""
    source = f"data:image/svg+xml;base64,{base64.b64encode(svg).decode()}"
    return f'<div class="wide"><img alt="{html.escape(title)}" src="{source}"></div>'


def headings(task: str) -> tuple[str, ...]:
    score = "accuracy" if task == "classification" else "R²"
    return ("model", "error", score, "MNLL", "±", "µs/row")


def cells(model: Compared, best: Compared, task: str) -> tuple[str, ...]:
    """One line of the table."""

    def number(value: float | None, digits: str) -> str:
        return "" if value is None else format(value, digits)

    _, error = (None, None) if model is best else model.above(best) or (None, None)
    return (
        model.name,
        number(model.predicted_error, ".2g"),
        number(model.figures["accuracy" if task == "classification" else "r2"], ".3f"),
        number(model.figures["mnll"], ".3f"),
        number(error, ".3f"),
        number(model.microseconds, ".1f"),
    )


def caption(summary: dict[str, Any]) -> str:
    data = summary["data"]
    text = (
        f"Kernel: {summary['kernel_in_short']}; fitted to {data['rows_fitted']:,} rows, scored on "
        f"{data['rows_held_out']:,} held out. error: of the kernel, predicted. MNLL: mean negative "
        "log likelihood, smaller is better. ±: standard error of its difference from the "
        "recommended model. µs/row: time of a prediction."
    )
    share = data["most_frequent_class"]
    if share is not None:
        text += f" Always predicting the most frequent class has an accuracy of {share:.3f}."
    return text


def comparison_table(
    summary: dict[str, Any], compared: list[Compared], best: Compared
) -> RichTable:
    """The comparison for people, on 80 columns; the recommended model stands in bold."""
    task = summary["data"]["task"]
    shown = RichTable(
        caption=caption(summary), caption_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0)
    )
    for position, heading in enumerate(headings(task)):
        style = {"justify": "right", "no_wrap": True} if position else {"overflow": "fold"}
        shown.add_column(heading, **style)
    for model, following in zip(compared, compared[1:] + compared[-1:], strict=True):
        is_last = model.family is not None and following.family is None  # of our own
        mark = "bold green" if model is best else None
        shown.add_row(*cells(model, best, task), style=mark, end_section=is_last)
    return shown


def report_table(compared: list[Compared], best: Compared, task: str) -> str:
    """The comparison as HTML; the recommended model is marked."""
    rows: list[list[Any]] = []
    for model in compared:
        name, *figures = cells(model, best, task)
        mark = " best" if model is best else ""
        figures.append(f"{model.fit_seconds:.2f}")
        rows.append([(name, mark), *((text, f"number{mark}") for text in figures)])
    return table((*headings(task), "seconds to fit"), rows)


def write_report(
    path: Path,
    summary: dict[str, Any],
    compared: list[Compared],
    best: Compared,
    relevance: dict[str, float],
) -> None:
    """Write the page: table, recommendation, plots."""
    escape = html.escape
    data = summary["data"]
    figures = "\n".join(
        f"<h2>{escape(title)}</h2>\n{image(title, svg)}"
        + (f'\n<p class="note">{escape(note)}</p>' if note else "")
        for title, note, svg in plots_of(data, compared, best, relevance)
        if svg
    )
    classes = f", {len(data['classes'])} classes" if data["classes"] else ""
    body = f"""<h1>{escape(data["source"])}</h1>
<p>{escape(data["task"])} of <b>{escape(data["target"])}</b>{classes}: {data["rows"]:,} rows,
{data["numeric"]} numeric and {data["categorical"]} categorical columns
({data["dimension"]} after encoding)</p>
{report_table(compared, best, data["task"])}
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
    data: dict[str, Any], compared: list[Compared], best: Compared, relevance: dict[str, float]
) -> list[tuple[str, str, bytes]]:
    """Titles, notes and figures; a figure is empty where there is nothing to draw."""
    lost = "accuracy" if data["task"] == "classification" else "R²"
    shuffled = f"How much {lost} falls on rows held out when the values of one column are shuffled."
    target = literal(data["target"])
    return [
        ("Error against time", "± standard error; triangles: defaults.", plot_scores(compared)),
        (f"Predictions: {best.name}", "", plot_predictions(best, target)),
        ("Calibration", "That of perfect predictions is the diagonal.", plot_calibration(best)),
        ("Relevance of the columns", shuffled, plot_relevances(relevance, lost)),
    ]


def new_figure(height: float) -> tuple[Any, Any]:
    """A figure and its axes."""
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


def draw(figure: Any) -> bytes:
    """A figure as SVG."""
    target = io.BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": "dotsketch"}):
        figure.savefig(target, format="svg", metadata={"Date": None})
    return target.getvalue()


def plot_scores(compared: list[Compared]) -> bytes:
    """Held-out error against the time of a fit, with standard errors."""
    figure, axes = new_figure(4.5 + 0.12 * len(compared))
    for number, model in enumerate(compared):
        marker = "^" if model.model is None else "s" if model.family is None else "o"
        style = {"fmt": marker, "markersize": 7, "capsize": 3, "color": f"C{number % 10}"}
        axes.errorbar(model.fit_seconds, *model.error, label=model.name, **style)
    is_class = compared[0].prediction.task == "classification"
    label = "share of wrong classes" if is_class else "unexplained variance, 1 − R²"
    top = axes.get_ylim()[1]
    axes.set(xscale="log", xlabel="seconds to fit", ylabel=label)
    axes.set_ylim(0, min(top, 1.5) if top > 0 else 1)
    figure.legend(loc="outside lower center", ncols=2, frameon=False)
    return draw(figure)


def plot_calibration(best: Compared) -> bytes:
    """How often the model is right against how often it says so."""
    prediction, y = best.prediction, best.y
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
            axes.errorbar(says[part].mean(), share, error, fmt="o", capsize=3, color=COLOUR)
        axes.set(xlabel="probability of a class", ylabel="share of rows that are of it")
    else:
        levels = np.linspace(0.05, 0.95, 19)
        distance = np.abs(y - prediction.mean) / prediction.standard_deviation
        covered = [np.mean(distance <= ndtri((1 + level) / 2)) for level in levels]
        axes.plot(levels, covered, "o-", color=COLOUR, label=best.name)
        axes.set(xlabel="probability of a central interval", ylabel="share of targets inside")
        axes.legend(frameon=False, loc="upper left")
    axes.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
    return draw(figure)


def plot_relevances(relevance: dict[str, float], lost: str) -> bytes:
    """The columns that count most."""
    shown = list(relevance.items())[:MOST_BARS][::-1]
    if len(shown) < 2:
        return b""
    figure, axes = new_figure(0.3 * len(shown) + 1.2)
    axes.barh([literal(name) for name, _ in shown], [value for _, value in shown], color=COLOUR)
    axes.grid(visible=False, axis="y")
    rest = len(relevance) - len(shown)
    more = f" ({rest} others count less)" if rest else ""
    axes.set_xlabel(f"{lost} that is lost when the column is shuffled{more}")
    return draw(figure)


def plot_predictions(best: Compared, target: str) -> bytes:
    """Predicted against observed values, or the confusion of classes."""
    if isinstance(best.prediction, ClassPrediction):
        return plot_confusion(best.prediction, best.y, target)
    figure, axes = new_figure(6)
    y = best.y[:MOST_POINTS]
    mean = best.prediction.mean[:MOST_POINTS]
    deviation = best.prediction.standard_deviation[:MOST_POINTS]
    axes.errorbar(
        y, mean, deviation, fmt="o", markersize=3, elinewidth=0.5, alpha=0.6, color=COLOUR
    )
    ends = [min(y.min(), mean.min()), max(y.max(), mean.max())]
    axes.plot(ends, ends, color="black", linewidth=1)
    axes.set(xlabel=f"{target}, observed", ylabel=f"{target}, predicted ± standard deviation")
    return draw(figure)


def plot_confusion(prediction: ClassPrediction, y: np.ndarray, target: str) -> bytes:
    """How often every class was taken for every other."""
    if len(prediction.classes) > MOST_CLASSES:
        return b""
    figure, axes = new_figure(min(3 + 0.35 * len(prediction.classes), 8))
    axes.grid(False)
    names = [literal(label) for label in prediction.classes]
    matrix = confusion_matrix(y, prediction.values, labels=prediction.classes)
    few = len(names) <= 15
    ConfusionMatrixDisplay(matrix, display_labels=names).plot(
        ax=axes, cmap="Blues", include_values=few, xticks_rotation="horizontal" if few else 90
    )
    axes.set(xlabel=f"{target}, predicted", ylabel=f"{target}, observed")
    return draw(figure)

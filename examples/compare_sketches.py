"""Compare all sketches of a polynomial kernel: predicted error, measured error, time.

The kernel (1/2 + x·y/2)³ of scikit-learn's digits, rows scaled to unit norm, is approximated by
every sketch with real and with complex weights, at equal numbers of columns. The predicted error
needs no random draw: it is the root of the summed closed-form variances over the norm of K, the
root mean square over all draws. The measured error is the root mean square over some draws.

Prints a table and writes out/sketches.png and out/sketches.html.
"""

from __future__ import annotations

import base64
import time
from dataclasses import dataclass
from pathlib import Path

import matplotlib
import numpy as np
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from sklearn.datasets import load_digits
from sklearn.preprocessing import normalize
from threadpoolctl import threadpool_limits

from dotsketch import Polynomial, PolynomialSketch, relative_frobenius_error
from dotsketch.sketches import SKETCHES

matplotlib.use("Agg")
import matplotlib.pyplot as plt

OUTPUTS = {"real": "real", "complex_to_real": "complex"}  # output= and the weights it means
COLUMNS = (64, 128, 256, 512)
N_ROWS = 200  # the Gram matrix is of these; times are of all rows
N_DRAWS = 64
KERNEL = Polynomial(3, gamma=0.5, coef0=0.5)
TITLE = "Kernel (1/2 + x·y/2)³ on the digits data"
OUT = Path("out")


@dataclass(frozen=True)
class Result:
    """One sketch at one number of columns; errors are relative Frobenius errors."""

    sketch: str
    output: str
    n_components: int
    predicted: float
    measured: float
    standard_error: float  # of `measured`
    microseconds: float  # of transform, a row


def make_features(sketch: str, output: str, n_components: int, seed: int) -> PolynomialSketch:
    return PolynomialSketch(
        KERNEL.degree,
        gamma=KERNEL.gamma,
        coef0=KERNEL.coef0,
        sketch=sketch,
        n_components=n_components,
        output=output,
        random_state=seed,
    )


def compare(sketch: str, output: str, n_components: int, X: np.ndarray) -> Result:
    """Predicted and measured error of one sketch, and its time."""
    rows = X[:N_ROWS]
    K = KERNEL(rows)
    squared_errors = np.empty(N_DRAWS)
    for seed in range(N_DRAWS):
        features = make_features(sketch, output, n_components, seed)
        Z = features.fit_transform(rows)
        squared_errors[seed] = relative_frobenius_error(K, Z @ Z.T) ** 2
    measured = np.sqrt(squared_errors.mean())
    return Result(
        sketch,
        output,
        n_components,
        predicted=np.sqrt(features.variance(rows).sum()) / np.linalg.norm(K),
        measured=measured,
        standard_error=squared_errors.std(ddof=1) / np.sqrt(N_DRAWS) / (2 * measured),
        microseconds=1e6 * median_seconds(features, X) / len(X),
    )


def median_seconds(features: PolynomialSketch, X: np.ndarray, repeats: int = 3) -> float:
    """Median time of `transform`."""
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        features.transform(X)
        seconds.append(time.perf_counter() - start)
    return float(np.median(seconds))


def compare_all(console: Console) -> list[Result]:
    """Every sketch, output and number of columns."""
    X = normalize(load_digits().data)
    jobs = [(s, o, n) for s in SKETCHES for o in OUTPUTS for n in COLUMNS]
    results = []
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("", total=len(jobs))
        for sketch, output, n_components in jobs:
            progress.update(task, description=f"{sketch}, {OUTPUTS[output]} weights")
            results.append(compare(sketch, output, n_components, X))
            progress.advance(task)
    return results


def cells(result: Result) -> tuple[str, ...]:
    """One row of the table."""
    return (
        result.sketch,
        OUTPUTS[result.output],
        f"{result.predicted:.3f}",
        f"{result.measured:.3f} ± {result.standard_error:.3f}",
        f"{result.microseconds:.1f}",
    )


HEADINGS = ("sketch", "weights", "predicted", "measured", "µs per row")
CAPTION = (
    f"{COLUMNS[-1]} columns. Relative Frobenius error of the kernel matrix: predicted before any "
    f"draw, and measured over {N_DRAWS} draws (root mean square ± its standard error). "
    "Times are of one thread."
)


def terminal_table(results: list[Result]) -> Table:
    """The results as a table; the least predicted error stands in bold."""
    best = min(results, key=lambda result: result.predicted)
    table = Table(title=TITLE, caption=CAPTION, caption_justify="left")
    for position, heading in enumerate(HEADINGS):
        table.add_column(heading, justify="left" if position < 2 else "right", no_wrap=True)
    for result in results:
        last = result.output == list(OUTPUTS)[-1]
        style = "bold green" if result is best else None
        table.add_row(*cells(result), style=style, end_section=last)
    return table


def spread(positions: np.ndarray, distance: float) -> np.ndarray:
    """Positions moved apart, in order, so that neighbours are at least `distance` apart."""
    order = np.argsort(positions)
    moved = positions[order].copy()
    for _ in range(100):
        overlap = np.maximum(distance - np.diff(moved), 0) / 2
        moved[:-1] -= overlap
        moved[1:] += overlap
    result = np.empty_like(moved)
    result[order] = moved
    return result


def plot(results: list[Result], path: Path) -> None:
    """Error against the number of columns: lines predicted, points measured."""
    colours = dict(zip(SKETCHES, plt.get_cmap("Dark2").colors, strict=False))
    figure, panels = plt.subplots(1, 2, figsize=(12.5, 5.4), sharey=True, layout="constrained")
    for panel, (output, weights) in zip(panels, OUTPUTS.items(), strict=True):
        ends = []
        for index, (sketch, colour) in enumerate(colours.items()):
            line = [r for r in results if (r.sketch, r.output) == (sketch, output)]
            columns = np.array([r.n_components for r in line])
            shift = 1.015 ** (index - len(colours) // 2)  # so that points do not hide each other
            panel.plot(columns, [r.predicted for r in line], color=colour, linewidth=1.6)
            panel.errorbar(
                columns * shift,
                [r.measured for r in line],
                [r.standard_error for r in line],
                fmt="o",
                markersize=4.5,
                elinewidth=1,
                color=colour,
            )
            ends.append(line[-1].predicted)
        labels = np.exp(spread(np.log(ends), 0.08))
        for sketch, end, label in zip(colours, ends, labels, strict=True):
            panel.annotate(
                sketch,
                xy=(COLUMNS[-1], end),
                xytext=(COLUMNS[-1] * 1.22, label),
                color=colours[sketch],
                va="center",
                fontsize=10,
                arrowprops={"arrowstyle": "-", "color": colours[sketch], "linewidth": 0.6},
            )
        panel.set(xscale="log", yscale="log", xlabel="columns (n_components)")
        panel.set_title(f'{weights} weights: output="{output}"')
        panel.set_xticks(COLUMNS, [str(n) for n in COLUMNS])
        panel.set_yticks(ticks := [0.1, 0.15, 0.2, 0.3, 0.5, 0.8], [str(t) for t in ticks])
        panel.minorticks_off()
        panel.set_xlim(COLUMNS[0] * 0.9, COLUMNS[-1] * 3.4)
        panel.grid(color="0.9", linewidth=0.8)
        panel.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("relative Frobenius error")
    figure.suptitle(f"{TITLE}. Lines: predicted; points: measured, {N_DRAWS} draws")
    figure.savefig(path, dpi=150)
    plt.close(figure)


def html_report(results: list[Result], image: Path) -> str:
    """A page that needs no other file: the table and the plot."""
    best = min(results, key=lambda result: result.predicted)
    head = "".join(f"<th>{heading}</th>" for heading in HEADINGS)
    rows = "\n".join(
        f"<tr{' class=best' if result is best else ''}>"
        + "".join(f"<td>{cell}</td>" for cell in cells(result))
        + "</tr>"
        for result in results
    )
    picture = base64.b64encode(image.read_bytes()).decode()
    return f"""<!doctype html>
<html lang="en"><meta charset="utf-8"><title>dotsketch: sketches compared</title>
<style>
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem;
        color: #222 }}
table {{ border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums }}
th, td {{ padding: .3rem .8rem; text-align: right; border-bottom: 1px solid #e4e4e4 }}
th:nth-child(-n+2), td:nth-child(-n+2) {{ text-align: left }}
td:first-child {{ font-family: ui-monospace, monospace }}
.best {{ background: #e8f5ec; font-weight: 600 }}
img {{ width: 100%; margin-top: 1.5rem }}
</style>
<h1>Sketches compared</h1>
<p>{TITLE}, rows scaled to unit norm. {CAPTION} The least predicted error is marked.</p>
<table><thead><tr>{head}</tr></thead><tbody>
{rows}
</tbody></table>
<img alt="error against the number of columns" src="data:image/png;base64,{picture}">
</html>
"""


def main() -> None:
    console = Console()
    with threadpool_limits(1):  # times are of one thread
        results = compare_all(console)
    largest = [result for result in results if result.n_components == COLUMNS[-1]]
    console.print(terminal_table(largest))
    OUT.mkdir(exist_ok=True)
    plot(results, OUT / "sketches.png")
    (OUT / "sketches.html").write_text(html_report(largest, OUT / "sketches.png"), encoding="utf-8")
    console.print(f"Plot: {OUT / 'sketches.png'}   report: {OUT / 'sketches.html'}")


if __name__ == "__main__":
    main()

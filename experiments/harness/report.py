"""One HTML file with figures, tables, claims and the authors' results beside ours; the same as CSV.

The authors' table has a line for each kernel, data set, method and number of features, with mean
and standard deviation over seeds. For each line that we have run too, two z-scores:

- `z_spread` = difference / √(s² + s'²): is our value a likely one among theirs?
- `z_mean` = difference / √(s²/n + s'²/n'): do the two means differ by more than chance?

Frobenius errors of polynomial kernels keep the imaginary part, as theirs do.
"""

from __future__ import annotations

import csv
import html
import inspect
import io
import json
import math
import statistics
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from dotsketch.cli.report import Cell, image, page, table

from .claims import Claim, Verdict, judge_all
from .data import PAPER_NAMES
from .experiment import Experiment, Row, Store, Unit, write_atomically, write_csv
from .methods import METHODS
from .plots import column, save, style, values

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


def write_report(
    experiments: Iterable[Experiment],
    units: list[Unit],
    store: Store,
    *,
    reference: list[Row] | None = None,
    size: str = "full",
) -> tuple[Path, list[tuple[Claim, Verdict]], list[Row]]:
    """Write csv/, figures/ and report.html; returns its path, the claims and the comparison."""
    sections, results = [], {}
    for experiment in experiments:
        own = [unit for unit in units if unit.experiment.name == experiment.name]
        rows = store.rows(own)
        results[experiment.name] = rows
        write_csv(store.folder / "csv" / f"{experiment.name}.csv", rows)
        figures = draw(experiment, rows, store.folder / "figures")
        done = sum(store.is_done(unit) for unit in own)
        sections.append(_section(experiment, own, rows, figures, done))
    verdicts = judge_all(results)
    everything = [row for rows in results.values() for row in rows]
    lines = compare(everything, reference) if reference is not None else []
    if reference is not None:
        write_csv(store.folder / "csv" / "comparison.csv", lines)
        write_csv(store.folder / "csv" / "summary.csv", medians(lines))
    write_csv(store.folder / "csv" / "claims.csv", [_claim_row(c, v) for c, v in verdicts])
    body = [
        "<h1>Improved Random Features for Dot Product Kernels: the experiments</h1>",
        _scaled_down(size),
        _environment(units, store),
        "<nav>" + "".join(f'<a href="#{name}">{name}</a>' for name in results) + "</nav>",
        _claims(verdicts),
        _comparison(lines, size) if reference is not None else "",
        *sections,
    ]
    path = store.folder / "report.html"
    write_atomically(path, page("dotsketch: reproduction", "\n".join(body)))
    return path, verdicts, lines


def draw(experiment: Experiment, rows: list[Row], folder: Path) -> dict[str, bytes]:
    """PNG and SVG files of an experiment's figures; returns the SVGs by name."""
    good = [row for row in rows if not row.get("error")]
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in good:
        groups.setdefault(tuple(row.get(key) for key in experiment.figure_by), []).append(row)
    drawn = {}
    for group, chosen in groups.items():
        name = "_".join([experiment.name, *map(str, group)])
        with style():
            canvas = experiment.plot(chosen)
            for kind in ("png", "svg"):
                buffer = io.BytesIO()
                save(canvas, buffer, kind)
                write_atomically(folder / f"{name}.{kind}", buffer.getvalue())
        drawn[name] = buffer.getvalue()
    return drawn


def _section(
    experiment: Experiment, units: list[Unit], rows: list[Row], figures: dict[str, bytes], done: int
) -> str:
    parts = [
        f'<h2 id="{experiment.name}">{experiment.name}: {html.escape(experiment.title)} '
        f"<small>{html.escape(experiment.reproduces)}</small></h2>",
        f"<p>{html.escape(_about(experiment))}</p>",
        f'<p class="note">{done} of {len(units)} runs, {len(rows)} rows; '
        f"csv/{experiment.name}.csv. {html.escape(describe_sizes(units))}</p>",
    ]
    for name, svg in figures.items():
        parts.append(image(name, svg))
    tables = experiment.tables(rows) if experiment.tables and rows else {}
    for title, lines in tables.items():
        parts.append(_details(title, lines))
    failures = [row for row in rows if row.get("error")]
    if failures:
        title = f"{len(failures)} of {len(rows)} rows failed (a method in a finished run, or a run)"
        parts.append(_details(title, _failures(failures), css="error"))
    return "\n".join(parts)


def describe_sizes(units: list[Unit]) -> str:
    """The values of all configurations that were run, so that no caption claims others."""
    found: dict[str, list[Any]] = {}
    for unit in units:
        for key, value in asdict(unit.config).items():
            if isinstance(value, (str, int, float)) and value != "":
                found.setdefault(key, [])
                if value not in found[key]:
                    found[key].append(value)
    seeds = len({unit.seed for unit in units})
    parts = [f"{key} = {', '.join(map(str, values))}" for key, values in found.items()]
    return f"Run with {'; '.join([*parts, '1 seed' if seeds == 1 else f'{seeds} seeds'])}."


def _scaled_down(size: str) -> str:
    """A note on top of a report that is not in the paper's setting."""
    if size == "full":
        return ""
    return (
        f"<p><strong>Scaled-down run ({html.escape(size)}).</strong> Data sets are subsampled, and "
        "there are fewer seeds and sizes than in the paper: each section states its own. Trends "
        "can be compared with the paper, values cannot.</p>"
    )


def _about(experiment: Experiment) -> str:
    """What the experiment's module says of it."""
    return " ".join((inspect.getdoc(inspect.getmodule(experiment.run)) or "").split())


def _failures(rows: list[Row]) -> list[Row]:
    """Failures with how often they occurred."""
    counted: dict[tuple[str, str, str], int] = {}
    for row in rows:
        key = (row.get("dataset", ""), row.get("method", ""), row["error"])
        counted[key] = counted.get(key, 0) + 1
    return [
        {"data": data, "method": method, "error": error, "rows": count}
        for (data, method, error), count in counted.items()
    ]


def _details(title: str, lines: list[Row], css: str = "") -> str:
    return (
        f'<details><summary class="{css}">{html.escape(title)}</summary>{_table(lines)}</details>'
    )


def _table(lines: list[Row]) -> str:
    if not lines:
        return '<p class="note">nothing yet</p>'
    columns = list(dict.fromkeys(key for line in lines for key in line))
    return table(columns, ([_cell(line.get(key, "")) for key in columns] for line in lines))


def _cell(value: Any) -> Cell:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        text = str(value)
        css = {"yes": "yes", "no": "no", "no data": "note", "within noise": "note"}
        return text, css.get(text, "")
    text = str(value) if isinstance(value, int) else f"{value:.4g}" if math.isfinite(value) else "–"
    return text, "number"


def _claim_row(claim: Claim, verdict: Verdict) -> Row:
    return {
        "experiment": claim.experiment,
        "the paper claims": claim.text,
        "holds": str(verdict),
        "numbers": verdict.numbers,
    }


def _claims(verdicts: list[tuple[Claim, Verdict]]) -> str:
    rows = [_claim_row(claim, verdict) for claim, verdict in verdicts]
    return f"<h2>What the paper claims, and what we find</h2>{_table(rows)}"


def _comparison(lines: list[Row], size: str) -> str:
    intro = (
        "<h2>Beside the authors' results</h2><p>z = (ours − theirs)/√(s² + s'²), with the standard "
        "deviations over seeds of both; z_mean has their standard errors instead. Frobenius "
        "errors of polynomial kernels keep the imaginary part here, as theirs do. Their test "
        "error of a regression is a mean squared error, and so is ours in this table.</p>"
        "<p>Medians over methods and numbers of features: ours/theirs, and for the MNLL ours − "
        "theirs.</p>" + _table(medians(lines))
    )
    if size != "full":
        intro += (
            "<p>These are values of a scaled-down run. KL divergences add up over test rows and "
            "depend on the number of training rows: they are not comparable with the authors'.</p>"
        )
    return intro + _details(f"all {len(lines)} cells", lines)


def _environment(units: list[Unit], store: Store) -> str:
    """Versions and machines of the results; more than one line means that they are mixed."""
    found: dict[str, int] = {}
    seconds = 0.0
    for unit in units:
        record = store.load(unit)
        if record is not None:
            text = json.dumps(record["environment"])
            found[text] = found.get(text, 0) + 1
            seconds += record["seconds"]
    lines = [{**json.loads(text), "runs": count} for text, count in found.items()]
    for line in lines:
        line["blas"] = ", ".join(line["blas"])
    seeds = values([{"seed": unit.seed} for unit in units], "seed")
    facts = f"{sum(found.values())} of {len(units)} runs, seeds 0 to {max(seeds, default=0)}, "
    return f'<p class="note">{facts}{seconds / 60:.1f} minutes of computing.</p>{_table(lines)}'

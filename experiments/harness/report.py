"""CSV tables, figures, and one HTML file that holds everything and needs nothing else."""

from __future__ import annotations

import html
import inspect
import io
import json
import math
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from dotsketch.cli.page import Cell, image, page, table

from .checks import Verdict
from .claims import Claim, judge_all
from .compare import compare
from .experiment import Experiment, Row, Unit
from .medians import medians
from .plots import save, style, values
from .store import Store, write_atomically, write_csv


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


def summarise(lines: list[Row]) -> list[Row]:
    """The comparison by data set, kernel, preprocessing and metric."""
    keys = ("dataset", "kernel", "preprocessing", "metric")
    found = []
    for cell in dict.fromkeys(tuple(line[key] for key in keys) for line in lines):
        chosen = [line for line in lines if tuple(line[key] for key in keys) == cell]
        scores = [line["z_spread"] for line in chosen if math.isfinite(line["z_spread"])]
        # errors of exactly 0 are in the authors' results (constant targets): no ratio
        ratios = sorted(line["ours"] / line["theirs"] for line in chosen if line["theirs"])
        found.append(
            dict(zip(keys, cell, strict=True))
            | {
                "cells": len(chosen),
                "ours/theirs": ratios[len(ratios) // 2] if ratios else math.nan,
                "mean z": sum(scores) / len(scores) if scores else math.nan,
                "|z| > 2": sum(abs(z) > 2 for z in scores),
                "|z| > 3": sum(abs(z) > 3 for z in scores),
            }
        )
    return found


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
    return intro + _table(summarise(lines)) + _details(f"all {len(lines)} cells", lines)


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

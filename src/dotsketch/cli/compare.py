"""`dotsketch compare`: which features suit a table best, with numbers and a report."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import click
import numpy as np
from rich.table import Table as RichTable

from ..features import Study
from ..planning import select
from .encoding import encode, make_encoder
from .errors import UserMistake, check_ending, check_output
from .kernel_names import kernel_words, parse_kernel
from .measure import (
    EXACT_ROWS,
    Compared,
    HeldOut,
    compare_exact,
    compare_one,
    error_curves,
    recommend,
    shortlist,
)
from .modelling import choose_kernel, describe_cap, make_gp, rank
from .options import (
    components_option,
    kernel_option,
    learning,
    option_words,
    scan_aloud,
    take_reading,
    threads,
    working,
)
from .output import Output
from .page import table as table_of
from .python_source import imports_of, source_of
from .report import write_report
from .schema import RowSample, Schema
from .tables import Table, open_table

TRAIN_ROWS = 10_000
TEST_ROWS = 2_000
TEST_SHARE = 0.2
LEAST_ROWS = 10


@click.command()
@click.argument("data")
@kernel_option
@components_option
@click.option(
    "--top",
    default=6,
    show_default=True,
    metavar="N",
    type=click.IntRange(min=1),
    help="How many candidates to measure.",
)
@click.option(
    "--report", metavar="FILE", help="The HTML report.  [default: NAME.compare.html, here]"
)
@click.option("--no-report", is_flag=True, help="Write no report.")
@learning
@working
def compare(
    data: str,
    kernel: str,
    components: int,
    top: int,
    report: str | None,
    no_report: bool,
    seed: int,
    jobs: int | None,
    as_json: bool,
    verbose: bool,
    **options: Any,
) -> None:
    """Compare random features for a Gaussian process on DATA, and recommend one.

    Columns are standardised, all candidates are ranked by the error of the kernel that theory
    predicts, and the best are measured: error of the kernel and score of a Gaussian process on
    rows held out, and time. Works on a sample of up to 12,000 rows.

    \b
    Examples:
      dotsketch compare houses.csv --target price
      dotsketch compare houses.csv --target price --kernel poly:3 --components 500
      dotsketch compare digits --json
    """
    output = Output(as_json, verbose)
    reading = take_reading(options)
    asked, _ = parse_kernel(kernel, 1)  # a mistake is reported before the table is read
    table = open_table(data, **reading)
    path = None if no_report else Path(report or f"{Path(data).name.split('.')[0]}.compare.html")
    if path is not None:
        check_output(path, data)
        check_ending(path, "the report", ".html", ".htm")
    with threads(jobs):
        schema = scan_aloud(table, seed, output, **options)
        split = hold_out(table, schema, seed, standardise=not asked.nonnegative)
        with output.progress("Planning") as advance:
            chosen = choose_kernel(kernel, split.X, split.y, schema.task, seed)
            advance(0.3)
            study = Study(chosen, split.X, random_state=seed)
            table_of_plan = rank(study, select("all", study), components)
        output.note(describe_cap(table_of_plan, components, study.n_rows))
        rows = shortlist(table_of_plan, top)
        compared = []
        with output.progress("Measuring") as advance:
            for number, row in enumerate(rows):
                compared.append(compare_one(row, chosen, split, schema.task, seed))
                advance((number + 1) / len(rows))
        if len(split.X) <= EXACT_ROWS:
            compared.append(compare_exact(chosen, split, schema.task))
        curves = error_curves(rows, study, components) if path else {}
    best = recommend(compared)
    model = make_gp(schema.task, best.features)
    lines = (imports_of(model), f"model = {source_of(model)}")
    decided = {"target": schema.target.name, "task": schema.task}
    words = ["dotsketch", "fit", data, *option_words(reading | options | decided)]
    words += ["--kernel", kernel_words(chosen)]
    words += ["--components", str(components), "--features", best.name, "-o", "MODEL"]
    command = shlex.join(words)
    summary = {
        "data": summary_of(schema, split),
        "kernel": source_of(chosen),
        "n_components": components,
        "candidates": [describe_candidate(one) for one in compared],
        "plan": [
            {"features": row.label, "predicted_error": row.relative_error} for row in table_of_plan
        ],
        "recommended": best.name,
        "python": "\n".join(lines),
        "command": command,
        "report": None if path is None else str(path),
        "seed": seed,
    }
    if path is not None:
        write_report(
            path,
            summary,
            compared,
            best,
            table=report_table(compared, best, schema.task),
            caption=caption(summary),
            curves=curves,
            split=split,
        )
    told = [
        f"\nRecommended: {best.name}",
        "The cheapest whose held-out likelihood is as good as the best's.",
        f"\nIn Python, on {'unscaled' if asked.nonnegative else 'standardised'} columns:",
        *lines,
        "\nOn the command line:",
        command,
    ]
    if path is not None:
        told.append(f"\nReport: {path}")
    output.result(summary, comparison_table(summary, compared, best), *told)


def hold_out(table: Table, schema: Schema, seed: int, *, standardise: bool) -> HeldOut:
    """Rows to fit on and others to test on, from the sample; the test rows of a data set if it
    has some."""
    if schema.n_rows < LEAST_ROWS:
        raise UserMistake(
            f"{table.source} has {schema.n_rows} rows: comparing needs at least {LEAST_ROWS}."
        )
    encoder = make_encoder(schema, standardise=standardise)
    X, y = encode(schema.sample, 1, schema, encoder)
    order = np.random.default_rng(seed).permutation(len(X))
    if table.test is not None:
        sample = RowSample(TEST_ROWS, seed)
        for batch, _, _ in table.test.chunks():
            sample.add(batch)
        test = encode(sample.table(), 1, schema, encoder)
    else:
        n_test = min(max(2, round(TEST_SHARE * len(X))), TEST_ROWS)
        order, held = order[n_test:], order[:n_test]
        test = X[held], y[held]
    order = order[:TRAIN_ROWS]
    if schema.task == "classification" and len(np.unique(y[order])) < 2:
        raise UserMistake(
            f"{table.source}: the rows that are left for fitting are of one class only: more rows "
            "of the others are needed."
        )
    return HeldOut(X[order], y[order], *test)


def summary_of(schema: Schema, split: HeldOut) -> dict[str, Any]:
    return {
        "source": schema.source,
        "rows": schema.n_rows,
        "numeric": len(schema.numeric),
        "categorical": len(schema.categorical),
        "dimension": split.X.shape[1],
        "target": schema.target.name,
        "task": schema.task,
        "classes": schema.classes if schema.task == "classification" else None,
        "rows_fitted": len(split.X),
        "rows_held_out": len(split.X_test),
    }


def describe_candidate(one: Compared) -> dict[str, Any]:
    """One candidate for machines."""
    return {
        "features": one.name,
        "predicted_error": one.predicted_error,
        "error_source": None if one.row is None else one.row.source,
        "measured_error": one.measured_error,
        "measured_error_spread": one.error_spread,
        **one.figures,
        "microseconds_a_row": one.microseconds,
        "fit_seconds": one.fit_seconds,
        "python": None if one.features is None else source_of(one.features),
    }


HEADINGS = {
    "classification": ("features", "predicted", "measured", "accuracy", "MNLL", "µs/row"),
    "regression": ("features", "predicted", "measured", "R²", "MNLL", "µs/row"),
}


def cells(one: Compared, task: str) -> tuple[str, ...]:
    """One line of the table."""

    def number(value: float | None, digits: str) -> str:
        return "" if value is None else format(value, digits)

    first = one.figures["accuracy" if task == "classification" else "r2"]
    predicted = number(one.predicted_error, ".3g")
    if one.row is not None and one.row.source == "measured":
        predicted = f"({predicted})"
    return (
        one.name,
        predicted,
        number(one.measured_error, ".3g"),
        number(first, ".4f"),
        number(one.figures["mnll"], ".4f"),
        number(one.microseconds, ".1f"),
    )


def caption(summary: dict[str, Any]) -> str:
    data = summary["data"]
    return (
        f"{summary['kernel']}, {summary['n_components']} columns. Errors of the kernel relative to "
        "its root mean square: predicted (in brackets where no formula is known: measured within "
        "the fitted rows) and measured on rows held out. Scores are of "
        f"{data['rows_held_out']:,} rows held out, after fitting {data['rows_fitted']:,}; "
        "MNLL is the mean negative log likelihood, smaller is better."
    )


def report_table(compared: list[Compared], best: Compared, task: str) -> str:
    """The comparison as HTML; the recommended candidate is marked."""
    rows = []
    for one in compared:
        name, *figures = cells(one, task)
        mark = " best" if one is best else ""
        rows.append([(name, mark), *((text, f"number{mark}") for text in figures)])
    return table_of(HEADINGS[task], rows)


def comparison_table(
    summary: dict[str, Any], compared: list[Compared], best: Compared
) -> RichTable:
    """The comparison for people; the recommended candidate stands in bold."""
    task = summary["data"]["task"]
    table = RichTable(caption=caption(summary), caption_justify="left")
    for position, heading in enumerate(HEADINGS[task]):
        right = position > 0
        table.add_column(heading, justify="right" if right else "left", no_wrap=right)
    for one in compared:
        if one.row is None:
            table.add_section()
        table.add_row(*cells(one, task), style="bold green" if one is best else None)
    return table

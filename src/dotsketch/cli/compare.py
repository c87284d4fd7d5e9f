"""`dotsketch compare`: which features suit a table best, with numbers and a report."""

from __future__ import annotations

import shlex
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
import numpy as np

from ..planning import PlannedCandidate, best_possible
from .choice import TOP, Choice, Comparison, choose, hold_out
from .comparison_tables import comparison_table
from .encoding import EncodedTable
from .errors import check_ending, check_output
from .kernel_names import describe_kernel, kernel_words, parse_kernel
from .measure import (
    EXACT_ROWS,
    Compared,
    Difference,
    HeldOut,
    compare_baselines,
    compare_exact,
    error_curves,
    is_as_good,
    mean_and_error,
)
from .modelling import describe_cap, is_capped, make_gp
from .options import (
    components_option,
    kernel_option,
    learning,
    number_option,
    open_both,
    option_words,
    scan_aloud,
    take_reading,
    threads,
    working,
)
from .output import Output
from .parquet_files import WILDCARDS
from .python_source import imports_of, source_of
from .relevance import relevances
from .report import write_report
from .schema import Schema


@click.command()
@click.argument("data")
@kernel_option
@components_option
@number_option("--top", TOP, 1, "The number of candidates to measure.")
@click.option(
    "--test", "test_path", metavar="FILE", help="Use the rows of this table as held-out rows."
)
@click.option(
    "--report", metavar="FILE", help="Where to write the HTML report.  [default: NAME.compare.html]"
)
@click.option("--no-report", is_flag=True, help="Do not write a report.")
@learning
@working
def compare(
    data: str,
    kernel: str,
    components: int,
    top: int,
    test_path: str | None,
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
    predicts, and the best are measured: error of the kernel and score of a
    Gaussian process on rows held out, and time. Two models of scikit-learn are measured on the
    same rows. Works on a sample of up to 12,000 rows.

    \b
    Examples:
      dotsketch compare houses.csv --target price
      dotsketch compare houses.csv --target price --kernel poly:3 --components 500
      dotsketch compare digits --json
    """
    output = Output(as_json, verbose)
    asked, _ = parse_kernel(kernel, 1)  # a mistake is reported before the table is read
    reading = take_reading(options)
    table, test = open_both(data, test_path, reading)
    path = None if no_report else Path(report or f"{name_of(data)}.compare.html")
    if path is not None:
        check_output(path, data, test_path)
        check_ending(path, "the report", ".html", ".htm")
    with threads(jobs):
        schema = scan_aloud(table, test, seed, output, **options)
        encoded = EncodedTable.of(table, schema, seed, standardise=not asked.nonnegative)
        split = hold_out(encoded, seed, test)
        found = measured(split, schema.task, kernel, components, top, seed, output)
        rows = [one.row for one in found.choice.measured if one.row is not None]
        curves = error_curves(rows, found.choice.study, components) if path else {}
    model = make_gp(schema.task, found.best.features)
    lines = (imports_of(model), f"model = {source_of(model)}")
    summary = {
        "data": summary_of(schema, split),
        **summary_of_comparison(found, components),
        "python": "\n".join(lines),
        "command": fit_command(data, reading | options, schema, found.choice, components, seed),
        "report": None if path is None else str(path),
        "seed": seed,
    }
    if path is not None:
        write_report(path, summary, found, curves, split, relevances(found.best, split, schema))
    told = [
        f"\n{summary['recommendation']}",
        f"\nIn Python, on {'unscaled' if asked.nonnegative else 'standardised'} columns:",
        *lines,
        "\nOn the command line:",
        summary["command"],
        *([] if path is None else [f"\nReport: {path}"]),
    ]
    output.result(summary, comparison_table(summary, found), *told)


def name_of(data: str) -> str:
    """What a report is named after: a file, a folder or a data set; the folder of a pattern."""
    path = Path(data).absolute()
    while not path.exists() and any(sign in path.name for sign in WILDCARDS):
        path = path.parent
    return path.name.lstrip(".").split(".")[0] or "table"


def measured(
    split: HeldOut,
    task: str,
    kernel: str,
    components: int,
    top: int,
    seed: int,
    output: Output,
) -> Comparison:
    """The best candidates, and the models that they are compared with, on the same rows."""
    n_rows = len(split.X)
    with output.progress("Comparing") as advance:
        choice = choose(
            split,
            task,
            kernel,
            components,
            top=top,
            seed=seed,
            advance=lambda fraction: advance(0.8 * fraction),
        )
        references = []
        if n_rows <= EXACT_ROWS:
            references.append(compare_exact(choice.kernel, split, task))
        advance(0.85)
        references += compare_baselines(split, task, seed)
    capped = [row.family for row in choice.plan if is_capped(row, components, n_rows)]
    output.note(describe_cap(capped, components, n_rows))
    limit = best_possible(choice.study, choice.row.n_components)
    return Comparison(choice, references, limit)


def summary_of_comparison(found: Comparison, components: int) -> dict[str, Any]:
    """What was compared and is recommended, for machines."""
    choice, best = found.choice, found.best
    return {
        "kernel": source_of(choice.kernel),
        "kernel_in_short": describe_kernel(choice.kernel),
        "n_components": components,
        "candidates": [describe_candidate(one, best) for one in found.compared],
        "best_possible": None if found.limit is None else asdict(found.limit),
        "fewer": None if choice.fewer is None else describe_candidate(choice.fewer, best),
        "plan": [describe_planned(row) for row in choice.plan],
        "recommended": None if best.row is None else best.row.label,
        "recommendation": recommendation(choice) + better_baseline(best, found.references),
    }


def fit_command(
    data: str, options: dict[str, Any], schema: Schema, choice: Choice, components: int, seed: int
) -> str:
    """The command line that fits what is recommended."""
    decided = {"target": schema.target.name, "task": schema.task, "seed": seed}
    words = ["dotsketch", "fit", data, *option_words(options | decided)]
    words += ["--kernel", kernel_words(choice.kernel)]
    words += ["--components", str(components), "--features", choice.best.name, "-o", "MODEL"]
    return shlex.join(words)


def recommendation(choice: Choice) -> str:
    """What to take, and why, in one sentence; another where fewer columns do."""
    best, *others = choice.measured
    row = choice.row
    text = f"Recommended: {best.name}, {row.n_components} columns"
    text += ", the best likelihood on rows held out" if others else ""
    ties = [one for one in others if is_as_good(one, best)]
    faster = [
        one
        for one in ties
        if one.microseconds and best.microseconds and one.microseconds < 0.8 * best.microseconds
    ]
    if faster:
        fastest = min(faster, key=lambda one: one.microseconds or 0.0)
        text += (
            f"; {fastest.name} is as good within the standard error and takes "
            f"{fastest.microseconds:.1f} instead of {best.microseconds:.1f} µs per row"
        )
    elif ties:
        text += f"; {len(ties)} other{'s are' if len(ties) > 1 else ' is'} as good within the "
        text += "standard error"
    if choice.fewer is not None and choice.fewer.row is not None:
        n = choice.fewer.row.n_components
        text += f". {n} columns do as well: --components {n}"
    return text + "."


def better_baseline(best: Compared, references: list[Compared]) -> str:
    """A sentence if a model of scikit-learn predicts better, by more than the standard error: the
    target, or else its distribution."""
    found = [one for one in references if one.is_baseline]
    for one in sorted(found, key=lambda one: one.error[0])[:1]:
        difference, error = mean_and_error(best.errors - one.errors)
        if difference > error:
            name, key = ("accuracy", "accuracy") if "accuracy" in best.figures else ("R²", "r2")
            theirs, ours = one.figures[key] or 0.0, best.figures[key] or 0.0
            return f" {one.name} predicts better here: {name} {theirs:.3f} against {ours:.3f}."
    for one in sorted(found, key=lambda one: one.loss)[:1]:
        loss = Difference.of(best, one)
        if loss is not None and not loss.is_tie:
            theirs, ours = one.loss, best.loss
            return f" {one.name} has better probabilities: MNLL {theirs:.3f} against {ours:.3f}."
    return ""


def summary_of(schema: Schema, split: HeldOut) -> dict[str, Any]:
    return {
        "source": schema.source,
        "rows": schema.n_rows,
        "rows_imputed": schema.n_imputed,
        "numeric": len(schema.numeric),
        "categorical": len(schema.categorical),
        "dimension": split.X.shape[1],
        "target": schema.target.name,
        "task": schema.task,
        "classes": schema.classes,
        "most_frequent_class": most_frequent_share(split) if schema.classes else None,
        "rows_fitted": len(split.X),
        "rows_held_out": len(split.X_test),
    }


def most_frequent_share(split: HeldOut) -> float:
    """The accuracy of always predicting the most frequent class."""
    classes, counts = np.unique(split.y, return_counts=True)
    return float(np.mean(split.y_test == classes[counts.argmax()]))


def describe_planned(row: PlannedCandidate) -> dict[str, Any]:
    """One line of the plan for machines."""
    return {"features": row.label, "predicted_error": row.relative_error}


def describe_candidate(one: Compared, best: Compared) -> dict[str, Any]:
    """One candidate for machines."""
    difference = Difference.of(one, best)
    return {
        "features": one.name if one.row is None else one.row.label,
        "n_components": None if one.row is None else one.row.n_components,
        "predicted_error": one.predicted_error,
        "error_source": None if one.row is None else one.row.source,
        "measured_error": one.measured_error,
        "measured_error_spread": one.error_spread,
        **one.figures,
        "mnll_difference": None if difference is None else difference.mean,
        "mnll_standard_error": None if difference is None else difference.standard_error,
        "microseconds_a_row": one.microseconds,
        "fit_seconds": one.fit_seconds,
        "python": None if one.features is None else source_of(one.features),
    }

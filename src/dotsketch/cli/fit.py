"""`dotsketch fit`: a model of a table of any length, in two passes over it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import click
import numpy as np

from ..kernels import Kernel
from .choice import Choice, TooFewRows, choose, hold_out
from .cluster import check_cluster, cluster, rows_of_parts
from .encoding import EncodedTable, encode
from .errors import check_output
from .kernel_names import describe_kernel, parse_kernel
from .measure import HeldOut
from .model_file import save_model
from .modelling import (
    check_features,
    describe_cap,
    fit_process,
    is_capped,
    process_of,
    short_name,
)
from .options import (
    components_option,
    kernel_option,
    learning,
    open_both,
    scan_aloud,
    take_reading,
    threads,
    working,
)
from .output import Output, facts
from .python_source import source_of
from .schema import Schema
from .scoring import NumberPrediction, Score, describe_score, predict_rows
from .tables import Table

SCORED_ROWS = 5000  # that are left out one by one
MOST_COLUMNS = 10_000  # for a tolerance, unless --components says otherwise


@click.command()
@click.argument("data")
@click.option(
    "-o", "--output", "path", required=True, metavar="MODEL", help="The file to write the model to."
)
@kernel_option
@components_option
@click.option(
    "--features",
    default="auto",
    show_default=True,
    help="auto (what `compare` recommends), a family such as fourier, or a name in its table.",
)
@click.option(
    "--tolerance",
    type=click.FloatRange(min=0, min_open=True),
    metavar="E",
    help="Use the fewest columns that reach this relative error of the kernel, at most "
    "--components if that is given.",
)
@click.option(
    "--scheduler",
    metavar="ADDRESS",
    help="Fit on a running Dask cluster, such as tcp://host:8786, whose workers can read DATA: "
    "Parquet files.",
)
@click.option("--test", "test_path", metavar="FILE", help="Score the model on another table.")
@learning
@working
def fit(
    data: str,
    path: str,
    kernel: str,
    components: int,
    features: str,
    tolerance: float | None,
    scheduler: str | None,
    test_path: str | None,
    seed: int,
    jobs: int | None,
    as_json: bool,
    verbose: bool,
    **options: Any,
) -> None:
    """Fit a Gaussian process to DATA, and write it to a file.

    DATA is a file, a folder of Parquet files, a pattern such as 'data/*.parquet', or the name of a
    data set. The table is read twice, chunk by chunk: once for columns, scales and a sample on
    which kernel and features are chosen as `compare` does, once for the process (on the workers
    of a cluster with --scheduler). CSV and Parquet files may be larger than memory. At the end the
    model is scored: a regression on rows that are left out one by one, a classification on rows of
    the sample that were held out, both on FILE with --test.

    \b
    Examples:
      dotsketch fit houses.csv --target price -o houses.model
      dotsketch fit houses.csv --target price --test new.csv -o houses.model
      dotsketch fit houses.csv --target price --kernel poly:3 --components 2000 -o houses.model
      dotsketch fit digits --tolerance 0.05 -o digits.model
      dotsketch fit 'data/*.parquet' --target y --scheduler tcp://host:8786 -o y.model
    """
    output = Output(as_json, verbose)
    asked = check_request(kernel, features)
    table, test = open_both(data, test_path, take_reading(options))
    if scheduler is not None:
        check_cluster(table, options["impute"])
    check_output(Path(path), data, test_path)
    if tolerance is not None and not is_given("components"):
        components = MOST_COLUMNS
    start = time.perf_counter()
    with nullcontext() if scheduler is None else cluster(scheduler), threads(jobs):
        schema = scan_aloud(table, test, seed, output, **options)
        rows = EncodedTable.of(table, schema, seed, standardise=not asked.nonnegative)
        split, has_held = hold_out_if_enough(rows, seed)
        with output.progress("Choosing features") as advance:
            choice = choose(
                split,
                schema.task,
                kernel,
                components,
                features=features,
                tolerance=tolerance,
                seed=seed,
                advance=advance,
            )
        lift_cap(choice, components, len(split.X), len(rows.X), output)
        report_choice(choice, output)
        gp = fitted_process(choice.best.features, rows, scheduler, jobs, output)
        score = score_of(gp, rows, choice, split) if has_held and test is None else None
        if test is not None:
            score = score_on(test, gp, rows)
    known = facts_of(schema, choice, kernel, seed, score)
    save_model(path, rows.encoder, gp, known)
    seconds = time.perf_counter() - start
    lines = {"model": path, **lines_of(schema, choice, score), "time": f"{seconds:.1f} s"}
    output.result({"model": path, **known, "seconds": seconds}, facts(lines))


def check_request(kernel: str, features: str) -> Kernel:
    """The kernel that is asked for; mistakes are reported before the table is read."""
    asked, _ = parse_kernel(kernel, 1)
    check_features(features, kernel)
    return asked


def hold_out_if_enough(rows: EncodedTable, seed: int) -> tuple[HeldOut, bool]:
    """Rows to fit on and others, and whether these are others: a model is made of few rows too."""
    try:
        return hold_out(rows, seed), True
    except TooFewRows:
        sample = rows.X, rows.y
        return HeldOut.of(sample, sample, rows.imputation), False


def fitted_process(
    estimator: Any, rows: EncodedTable, scheduler: str | None, jobs: int | None, output: Output
) -> Any:
    """The process of all rows of the table, read chunk by chunk here or on a cluster."""
    schema, sample = rows.schema, (rows.X, rows.y)
    classes = schema.classes
    with output.progress("Fitting") as advance:

        def stream() -> Iterator[tuple[np.ndarray, np.ndarray]]:
            for X, y, fraction in rows.chunks():
                yield X, y
                advance(fraction)

        if scheduler is None:
            return fit_process(estimator, sample, (stream,), classes, jobs, rows.imputation)
        return fit_process(estimator, sample, rows_of_parts(rows), classes, 1)


def lines_of(schema: Schema, choice: Choice, score: dict[str, Any] | None) -> dict[str, str]:
    """What is shown of the model."""
    row = choice.row
    lines = {
        "rows": f"{schema.n_rows:,}",
        "features": f"{short_name(row.label)}, {choice.best.features.n_components} columns",
        "kernel": describe_kernel(choice.kernel),
        "predicted error": f"{row.relative_error:.3g} of the kernel ({row.source})",
    }
    if score is not None:
        lines["score"] = describe_score(score)
    return lines


def is_given(name: str) -> bool:
    """Whether an option is the user's word and not its default."""
    source = click.get_current_context().get_parameter_source(name)
    return source is not click.core.ParameterSource.DEFAULT


def lift_cap(choice: Choice, components: int, n_chosen: int, n_rows: int, output: Output) -> None:
    """As many columns as all rows allow, where those that features were chosen on had too few."""
    if not is_capped(choice.row, components, n_chosen):
        return
    columns = min(components, n_rows)
    choice.best.features.set_params(n_components=columns)
    if columns < components:
        output.note(describe_cap([choice.row.family], components, columns))


def report_choice(choice: Choice, output: Output) -> None:
    output.detail(f"Features: {source_of(choice.best.features)}")
    if choice.fewer is not None and choice.fewer.row is not None:
        n = choice.fewer.row.n_components
        output.say(f"{n} columns do as well on rows held out: --components {n} is faster")


def score_of(gp: Any, rows: EncodedTable, choice: Choice, split: HeldOut) -> dict[str, Any]:
    """How good the model is on rows that it has not seen."""
    if hasattr(gp, "leave_one_out") and process_of(gp).solver_ == "cholesky":
        X, y = rows.X[:SCORED_ROWS], rows.y[:SCORED_ROWS]
        total = Score("regression")
        total.add(NumberPrediction(*gp.leave_one_out(X, y)), y)
        return {**total.figures(), "rows": total.n, "how": "left out one by one"}
    held = len(split.y_test)
    how = f"held out, after fitting {len(split.y):,} others"
    return {**choice.best.figures, "rows": held, "how": how}


def score_on(test: Table, gp: Any, rows: EncodedTable) -> dict[str, Any]:
    """The score on the rows of another table, all of which have targets."""
    total = Score(rows.schema.task)
    for batch, first_row, _ in test.chunks():
        X, y = encode(batch, first_row, rows.schema, rows.encoder, test.source)
        total.add(predict_rows(gp, X), y)
    return {**total.figures(), "rows": total.n, "how": f"of {test.source}"}


def facts_of(
    schema: Schema, choice: Choice, kernel: str, seed: int, score: dict[str, Any] | None
) -> dict[str, Any]:
    """What `info` reports about a model."""
    row = choice.row
    return {
        "task": schema.task,
        "target": schema.target.name,
        "classes": schema.classes,
        "source": schema.source,
        "rows": schema.n_rows,
        "impute": schema.impute,
        "rows_imputed": schema.n_imputed,
        "numeric": [column.name for column in schema.numeric],
        "categorical": {column.name: sorted(column.levels) for column in schema.categorical},
        "kernel": kernel,
        "features": row.label,
        "n_components": choice.best.features.n_components,
        "relative_error": float(row.relative_error),
        "error_source": row.source,
        "score": score,
        "python": source_of(choice.best.features),
        "seed": seed,
    }

"""`dotsketch predict` and `dotsketch info`: a model of a file, on new rows."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from .._support.files import atomic_write
from ..persistence import read_info
from .encoding import NO_LEVEL, Wanted, frame_of, target_of, wanted_of
from .errors import UserMistake, check_ending, check_output
from .model_file import load_model
from .modelling import use_threads
from .options import jobs_option, reading, speaking, threads
from .output import Output, count, facts
from .scoring import Prediction, Score, describe_figures, predict_rows
from .tables import Table, list_names, open_table


@click.command()
@click.argument("model")
@click.argument("data")
@click.option(
    "-o", "--output", "path", metavar="FILE", help="CSV or Parquet.  [default: CSV to stdout]"
)
@click.option("--keep", metavar="COLUMN", multiple=True, help="Copy from DATA (repeatable).")
@reading
@jobs_option
@speaking
def predict(
    model: str,
    data: str,
    path: str | None,
    keep: tuple[str, ...],
    jobs: int | None,
    as_json: bool,
    verbose: bool,
    **options: Any,
) -> None:
    """Predict the rows of DATA with a MODEL that `fit` wrote.

    Columns are found by their names. A regression gives `mean` and `standard_deviation` (of the
    target, noise included); a classification gives `predicted` and `probability_…` of every class.
    Where DATA has the target, the predictions are scored.

    \b
    Examples:
      dotsketch predict houses.model new.csv -o predictions.csv
      dotsketch predict houses.model new.csv --keep id > predictions.csv
    """
    output = Output(as_json, verbose)
    fitted = load_model(model)
    encoder, gp = fitted[:-1], fitted[-1]
    wanted, target = wanted_of(encoder), fitted.facts_["target"]
    classes = gp.classes_ if fitted.facts_["task"] == "classification" else [0.0]
    use_threads(gp.features_, jobs)
    table = open_table(data, **options)
    kept = [table.column(name) for name in keep]
    check_columns(wanted, table, {*kept, target}, output)
    score = Score(fitted.facts_["task"]) if target in table.names else None
    rows = 0
    unknown: dict[str, int] = {}
    if path is None and as_json:
        raise UserMistake("--json reports on the file that was written: give -o FILE as well.")
    if path is not None:
        check_output(Path(path), model, data)
        # no ending stands for CSV
        check_ending(path, "predictions", "", ".csv", ".txt", ".parquet", ".pq")
    with (
        threads(jobs),
        open_output(path) as write,
        output.progress(f"Predicting {table.source}") as advance,
    ):
        for batch, first_row, fraction in table.chunks():
            frame = frame_of(batch, first_row, wanted, table.source)
            for name, levels in wanted.categorical.items():
                unseen = ~frame[name].isin({*levels, NO_LEVEL})  # a missing one is no other level
                unknown[name] = unknown.get(name, 0) + int(unseen.sum())
            prediction = predict_rows(gp, encoder.transform(frame))
            if score is not None:
                y, missing = target_of(batch, first_row, target, classes, table.source)
                score.add(prediction.at(~missing), y[~missing])
            write(predicted_columns(prediction, batch, kept))
            rows += batch.num_rows
            advance(fraction)
        if not rows:
            raise UserMistake(f"{table.source} has no rows of data.")
    for name, number in unknown.items():
        if number:
            output.say(
                f"{table.source}: column {name!r} has {count(number, 'value')} that the model "
                "never saw: they are treated as no level."
            )
    if score is not None and score.n < rows:
        output.say(
            f"{table.source}: {count(rows - score.n, 'row')} without a value of the target "
            f"{target!r}: not scored."
        )
    figures = None if score is None or not score.n else score.figures()
    told = {"rows": f"{rows:,}"} | ({"score": describe_figures(figures)} if figures else {})
    if path is None:
        output.say("; ".join(f"{name}: {value}" for name, value in told.items()))
        return
    known = {"output": path, "rows": rows, "score": figures, "unknown_levels": unknown}
    output.result(known, facts({"output": path, **told}))


def check_columns(wanted: Wanted, table: Table, others: set[str], output: Output) -> None:
    """Raise if a column of the model is missing; report those that are not used."""
    names = [*wanted.numeric, *wanted.categorical]
    missing = [name for name in names if name not in table.names]
    if missing:
        raise UserMistake(
            f"{table.source} lacks {count(len(missing), 'column')} of the model: "
            f"{list_names(missing)}."
        )
    extra = [name for name in table.names if name not in {*names, *others}]
    if extra:
        output.say(f"{table.source}: not used by the model: {list_names(extra)}")


def predicted_columns(
    prediction: Prediction, batch: pa.RecordBatch, kept: list[str]
) -> pa.RecordBatch:
    """The columns that are written."""
    columns = prediction.columns()
    twice = [name for name in kept if name in columns]
    if twice:
        raise UserMistake(f"--keep {twice[0]}: the predictions have a column of that name, too.")
    columns = {name: batch.column(name) for name in kept} | columns
    return pa.RecordBatch.from_pydict({name: pa.array(c) for name, c in columns.items()})


@contextmanager
def open_output(path: str | None) -> Iterator[Any]:
    """Yields the function that writes batches; a file appears when all of it is there."""
    if path is None:
        with csv_or_parquet(sys.stdout.buffer, "stdout.csv") as write:
            yield write
        return
    with atomic_write(path) as file, csv_or_parquet(file, path) as write:
        yield write


@contextmanager
def csv_or_parquet(target: Any, name: str) -> Iterator[Any]:
    """Yields the function that writes batches to a stream, by the ending of its name."""
    kind: Any = pa.csv.CSVWriter
    if name.lower().endswith((".parquet", ".pq")):
        kind = pa.parquet.ParquetWriter
    writers: list[Any] = []

    def write(batch: pa.RecordBatch) -> None:
        if not writers:
            writers.append(kind(target, batch.schema))
        writers[0].write_batch(batch)

    try:
        yield write
    finally:
        for writer in writers:
            writer.close()


def noise_of(gp: Any) -> float:
    """The standard deviation of the noise, in units of the target."""
    return float(np.sqrt(gp.noise_variance_) * gp.scales_[0])


@click.command()
@click.argument("model")
@speaking
def info(model: str, as_json: bool, verbose: bool) -> None:
    """What a MODEL is, and on what it was fitted.

    \b
    Example:
      dotsketch info houses.model
    """
    found = load_model(model)
    file = read_info(model)
    known = found.facts_
    lines = {
        "model": f"{model}, {file['size'] / 1e6:.1f} MB, dotsketch {file['versions']['dotsketch']}",
        "task": f"{known['task']} of {known['target']!r}",
        "fitted to": f"{known['source']}, {known['rows']:,} rows",
        "columns": list_names([*known["numeric"], *known["categorical"]], 20),
        "features": f"{known['features']}, {known['n_components']} columns",
        "predicted error": f"{known['relative_error']:.3g} of the kernel ({known['error_source']})",
        "python": known["python"],
    }
    if known["classes"] is not None:
        lines["classes"] = list_names(known["classes"], 20)
    else:
        lines["noise"] = f"{noise_of(found[-1]):.4g} (standard deviation)"
    Output(as_json, verbose).result({"model": model, **known, "file": file}, facts(lines))

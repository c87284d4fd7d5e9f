"""`dotsketch predict` and `dotsketch info`: a model of a file, on new rows."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet
from sklearn.pipeline import Pipeline

from .._support.files import atomic_write
from ..gp import ImputedGPRegressor
from ..persistence import read_info
from .encoding import NO_LEVEL, Batch, Wanted, frame_of, target_of, wanted_of
from .errors import UserMistake, check_ending, check_output
from .model_file import load_model
from .modelling import process_of, use_threads
from .options import jobs_option, reading, speaking, threads
from .output import Output, count, facts
from .scoring import Prediction, Score, describe_figures, describe_score, predict_rows
from .tables import Table, list_names, open_table


def parse_levels(context: click.Context, option: click.Parameter, given: str | None) -> Any:
    """Probabilities between 0 and 1, with commas between them."""
    try:
        levels = tuple(float(part) for part in (given or "").split(",") if part.strip())
    except ValueError:
        levels = (0.0,)
    if not all(0 < level < 1 for level in levels):
        raise click.BadParameter(f"{given!r} must be numbers between 0 and 1, such as 0.05,0.95.")
    return levels


@click.command()
@click.argument("model")
@click.argument("data")
@click.option(
    "-o",
    "--output",
    "path",
    metavar="FILE",
    help="A CSV or Parquet file to write.  [default: CSV to stdout]",
)
@click.option(
    "--keep",
    metavar="COLUMN",
    multiple=True,
    help="Copy this column of DATA to the output (repeatable).",
)
@click.option(
    "--quantiles",
    metavar="LEVELS",
    callback=parse_levels,
    help="Quantiles of a regression to write, one column each, such as 0.05,0.5,0.95.",
)
@reading
@jobs_option
@speaking
def predict(
    model: str,
    data: str,
    path: str | None,
    keep: tuple[str, ...],
    quantiles: tuple[float, ...],
    jobs: int | None,
    as_json: bool,
    verbose: bool,
    **options: Any,
) -> None:
    """Predict the rows of DATA with a MODEL that `fit` wrote.

    Columns are found by their names. A regression gives `mean` and `standard_deviation` (of the
    target, noise included); a classification gives `predicted` and `probability_…` of every class.
    Where DATA has the target, the predictions are scored; rows without a target are predicted like
    all others, and not scored. Missing values are filled in if the model was fitted with --impute.

    \b
    Examples:
      dotsketch predict houses.model new.csv -o predictions.csv
      dotsketch predict houses.model new.csv --quantiles 0.05,0.95 --json
      dotsketch predict houses.model new.csv --keep id > predictions.csv
    """
    output = Output(as_json, verbose)
    fitted = load_model(model)
    target, task = fitted.facts_["target"], fitted.facts_["task"]
    if quantiles and task == "classification":
        raise UserMistake("--quantiles are of numbers, and the model predicts classes.")
    use_threads(process_of(fitted[-1]).features_, jobs)
    table = open_table(data, **options)
    kept = [table.column(name) for name in keep]
    wanted = wanted_of(fitted[:-1], fitted.facts_["impute"])
    check_columns(wanted, table, {*kept, target}, output)
    if path is not None:
        check_output(Path(path), model, data)
        # no ending stands for CSV
        check_ending(path, "predictions", "", ".csv", ".txt", ".parquet", ".pq")
    tally = Tally(Score(task) if target in table.names else None)
    records: list[dict[str, Any]] | None = [] if path is None and as_json else None
    with (
        threads(jobs),
        open_output(path, records) as write,
        output.progress(f"Predicting {table.source}") as advance,
    ):
        for batch, prediction, fraction in predictions(fitted, wanted, table, tally):
            write(predicted_columns(prediction, batch, kept, quantiles))
            advance(fraction)
    for note in tally.notes(target, task):
        output.say(f"{table.source}: {note}")
    told = {"rows": f"{tally.rows:,}"}
    if tally.figures:
        told["score"] = describe_figures(tally.figures)
    if path is None and not as_json:
        output.say("; ".join(f"{name}: {value}" for name, value in told.items()))
        return
    known = {"output": path, **tally.facts()}
    if records is not None:
        known["predictions"] = records
    output.result(known, facts({"output": path, **told}))


def predictions(
    fitted: Pipeline, wanted: Wanted, table: Table, tally: Tally
) -> Iterator[tuple[Batch, Prediction, float]]:
    """The chunks of a table, their predictions, and the part that is read; `tally` counts them."""
    encoder, gp, target = fitted[:-1], fitted[-1], fitted.facts_["target"]
    classes = gp.classes_ if fitted.facts_["task"] == "classification" else [0.0]
    for batch, first_row, fraction in table.chunks():
        frame = frame_of(batch, first_row, wanted, table.source)
        tally.add(frame, wanted)
        prediction = predict_rows(gp, encoder.transform(frame))
        if tally.score is not None:
            y, missing = target_of(batch, first_row, target, classes, table.source)
            tally.score.add(prediction.at(~missing), y[~missing])
        yield batch, prediction, fraction


@dataclass
class Tally:
    """What was seen of the rows that were predicted."""

    score: Score | None  # if the table has the target
    rows: int = 0
    n_imputed: int = 0
    unknown: dict[str, int] = field(default_factory=dict)  # values that the model never saw

    def add(self, frame: pd.DataFrame, wanted: Wanted) -> None:
        for name, levels in wanted.categorical.items():
            unseen = ~frame[name].isin({*levels, NO_LEVEL})  # a missing one is no other level
            self.unknown[name] = self.unknown.get(name, 0) + int(unseen.sum())
        self.n_imputed += count_imputed(frame, wanted)
        self.rows += len(frame)

    @property
    def figures(self) -> dict[str, Any] | None:
        return None if self.score is None or not self.score.n else self.score.figures()

    def facts(self) -> dict[str, Any]:
        return {
            "rows": self.rows,
            "rows_imputed": self.n_imputed,
            "score": self.figures,
            "unknown_levels": self.unknown,
        }

    def notes(self, target: str, task: str) -> Iterator[str]:
        """What the user should know of these rows."""
        for name, number in self.unknown.items():
            if number:
                yield (
                    f"column {name!r} has {count(number, 'value')} that the model never saw: they "
                    "are treated as no level."
                )
        if self.score is not None and self.score.n < self.rows:
            missing = count(self.rows - self.score.n, "row")
            yield f"{missing} without a value of the target {target!r}: not scored."
        if self.n_imputed:
            wider = "" if task == "classification" else ", with wider intervals"
            yield f"{count(self.n_imputed, 'row')} of {self.rows:,} were imputed{wider}"


def check_columns(wanted: Wanted, table: Table, others: set[str], output: Output) -> None:
    """Raise if a column of the model is missing; report those that are not used."""
    names = [*wanted.numeric, *wanted.categorical]
    table.require(names)
    extra = [name for name in table.names if name not in {*names, *others}]
    if extra:
        output.say(f"{table.source}: not used by the model: {list_names(extra)}")


def count_imputed(frame: pd.DataFrame, wanted: Wanted) -> int:
    """Rows in which a value is missing."""
    gaps = frame[list(wanted.numeric)].isna().any(axis=1)
    for name in wanted.categorical:
        gaps |= frame[name] == NO_LEVEL
    return int(gaps.sum())


def predicted_columns(
    prediction: Prediction, batch: Batch, kept: list[str], levels: Sequence[float] = ()
) -> pa.RecordBatch:
    """The columns that are written."""
    columns = prediction.columns(levels)
    twice = [name for name in kept if name in columns]
    if twice:
        raise UserMistake(f"--keep {twice[0]}: the predictions have a column of that name, too.")
    columns = {name: batch.column(name) for name in kept} | columns
    return pa.RecordBatch.from_pydict({name: pa.array(c) for name, c in columns.items()})


@contextmanager
def open_output(path: str | None, records: list[Any] | None = None) -> Iterator[Any]:
    """Yields the function that writes batches; a file appears when all of it is there."""
    if records is not None:
        yield lambda batch: records.extend(batch.to_pylist())
        return
    if path is None:
        with csv_or_parquet(sys.stdout.buffer, "stdout.csv") as write:
            yield write
        return
    with atomic_write(path) as file, csv_or_parquet(file, path) as write:
        yield write


@contextmanager
def csv_or_parquet(target: Any, name: str) -> Iterator[Any]:
    """Yields the function that writes batches to a stream, by the ending of its name."""
    if not name.lower().endswith((".parquet", ".pq")):
        header = True

        def write_text(batch: pa.RecordBatch) -> None:
            nonlocal header
            target.write(csv_lines(batch, header))
            header = False

        yield write_text
        return
    writers: list[Any] = []

    def write(batch: pa.RecordBatch) -> None:
        if not writers:
            writers.append(pa.parquet.ParquetWriter(target, batch.schema))
        writers[0].write_batch(batch)

    try:
        yield write
    finally:
        for writer in writers:
            writer.close()


def csv_lines(batch: pa.RecordBatch, header: bool) -> bytes:
    """The rows as CSV. Only what needs quotes has them (Arrow's own writer quotes every text), so
    that numbers of a CSV file, which are read as text, stay numbers."""
    compute = pa.compute
    columns = [pa.array(batch.schema.names)] if header else []
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        try:
            columns.append(column.cast(pa.string()).fill_null(""))
        except pa.ArrowNotImplementedError:  # lists, for one
            raise UserMistake(
                f"--keep {name}: values of type {column.type} have no form in CSV; write a Parquet "
                "file, -o FILE.parquet."
            ) from None
    cells = []
    for column in columns:
        doubled = compute.replace_substring(column, '"', '""')
        quoted = compute.binary_join_element_wise('"', doubled, '"', "")
        special = compute.match_substring_regex(column, '[",\r\n]')
        cells.append(compute.if_else(special, quoted, column))
    lines = [",".join(cells.pop(0).to_pylist())] if header else []
    lines += compute.binary_join_element_wise(*cells, ",").to_pylist()
    return "".join(f"{line}\n" for line in lines).encode()


@click.command()
@click.argument("model")
@speaking
def info(model: str, as_json: bool, verbose: bool) -> None:
    """Show what a MODEL is, and what it was fitted to.

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
    if known["score"] is not None:
        lines["score"] = describe_score(known["score"])
    if known["impute"]:
        lines["imputed"] = f"{count(known['rows_imputed'], 'row')} when fitting"
    if known["classes"] is not None:
        lines["classes"] = list_names(known["classes"], 20)
    else:
        gp = found[-1]  # its noise is that of complete rows
        scale = 1.0 if isinstance(gp, ImputedGPRegressor) else gp.scales_[0]
        lines["noise"] = f"{np.sqrt(gp.noise_variance_) * scale:.4g} (standard deviation)"
    Output(as_json, verbose).result({"model": model, **known, "file": file}, facts(lines))

"""`dotsketch predict` and `dotsketch info`: a model of a file, on new rows."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import click
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
from sklearn.pipeline import Pipeline

from .._support.files import atomic_write
from ..persistence import PersistenceError, load, read_info
from . import scoring
from .options import jobs_option, option, reading, speaking, take, threads
from .output import (
    UserMistake,
    check_ending,
    check_output,
    count,
    facts,
    list_names,
    progress,
    say,
    show,
)
from .schema import encoded, target_of
from .scoring import ClassPrediction, NumberPrediction, Prediction, predict_rows
from .tables import as_frame, open_table

LEVEL_DRAWS = 64  # the variance between levels is then known to about 20 %


def load_model(path: str) -> Pipeline:
    if not Path(path).is_file():
        raise UserMistake(f"there is no model file {path}.")
    try:
        pipeline = load(path)
    except PersistenceError as error:
        raise UserMistake(str(error)) from error
    if not isinstance(pipeline, Pipeline) or not hasattr(pipeline, "facts_"):
        raise UserMistake(
            f"{path} holds a {type(pipeline).__name__}, not a model that `dotsketch fit` made: "
            "load it in Python."
        )
    return pipeline


def columns_of(fitted: Pipeline) -> list[str]:
    return [column.name for column in fitted[0].columns_]


def parse_levels(context: click.Context, option: click.Parameter, text: str | None) -> Any:
    """Probabilities between 0 and 1, with commas between them."""
    try:
        levels = tuple(float(part) for part in (text or "").split(",") if part.strip())
    except ValueError:
        levels = (0.0,)
    if not all(0 < level < 1 for level in levels):
        raise click.BadParameter(f"{text!r} must be numbers between 0 and 1, such as 0.05,0.95.")
    return levels


@click.command()
@click.argument("model")
@click.argument("data")
@option("-o", "--output", "path", metavar="FILE", text="A CSV or Parquet file.  [default: stdout]")
@option("--keep", metavar="COLUMN", multiple=True, text="Copy a column of DATA (repeatable).")
@option(
    *("--quantiles", "quantiles"),
    metavar="LEVELS",
    callback=parse_levels,
    text="Quantiles of a regression to write, one column each, such as 0.05,0.5,0.95.",
)
@reading
@jobs_option
@speaking
def predict(
    model: str, data: str, path: str | None, keep: Any, quantiles: Any, **options: Any
) -> None:
    """Predict the rows of DATA with a MODEL that `fit` wrote.

    Columns are found by their names. A regression gives `mean` and `standard_deviation` (of the
    target, noise included); a classification gives `predicted` and `probability_…` of every class.
    Where DATA has the target, the predictions are scored; rows without a target are predicted like
    all others, and not scored. Missing values are filled in if the model was fitted with --impute.
    A category that the model never saw is taken for any of those that it knows, with wider
    intervals.

    \b
    Examples:
      dotsketch predict houses.model new.csv -o predictions.csv
      dotsketch predict houses.model new.csv --quantiles 0.05,0.95 --json
      dotsketch predict houses.model new.csv --keep id > predictions.csv
    """
    jobs, as_json, _ = take(options, "jobs", "as_json", "verbose").values()
    fitted = load_model(model)
    names, known = columns_of(fitted), fitted.facts_
    target, task = known["target"], known["task"]
    if quantiles and task == "classification":
        raise UserMistake("--quantiles are of numbers, and the model predicts classes.")
    table = open_table(data, **options)
    kept = [table.column(name) for name in keep]
    table.require(names)
    extra = [name for name in table.names if name not in {*names, *kept, target}]
    if extra:
        say(f"{table.source}: not used by the model: {list_names(extra)}")
    if path is not None:
        check_output(Path(path), model, data)
        # no ending stands for CSV
        check_ending(path, "predictions", "", ".csv", ".txt", ".parquet", ".pq")
    score = scoring.Score(task) if target in table.names else None
    counts: Counter[str] = Counter(dict.fromkeys(known["categorical"], 0))  # unseen, by column
    records: list[dict[str, Any]] | None = [] if path is None and as_json else None
    n_rows = n_imputed = 0
    with (
        threads(jobs),
        open_output(path, records) as write,
        progress(f"Predicting {table.source}"),
    ):
        for batch, first_row in table.chunks():
            frame = as_frame(batch)
            X, missing, unseen = encoded(fitted[0], frame, first_row, table, impute=known["impute"])
            numbers = zip(fitted[0].columns_, unseen.sum(axis=0).tolist(), strict=True)
            counts.update({c.name: number for c, number in numbers if c.kind == "text"})
            n_imputed += int(missing.any(axis=1).sum())
            n_rows += len(X)
            prediction = predict_encoded(fitted, X, unseen)
            if score is not None:
                y, no_target = target_of(frame, first_row, target, known["classes"] or [0.0], table)
                score.add(prediction.at(~no_target), y[~no_target])
            write(predicted_columns(prediction, batch, kept, quantiles))
    wider = "" if task == "classification" else ", with wider intervals"
    for name, number in counts.items():
        if number:
            say(
                f"{table.source}: {count(number, 'row')} of {n_rows:,} have a value of {name!r} "
                f"that the model never saw: predicted as any of those it knows{wider}."
            )
    if score is not None and score.n < n_rows:
        rows = count(n_rows - score.n, "row")
        say(f"{table.source}: {rows} without a value of the target {target!r}: not scored.")
    if n_imputed:
        say(f"{table.source}: {count(n_imputed, 'row')} of {n_rows:,} were imputed{wider}")
    figures = None if score is None or not score.n else score.figures()
    lines = {"rows": f"{n_rows:,}"}
    if figures is not None:
        lines["score"] = scoring.describe_figures(figures)
    if path is None and not as_json:
        say("; ".join(f"{name}: {value}" for name, value in lines.items()))
        return
    result: dict[str, Any] = {"output": path, "rows": n_rows, "rows_imputed": n_imputed}
    result |= {"score": figures, "unknown_levels": dict(counts)}
    result |= {} if records is None else {"predictions": records}
    show(as_json, result, facts({"output": path, **lines}))


def predict_encoded(fitted: Pipeline, X: np.ndarray, unseen: np.ndarray) -> Prediction:
    """Predictions, for rows with unseen levels averages over the levels that were seen.

    Levels are drawn as often as they were among the rows of the fit. The variance of a regression
    is the mean variance and the variance of the means: a level that is like no other may be as far
    from them as they are from each other. (With --impute it counts as missing.)
    """
    encoder, gp = fitted
    prediction = predict_rows(gp, X)
    rows = unseen.any(axis=1)
    if fitted.facts_["impute"] or not rows.any():
        return prediction
    rng = np.random.default_rng(0)
    draws: list[Any] = []
    for _ in range(LEVEL_DRAWS):
        drawn = X[rows]
        for column, mask in zip(encoder.columns_, unseen[rows].T, strict=True):
            if mask.any():
                levels = fitted.facts_["categorical"][column.name]
                counts = np.array([levels[level] for level in column.levels])
                level = rng.choice(len(counts), mask.sum(), p=counts / counts.sum())
                drawn[mask, encoder.slices_[column.name]] = np.eye(len(counts))[level]
        draws.append(predict_rows(gp, drawn))
    if isinstance(prediction, ClassPrediction):
        probabilities = prediction.probabilities.copy()
        probabilities[rows] = np.mean([draw.probabilities for draw in draws], axis=0)
        return ClassPrediction(probabilities, prediction.classes)
    means = np.array([draw.mean for draw in draws])
    variances = np.array([draw.standard_deviation**2 for draw in draws])
    mean, deviation = prediction.mean.copy(), prediction.standard_deviation.copy()
    mean[rows] = means.mean(axis=0)
    deviation[rows] = np.sqrt(variances.mean(axis=0) + means.var(axis=0, ddof=1))
    return NumberPrediction(mean, deviation, prediction.tails)


def predicted_columns(
    prediction: Prediction, batch: pa.RecordBatch, kept: list[str], levels: Sequence[float] = ()
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
    is_parquet = path is not None and path.lower().endswith((".parquet", ".pq"))
    kind = pa.parquet.ParquetWriter if is_parquet else pa.csv.CSVWriter
    with ExitStack() as stack:
        target = sys.stdout.buffer if path is None else stack.enter_context(atomic_write(path))
        writers: list[Any] = []

        def write(batch: pa.RecordBatch) -> None:
            try:
                if not writers:
                    writers.append(stack.enter_context(kind(target, batch.schema)))
                writers[0].write_batch(batch)
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:  # lists, for one
                raise UserMistake(
                    f"--keep: CSV cannot hold these columns ({error}); write a Parquet file, -o "
                    "FILE.parquet."
                ) from None

        yield write


@click.command()
@click.argument("model")
@speaking
def info(model: str, as_json: bool, verbose: bool) -> None:
    """Show what a MODEL is, and what it was fitted to.

    \b
    Example:
      dotsketch info houses.model
    """
    fitted, file = load_model(model), read_info(model)
    known = fitted.facts_
    lines = {
        "model": f"{model}, {file['size'] / 1e6:.1f} MB, dotsketch {file['versions']['dotsketch']}",
        "task": f"{known['task']} of {known['target']!r}",
        "fitted to": f"{known['source']}, {known['rows']:,} rows",
        "columns": list_names(columns_of(fitted), 20),
    }
    lines |= {name: known[name] for name in ("kernel", "features", "python")}
    if known["score"] is not None:
        lines["score"] = scoring.describe_figures(known["score"])
    if known["impute"]:
        lines["imputed"] = f"{count(known['rows_imputed'], 'row')} when fitting"
    if known["classes"] is not None:
        lines["classes"] = list_names(known["classes"], 20)
    show(as_json, {"model": model, **known, "file": file}, facts(lines))

"""`dotsketch fit`: a model of a table of any length, in two passes over it."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click
import numpy as np
from sklearn.pipeline import Pipeline

from ..features import FAMILIES
from ..persistence import save
from . import modelling as models
from .options import encode_aloud, modelling, open_tables, option, take, threads
from .output import UserMistake, check_output, facts, progress, show
from .scoring import Score, describe_figures, predict_rows
from .words import describe_kernel, rounded, source_of


@click.command()
@click.argument("data")
@option("-o", "--output", "path", required=True, metavar="MODEL", text="The file to write.")
@option(
    "--features",
    default="auto",
    show_default=True,
    text=f"auto (the library's default) or a family: {', '.join(FAMILIES)}.",
)
@option("--test", metavar="FILE", text="Score the model on another table.")
@modelling
def fit(data: str, path: str, features: str, test: str | None, **options: Any) -> None:
    """Fit a Gaussian process to DATA, and write it to a file.

    DATA is a file, a folder of Parquet files, a pattern such as 'data/*.parquet', or the name of a
    data set. The table is read twice, chunk by chunk: once for columns, scales and a sample on
    which the kernel is searched and the model is scored, once for the model itself. CSV and
    Parquet files may be larger than memory. The score is that of rows held out of the sample, or of
    FILE with --test.

    \b
    Examples:
      dotsketch fit houses.csv --target price -o houses.model
      dotsketch fit houses.csv --target price --test new.csv -o houses.model
      dotsketch fit houses.csv --target price --kernel poly:3 --components 2000 -o houses.model
      dotsketch fit 'data/*.parquet' --target y -o y.model
    """
    jobs, as_json, _ = take(options, "jobs", "as_json", "verbose").values()
    wanted = take(options, "kernel", "components", "seed")
    request = models.Request(features=features, **wanted)
    table, test_table = open_tables(data, test, request, options)
    check_output(Path(path), data, test)
    start = time.perf_counter()
    with threads(jobs):
        rows, request = encode_aloud(table, test_table, request, options)
        schema, score = rows.schema, None
        try:
            split, held = models.hold_out(rows, request.seed), True
        except UserMistake:  # too few rows: a model is made of them, too
            sample = rows.X, rows.y
            split, held = models.HeldOut(*sample, *sample), False
        with progress("Choosing a model"):
            first = models.chosen_model(request, split)
        if held and test_table is None:
            how = f"held out, after fitting {len(split.y):,} others"
            score = score_of(first, [(split.X_test, split.y_test)], schema.task, how)
        with progress("Fitting", 1.0) as advance:
            gp = models.fit_all(request, first, rows, advance)
        if test_table is not None:
            chunks = rows.chunks(test_table)
            score = score_of(gp, chunks, schema.task, f"of {test_table.source}")
    kernel = gp.kernel_
    known: dict[str, Any] = {
        "task": schema.task,
        "target": schema.target.name,
        "classes": schema.classes,
        "source": schema.source,
        "rows": schema.n_rows,
        "numeric": [column.name for column in schema.features if column.kind == "number"],
        "dates": {c.name: next(iter(c.dates)) for c in schema.features if c.kind == "date"},
        "categorical": {column.name: dict(column.levels) for column in schema.categorical},
        "impute": schema.impute,
        "rows_imputed": schema.n_imputed,
        "kernel": source_of(rounded(kernel)),
        "features": models.describe_features(gp, split.X),
        "score": score,
        "python": source_of(first),
        "seed": request.seed,
    }
    pipeline = Pipeline([("table", rows.encoder), ("gp", gp)])
    pipeline.facts_ = known  # what `info` shows
    save(pipeline, path)
    seconds = time.perf_counter() - start
    lines = {"model": path, "rows": f"{schema.n_rows:,}", "kernel": describe_kernel(kernel)}
    lines |= {"features": known["features"]}
    lines |= {} if score is None else {"score": describe_figures(score)}
    lines |= {"time": f"{seconds:.1f} s"}
    show(as_json, {"model": path, **known, "seconds": seconds}, facts(lines))


def score_of(
    gp: Any, chunks: Iterable[tuple[np.ndarray, np.ndarray]], task: str, how: str
) -> dict[str, Any]:
    """The score on rows, all of which have targets."""
    total = Score(task)
    for X, y in chunks:
        total.add(predict_rows(gp, X), y)
    return {**total.figures(), "rows": total.n, "how": how}

"""`dotsketch fit`: a model of a table of any length, in two passes over it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click

from ..features import FAMILIES
from . import modelling as models
from .encoding import EncodedTable
from .errors import check_output
from .options import encode_aloud, modelling, open_tables, option, take, threads
from .output import Output, facts
from .predict import save_model
from .scoring import Score, describe_figures, predict_rows
from .tables import Table
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
    output, jobs = Output(**take(options, "as_json", "verbose")), options.pop("jobs")
    wanted = take(options, "kernel", "components", "seed")
    request = models.Request(features=features, **wanted)
    table, test_table = open_tables(data, test, request, options)
    check_output(Path(path), data, test)
    start = time.perf_counter()
    with threads(jobs):
        rows, request = encode_aloud(table, test_table, request, output, options)
        schema, score = rows.schema, None
        try:
            split, held = models.hold_out(rows, request.seed), True
        except models.TooFewRows:  # a model is made of few rows, too
            sample = rows.X, rows.y
            split, held = models.HeldOut(*sample, *sample), False
        with output.progress("Choosing a model"):
            first = models.chosen_model(request, split)
            if held and test_table is None:
                score = held_out_score(first, split)
        with output.progress("Fitting", 1.0) as advance:
            gp = models.fit_all(request, first, rows, advance)
        if test_table is not None:
            score = score_on(test_table, gp, rows)
    kernel = gp.kernel_
    known = {
        "task": schema.task,
        "target": schema.target.name,
        "classes": schema.classes,
        "source": schema.source,
        "rows": schema.n_rows,
        **rows.inputs._asdict(),
        "rows_imputed": schema.n_imputed,
        "kernel": source_of(rounded(kernel)),
        "features": models.describe_features(gp, split.X),
        "score": score,
        "python": source_of(first),
        "seed": request.seed,
    }
    save_model(path, rows.encoder, gp, known)
    seconds = time.perf_counter() - start
    lines = {"model": path, "rows": f"{schema.n_rows:,}", "kernel": describe_kernel(kernel)}
    lines |= {"features": known["features"]}
    lines |= {} if score is None else {"score": describe_figures(score)}
    lines |= {"time": f"{seconds:.1f} s"}
    output.result({"model": path, **known, "seconds": seconds}, facts(lines))


def held_out_score(gp: Any, split: models.HeldOut) -> dict[str, Any]:
    total = Score.of(predict_rows(gp, split.X_test), split.y_test)
    how = f"held out, after fitting {len(split.y):,} others"
    return {**total.figures(), "rows": total.n, "how": how}


def score_on(test: Table, gp: Any, rows: EncodedTable) -> dict[str, Any]:
    """The score on the rows of another table, all of which have targets."""
    total = Score(rows.schema.task)
    for X, y in rows.chunks(test):
        total.add(predict_rows(gp, X), y)
    return {**total.figures(), "rows": total.n, "how": f"of {test.source}"}

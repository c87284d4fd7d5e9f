"""`dotsketch fit`: a model of a table of any length, in two passes over it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import numpy as np

from ..features import Study
from ..planning import Plan
from .encoding import encode, encode_chunks, make_encoder
from .errors import check_output
from .kernel_names import parse_kernel
from .model_file import save_model
from .modelling import check_features, choose_features, choose_kernel, describe_cap, fit_stream
from .options import (
    components_option,
    kernel_option,
    learning,
    scan_aloud,
    take_reading,
    threads,
    working,
)
from .output import Output, facts
from .python_source import source_of
from .schema import Schema
from .tables import open_table


@click.command()
@click.argument("data")
@click.option(
    "-o", "--output", "path", required=True, metavar="MODEL", help="The file of the model."
)
@kernel_option
@components_option
@click.option(
    "--features",
    default="auto",
    show_default=True,
    help="auto (least predicted error), a family such as fourier, or a name from `compare`.",
)
@learning
@working
def fit(
    data: str,
    path: str,
    kernel: str,
    components: int,
    features: str,
    seed: int,
    jobs: int | None,
    as_json: bool,
    verbose: bool,
    **options: Any,
) -> None:
    """Fit a Gaussian process to DATA, and write it to a file.

    The table is read twice, chunk by chunk: once for columns, scales and a sample on which the
    features are chosen, once for the process. CSV and Parquet files may be larger than memory.

    \b
    Examples:
      dotsketch fit houses.csv --target price -o houses.model
      dotsketch fit houses.csv --target price --kernel poly:3 --components 2000 -o houses.model
      dotsketch fit digits -o digits.model
    """
    output = Output(as_json, verbose)
    asked, _ = parse_kernel(kernel, 1)  # mistakes are reported before the table is read
    check_features(features, kernel)
    table = open_table(data, **take_reading(options))
    check_output(Path(path), data)
    start = time.perf_counter()
    with threads(jobs):
        schema = scan_aloud(table, seed, output, **options)
        encoder = make_encoder(schema, standardise=not asked.nonnegative)
        X, y = encode(schema.sample, 1, schema, encoder)
        with output.progress("Choosing features") as advance:
            chosen = choose_kernel(kernel, X, y, schema.task, seed)
            advance(0.3)
            row = choose_features(features, Study(chosen, X, random_state=seed), components)
        output.note(describe_cap(Plan([row]), components, len(X)))
        estimator = row.candidate.for_kernel(chosen, row.n_components, random_state=seed)
        output.detail(f"Features: {source_of(estimator)}")
        classes = schema.classes if schema.task == "classification" else None
        with output.progress("Fitting") as advance:

            def stream() -> Iterator[tuple[np.ndarray, np.ndarray]]:
                for X, y, fraction in encode_chunks(table, schema, encoder):
                    yield X, y
                    advance(fraction)

            gp = fit_stream(estimator, X, stream, classes, jobs)
    known = facts_of(schema, row, estimator, kernel, seed)
    save_model(path, encoder, gp, known)
    seconds = time.perf_counter() - start
    output.result(
        {"model": path, **known, "seconds": seconds},
        facts(
            {
                "model": path,
                "rows": f"{schema.n_rows:,}",
                "features": f"{row.label}, {row.n_components} columns",
                "predicted error": f"{row.relative_error:.3g} of the kernel ({row.source})",
                "time": f"{seconds:.1f} s",
            }
        ),
    )


def facts_of(schema: Schema, row: Any, features: Any, kernel: str, seed: int) -> dict[str, Any]:
    """What `info` reports about a model."""
    return {
        "task": schema.task,
        "target": schema.target.name,
        "classes": schema.classes if schema.task == "classification" else None,
        "source": schema.source,
        "rows": schema.n_rows,
        "numeric": [column.name for column in schema.numeric],
        "categorical": {column.name: sorted(column.levels) for column in schema.categorical},
        "kernel": kernel,
        "features": row.label,
        "n_components": row.n_components,
        "relative_error": float(row.relative_error),
        "error_source": row.source,
        "python": source_of(features),
        "seed": seed,
    }

"""The options that commands share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import click
import pyarrow as pa
from threadpoolctl import threadpool_limits

from .kernel_names import FORMS
from .output import Output, count
from .schema import Schema, scan
from .tables import DATES, FORMATS, Table, list_names, open_table

REMEDIES = {DATES: ". To use one, write it as a number, such as days."}
Command = Callable[..., Any]


def combine(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Several options as one decorator, shown in this order."""

    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def number_option(name: str, default: int, least: int, text: str) -> Callable[[Command], Command]:
    """An option that is a whole number, not below the least."""
    return click.option(
        name,
        default=default,
        show_default=True,
        metavar="N",
        type=click.IntRange(min=least),
        help=text,
    )


speaking = combine(
    click.option("--json", "as_json", is_flag=True, help="Print the result as JSON."),
    click.option(
        "-v", "--verbose", is_flag=True, help="Print more messages, and tracebacks of errors."
    ),
)

jobs_option = click.option(
    "--jobs",
    metavar="N",
    type=click.IntRange(min=1),
    help="The number of threads.  [default: one per processor]",
)

working = combine(
    number_option("--seed", 0, 0, "Seed of all random draws."),
    jobs_option,
    speaking,
)


def parse_delimiter(context: click.Context, option: click.Parameter, given: str | None) -> Any:
    """One character; a tab may be written as a word."""
    delimiter = {"tab": "\t", "\\t": "\t"}.get(given or "", given)
    if delimiter is not None and len(delimiter) != 1:
        raise click.BadParameter(f"{given!r} must be one character, or tab.")
    return delimiter


reading = combine(
    click.option(
        "--format",
        type=click.Choice(list(FORMATS)),
        help="Format of the file.  [default: by its ending]",
    ),
    click.option(
        "--delimiter",
        callback=parse_delimiter,
        help="Delimiter of a CSV file: , ; | or tab.  [default: detected]",
    ),
    click.option("--encoding", default="utf-8", show_default=True, help="Encoding of a CSV file."),
    click.option(
        "--decimal",
        default=".",
        show_default=True,
        type=click.Choice([".", ","]),
        help="Decimal mark of a CSV file.",
    ),
    click.option(
        "--no-header", is_flag=True, help="The CSV file has no header: name columns f0, f1, …"
    ),
)

learning = combine(
    click.option("--target", metavar="COLUMN", help="The column to predict: its name or position."),
    click.option(
        "--task",
        type=click.Choice(["regression", "classification"]),
        help="The kind of task.  [default: decided from the target]",
    ),
    click.option(
        "--ignore", metavar="COLUMN", multiple=True, help="Leave this column out (repeatable)."
    ),
    click.option(
        "--categorical",
        metavar="COLUMN",
        multiple=True,
        help="Treat this column as categorical (repeatable).",
    ),
    click.option("--impute", is_flag=True, help="Impute missing values instead of refusing them."),
    number_option("--max-levels", 50, 2, "The most levels of a categorical column."),
    reading,
)

kernel_option = click.option(
    "--kernel",
    default="gaussian",
    show_default=True,
    metavar="KERNEL",
    help=f"{FORMS} or tanimoto (nonnegative columns, not standardised).",
)

components_option = number_option("--components", 1000, 1, "The number of random features.")


def take_reading(options: dict[str, Any]) -> dict[str, Any]:
    """Take the options `reading` out of all options of a command."""
    names = ("format", "delimiter", "encoding", "decimal", "no_header")
    return {name: options.pop(name) for name in names}


def option_words(values: dict[str, Any]) -> list[str]:
    """Options of the command that runs, as a user writes them; those at their defaults are left
    out."""
    found = []
    for option in click.get_current_context().command.params:
        value = values.get(option.name or "")
        if value is True:
            found.append(option.opts[0])
        elif value not in (None, False, option.default):
            for one in value if isinstance(value, tuple) else (value,):
                found += [option.opts[0], str(one)]
    return found


def open_both(data: str, test: str | None, reading: dict[str, Any]) -> tuple[Table, Table | None]:
    """The table to fit to, and that of --test, if there is one."""
    return open_table(data, **reading), None if test is None else open_table(test, **reading)


def scan_aloud(
    table: Table, test: Table | None, seed: int, output: Output, **learning: Any
) -> Schema:
    """Look through a table once, and report what was found; the other has the same columns."""
    with output.progress(f"Reading {table.source}") as advance:
        schema = scan(table, seed=seed, advance=advance, **learning)
    if test is not None:
        test.require(column.name for column in (*schema.features, schema.target))
    lines = []
    for why in sorted({table.left_out[name] for name in schema.left_out}):
        names = sorted(name for name in schema.left_out if table.left_out[name] == why)
        lines.append(f"left out, {why}: {list_names(names)}{REMEDIES.get(why, '')}")
    if "" in (column.name for column in schema.features):
        lines.append("a column without a name is used (an index?); --ignore '' leaves it out.")
    if schema.constant:
        lines.append(
            "the same value in every row, no use for a prediction: " + list_names(schema.constant)
        )
    lines.append(
        f"{schema.n_rows:,} rows, {len(schema.numeric)} numeric and {len(schema.categorical)} "
        f"categorical columns; {schema.task} of {schema.target.name!r} ({schema.reason})"
    )
    if schema.n_imputed:
        lines.append(
            f"{count(schema.n_imputed, 'row')} of {schema.n_rows:,} were imputed: they lack "
            + list_names(column.name for column in schema.features if column.n_missing)
        )
    for line in lines:
        output.say(f"{schema.source}: {line}")
    return schema


@contextmanager
def threads(jobs: int | None) -> Iterator[None]:
    """At most so many threads in the libraries below."""
    if jobs is None:
        yield
        return
    before = pa.cpu_count()
    pa.set_cpu_count(jobs)
    try:
        with threadpool_limits(jobs):
            yield
    finally:
        pa.set_cpu_count(before)

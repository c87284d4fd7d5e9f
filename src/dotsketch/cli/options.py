"""The options that commands share, and what `fit` and `compare` do with them first."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import click
import pyarrow as pa
from threadpoolctl import threadpool_limits

from .modelling import Request, check_request, is_nonnegative
from .output import progress, say
from .schema import EncodedTable, scan
from .tables import FORMATS, Table, open_table
from .words import FORMS

Command = Callable[..., Any]
READING = ("format", "delimiter", "encoding", "no_header", "decimal", "thousands")


def combine(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Several options as one decorator, shown in this order."""

    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def option(*names: str, text: str, **settings: Any) -> Callable[[Command], Command]:
    return click.option(*names, help=text, **settings)


def parse_delimiter(context: click.Context, option: click.Parameter, text: str | None) -> Any:
    """One character; a tab may be written as a word."""
    delimiter = {"tab": "\t", "\\t": "\t"}.get(text or "", text)
    if delimiter is not None and len(delimiter) != 1:
        raise click.BadParameter(f"{text!r} must be one character, or tab.")
    return delimiter


counting = click.IntRange(min=1)
speaking = combine(
    option("--json", "as_json", is_flag=True, text="Print the result as JSON."),
    option("-v", "--verbose", is_flag=True, text="Print more messages, and tracebacks of errors."),
)
jobs_option = option("--jobs", metavar="N", type=counting, text="The number of threads.")
reading = combine(
    option("--format", type=click.Choice(list(FORMATS)), text="Format.  [default: by the ending]"),
    option("--delimiter", callback=parse_delimiter, text="Of a CSV file.  [default: detected]"),
    option("--encoding", default="utf-8", show_default=True, text="Encoding of a CSV file."),
    option("--no-header", is_flag=True, text="The CSV file has no header: name columns f0, f1, …"),
    option("--decimal", default=".", type=click.Choice(".,"), text="Decimal mark of a CSV file."),
    option("--thousands", type=click.Choice(",.' "), text="Separator of thousands in it."),
)
kernels = f"auto (searched), {FORMS} or tanimoto (nonnegative columns, not standardized)."
tasks = click.Choice(["regression", "classification"])
modelling = combine(
    option("--kernel", default="auto", show_default=True, text=kernels),
    option("--components", metavar="N", type=counting, text="The number of random features."),
    option("--target", metavar="COLUMN", text="The column to predict: its name or position."),
    option("--task", type=tasks, text="The kind of task.  [default: decided from the target]"),
    option("--ignore", metavar="COLUMN", multiple=True, text="Leave a column out (repeatable)."),
    option("--categorical", metavar="COLUMN", multiple=True, text="A column of categories."),
    option("--impute", is_flag=True, text="Impute missing values instead of refusing them."),
    option("--max-levels", default=50, type=counting, text="The most levels of a category.  [50]"),
    reading,
    option("--seed", default=0, type=click.IntRange(min=0), text="Seed of all random draws."),
    jobs_option,
    speaking,
)


def take(options: dict[str, Any], *names: str) -> dict[str, Any]:
    """Take these out of all options of a command."""
    return {name: options.pop(name) for name in names}


def option_words(values: dict[str, Any]) -> list[str]:
    """Options of the command that runs, as a user writes them, without those at their defaults."""
    words: list[str] = []
    for parameter in click.get_current_context().command.params:
        value = values.get(parameter.name or "")
        if value is True:
            words.append(parameter.opts[0])
        elif value not in (None, False, parameter.default):
            for part in value if isinstance(value, tuple) else (value,):
                words += [parameter.opts[0], str(part)]
    return words


def open_tables(data: str, test: str | None, request: Request, options: dict[str, Any]) -> Any:
    """The table to fit to, and that of --test; mistakes in options are reported first."""
    check_request(request)
    how = take(options, *READING)
    return open_table(data, **how), None if test is None else open_table(test, **how)


def encode_aloud(
    table: Table, test: Table | None, request: Request, options: dict[str, Any]
) -> tuple[EncodedTable, Request]:
    """Look through a table once, report what it holds, and encode a sample of it."""
    with progress(f"Reading {table.source}"):
        schema = scan(table, seed=request.seed, **options)
    if test is not None:
        test.require(column.name for column in (*schema.features, schema.target))
    for line in schema.notes():
        say(f"{schema.source}: {line}")
    request = request._replace(task=schema.task)
    standardize = not is_nonnegative(request)
    return EncodedTable.of(table, schema, request.seed, standardize=standardize), request


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

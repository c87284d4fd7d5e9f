"""The options that commands share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import click
import pyarrow as pa
from threadpoolctl import threadpool_limits

from .output import Output
from .schema import Schema, scan
from .tables import FORMATS, Table, list_names, open_table

Command = Callable[..., Any]


def combine(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Several options as one decorator, shown in this order."""

    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


speaking = combine(
    click.option("--json", "as_json", is_flag=True, help="Print the result as JSON."),
    click.option("-v", "--verbose", is_flag=True, help="Say more; show tracebacks of errors."),
)

jobs_option = click.option(
    "--jobs",
    metavar="N",
    type=click.IntRange(min=1),
    help="Threads to use.  [default: one a processor]",
)

working = combine(
    click.option(
        "--seed",
        default=0,
        show_default=True,
        metavar="N",
        type=click.IntRange(min=0),
        help="Of all random draws.",
    ),
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
    click.option("--format", type=click.Choice(list(FORMATS)), help="If its ending does not say."),
    click.option(
        "--delimiter",
        callback=parse_delimiter,
        help="Of a CSV file, if it is not found: , ; | or tab.",
    ),
    click.option("--encoding", default="utf-8", show_default=True, help="Of CSV."),
    click.option(
        "--decimal", default=".", show_default=True, type=click.Choice([".", ","]), help="Of CSV."
    ),
    click.option("--no-header", is_flag=True, help="A CSV file without names: f0, f1, …"),
)

learning = combine(
    click.option("--target", metavar="COLUMN", help="What to predict: a name, or a position."),
    click.option(
        "--task",
        type=click.Choice(["regression", "classification"]),
        help="If it should not be decided from the target.",
    ),
    click.option("--ignore", metavar="COLUMN", multiple=True, help="Leave out (repeatable)."),
    click.option(
        "--categorical", metavar="COLUMN", multiple=True, help="Not numbers (repeatable)."
    ),
    click.option("--impute", is_flag=True, help="Fill missing values instead of refusing them."),
    click.option(
        "--max-levels",
        default=50,
        show_default=True,
        metavar="N",
        type=click.IntRange(min=2),
        help="Of a categorical column.",
    ),
    reading,
)

kernel_option = click.option(
    "--kernel",
    default="gaussian",
    show_default=True,
    metavar="KERNEL",
    help="gaussian[:LENGTHSCALE], poly:DEGREE[,GAMMA[,COEF0]] or exponential[:LENGTHSCALE].",
)

components_option = click.option(
    "--components",
    default=1000,
    show_default=True,
    metavar="N",
    type=click.IntRange(min=1),
    help="The number of random features.",
)


@dataclass(frozen=True)
class Reading:
    """The values of the options `learning`."""

    DEFAULTS: ClassVar = {("encoding", "utf-8"), ("decimal", "."), ("max_levels", 50)}
    target: str | None
    task: str | None
    ignore: tuple[str, ...]
    categorical: tuple[str, ...]
    impute: bool
    max_levels: int
    format: str | None
    delimiter: str | None
    encoding: str
    decimal: str
    no_header: bool

    @classmethod
    def take(cls, options: dict[str, Any]) -> Reading:
        """Take these options out of all those of a command."""
        return cls(**{name: options.pop(name) for name in field_names(cls)})

    def words(self, schema: Schema) -> list[str]:
        """The options as they are written, with the target and the task that were decided."""
        named = {"target": schema.target.name, "task": schema.task}
        found = []
        for name in field_names(type(self)):
            value = named.get(name, getattr(self, name))
            option = f"--{name.replace('_', '-')}"
            if isinstance(value, bool):
                found += [option] * value
            elif isinstance(value, tuple):
                found += [word for one in value for word in (option, one)]
            elif value is not None and (name, value) not in self.DEFAULTS:
                found += [option, str(value)]
        return found

    def open(self, data: str) -> Table:
        return open_table(
            data,
            format=self.format,
            delimiter=self.delimiter,
            encoding=self.encoding,
            decimal=self.decimal,
            no_header=self.no_header,
        )

    def scan(self, table: Table, seed: int, output: Output) -> Schema:
        with output.progress(f"Reading {table.source}") as advance:
            schema = scan(
                table,
                self.target,
                ignore=self.ignore,
                categorical=self.categorical,
                task=self.task,
                impute=self.impute,
                most_levels=self.max_levels,
                seed=seed,
                advance=advance,
            )
        if "" in (column.name for column in schema.features):
            output.say(
                f"{schema.source}: a column without a name is used (an index?); --ignore '' leaves "
                "it out."
            )
        used = {column.name for column in schema.features} | {schema.target.name}
        index = sorted(table.index - used - set(self.ignore))
        if index:
            output.say(f"{schema.source}: left out, an index of pandas: {list_names(index)}")
        dates = sorted(table.dates - table.index - used - set(self.ignore))
        if dates:
            output.say(
                f"{schema.source}: left out, dates or times: {list_names(dates)}. To use one, "
                "write it as a number, such as days."
            )
        if schema.constant:
            output.say(
                f"{schema.source}: the same value in every row, no use for a prediction: "
                f"{list_names(schema.constant)}"
            )
        output.say(
            f"{schema.source}: {schema.n_rows:,} rows, {len(schema.numeric)} numeric and "
            f"{len(schema.categorical)} categorical columns; {schema.task} of "
            f"{schema.target.name!r} ({schema.reason})"
        )
        return schema


def field_names(cls: type[Reading]) -> list[str]:
    return [field.name for field in fields(cls)]


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

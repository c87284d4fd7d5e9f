"""How the command speaks: results on stdout, messages and progress on stderr, JSON on demand.

Mistakes of the ordinary kind end with one line on stderr and exit code 2, never a traceback.
"""

from __future__ import annotations

import io
import json
import math
import os
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import click
import numpy as np
from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Table


def say(message: str) -> None:
    """A message to the user, beside the result."""
    console = Console(stderr=True, highlight=False, soft_wrap=True, markup=False)
    console.print(one_line(message))


def show(as_json: bool, data: dict[str, Any], *shown: RenderableType) -> None:
    """The result: `data` for machines, or what is shown to people."""
    if as_json:
        click.echo(json.dumps(json_value(data), indent=2, ensure_ascii=False))
        return
    text = io.StringIO()  # so that click writes, and hears that the reader of a pipe has gone
    is_terminal = sys.stdout.isatty() or None
    console = Console(file=text, force_terminal=is_terminal, highlight=False, markup=False)
    for item in shown:
        if isinstance(item, str):
            item = "\n".join(one_line(line, 10**6) for line in item.split("\n"))
        # Lines of code must survive copying: no line ends are put into them
        console.print(item, soft_wrap=isinstance(item, str))
    click.echo(text.getvalue(), nl=False)


@contextmanager
def progress(description: str, total: float | None = None) -> Iterator[Callable[[float], None]]:
    """A bar on a terminal; yields the function that takes what is done of the total."""
    console = Console(stderr=True)
    columns = TextColumn("{task.description}", markup=False), BarColumn()
    hidden = not console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=hidden) as bar:
        task = bar.add_task(one_line(description), total=total)
        yield lambda done: bar.update(task, completed=done)


def json_value(value: Any) -> Any:
    """Arrays and NumPy numbers as JSON knows them; what is not finite as null."""
    if isinstance(value, dict):
        return {str(key): json_value(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [json_value(item) for item in value]
    if isinstance(value, np.ndarray):
        return json_value(value.tolist())
    if isinstance(value, np.generic):
        return json_value(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def facts(rows: dict[str, Any]) -> Table:
    """Names and values, one pair per line."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows.items():
        table.add_row(one_line(name), one_line(str(value), 5000))
    return table


class UserMistake(click.ClickException):
    """Something the user can correct: the message says what was given and what to do."""

    exit_code = 2


# What the library raises on data or parameters it cannot use, and the system on files.
EXPECTED = (ValueError, TypeError, ArithmeticError, OSError, MemoryError)


class OneLineErrors(click.Group):
    """A command whose errors are one line; `--verbose` adds where they came from."""

    def main(self, args: Any = None, *, standalone_mode: bool = True, **extra: Any) -> Any:  # type: ignore[override]
        if not standalone_mode:
            return super().main(args, standalone_mode=False, **extra)
        words = sys.argv[1:] if args is None else list(args)
        trace = "--verbose" in words or "-v" in words
        try:
            with warnings.catch_warnings():
                warnings.showwarning = show_warning
                result = super().main(args, standalone_mode=False, **extra)
        except click.exceptions.NoArgsIsHelpError as error:  # a bare group: its help is the answer
            error.show()
            sys.exit(2)
        except click.ClickException as error:
            fail(error.format_message(), error, trace)
        except (click.Abort, KeyboardInterrupt):
            click.echo("dotsketch: interrupted", err=True)
            sys.exit(130)
        except EXPECTED as error:
            fail(describe(error), error, trace)
        sys.exit(result if isinstance(result, int) else 0)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:  # the reader of our output has gone, as in `dotsketch … | head`
            sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - the interpreter flushes it last
            ctx.exit(0)  # and not 1, which is click's answer


def show_warning(message: Warning | str, *place: Any, **options: Any) -> None:
    """A warning of the library as one line."""
    click.echo(f"dotsketch: warning: {one_line(str(message))}", err=True)


def describe(error: BaseException) -> str:
    """The cause in words."""
    if isinstance(error, OSError) and error.strerror:
        name = f"{error.filename}: " if error.filename else ""
        return f"{name}{error.strerror}"
    if isinstance(error, MemoryError):
        return f"out of memory: {error}"
    return str(error) or type(error).__name__


def fail(message: str, error: BaseException, trace: bool) -> NoReturn:
    """One line on stderr, after the traceback if that is wanted; exit code 2."""
    if trace:
        traceback.print_exception(error, file=sys.stderr)
    click.echo(f"dotsketch: error: {one_line(message)}", err=True)
    sys.exit(2)


def one_line(text: str, most: int = 2000) -> str:
    """Words with one space between them, and nothing that a terminal would obey."""
    line = "".join(
        c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in " ".join(text.split())
    )
    return line if len(line) <= most else f"{line[:most]}…"


def check_output(path: Path, *inputs: str | None) -> None:
    """Raise, before any work is done, if a file cannot be written at this path, or if it is one
    of those that are read."""
    folder = path.resolve().parent
    if path.exists() and not (path.is_dir() or path.is_file()):
        raise UserMistake(f"{path} is not an ordinary file: give the name of a file.")
    if path.is_dir():
        raise UserMistake(f"{path} is a folder: give the name of a file in it.")
    if not folder.is_dir():
        raise UserMistake(f"the folder {folder} does not exist: make it first.")
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise UserMistake(f"the folder {folder} cannot be written to: {error.strerror}.") from error
    read = [Path(name) for name in inputs if name is not None and Path(name).exists()]
    if path.exists() and any(path.samefile(one) for one in read):
        raise UserMistake(f"{path} is the input: give the output another name.")


def check_ending(path: str | Path, what: str, *endings: str) -> None:
    """Raise if the name of a file promises a format in which `what` is not written."""
    if Path(path).suffix.lower() not in endings:
        known = ", ".join(filter(None, endings))
        raise UserMistake(
            f"{path}: {what} cannot be written in this format: give a name that ends in {known}."
        )


def list_names(names: Any, most: int = 8) -> str:
    """A few names in a row."""
    names = list(names)
    rest = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(map(str, names[:most])) + rest


def count(number: int, noun: str) -> str:
    """`1 row`, `2,000 rows`."""
    return f"{number:,} {noun if number == 1 else noun + 's'}"

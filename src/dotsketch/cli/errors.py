"""Mistakes of the ordinary kind end with one line on stderr and exit code 2, never a traceback."""

from __future__ import annotations

import os
import sys
import tempfile
import traceback
import warnings
from pathlib import Path
from typing import Any, NoReturn

import click


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

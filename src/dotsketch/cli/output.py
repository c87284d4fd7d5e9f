"""Where things are written: results to stdout, messages and progress to stderr, JSON on demand."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import click
import numpy as np
from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Table

from .errors import one_line


class PipeConsole(Console):
    """A console that leaves it to the command what happens when the reader has gone."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


@dataclass(frozen=True)
class Output:
    """How a command speaks."""

    as_json: bool = False
    verbose: bool = False

    def say(self, message: str) -> None:
        """A message to the user, beside the result."""
        console = Console(stderr=True, highlight=False, soft_wrap=True, markup=False)
        console.print(one_line(message))

    def result(self, data: dict[str, Any], *shown: RenderableType) -> None:
        """The result: `data` for machines, or what is shown to people."""
        if self.as_json:
            click.echo(json.dumps(json_value(data), indent=2, ensure_ascii=False))
            return
        console = PipeConsole(highlight=False, markup=False)
        for item in shown:
            if isinstance(item, str):
                item = "\n".join(one_line(line, 10**6) for line in item.split("\n"))
            # Lines of code must survive copying: no line ends are put into them
            console.print(item, soft_wrap=isinstance(item, str))

    @contextmanager
    def progress(
        self, description: str, total: float | None = None
    ) -> Iterator[Callable[[float], None]]:
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

"""Progress of what takes longer than a moment."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress(what: str, total: int | None, verbose: bool) -> Iterator[Callable[[int], None]]:
    """A function that reports how many more are done; a bar if rich is there and it is asked."""
    if not verbose:
        yield lambda count: None
        return
    try:
        from rich.progress import MofNCompleteColumn, Progress, TimeElapsedColumn
    except ImportError:
        yield lambda count: None
        return
    with Progress(
        *Progress.get_default_columns(), MofNCompleteColumn(), TimeElapsedColumn()
    ) as bar:
        task = bar.add_task(what, total=total)
        yield lambda count: bar.update(task, advance=count)

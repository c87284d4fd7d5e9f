"""Values of Dask tasks on whatever scheduler is current, with progress and clear errors."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

LARGE_GRAPH = "distributed.admin.large-graph-warning-threshold"


def computed(tasks: list[Any], progress: str | None = None) -> list[Any]:
    """The values of all tasks."""
    import dask

    client = current_client()
    if client is None:
        from dask.diagnostics import ProgressBar

        with ProgressBar() if progress is not None else nullcontext():
            return list(dask.compute(*tasks))
    return _on_cluster(client, tasks, progress)


def persisted(tasks: list[Any]) -> list[Any]:
    """The tasks as they are computed, and kept where they are."""
    import dask

    with dask.config.set({LARGE_GRAPH: "1GB"}):
        return list(dask.persist(*tasks))


def current_client() -> Any:
    """The client of a cluster, if there is one and it is the current scheduler."""
    from dask.base import get_scheduler

    try:
        from distributed.client import default_client
    except ImportError:
        return None
    try:
        client = default_client()
    except ValueError:
        return None
    return client if get_scheduler() == client.get else None  # another one may be set for now


def _on_cluster(client: Any, tasks: list[Any], progress: str | None) -> list[Any]:
    import dask
    import distributed

    # Fitted features may be large, and they are in the graph once
    with dask.config.set({LARGE_GRAPH: "1GB"}):
        futures = client.compute(tasks)
    try:
        if progress is not None:
            distributed.progress(futures, notebook=False)
        return list(client.gather(futures))
    except distributed.KilledWorker as error:
        raise RuntimeError(
            f"{_place(error.task)}: all workers that computed it were lost, usually because they "
            "ran out of memory. Use smaller partitions (`repartition` of a data frame, `rechunk` "
            "of an array), fewer threads per worker, or workers with more memory."
        ) from error
    except distributed.CancelledError as error:
        raise RuntimeError(
            "The computation was cancelled, or the client lost its scheduler: nothing was fitted."
        ) from error
    finally:
        for future in futures:
            future.release()


def _place(key: Any) -> str:
    """What a person calls a task."""
    found = re.match(r"dotsketch-(sums|sample|count|labels|read)-[0-9a-f]+-(\d+)", str(key))
    return f"Partition {found[2]} (counted from 0)" if found else f"The task {key!r}"


@contextmanager
def numbered(number: int) -> Iterator[None]:
    """Errors of what is given name the partition."""
    try:
        yield
    except (TypeError, ValueError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"Partition {number} (counted from 0): {error}") from error

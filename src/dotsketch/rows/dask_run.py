"""Values of Dask tasks on whatever scheduler is current, with progress and clear errors."""

from __future__ import annotations

import pickle
import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np

from .._arrays import is_sparse

# A message of a cluster may put arrays at any address, and NumPy multiplies matrices that are not
# at multiples of their numbers' size without BLAS: slowly, and with other last digits. So what
# tasks are given, and what comes to the client, is copied where that is needed.

LARGE_GRAPH = "distributed.admin.large-graph-warning-threshold"


class Shared:
    """A value that tasks share, whose arrays are well placed wherever it arrives."""

    def __init__(self, value: Any):
        self.value = value

    def __reduce__(self) -> tuple[Any, ...]:
        import cloudpickle

        return _unpacked, (cloudpickle.dumps(self.value),)  # with its arrays: they are copied


def _unpacked(data: bytes) -> Shared:
    return Shared(pickle.loads(data))


def shared(value: Any, name: str = "shared") -> Any:
    """A task for a `Shared` value, which is in the graph once, whatever the number of its users."""
    import dask

    key = f"dotsketch-{name}-{uuid.uuid4().hex}"  # a hash of all arrays would take longer
    return dask.delayed(Shared(value), key, traverse=False)


def well_placed(value: Any) -> Any:
    """A column, or a list or tuple of such, with its arrays at multiples of their numbers' size."""
    if isinstance(value, np.ndarray):
        return np.require(value, requirements="A")
    if isinstance(value, list):
        return [well_placed(one) for one in value]
    if isinstance(value, tuple):
        placed = (well_placed(one) for one in value)
        return type(value)(*placed) if hasattr(value, "_fields") else tuple(placed)
    if is_sparse(value):
        for name in ("data", "indices", "indptr"):
            setattr(value, name, well_placed(getattr(value, name)))
        return value
    if hasattr(value, "iloc") and not np.asarray(value).flags.aligned:
        return value.copy()
    return value


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

    if current_client() is None:  # before distributed is imported, its settings must not be touched
        return list(dask.persist(*tasks))
    with dask.config.set({LARGE_GRAPH: "1GB"}):
        return list(dask.persist(*tasks))


def memory_of_workers() -> int:
    """The bytes of memory that the workers of a cluster may use; 0 if that is not known."""
    client = current_client()
    limits = [] if client is None else client.run_on_scheduler(_limits)
    return sum(limits) if all(limits) else 0


def _limits(dask_scheduler: Any) -> list[int]:
    return [worker.memory_limit for worker in dask_scheduler.workers.values()]


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
    found = re.match(r"dotsketch-[a-z]+-[0-9a-f]{32}-(\d+)", str(key))
    return f"Partition {found[1]} (counted from 0)" if found else f"The task {key!r}"


@contextmanager
def numbered(number: int) -> Iterator[None]:
    """Errors of what is given name the partition."""
    try:
        yield
    except (TypeError, ValueError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"Partition {number} (counted from 0): {error}") from error

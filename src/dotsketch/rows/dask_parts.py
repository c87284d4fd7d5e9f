"""Rows that workers read themselves, and the cluster that they run on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .dask_run import Shared, persisted, shared


def arrays_of_parts(
    read: Callable[[Any], tuple[np.ndarray, np.ndarray]],
    parts: list[Any],
    lengths: list[int],
    width: int,
    dtype: Any,
) -> tuple[Any, Any]:
    """Dask arrays X (n, width) and y (n,), of which `read(part)` gives the rows of one part.

    The function is sent to the workers once.
    """
    import dask
    import dask.array

    [reader] = persisted([shared(read)])
    call = dask.delayed(_read, pure=False, nout=2)
    blocks = [call(reader, part) for part in parts]
    X, y = (
        dask.array.concatenate(
            [
                dask.array.from_delayed(block[k], (n, *shape), dtype=kind)
                for block, n in zip(blocks, lengths, strict=True)
            ]
        )
        for k, shape, kind in ((0, (width,), np.float64), (1, (), dtype))
    )
    return X, y


def _read(reader: Shared, part: Any) -> tuple[np.ndarray, np.ndarray]:
    X, y = reader.value(part)
    return X, y


def connect(address: str, timeout: float = 10.0) -> Any:
    """The client of a running scheduler: a context, in which it is the current one."""
    from distributed import Client

    return Client(address, timeout=timeout)

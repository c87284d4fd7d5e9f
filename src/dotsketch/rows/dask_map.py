"""Methods of a fitted model mapped over Dask collections: the results are collections, too.

A task per block calls the method (`dotsketch-predict` and the like), and the model is in the graph
once. An array gives arrays; a data frame gives data frames or series with its index and divisions.
"""

from __future__ import annotations

from operator import getitem
from typing import Any, NamedTuple

import numpy as np

from .._support.threads import single_blas_thread
from .dask_columns import is_frame
from .dask_run import Shared, numbered, shared, well_placed
from .sources import Output, len_of


class Call(NamedTuple):
    """A call of a method, and what it returns."""

    method: str
    arguments: tuple[Any, ...]
    options: dict[str, Any]
    outputs: tuple[Output, ...]


def mapped(X: Any, model: Any, call: Call) -> tuple[Any, ...]:
    """The collections that model.method(X, …) returns."""
    return (_frames if is_frame(X) else _arrays)(X, shared(model, "model"), call)


def _arrays(X: Any, model: Any, call: Call) -> tuple[Any, ...]:
    X = X.rechunk({1: -1})
    if len(call.outputs) == 1:
        return (_array(X, _first_of_block, call.outputs[0], call.method, model, call),)
    several = X.map_blocks(
        _of_block,
        model,
        call,
        token=f"dotsketch-{call.method}",
        drop_axis=1,
        dtype=np.float64,
        meta=np.empty(0),
    )
    return tuple(
        _array(several, getitem, output, f"{call.method}-{output.label}", place)
        for place, output in enumerate(call.outputs)
    )


def _array(X: Any, function: Any, output: Output, name: str, *arguments: Any) -> Any:
    """The array of one output."""
    shape: dict[str, Any] = {"drop_axis": 1} if X.ndim == 2 else {}
    if output.width is not None:
        shape = {"chunks": (X.chunks[0], (output.width,))}
        shape |= {"new_axis": 1} if X.ndim == 1 else {}
    meta = output.empty()
    return X.map_blocks(
        function, *arguments, token=f"dotsketch-{name}", dtype=meta.dtype, meta=meta, **shape
    )


def _first_of_block(X: Any, model: Any, call: Call, block_id: Any = None) -> Any:
    return _of_block(X, model, call, block_id)[0]


def _of_block(X: Any, model: Any, call: Call, block_id: Any = None) -> tuple[Any, ...]:
    return _called(X, model, call, block_id[0])


def _called(X: Any, model: Shared, call: Call, number: int) -> tuple[Any, ...]:
    """What the method returns of a block; nothing of no rows."""
    if len_of(X) == 0:
        return tuple(output.empty() for output in call.outputs)
    with numbered(number), single_blas_thread():
        method = getattr(model.value, call.method)
        found = method(well_placed(X), *call.arguments, **call.options)
    return found if len(call.outputs) > 1 else (found,)


def _frames(X: Any, model: Any, call: Call) -> tuple[Any, ...]:
    whole = X.map_partitions(
        _of_partition,
        model,
        call,
        meta=_frame(tuple(output.empty() for output in call.outputs), call, None),
        token=f"dotsketch-{call.method}",
    )
    if len(call.outputs) == 1 and call.outputs[0].width is not None:
        return (whole,)
    return tuple(
        whole[output.label] if output.width is None else whole[output.names]
        for output in call.outputs
    )


def _of_partition(X: Any, model: Any, call: Call, partition_info: Any = None) -> Any:
    number = -1 if partition_info is None else partition_info["number"]
    return _frame(_called(X, model, call, number), call, X.index)


def _frame(values: tuple[Any, ...], call: Call, index: Any) -> Any:
    """The outputs side by side."""
    import pandas

    parts = {}
    for output, value in zip(call.outputs, values, strict=True):
        if output.names is None:
            parts[output.label] = value
        else:
            parts |= {name: value[:, k] for k, name in enumerate(output.names)}
    return pandas.DataFrame(parts, index=index)

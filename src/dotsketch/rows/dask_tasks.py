"""What workers do with the partitions of Dask collections, and the tasks of it."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._arrays import is_sparse
from .._support.threads import single_blas_thread
from .dask_run import Shared, computed, numbered, shared, well_placed
from .fold import FAN_IN
from .sources import (
    COLUMNS,
    Block,
    Rows,
    check_lengths,
    counted,
    each,
    len_of,
    pick,
    sample_weights,
)

AT_ONCE = 4  # states that one task adds: more would have to be in the memory of one worker


@dataclass(frozen=True, eq=False)
class Fold:
    """What `Rows.fold` is given."""

    zero: Callable[[], Any]
    add: Callable[[Any, Block, int], Any]


def folded(parts: list[tuple[int, Any, int]], fold: Fold, blocks: Any, progress: str | None) -> Any:
    """The sum of the states of all partitions; `blocks` is that of `_state`, or its task."""
    import dask

    states = tasks(_state, "sums", parts, shared(fold), blocks)
    result = dask.delayed(Shared, pure=False)(
        _reduced(states), dask_key_name=f"dotsketch-result-{uuid.uuid4().hex}"
    )
    return computed([result], progress)[0].value


def tasks(function: Callable[..., Any], name: str, parts: list[Any], *once: Any) -> list[Any]:
    """The tasks function(columns, …, *once) of (number, columns, …), named `dotsketch-name`."""
    import dask

    token = uuid.uuid4().hex
    call = dask.delayed(_in_partition, pure=False)
    return [
        call(
            function,
            number,
            columns,
            *others,
            *once,
            dask_key_name=f"dotsketch-{name}-{token}-{number}",
        )
        for number, columns, *others in parts
    ]


def _reduced(states: list[Any]) -> Any:
    """The task of the sum of all states, as `Tree` adds them."""
    import dask

    token, count = uuid.uuid4().hex, 0
    while len(states) > 1:
        nodes = []
        for start in range(0, len(states), FAN_IN):
            node, *others = states[start : start + FAN_IN]
            for k in range(0, len(others), AT_ONCE):
                node = dask.delayed(_sum, pure=False)(
                    [node, *others[k : k + AT_ONCE]],
                    dask_key_name=f"dotsketch-reduce-{token}-{count}",
                )
                count += 1
            nodes.append(node)
        states = nodes
    return states[0]


def _in_partition(function: Callable[..., Any], number: int, columns: Any, *others: Any) -> Any:
    """function(columns, …); an error names the partition."""
    with numbered(number), single_blas_thread():
        given = (one.value if isinstance(one, Shared) else one for one in others)
        return function(well_placed(columns), *given)


def _checked(columns: Any) -> Block:
    """The columns of a partition, of one length."""
    check_lengths(columns)
    return tuple(columns)


def blocks_of(
    block_rows: int, function: Callable[[Block], Block] | None, columns: Any
) -> Iterator[Block]:
    """The rows of a partition, of which some have weights, or what the function makes of them."""
    blocks = Rows(_checked(columns)).blocks(block_rows)
    return blocks if function is None else map(function, blocks)


def results_of(columns: Any, blocks: Callable[[Any], Iterator[Block]]) -> list[Block]:
    return list(blocks(columns))


def _state(columns: Any, first: int, fold: Fold, blocks: Callable[[Any], Iterator[Block]]) -> Any:
    """The state of a partition, whose blocks are blocks(columns)."""
    state = fold.zero()
    for block in blocks(columns):
        state = fold.add(state, block, first)
        first += len_of(block[0])
    return state


def _sum(states: list[Any]) -> Any:
    """The sum in order; the states stay as they are, since a worker may need them again."""
    total = states[0] + states[1]
    for state in states[2:]:
        total += state
    return total


def sizes_of(columns: Any) -> tuple[int, int]:
    weights = sample_weights(columns)
    n = len_of(columns[0])
    return n, n if weights is None else int(np.count_nonzero(np.asarray(weights)))


def counted_rows(columns: Any) -> Block:
    return counted(_checked(columns))


def picked(columns: Any, places: np.ndarray) -> Block:
    """Some rows of a partition, whose numbers are finite: a sample has no number of partitions."""
    found = each(_checked(columns), pick, places)
    for name, column in zip(COLUMNS, found, strict=False):
        if column is None:
            continue
        values = column.data if is_sparse(column) else np.asarray(column)
        if values.dtype.kind == "f" and not np.isfinite(values).all():
            what = "NaN" if np.isnan(values).any() else "infinity"
            raise ValueError(
                f"Input {name} contains {what}: leave such rows out (`dropna` of a data frame), or "
                "fill in numbers."
            )
    return found


def distinct(columns: Any) -> np.ndarray | None:
    values = np.asarray(columns[-1])
    return np.unique(values) if len(values) else None

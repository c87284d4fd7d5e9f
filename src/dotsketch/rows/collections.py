"""Rows of any kind, whichever library holds them: the one place that knows which there are."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from .dask import DaskRows
from .dask_map import Call, mapped
from .sources import SAMPLE_ROWS, Output, Rows, is_collection

Method = Callable[..., Any]


def rows_of(*columns: Any) -> Rows:
    """The rows of columns (X, y, …), which may be collections of another library."""
    return DaskRows(columns) if is_collection(columns[0]) else Rows(columns)


def at_hand(X: Any, *others: Any) -> tuple[Any, ...]:
    """X and other columns of the same rows; a sample of the rows if X is a collection."""
    return rows_of(X, *others).sample(SAMPLE_ROWS) if is_collection(X) else (X, *others)


def over_collections(outputs: Callable[..., tuple[Output, ...]]) -> Callable[[Method], Method]:
    """A method of rows X that returns collections where X is one, and is called for every block.

    `outputs(model, X, …)`, with the arguments of the method, says what it returns. The model that
    blocks are given is `model.for_rows()` where there is such a method.
    """

    def decorate(method: Method) -> Method:
        @wraps(method)
        def either(model: Any, X: Any, *arguments: Any, **options: Any) -> Any:
            if not is_collection(X):
                return method(model, X, *arguments, **options)
            returned = outputs(model, X, *arguments, **options)
            light = model.for_rows() if hasattr(model, "for_rows") else model
            found = mapped(X, light, Call(method.__name__, arguments, options, returned))
            return found if len(found) > 1 else found[0]

        return either

    return decorate


def split_target(X: Any, y: Any, target: Any) -> tuple[Any, Any]:
    """X and y, where `target` may name the columns of a data frame X that are y."""
    if target is None:
        return X, y
    if y is not None:
        raise ValueError("Give y, or the column of X that it is as target=, not both.")
    if not hasattr(X, "columns"):
        raise TypeError(f"target= names a column of a data frame; X is a {type(X).__name__}.")
    names = target if isinstance(target, list) else [target]
    missing = [name for name in names if name not in X.columns]
    if missing:
        raise ValueError(f"X has no column {missing[0]!r}; it has {list(X.columns)}.")
    return X.drop(columns=names), X[target]

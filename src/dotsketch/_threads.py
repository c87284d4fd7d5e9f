"""Threads: a function over many items, on the caller's thread and a pool that stays.

To start threads takes about a millisecond, and memory that a new thread touches for the first time
some more: as long as the features of a thousand rows. So the pool is kept, and the caller's thread
works as well instead of waiting.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import lru_cache
from typing import TypeVar

from threadpoolctl import ThreadpoolController

Item = TypeVar("Item")


def run_all(function: Callable[[Item], object], items: Iterable[Item], workers: int) -> None:
    """Calls function(item) for every item, on `workers` threads; each takes the next item left.

    With several threads BLAS keeps to one for each of them. The first exception stops the rest
    and is raised. NumPy's `errstate` of the caller holds on all threads. A function that calls
    `run_all` itself, or a child of `os.fork`, cannot block: what no thread of the pool has begun,
    the caller does.
    """
    left = deque(items)
    workers = min(workers, len(left))

    def work() -> None:
        try:
            while True:
                try:
                    item = left.popleft()
                except IndexError:
                    return
                function(item)
        except BaseException:
            left.clear()
            raise

    if workers <= 1:
        work()
        return
    with _blas_pools().limit(limits=1):
        pool = _pool(workers - 1)
        helpers = [pool.submit(copy_context().run, work) for _ in range(workers - 1)]
        try:
            work()
        finally:
            begun = [helper for helper in helpers if not helper.cancel()]
            errors = [error for helper in begun if (error := helper.exception())]
        if errors:
            raise errors[0]


@lru_cache(maxsize=1)
def _pool(size: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(size, thread_name_prefix="dotsketch")


@lru_cache(maxsize=1)
def _blas_pools() -> ThreadpoolController:
    """The pools of BLAS and OpenMP; to find them takes milliseconds."""
    return ThreadpoolController()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # threads do not survive a fork

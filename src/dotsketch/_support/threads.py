"""Threads: a function over many items, on the caller's thread and a pool that stays.

To start threads takes about a millisecond, and memory that a new thread touches for the first time
some more: as long as the features of a thousand rows. So the pool is kept, and the caller's thread
works as well instead of waiting.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar, copy_context
from functools import lru_cache
from numbers import Integral
from typing import Any, TypeVar

from joblib import effective_n_jobs
from sklearn import config_context, get_config
from threadpoolctl import ThreadpoolController

Item = TypeVar("Item")
_feature_threads: ContextVar[int] = ContextVar("_feature_threads", default=1)


def run_all(function: Callable[[Item], object], items: Iterable[Item], workers: int) -> None:
    """Calls function(item) for every item, on `workers` threads; each takes the next item left.

    With several threads BLAS keeps to one for each of them. The first exception stops the rest
    and is raised. NumPy's `errstate` and scikit-learn's configuration of the caller hold on all
    threads. A function that calls `run_all` itself, or a child of `os.fork`, cannot block: what no
    thread of the pool has begun, the caller does.
    """
    left = deque(items)
    workers = min(workers, len(left))
    if workers <= 1:
        for item in left:
            function(item)
        return

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

    configuration = get_config()  # of the caller: scikit-learn keeps one for each thread

    def help_out() -> None:
        with config_context(**configuration):
            work()

    with single_blas_thread():
        pool = _pool()
        helpers = [pool.submit(copy_context().run, help_out) for _ in range(workers - 1)]
        try:
            work()
        finally:
            begun = [helper for helper in helpers if not helper.cancel()]
            errors = [error for helper in begun if (error := helper.exception())]
        if errors:
            raise errors[0]


@lru_cache(maxsize=1)
def _pool() -> ThreadPoolExecutor:
    # up to 1024, of which one is started only where no other is idle
    return ThreadPoolExecutor(1024, thread_name_prefix="dotsketch")


@lru_cache(maxsize=1)
def _blas_pools() -> ThreadpoolController:
    """The pools of BLAS and OpenMP; to find them takes milliseconds."""
    return ThreadpoolController()


def blas_threads() -> int:
    """How many threads BLAS uses now."""
    pools = _blas_pools().lib_controllers
    return max((pool.num_threads for pool in pools if pool.user_api == "blas"), default=1)


def run_strips(function: Callable[[slice], object], size: int, least: int) -> None:
    """Calls function for slices of 0, …, size − 1, on as many threads as BLAS would use.

    One call for each thread, with about `least` numbers or more. It is faster than the threads of
    BLAS where its calls are short, and does not depend on how they share the processors with
    others.
    """
    workers = min(blas_threads(), size // least)
    step = -(-max(size, 1) // max(workers, 1))
    step += -step % 128  # strips begin at multiples of it, for the sake of vectors and caches
    strips = [slice(first, min(first + step, size)) for first in range(0, size, step)]
    run_all(function, strips, workers)


@contextmanager
def threads_for_features() -> Iterator[None]:
    """Features whose `n_jobs` is None are computed on as many threads as BLAS would use."""
    token = _feature_threads.set(blas_threads())
    try:
        yield
    finally:
        _feature_threads.reset(token)


def workers_for(n_jobs: Any) -> int:
    """How many threads compute features: `n_jobs` of them, in joblib's sense."""
    if n_jobs is not None and (not isinstance(n_jobs, Integral) or n_jobs == 0):
        raise ValueError(f"n_jobs must be None or an integer other than 0; got {n_jobs!r}.")
    least = _feature_threads.get() if n_jobs is None else 1
    return max(int(effective_n_jobs(n_jobs)), least)


class _BlasLimit:
    """How many calls hold BLAS at one thread, and the limiter that knows what it was before.

    The number of threads of BLAS belongs to the process. If every call restored what it had found,
    the last of two overlapping calls would "restore" the limit of the first, for good. So the
    first call sets the limit, and the last one that leaves restores it.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.holders = 0
        self.limiter: Any = None

    def acquire(self) -> None:
        with self.lock:
            if self.holders == 0:
                self.limiter = _blas_pools().limit(limits=1, user_api="blas")
            self.holders += 1

    def release(self) -> None:
        with self.lock:
            self.holders -= 1
            if self.holders == 0:
                self.limiter.restore_original_limits()
                self.limiter = None


_blas_limit = _BlasLimit()


@contextmanager
def single_blas_thread() -> Iterator[None]:
    """BLAS keeps to one thread, for all threads of this process."""
    limit = _blas_limit
    limit.acquire()
    try:
        yield
    finally:
        if limit is _blas_limit:  # otherwise a fork in between has restored all limits
            limit.release()


def _after_fork() -> None:
    """Threads do not survive a fork: the pool is empty, and nobody would release the limit."""
    global _blas_limit
    limiter, _blas_limit = _blas_limit.limiter, _BlasLimit()
    _pool.cache_clear()
    if limiter is not None:
        limiter.restore_original_limits()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def suited_blas_threads(size: int | None) -> AbstractContextManager[None]:
    """BLAS keeps to one thread for work on matrices of up to 1500 rows; None are many.

    NumPy and SciPy come with a BLAS each, whose threads go on waiting actively for a while: where
    short calls of both alternate, they take the processors from each other. On two processors the
    evidence of 300 rows takes 2.4 times as long with two threads as with one, that of 600 rows
    1.9 times, of 1000 1.2 times, and of 3000 rows 0.6 times. Where other programs use the
    processors, threads that wait for each other cost far more.
    """
    return nullcontext() if size is None or size > 1500 else single_blas_thread()

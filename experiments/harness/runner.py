"""Runs units, several at a time, storing each as soon as it is finished."""

from __future__ import annotations

import os
import time
import traceback
import warnings
from collections.abc import Callable, Iterable
from datetime import UTC, datetime

from joblib import Parallel, delayed, parallel_config
from threadpoolctl import threadpool_limits

from .experiment import Row, Unit
from .store import Store, environment

Progress = Callable[[Unit, float, str | None], None]  # unit, seconds, error


def run_units(
    units: Iterable[Unit], store: Store, *, jobs: int = 1, progress: Progress | None = None
) -> int:
    """Run what the store does not have yet; returns how many units failed.

    Units are independent and each process writes its own results, so nothing is lost if this one
    is killed. Timed experiments run alone, after all others. A unit that raises is stored with
    its error and counted; the others go on.
    """
    waiting = [unit for unit in units if not store.is_done(unit)]
    threads = max(1, (os.cpu_count() or 1) // max(jobs, 1))
    failed = 0
    for timed, workers in ((False, jobs), (True, 1)):
        group = [unit for unit in waiting if unit.experiment.timed is timed]
        # the longest first, so that no process is left alone with a long one at the end
        group.sort(key=lambda unit: -unit.experiment.cost(unit.config))
        with parallel_config(backend="loky", n_jobs=workers):
            tasks = (
                delayed(run_unit)(number, unit, store, threads) for number, unit in enumerate(group)
            )
            for number, seconds, error in Parallel(return_as="generator_unordered")(tasks):
                failed += error is not None
                if progress is not None:
                    progress(group[number], seconds, error)
    return failed


def run_unit(number: int, unit: Unit, store: Store, threads: int) -> tuple[int, float, str | None]:
    """Run one unit and store its rows, with times and versions; returns its number and error."""
    started = datetime.now(UTC).isoformat(timespec="seconds")
    begin, processor = time.perf_counter(), time.process_time()
    rows: list[Row] = []
    error = trace = None
    try:
        with threadpool_limits(threads, user_api="blas"), warnings.catch_warnings():
            # Methods of the paper are run as they are, also in dimensions that they do not suit
            warnings.filterwarnings("ignore", message='projection="sorf"')
            rows = unit.experiment.run(unit.config, unit.seed)
    except Exception as exception:  # any failure is a result, with its cause
        error = f"{type(exception).__name__}: {exception}"
        trace = traceback.format_exc()
    seconds = time.perf_counter() - begin
    record = {
        "rows": rows,
        "error": error,
        "traceback": trace,
        "started": started,
        "seconds": seconds,
        "processor_seconds": time.process_time() - processor,
        "environment": environment(),
    }
    store.save(unit, record)
    return number, seconds, error

"""Fits on a Dask cluster of this machine against the local loop: bits, time, memory, overhead.

    python -m benchmarks.cluster [--rows 1000000] [--dimension 64] [--columns 1000] [--quick]

Rows are made by the workers, block by block; the local loop makes the same blocks. All processes
have one thread. Prints

- plain matrix products in one process and in two at once: what two cores of this machine give;
- the fit by the local loop, by a cluster of one worker, and by one of two, with the digest of their
  sums: the same digest is the same bits. One worker against the loop is the overhead of Dask;
- the peak memory of the client;
- seconds predicted by the cost model of docs/guide/scaling.md beside those measured, and those for
  10⁹ rows on 100 workers.

Prints tables and asserts nothing. Other work on the machine disturbs the seconds: each row is the
best of `--repeats` runs, and beside it stand the processor seconds of the thread that worked most,
which is about how long the fit would take on cores of its own.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from dotsketch import FeatureGPRegressor, FourierFeatures, Gaussian

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
TASK_SECONDS = 1e-3  # what the scheduler does for a task, by its documentation
NETWORK = 1.25e9  # bytes per second of a link of 10 Gbit/s


def made_block(number: int, rows: int, dimension: int) -> np.ndarray:  # -> (rows, dimension + 1)
    """The inputs of a block and, in the last column, the targets."""
    rng = np.random.default_rng(number)
    block = rng.standard_normal((rows, dimension + 1), dtype=np.float32)
    block[:, -1] = 0.1 * block[:, -1] + np.sin(block[:, 0]) * block[:, 1]
    return block


def process(columns: int) -> FeatureGPRegressor:
    features = FourierFeatures(Gaussian(lengthscale=8.0), n_components=columns, random_state=0)
    return FeatureGPRegressor(features, noise_variance=0.1, prior_variance=1.0, solver="cholesky")


class Blocks:
    """Rows that are made when they are sliced, as data sets of files are read."""

    def __init__(self, config: argparse.Namespace, columns: slice | int):
        self.config, self.columns = config, columns
        self.shape: tuple[int, ...] = (config.rows,)
        if isinstance(columns, slice):
            self.shape = (config.rows, config.dimension)
        self.chunks, self.dtype = None, np.dtype(np.float32)

    def __getitem__(self, rows: Any) -> np.ndarray:
        c = self.config
        if isinstance(rows, slice):
            number, inside = divmod(rows.start, c.block)
            assert inside == 0
            return made_block(number, c.block, c.dimension)[:, self.columns]
        found = []
        for number in np.unique(rows // c.block):
            places = rows[rows // c.block == number] % c.block
            found.append(made_block(number, c.block, c.dimension)[places][:, self.columns])
        return np.concatenate(found)


def lazy(config: argparse.Namespace) -> tuple[Any, Any]:
    """The same rows as Dask arrays."""
    import dask.array as da

    def make(block_info: Any = None, **options: Any) -> np.ndarray:
        return made_block(block_info[None]["chunk-location"][0], config.block, config.dimension)

    chunks = ((config.block,) * (config.rows // config.block), (config.dimension + 1,))
    whole = da.map_blocks(make, chunks=chunks, dtype=np.float32, meta=np.empty((0, 0), np.float32))
    return whole[:, : config.dimension], whole[:, config.dimension]


def digest(model: FeatureGPRegressor) -> str:
    found = hashlib.blake2b(digest_size=4)
    for value in model.statistics_.arrays().values():
        found.update(np.ascontiguousarray(value).tobytes())
    return found.hexdigest()


def fit_here(config: argparse.Namespace) -> dict[str, Any]:
    model = process(config.columns)
    start, before = time.perf_counter(), thread_times()
    model.fit(Blocks(config, slice(config.dimension)), Blocks(config, config.dimension))
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "processor": most(before, thread_times()), "digest": digest(model)}


def fit_there(config: argparse.Namespace) -> dict[str, Any]:
    from distributed import Client, LocalCluster

    model = process(config.columns)
    options = {"n_workers": config.workers, "threads_per_worker": 1, "dashboard_address": ":0"}
    with LocalCluster(**options) as cluster, Client(cluster) as client:
        client.run(_imported)  # workers are up and have imported the library
        rows = lazy(config)
        before = client.run(thread_times)
        start = time.perf_counter()
        model.fit(*rows)
        seconds = time.perf_counter() - start
        after = client.run(thread_times)
        spent = max(most(before[worker], after[worker]) for worker in before)
        return {"seconds": seconds, "processor": spent, "digest": digest(model)}


def thread_times() -> dict[int, float]:
    """Processor seconds of every thread of this process."""
    import psutil

    return {t.id: t.user_time + t.system_time for t in psutil.Process().threads()}


def most(before: dict[int, float], after: dict[int, float]) -> float:
    """Processor seconds of the thread that has worked most."""
    return max(after[thread] - before.get(thread, 0.0) for thread in after)


def _imported() -> int:
    made_block(0, 64, 4)
    return len(process(4).get_params())


def multiply(config: argparse.Namespace) -> dict[str, Any]:
    """Seconds of matrix products that take about as long as a block."""
    A = np.random.default_rng(0).standard_normal((config.block, config.columns))
    A.T @ A
    start, before = time.perf_counter(), time.process_time()
    for _ in range(10):
        A.T @ A
    processor = time.process_time() - before
    return {"seconds": time.perf_counter() - start, "processor": processor}


MODES: dict[str, Callable[[argparse.Namespace], dict[str, Any]]] = {
    "here": fit_here,
    "there": fit_there,
    "multiply": multiply,
}


def started(config: argparse.Namespace, mode: str, **changes: Any) -> subprocess.Popen[str]:
    given = {**vars(config), **changes, "mode": mode}
    words = [f"--{name}={given[name]}" for name in SIZES] + [f"--mode={mode}"]
    environment = {**os.environ, **dict.fromkeys(THREADS, "1")}
    command = [sys.executable, "-m", "benchmarks.cluster", *words]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)


def result(process: subprocess.Popen[str]) -> dict[str, Any]:
    text, _ = process.communicate()
    if process.returncode:
        raise SystemExit(f"{process.args} ended with {process.returncode}")
    found: dict[str, Any] = json.loads(text.splitlines()[-1])
    return found


def best(config: argparse.Namespace, run: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The least of every number over the repeats."""
    found = [run() for _ in range(config.repeats)]
    return {name: min(one[name] for one in found) for name in found[0]}


def predicted(
    block_seconds: float, rows: float, config: argparse.Namespace, workers: int, network: float
) -> float:
    """The cost model of docs/guide/scaling.md."""
    partitions, state = rows / config.block, 4.0 * config.columns**2
    compute = partitions * block_seconds / workers
    moved = partitions * state / (workers * network)
    return max(compute + moved, 3 * partitions * TASK_SECONDS)


SIZES = ("rows", "dimension", "columns", "block", "workers")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    defaults = {"rows": 1_000_000, "dimension": 64, "columns": 1000, "block": 10_000, "workers": 2}
    for name, value in defaults.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="A tenth of the rows, once.")
    parser.add_argument("--mode", choices=list(MODES), help=argparse.SUPPRESS)
    config = parser.parse_args()
    if config.mode:
        found = MODES[config.mode](config)
        found["mebibytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(json.dumps(found))
        return
    if config.quick:
        config.rows, config.repeats = config.rows // 10, 1
    report(config)


def report(config: argparse.Namespace) -> None:
    print(
        f"{config.rows:,} rows, d = {config.dimension}, D = {config.columns}, ", end="", flush=True
    )
    print(f"blocks of {config.block:,} rows, one thread per process")
    one = best(config, lambda: result(started(config, "multiply")))

    def both() -> dict[str, Any]:
        running = [started(config, "multiply") for _ in range(2)]
        return max((result(one) for one in running), key=lambda found: found["seconds"])

    two = both()
    for name in ("seconds", "processor"):
        gain = 2 * one[name] / two[name]
        print(f"two processes with matrix products against one: {gain:.2f} times ({name})")
    local = best(config, lambda: result(started(config, "here")))
    found = {"local loop": local}
    for workers in (1, 2):
        run = partial(started, config, "there", workers=workers)
        name = f"cluster, {workers} worker{'s' * (workers > 1)}"
        found[name] = best(config, lambda run=run: result(run()))  # type: ignore[misc]
    print(f"{'':<20} {'seconds':>8} {'speed-up':>8} {'processor':>10} {'speed-up':>8}  ", end="")
    print(f"{'digest':<8} {'MiB here':>9}")
    for name, one in found.items():
        print(f"{name:<20} {one['seconds']:8.1f} {local['seconds'] / one['seconds']:8.2f} ", end="")
        print(f"{one['processor']:10.1f} {local['processor'] / one['processor']:8.2f}  ", end="")
        print(f"{one['digest']:<8} {one['mebibytes']:9.0f}")
    small = result(started(config, "there", rows=max(config.rows // 5, config.block)))
    print(f"memory of the client with a fifth of the rows: {small['mebibytes']:.0f} MiB")
    alone = found["cluster, 1 worker"]
    for name in ("seconds", "processor"):
        more = 100 * (alone[name] / local[name] - 1)
        print(f"overhead of Dask, one worker against the loop: {more:.1f} % ({name})")
    block_seconds = local["processor"] * config.block / config.rows
    print(f"a block takes {block_seconds:.3f} processor seconds; the cost model says")
    for workers, one in ((1, alone), (2, found["cluster, 2 workers"])):
        seconds = predicted(block_seconds, config.rows, config, workers, 2e9)
        print(f"  {workers} of this machine: {seconds:.1f} s (measured {one['processor']:.1f} s)")
    far = predicted(block_seconds, 1e9, config, 100, NETWORK)
    print(f"  10⁹ rows on 100 workers: {far / 60:.0f} min")


if __name__ == "__main__":
    main()

"""The compiled kernels alone, without validation and fresh memory, at every instruction set.

    python -m benchmarks.kernels [TEXT]     # only the lines whose name contains TEXT

Processor time on one thread, the least of many calls, in nanoseconds per row (per angle or number
where the name says so). Rows and results stay in the second-level cache, weights are prepared once.
There is one column for each version of the kernels that this CPU runs (`DOTSKETCH_ISA`), measured
in a process of its own; lines of NumPy and of memory are there to compare with. Asserts nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from dotsketch._backends import cpp

LEVELS = ("baseline", "v3", "v4")
SECONDS = 0.3  # for each line
LEAST_SECONDS = 2e-3  # for each of its times


class Case(NamedTuple):
    name: str
    items: int  # rows or angles of a call
    call: Callable[[], object]


def cases() -> Iterator[Case]:
    rng = np.random.default_rng(0)
    for d in (64, 1024):
        n = (1 << 14) // d
        X, out = rng.standard_normal((2, n, d), dtype=np.float32)
        name = f"Walsh–Hadamard transform, d = {d}"
        yield Case(name, n, partial(cpp.fwht, X, out))
    for is_complex in (False, True):
        for d, D in ((1024, 1024), (64, 320)):
            yield from sketches(rng, 64, d, D, is_complex)
    for dtype in (np.float32, np.float64):
        yield from waves(rng, np.dtype(dtype))
    for what, fresh in (("new memory", True), ("memory in use", False)):
        Z = np.empty((10_000, 1024), np.float32)
        call = partial(np.ones, Z.shape, Z.dtype) if fresh else partial(Z.fill, 1)
        yield Case(f"Memory: 1024 float32 numbers written to {what}", len(Z), call)


def sketches(rng: np.random.Generator, n: int, d: int, D: int, is_complex: bool) -> Iterator[Case]:
    p, blocks = 3, -(-D // d)
    X = rng.standard_normal((n, d), dtype=np.float32)
    out = np.empty((n, D), np.complex64 if is_complex else np.float32)
    views = (out.real, out.imag) if is_complex else (out, None)

    def turns(*shape: int) -> np.ndarray:
        return rng.choice(np.array([0, 1, 2, 3] if is_complex else [0, 2], np.int8), shape)

    size = f"{'complex' if is_complex else 'real'}, d = {d}, D = {D}, p = {p}"
    places = rng.permuted(np.tile(np.arange(d, dtype=np.int32), (p, blocks, 1)), axis=2)
    srht = cpp.prepare_tensor_srht(turns(p, blocks, d), places, D, is_complex, True)
    yield Case(f"TensorSRHT {size}", n, partial(srht, X, 1.0, *views))
    buckets = rng.integers(D, size=(p, d), dtype=np.int32)
    hashed = cpp.prepare_tensor_sketch(buckets, turns(p, d), D, is_complex, True)
    yield Case(f"TensorSketch {size}", n, partial(hashed, X, 1.0, *views))
    signs = cpp.prepare_sign_projection(turns(p, D, d), is_complex, True)
    yield Case(f"Rademacher {size}", n, partial(signs, X, 1.0, *views))


def waves(rng: np.random.Generator, dtype: np.dtype) -> Iterator[Case]:
    n, D = 32, 1024
    angles = (4 * rng.standard_normal((n, D // 2))).astype(dtype)
    out = np.empty((2, n, D // 2), dtype)

    def by_numpy() -> None:
        np.cos(angles, out=out[0])
        np.sin(angles, out=out[1])

    name = f"{dtype}, cosine and sine, per angle"
    yield Case(name, angles.size, partial(cpp.waves, angles, 0.5, *out))
    yield Case(f"{name}: NumPy", angles.size, by_numpy)
    exponential = partial(np.exp, angles, out=out[0])
    yield Case(f"{dtype}, exponential, per number: NumPy", angles.size, exponential)
    for d, D, n in ((9, 1024, 32), (64, 64, 512)):
        X, Z = (rng.standard_normal((n, size)).astype(dtype) for size in (d, D))
        blocks = -(-D // 2 // cpp.WAVE_BLOCK)
        frequencies = rng.standard_normal((blocks, d, cpp.WAVE_BLOCK)).astype(dtype)
        halves = Z[:, : D // 2], Z[:, D // 2 :]
        call = partial(cpp.waves, X, 0.5, *halves, frequencies)
        yield Case(f"Fourier {dtype}, d = {d}, D = {D}", n, call)


def nanoseconds(case: Case) -> float:
    """The least time of an item; calls are timed several at a time, for clocks are coarse."""
    times: list[float] = []
    count, end = 1, time.process_time() + SECONDS
    while not times or time.process_time() < end:
        start = time.process_time()
        for _ in range(count):
            case.call()
        elapsed = time.process_time() - start
        if elapsed < LEAST_SECONDS:
            count *= 2
        else:
            times.append(elapsed / count)
    return 1e9 * min(times) / case.items


def measured_at(level: str, text: str) -> dict[str, float]:
    """The times in a process with this version of the kernels; empty if the CPU lacks it."""
    command = [sys.executable, "-m", "benchmarks.kernels", text, "--json"]
    environment = os.environ | {"DOTSKETCH_ISA": level}
    process = subprocess.run(command, env=environment, capture_output=True, text=True)
    if "this CPU lacks it" in process.stderr:
        return {}
    if process.returncode != 0:
        raise RuntimeError(f"The process for {level} failed:\n{process.stderr}")
    times: dict[str, float] = json.loads(process.stdout)
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description="Times of the compiled kernels alone.")
    parser.add_argument("text", nargs="?", default="", help="part of the names to measure")
    parser.add_argument("--json", action="store_true", help="this version only, as JSON")
    options = parser.parse_args()
    if options.json:
        chosen = (case for case in cases() if options.text in case.name)
        print(json.dumps({case.name: nanoseconds(case) for case in chosen}))
        return
    tables = {level: times for level in LEVELS if (times := measured_at(level, options.text))}
    print(f"| ns per row | {' | '.join(tables)} |\n| --- |{' --- |' * len(tables)}")
    for name in next(iter(tables.values()), {}):
        print(f"| {name} | {' | '.join(f'{times[name]:.3g}' for times in tables.values())} |")


if __name__ == "__main__":
    with threadpool_limits(1):
        main()

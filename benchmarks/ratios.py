"""The ratios that matter, side by side in one process: compiled, portable, BLAS, scikit-learn.

    python benchmarks/ratios.py [TEXT]        # only the lines whose name contains TEXT
    python benchmarks/ratios.py --cpu         # processor time, for a machine that is busy

One thread, float32, `transform` as a user calls it. The two sides take turns, so that what else
runs on the machine meets both; median of nine calls each after one that is not counted, with the
range, in microseconds a row. Needs the compiled kernels. Asserts nothing.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import numpy as np
from sklearn.kernel_approximation import PolynomialCountSketch
from threadpoolctl import threadpool_limits

from dotsketch import PolynomialSketch
from dotsketch._backends import cpp, hadamard
from dotsketch._support.threads import run_all

REPEATS = 9


class Comparison(NamedTuple):
    name: str
    n_rows: int
    ours: Callable[[], object]
    other: Callable[[], object]


def inputs(n_rows: int, dimension: int) -> np.ndarray:
    X = np.random.default_rng(0).standard_normal((n_rows, dimension), dtype=np.float32)
    return X / np.float32(np.sqrt(dimension))


def portable(call: Callable[[], object]) -> Callable[[], object]:
    """The same call without the compiled kernels."""

    def run() -> None:
        cpp.AVAILABLE = False
        try:
            call()
        finally:
            cpp.AVAILABLE = True

    return run


def transform(X: np.ndarray, degree: int, n_components: int, **kw) -> Callable[[], object]:
    features = PolynomialSketch(degree, n_components=n_components, random_state=0, **kw).fit(X)
    return partial(features.transform, X)


def comparisons() -> Iterator[Comparison]:
    n = 10_000
    sizes = [(d, D, p) for d, D in ((1024, 1024), (64, 320)) for p in (3, 7)]
    for d, D, p in sizes:
        X = inputs(n, d)
        size = f"d = {d}, D = {D}, p = {p}"
        for output in ("real", "complex"):
            call = transform(X, p, D, output=output)
            yield Comparison(f"TensorSRHT {output}, {size}: portable", n, call, portable(call))
        peer = PolynomialCountSketch(degree=p, n_components=D, random_state=0).fit(X)
        yield Comparison(
            f"TensorSketch, {size}: scikit-learn",
            n,
            transform(X, p, D, sketch="tensor_sketch"),
            partial(peer.transform, X),
        )
    for d in (64, 1024):
        call = partial(hadamard, inputs(1024, d))
        yield Comparison(f"FWHT, d = {d}: portable", 1024, call, portable(call))
    X = inputs(4096, 1024)
    for output in ("real", "complex"):
        call = transform(X, 3, 1024, sketch="rademacher", output=output)
        name = f"Rademacher {output}, d = D = 1024, p = 3: BLAS"
        yield Comparison(name, 4096, call, portable(call))
    for n, d, D, p in ((10_000, 1024, 1024, 3), (40_000, 1024, 1024, 3), (40_000, 64, 320, 7)):
        X = inputs(n, d)
        two, one = (transform(X, p, D, n_jobs=jobs) for jobs in (2, 1))
        yield Comparison(
            f"TensorSRHT real, N = {n}, d = {d}, D = {D}, p = {p}, two threads: one", n, two, one
        )
    square = inputs(512, 512)
    matrices = [(square, np.empty_like(square)) for _ in range(64)]
    yield machine(
        "products of 512 x 512 matrices", lambda m: np.dot(m[0], m[0], out=m[1]), matrices
    )
    blocks = list(zip(np.ones((64, 1 << 20)), np.ones((64, 1 << 20)), strict=True))
    yield machine("copies of 512 MiB", lambda block: np.copyto(block[1], block[0]), blocks)


def machine(name: str, function: Callable, items: list) -> Comparison:
    """What two threads gain where no code of ours stands in the way."""
    two, one = (partial(run_all, function, items, workers) for workers in (2, 1))
    return Comparison(f"The machine: {name}, two threads: one", len(items), two, one)


def measure(comparison: Comparison, clock: Callable[[], float]) -> str:
    """A line of the table."""
    times: tuple[list[float], list[float]] = ([], [])
    for repeat in range(REPEATS + 1):
        for call, found in zip(comparison[2:], times, strict=True):
            start = clock()
            call()
            if repeat:
                found.append((clock() - start) / comparison.n_rows * 1e6)
    medians = [float(np.median(found)) for found in times]
    ours, other = (
        f"{median:.2f} ({min(found):.2f}–{max(found):.2f})"
        for median, found in zip(medians, times, strict=True)
    )
    return f"| {comparison.name} | {ours} | {other} | {medians[1] / medians[0]:.1f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description="Ratios of speed, side by side.")
    parser.add_argument("text", nargs="?", default="", help="part of the names to measure")
    parser.add_argument("--cpu", action="store_true", help="processor time, one thread only")
    options = parser.parse_args()
    clock = time.process_time if options.cpu else time.perf_counter
    print("| what, against what | ours | other | ratio |\n| --- | --- | --- | --- |")
    for comparison in comparisons():
        if options.text in comparison.name and not (options.cpu and "threads" in comparison.name):
            print(measure(comparison, clock), flush=True)


if __name__ == "__main__":
    with threadpool_limits(1):
        main()

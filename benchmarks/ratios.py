"""The ratios that matter, side by side in one process: compiled, portable, BLAS, scikit-learn.

    python -m benchmarks.ratios [TEXT]        # only the lines whose name contains TEXT
    python -m benchmarks.ratios --cpu         # processor time, for a machine that is busy

One thread, float32 unless the line says otherwise, `transform` as a user calls it. The two sides
take turns, so that what else runs on the machine meets both; median of nine calls each after one
that is not counted, with the range, in microseconds per row. Needs the compiled kernels, and torch
for the lines about it. Asserts nothing.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import numpy as np
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.kernel_approximation import PolynomialCountSketch, RBFSampler
from threadpoolctl import threadpool_limits

from dotsketch import (
    Exponential,
    FeatureGPRegressor,
    FourierFeatures,
    Gaussian,
    MaclaurinFeatures,
    NystromFeatures,
    PolynomialSketch,
    PositiveFeatures,
)
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
    yield from fourier()
    yield from positive()
    yield from one_row()
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


def fourier() -> Iterator[Comparison]:
    """Fourier features by compiled and by NumPy's cosines, by torch, and by SORF."""
    for d, D, n in ((9, 1024, 2000), (9, 1024, 10_000), (64, 64, 10_000)):
        for dtype in (np.float32, np.float64):
            X = inputs(n, d).astype(dtype)
            call = waves(X, D)
            name = f"Fourier {np.dtype(dtype)}, N = {n}, d = {d}, D = {D}"
            yield Comparison(f"{name}: NumPy's functions", n, call, portable(call))
    n = 10_000
    try:
        import torch
    except ImportError:
        torch = None
    for d, D in ((64, 64), (9, 1024)) if torch is not None else ():
        X = inputs(n, d)
        rows, frequencies = torch.from_numpy(X), torch.randn(D // 2, d)

        def formula(rows=rows, frequencies=frequencies, D=D) -> object:  # as GPyTorch's RFFKernel
            angles = (rows / 0.5) @ frequencies.T
            return torch.cat([torch.cos(angles), torch.sin(angles)], dim=-1) / (D / 2) ** 0.5

        name = f"Fourier float32, N = {n}, d = {d}, D = {D}: GPyTorch's formula in torch"
        yield Comparison(name, n, waves(X, D), formula)
    for d in (9, 32, 64):
        X = inputs(2000, d)
        name = f"Fourier float32, N = 2000, d = {d}, D = 1024, orthogonal: sorf"
        yield Comparison(name, 2000, waves(X, 1024), waves(X, 1024, projection="sorf"))


def positive() -> Iterator[Comparison]:
    """Positive features, validated and checked for overflow, and their formula alone."""
    n = 10_000
    for d, D in ((64, 64), (64, 1024)):
        for dtype in (np.float32, np.float64):
            X = inputs(n, d).astype(dtype)
            features = PositiveFeatures(Exponential(), n_components=D, random_state=0).fit(X)
            matrix = features.weights_.matrix.astype(dtype)

            def formula(X=X, matrix=matrix, D=D) -> object:
                halves = np.sum(X * X, axis=1, keepdims=True) / 2
                return np.exp(X @ matrix.T - halves) / np.sqrt(X.dtype.type(D))

            name = f"Positive {np.dtype(dtype)}, N = {n}, d = {d}, D = {D}: NumPy's formula"
            yield Comparison(name, n, partial(features.transform, X), formula)


def waves(X: np.ndarray, n_components: int, **kw) -> Callable[[], object]:
    kernel = Gaussian(lengthscale=0.5)
    features = FourierFeatures(kernel, n_components=n_components, random_state=0, **kw).fit(X)
    return partial(features.transform, X)


def one_row() -> Iterator[Comparison]:
    """One row per call, float64, against what users of scikit-learn have."""
    times = 200
    X = inputs(500, 9).astype(np.float64)
    y = np.sin(3 * X[:, 0])
    kernel = Gaussian(lengthscale=0.5)

    def often(function: Callable, *arguments: object, **options: object) -> Callable[[], None]:
        def run() -> None:
            for _ in range(times):
                function(*arguments, **options)

        return run

    sampler = RBFSampler(gamma=2.0, n_components=256, random_state=0).fit(X)
    exact = GaussianProcessRegressor(RBF(0.5) + WhiteKernel(0.01), optimizer=None).fit(X, y)
    families = {
        "Fourier": FourierFeatures(kernel, n_components=256, random_state=0),
        "Maclaurin": MaclaurinFeatures(kernel, n_components=256, random_state=0),
        "Nyström": NystromFeatures(kernel, n_components=256, random_state=0),
    }
    for name, features in families.items():
        features.fit(X)
        yield Comparison(
            f"One row, {name} transform, d = 9, D = 256: RBFSampler",
            times,
            often(features.transform, X[:1]),
            often(sampler.transform, X[:1]),
        )
        model = FeatureGPRegressor(features).fit(X, y)
        for what, options in (("predict", {}), ("predict with std", {"return_std": True})):
            yield Comparison(
                f"One row, {name} {what}, d = 9, D = 256: scikit-learn's exact process, 500 rows",
                times,
                often(model.predict, X[:1], **options),
                often(exact.predict, X[:1], **options),
            )


def machine(name: str, function: Callable, items: list) -> Comparison:
    """What two threads gain where no code of ours stands in the way."""
    two, one = (partial(run_all, function, items, workers) for workers in (2, 1))
    return Comparison(f"The machine: {name}, two threads: one", len(items), two, one)


def measure(comparison: Comparison, clock: Callable[[], float]) -> tuple[list[float], list[float]]:
    """The times of both sides in microseconds per row; they take turns."""
    times: tuple[list[float], list[float]] = ([], [])
    for repeat in range(REPEATS + 1):
        for call, found in zip(comparison[2:], times, strict=True):
            start = clock()
            call()
            if repeat:
                found.append((clock() - start) / comparison.n_rows * 1e6)
    return times


def table_line(comparison: Comparison, clock: Callable[[], float]) -> str:
    times = measure(comparison, clock)
    middle = [float(np.median(found)) for found in times]
    ours, other = (
        f"{median:.2f} ({min(found):.2f}–{max(found):.2f})"
        for median, found in zip(middle, times, strict=True)
    )
    return f"| {comparison.name} | {ours} | {other} | {middle[1] / middle[0]:.1f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description="Ratios of speed, side by side.")
    parser.add_argument("text", nargs="?", default="", help="part of the names to measure")
    parser.add_argument("--cpu", action="store_true", help="processor time, one thread only")
    options = parser.parse_args()
    clock = time.process_time if options.cpu else time.perf_counter
    print("| what, against what | ours | other | ratio |\n| --- | --- | --- | --- |")
    for comparison in comparisons():
        if options.text in comparison.name and not (options.cpu and "threads" in comparison.name):
            print(table_line(comparison, clock), flush=True)


if __name__ == "__main__":
    with threadpool_limits(1):
        main()

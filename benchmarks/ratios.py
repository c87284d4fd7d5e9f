"""The ratios that matter, side by side in one process: compiled, portable, BLAS, scikit-learn.

    python benchmarks/ratios.py

One thread, float32, `transform` as a user calls it; median of five calls after one that is not
counted, with the range, in microseconds a row. Needs the compiled kernels. Asserts nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from sklearn.kernel_approximation import PolynomialCountSketch
from threadpoolctl import threadpool_limits

from dotsketch import PolynomialSketch, _fast
from dotsketch._transforms import fwht


def measure(call: Callable[[], object], n_rows: int, repeats: int = 5) -> np.ndarray:
    call()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return np.array(times) / n_rows * 1e6


def portable(call: Callable[[], object]) -> Callable[[], object]:
    """The same call without the compiled kernels."""

    def run() -> None:
        _fast.AVAILABLE = False
        try:
            call()
        finally:
            _fast.AVAILABLE = True

    return run


def line(name: str, ours: np.ndarray, other: np.ndarray) -> None:
    def text(times: np.ndarray) -> str:
        return f"{np.median(times):.2f} ({times.min():.2f}–{times.max():.2f})"

    ratio = np.median(other) / np.median(ours)
    print(f"| {name} | {text(ours)} | {text(other)} | {ratio:.1f} |", flush=True)


def main() -> None:
    rng = np.random.default_rng(0)
    print("| what, against what | ours | other | ratio |\n| --- | --- | --- | --- |")
    for d, D, p in ((1024, 1024, 3), (1024, 1024, 7), (64, 320, 3), (64, 320, 7)):
        X = (rng.standard_normal((10_000, d)) / np.sqrt(d)).astype(np.float32)
        size = f"d = {d}, D = {D}, p = {p}"
        for output in ("real", "complex"):
            ours = PolynomialSketch(p, n_components=D, output=output, random_state=0).fit(X)
            call = lambda ours=ours, X=X: ours.transform(X)  # noqa: E731
            compiled = measure(call, len(X))
            line(
                f"TensorSRHT {output}, {size}: portable", compiled, measure(portable(call), len(X))
            )
        if p == (3 if d == 1024 else 7):
            ours = PolynomialSketch(p, sketch="tensor_sketch", n_components=D, random_state=0).fit(
                X
            )
            peer = PolynomialCountSketch(degree=p, n_components=D, random_state=0).fit(X)
            name = f"TensorSketch, {size}: scikit-learn"
            line(
                name,
                measure(lambda o=ours, X=X: o.transform(X), len(X)),
                measure(lambda o=peer, X=X: o.transform(X), len(X)),
            )
    for d in (64, 1024):
        X = rng.standard_normal((1024, d)).astype(np.float32)
        call = lambda X=X: fwht(X)  # noqa: E731
        line(f"FWHT, d = {d}: portable", measure(call, 1024), measure(portable(call), 1024))
    X = (rng.standard_normal((4096, 1024)) / 32).astype(np.float32)
    for output in ("real", "complex"):
        ours = PolynomialSketch(3, sketch="rademacher", n_components=1024, output=output).fit(X)
        blas = PolynomialSketch(3, sketch="rademacher", n_components=1024, output=output).fit(X)
        compiled = measure(lambda o=ours: o.transform(X), len(X), 3)
        slow = measure(portable(lambda o=blas: o.transform(X)), len(X), 3)
        line(f"Rademacher {output}, d = D = 1024, p = 3: BLAS", compiled, slow)
    X = (rng.standard_normal((40_000, 1024)) / 32).astype(np.float32)
    one, two = (
        PolynomialSketch(3, n_components=1024, random_state=0, n_jobs=n).fit(X) for n in (1, 2)
    )
    times = [measure(lambda o=o: o.transform(X), len(X)) for o in (two, one)]
    line("TensorSRHT on two threads: one thread", *times)


if __name__ == "__main__":
    with threadpool_limits(1):
        main()

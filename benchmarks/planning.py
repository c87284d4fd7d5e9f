"""The time of a plan of all candidates and of AutoFeatures, and whether both choose the same.

    OMP_NUM_THREADS=1 python -m benchmarks.planning --data DIR [--sets concrete] [--rows 824]

Times are CPU seconds on standardised rows; that of AutoFeatures is the least of three.
"""

from __future__ import annotations

import argparse
import os
import time

import numpy as np

from dotsketch import AutoFeatures, Exponential, Gaussian, Polynomial, plan

from .landmarks import scaled_rows

KERNELS = [
    Gaussian(),
    Gaussian(lengthscale=20.0),
    Polynomial(3, gamma=0.1),
    Exponential(lengthscale=4.0),
]


def fitted(auto: AutoFeatures, X: np.ndarray) -> tuple[AutoFeatures, float]:
    """The features fitted to X, and the seconds that it took."""
    times = []
    for _ in range(3):
        start = time.process_time()
        auto.fit(X)
        times.append(time.process_time() - start)
    return auto, min(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", required=True, help="folder with the data sets")
    parser.add_argument("--sets", nargs="+", default=["concrete"])
    parser.add_argument("--rows", type=int, default=824)
    parser.add_argument("--columns", nargs="+", type=int, default=[20, 50, 100, 200])
    options = parser.parse_args()
    os.environ["DOTSKETCH_DATA"] = options.data
    print("| data | kernel | columns | plan (s) | fit (s) | computed | chosen | same |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for name in options.sets:
        X = scaled_rows(name)[: options.rows]
        for kernel in KERNELS:
            for n in options.columns:
                auto, short = fitted(AutoFeatures(kernel, n_components=n, random_state=0), X)
                rng = np.random.default_rng(0).spawn(2)[0]  # the rows that `fit` looks at
                start = time.process_time()
                table = plan(kernel, X, n_components=n, random_state=rng)
                long = time.process_time() - start
                same = auto.chosen_.label == table.best.label
                print(
                    f"| {name} | {kernel} | {n} | {long:.2f} | {short:.2f} | "
                    f"{len(auto.plan_)} of {len(table)} | {auto.chosen_.label} | "
                    f"{'yes' if same else 'no: ' + table.best.label} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()

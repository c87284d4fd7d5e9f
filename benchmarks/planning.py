"""The time of a plan and of AutoFeatures.

    OMP_NUM_THREADS=1 python -m benchmarks.planning --data DIR [--sets concrete] [--rows 824]
    OMP_NUM_THREADS=1 python -m benchmarks.planning --part large --columns 1000 4400 5000 20000

Times are CPU seconds on standardised rows; that of AutoFeatures is the least of three. The second
command prints the time and the peak memory of AutoFeatures with many columns on 20,000 rows of 16
standard normal columns, in a process for each.
"""

from __future__ import annotations

import multiprocessing
import time
from functools import partial

import numpy as np

from dotsketch import AutoFeatures, Exponential, Gaussian, Polynomial, plan

from .common import data_parser, least_seconds, markdown_head, peak_mebibytes, scaled_rows

KERNELS = [
    Gaussian(),
    Gaussian(lengthscale=20.0),
    Polynomial(3, gamma=0.1),
    Exponential(lengthscale=4.0),
]


def large(n_components: int) -> None:
    """What a fit with many columns takes; in a process of its own, whose peak memory is known."""
    X = np.random.default_rng(0).standard_normal((20_000, 16))
    before = peak_mebibytes()
    start = time.process_time()
    auto = AutoFeatures(Gaussian(), n_components=n_components, random_state=0).fit(X)
    seconds = time.process_time() - start
    more = peak_mebibytes() - before
    chosen = auto.chosen_
    print(
        f"| {n_components} | {seconds:.1f} | {more:.0f} | {chosen.label} | "
        f"{chosen.relative_error:.2g} | {len(auto.plan_.left_out)} |",
        flush=True,
    )


def main() -> None:
    parser = data_parser(__doc__.splitlines()[0], required=False)
    parser.add_argument("--sets", nargs="+", default=["concrete"])
    parser.add_argument("--rows", type=int, default=824)
    parser.add_argument("--part", choices=("times", "large"), default="times")
    parser.add_argument("--columns", nargs="+", type=int, default=[20, 50, 100, 200])
    options = parser.parse_args()
    if options.part == "large":
        headings = ["columns", "fit (s)", "memory (MiB)", "chosen", "error", "left out"]
        print(*markdown_head(headings), sep="\n")
        for n in options.columns:
            process = multiprocessing.get_context("spawn").Process(target=large, args=(n,))
            process.start()
            process.join()
        return
    if options.data is None:
        parser.error("--data is needed for this part")
    headings = ["data", "kernel", "columns", "plan (s)", "fit (s)", "candidates", "chosen"]
    print(*markdown_head(headings), sep="\n")
    for name in options.sets:
        X = scaled_rows(name)[: options.rows]
        for kernel in KERNELS:
            for n in options.columns:
                auto = AutoFeatures(kernel, n_components=n, random_state=0)
                short = least_seconds(partial(auto.fit, X), 3)
                rng = np.random.default_rng(0).spawn(2)[0]  # the rows that `fit` looks at
                start = time.process_time()
                table = plan(kernel, X, n_components=n, random_state=rng)
                long = time.process_time() - start
                print(
                    f"| {name} | {kernel} | {n} | {long:.2f} | {short:.2f} | "
                    f"{len(table)} | {auto.chosen_.label} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()

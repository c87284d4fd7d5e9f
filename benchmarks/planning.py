"""The time of a plan of all candidates and of AutoFeatures, and whether both choose the same.

    OMP_NUM_THREADS=1 python -m benchmarks.planning --data DIR [--sets concrete] [--rows 824]
    OMP_NUM_THREADS=1 python -m benchmarks.planning --data DIR --part choices --sets kin8nm protein
    OMP_NUM_THREADS=1 python -m benchmarks.planning --part large --columns 1000 4400 5000 20000

Times are CPU seconds on standardised rows; that of AutoFeatures is the least of three. The second
command prints what AutoFeatures chooses by each objective and by a time budget (2000 rows, Gaussian
kernel at 0.6 times the median distance), and what a Gaussian process on the choice takes, planned
and measured. The third prints the time and the peak memory of AutoFeatures with many columns on
20,000 rows of 16 standard normal columns, in a process for each.
"""

from __future__ import annotations

import multiprocessing
import time
from functools import partial

import numpy as np

from dotsketch import AutoFeatures, Exponential, FeatureGPRegressor, Gaussian, Polynomial, plan

from .common import data_parser, least_seconds, markdown_head, peak_mebibytes, scaled_rows
from .corrections import split

KERNELS = [
    Gaussian(),
    Gaussian(lengthscale=20.0),
    Polynomial(3, gamma=0.1),
    Exponential(lengthscale=4.0),
]


CHOICES = {
    "128 columns": {"n_components": 128},
    "0.5 µs per row": {"objective": "error_per_time", "microseconds_per_row": 0.5},
    "5 µs per row": {"objective": "error_per_time", "microseconds_per_row": 5.0},
    "0.1 s": {"time_budget": 0.1},
    "posterior, 128 columns": {"n_components": 128, "objective": "posterior"},
    "posterior, 0.1 s": {"time_budget": 0.1, "objective": "posterior"},
}


def choices(name: str) -> None:
    """What each objective chooses."""
    X, y, *_ = split(name)
    kernel = Gaussian(lengthscale=0.6 * Gaussian().resolve(X).lengthscale)
    for label, options in CHOICES.items():
        auto = AutoFeatures(kernel, random_state=0, **options).fit(X, y)
        best = auto.chosen_
        start = time.process_time()
        FeatureGPRegressor(best.candidate.set_params(random_state=0), solver="cholesky").fit(X, y)
        taken = time.process_time() - start
        is_posterior = best.divergence is not None
        value = f"{'KL' if is_posterior else 'error'} {best.value:.2g}"
        seconds = "" if best.seconds is None else f"{best.seconds:.2f}"
        print(
            f"| {name} | {label} | {best.label} | {best.n_components} | {value} | {seconds} | "
            f"{taken:.2f} |",
            flush=True,
        )


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
    parser.add_argument("--part", choices=("times", "choices", "large"), default="times")
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
    if options.part == "choices":
        headings = ["data", "by", "chosen", "columns", "value", "planned (s)", "taken (s)"]
        print(*markdown_head(headings), sep="\n")
        for name in options.sets:
            choices(name)
        return
    headings = ["data", "kernel", "columns", "plan (s)", "fit (s)", "computed", "chosen", "same"]
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
                same = auto.chosen_.label == table.best.label
                print(
                    f"| {name} | {kernel} | {n} | {long:.2f} | {short:.2f} | "
                    f"{len(auto.plan_)} of {len(table)} | {auto.chosen_.label} | "
                    f"{'yes' if same else 'no: ' + table.best.label} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()

"""The iterative solver against the direct one: agreement, time, memory.

    python -m benchmarks.solvers agreement --data DIR [--columns 2048] [--sets protein …]
    python -m benchmarks.solvers crossover --data DIR [--columns 1024 2048 4096]
    python -m benchmarks.solvers wide --data DIR [--columns 32768 8192 --sets protein]

- agreement: the largest difference of means over the spread of the predictions and the median
  relative difference of variances, at the noise and prior variance that the direct solver chooses.
- crossover: processor seconds of both solvers against the number of columns.
- wide: a fit to all rows with many columns beside a direct fit with fewer, each in a process of its
  own: processor seconds, peak memory, test error, noise.

Columns of X are scaled to unit variance; the Gaussian kernel of the Fourier features has the share
of the median distance that SETS states as its lengthscale. DIR is a folder of data sets. Set
OMP_NUM_THREADS=1.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from typing import Any

import numpy as np

from dotsketch import FeatureGPRegressor, FourierFeatures, Gaussian
from dotsketch.datasets import load_dataset
from experiments.harness.data import train_test_split

from .common import data_parser, peak_mebibytes

SETS = {"protein": 0.4, "kin8nm": 1.0, "powerplant": 0.5, "letter": 0.5, "magic": 0.6, "drive": 0.5}


def scaled_split(name: str, max_train: int | None = None) -> Any:
    """Columns of unit variance in single precision; classes become 0, 1, … as a target."""
    split = train_test_split(load_dataset(name), seed=0, max_train=max_train, max_test=10_000)
    mean, scale = split.X_train.mean(axis=0), split.X_train.std(axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    X, X_test = (((rows - mean) / scale).astype(np.float32) for rows in (split[0], split[2]))
    classes, y = np.unique(split.y_train, return_inverse=True)
    if len(classes) > 100:  # a number
        return X, split.y_train, X_test, split.y_test
    return X, y.astype(float), X_test, np.searchsorted(classes, split.y_test)


def regressor(name: str, X: np.ndarray, columns: int, **settings: Any) -> FeatureGPRegressor:
    sample = X[np.random.default_rng(0).permutation(len(X))[:2000]]
    kernel = Gaussian(lengthscale=SETS[name] * float(Gaussian().resolve(sample).lengthscale))
    features = FourierFeatures(kernel, n_components=columns, random_state=0)
    return FeatureGPRegressor(features, **settings)


def seconds_of_fit(model: Any, X: np.ndarray, y: np.ndarray) -> float:
    start = time.process_time()
    model.fit(X, y)
    return time.process_time() - start


def agreement(options: argparse.Namespace) -> None:
    print("set             n  cholesky s    cg s  iterations  means  variances")
    for name in options.sets:
        X, y, X_test, _ = scaled_split(name, options.rows)
        direct = regressor(name, X, options.columns[0], solver="cholesky")
        first = seconds_of_fit(direct, X, y)
        variances = {
            "noise_variance": direct.noise_variance_,
            "prior_variance": direct.prior_variance_,
        }
        iterative = regressor(name, X, options.columns[0], solver="cg", **variances)
        second = seconds_of_fit(iterative, X, y)
        mean, std = direct.predict(X_test[:1000], return_std=True)
        m, s = iterative.predict(X_test[:1000], return_std=True)
        largest = np.abs(m - mean).max() / mean.std()
        typical = np.median(np.abs(s**2 / std**2 - 1))
        print(
            f"{name:10s} {len(X):6d} {first:11.1f} {second:7.1f} {iterative.n_iterations_:11d} "
            f"{largest:.1e} {typical:.3f}",
            flush=True,
        )


def crossover(options: argparse.Namespace) -> None:
    X, y, _, _ = scaled_split("protein", options.rows or 10_000)
    choices = {"given": {"noise_variance": 0.4, "prior_variance": 2.0}, "auto": {}}
    print("columns  variances  cholesky s     cg s")
    for columns in options.columns:
        for label, variances in choices.items():
            models = (
                regressor("protein", X, columns, solver=s, **variances) for s in ("cholesky", "cg")
            )
            times = [seconds_of_fit(model, X, y) for model in models]
            print("{:7d}  {:9s} {:11.1f} {:8.1f}".format(columns, label, *times), flush=True)


def wide(options: argparse.Namespace) -> None:
    print("solver    columns    rows   CPU s  peak MiB   RMSE  noise", flush=True)
    for name in options.sets:
        for solver, columns in zip(("cg", "cholesky"), options.columns, strict=True):
            call = f"fit_apart({name!r}, {solver!r}, {columns}, {options.rows})"
            code = f"from benchmarks.solvers import fit_apart; {call}"
            subprocess.run([sys.executable, "-c", code], check=True)


def fit_apart(name: str, solver: str, columns: int, rows: int | None) -> None:
    """A fit in this process; `wide` starts one for each solver."""
    X, y, X_test, y_test = scaled_split(name, rows)
    model = regressor(name, X, columns, solver=solver)
    seconds, peak = seconds_of_fit(model, X, y), peak_mebibytes()
    rmse = np.sqrt(np.mean((model.predict(X_test) - y_test) ** 2))
    print(
        f"{solver:9s} {columns:7d} {len(X):7d} {seconds:7.1f} {peak:9.0f} {rmse:6.4f} "
        f"{float(np.ravel(model.noise_variance_)[0]):.4f}",
        flush=True,
    )


TABLES = {
    "agreement": (agreement, [2048]),
    "crossover": (crossover, [1024, 2048, 4096]),
    "wide": (wide, [32_768, 8192]),
}


def main() -> None:
    parser = data_parser("The iterative solver against the direct one.")
    parser.add_argument("table", choices=TABLES)
    parser.add_argument("--columns", type=int, nargs="*")
    parser.add_argument("--rows", type=int, help="at most so many training rows")
    parser.add_argument("--sets", nargs="*", default=list(SETS))
    options = parser.parse_args()
    table, columns = TABLES[options.table]
    options.columns = options.columns or columns
    table(options)


if __name__ == "__main__":
    main()

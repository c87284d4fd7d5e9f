"""The iterative solver against the direct one: agreement, time, memory.

    python -m benchmarks.solvers agreement --data DIR [--columns 2048] [--sets protein …]
    python -m benchmarks.solvers crossover --data DIR [--columns 1024 2048 4096]
    python -m benchmarks.solvers scale --data DIR [--columns 2048 8192 …]
    python -m benchmarks.solvers wide --data DIR [--columns 32768 --direct 8192 --sets protein]
    python -m benchmarks.solvers fashion --data DIR [--models waves landmarks complex]
    python -m benchmarks.solvers adjoint [--columns 8 16 32 64]

- `agreement`: the largest difference of means over the spread of the predictions, the median
  relative difference of variances, rank and iterations, at the noise and prior variance that the
  direct solver chooses, or at α = 0.01.
- `crossover`: processor seconds of both solvers against the number of columns, with variances that
  are given and that are chosen.
- `scale`: processor seconds of a fit, and of one of its iterations, against the number of rows and
  of columns, with the exponents between neighbours and of all, and the peak memory. The
  rank is the same for all, so that the number of iterations grows with the rows.
- `wide`: a fit to all rows of a set with many columns beside a direct fit with fewer, each in a
  process of its own: processor seconds, peak memory, test error, the noise that was chosen.
- `fashion`: FashionMNIST: SORF features with conjugate gradients, landmarks with a softmax, and the
  complex Maclaurin features of the paper ((1/2 + x·y/2)⁷, rows of unit length, α = 0.001).
- `adjoint`: total += RᵀZ for 128 rows and 32,768 columns of Z and few columns of R, by the compiled
  kernel and by BLAS, in turns: median processor milliseconds and the spread of their ratio.

Columns are scaled to unit variance, pixels to at most one; the Gaussian kernel has the given share
of the median distance as its lengthscale. Times are processor times, which other work on the
machine disturbs least.
DIR is a folder of data sets. Set OMP_NUM_THREADS=1. Prints tables and asserts nothing.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from typing import Any

import numpy as np

from dotsketch import (
    FeatureGPClassifier,
    FeatureGPRegressor,
    FourierFeatures,
    Gaussian,
    MaclaurinFeatures,
    NystromFeatures,
    Polynomial,
)
from dotsketch._backends import compiled, portable
from dotsketch.datasets import load_dataset
from dotsketch.gp import ConjugateGradients
from experiments.harness.data import train_test_split

from .common import data_parser, peak_mebibytes

IMAGES = ("fashion_mnist", "mnist")
# the share of the median distance that is the lengthscale
SETS = {"protein": 0.4, "kin8nm": 1.0, "letter": 0.5, "magic": 0.6, "powerplant": 0.5, "drive": 0.5}


def rows_of(name: str, max_train: int | None = None) -> tuple[Any, str]:
    """A split with columns of unit variance, or pixels up to one, in single precision; the task."""
    data = load_dataset(name)
    split = train_test_split(data, seed=0, max_train=max_train, max_test=10_000)
    if name in IMAGES:
        mean, scale = 0.0, 255.0
    else:
        mean, scale = split.X_train.mean(axis=0), split.X_train.std(axis=0)
        scale = np.where(scale > 0, scale, 1.0)
    split = type(split)(
        ((split.X_train - mean) / scale).astype(np.float32),
        split.y_train,
        ((split.X_test - mean) / scale).astype(np.float32),
        split.y_test,
    )
    return split, data.task


def features_for(X: np.ndarray, columns: int, share: float) -> FourierFeatures:
    sample = X[np.random.default_rng(0).permutation(len(X))[:2000]]
    kernel = Gaussian(lengthscale=share * float(Gaussian().resolve(sample).lengthscale))
    projection = "sorf" if X.shape[1] > 64 else "orthogonal"
    return FourierFeatures(kernel, projection=projection, n_components=columns, random_state=0)


def timed(gp: Any, X: np.ndarray, y: np.ndarray) -> float:
    """Processor seconds of a fit."""
    start = time.process_time()
    gp.fit(X, y)
    return time.process_time() - start


def predicted(gp: Any, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means and variances of all outputs or classes."""
    if hasattr(gp, "classes_"):
        mean, deviation = gp.predict_latent(X)
    else:
        mean, deviation = gp.predict(X, return_std=True)
    return mean, deviation**2


def agreement(options: argparse.Namespace) -> None:
    print("set          n   solver      CPU s  rank  iter  largest mean diff  median var diff")
    for name in options.sets:
        split, task = rows_of(name, options.rows)
        X, y, test = split.X_train, split.y_train, split.X_test[:1000]
        features = features_for(X, options.columns[0], SETS.get(name, 0.5))
        is_classes = task == "classification"
        make = FeatureGPClassifier if is_classes else FeatureGPRegressor
        alpha = {"alpha": 0.01} if is_classes else {}  # the search for it takes long
        direct = make(features, solver="cholesky", **alpha)
        seconds = timed(direct, X, y)
        mean, variance = predicted(direct, test)
        print(f"{name:10s} {len(X):6d} cholesky  {seconds:6.1f}", flush=True)
        names = ("prior_variance", "alpha" if is_classes else "noise_variance")
        given = {name: getattr(direct, f"{name}_") for name in names}
        for label, tolerance in (("default", 1e-5), ("strict", 1e-8)):
            solver = ConjugateGradients(tolerance=tolerance)
            gp = make(features, solver=solver, **given)
            seconds = timed(gp, X, y)
            found, spread = predicted(gp, test)
            error = np.abs(found - mean).max() / mean.std()
            ratio = np.median(np.abs(spread / variance - 1))
            posterior = gp.posteriors_[0] if is_classes else gp.posterior_
            print(
                f"{'':17s} {label:9s} {seconds:6.1f} {posterior.core.size:5d} "
                f"{gp.n_iterations_:5d} {error:18.1e} {ratio:16.3f}",
                flush=True,
            )


def crossover(options: argparse.Namespace) -> None:
    split, _ = rows_of("protein", options.rows or 10_000)
    X, y = split.X_train, split.y_train
    choices = {"given": {"noise_variance": 0.4, "prior_variance": 2.0}, "auto": {}}
    print("columns  variances  cholesky CPU s  cg CPU s")
    for columns in options.columns:
        features = features_for(X, columns, 0.4)
        for label, given in choices.items():
            seconds = [
                timed(FeatureGPRegressor(features, solver=solver, **given), X, y)
                for solver in ("cholesky", "cg")
            ]
            print("{:7d}  {:9s} {:15.1f} {:9.1f}".format(columns, label, *seconds), flush=True)


def scale(options: argparse.Namespace) -> None:
    split, _ = rows_of("protein")
    print("rows    columns   CPU s   iter  exponent   CPU s per iter  exponent   peak MiB so far")
    # Columns last: only they need more memory, and the peak is that of the process so far
    for axis, sizes in (("rows", (5000, 10_000, 20_000, 40_000)), ("columns", options.columns)):
        before: dict[str, tuple[float, float]] = {}
        totals = []
        for size in sizes:
            columns = size if axis == "columns" else options.columns[0]
            n = options.rows or 10_000 if axis == "columns" else size
            X, y = split.X_train[:n], split.y_train[:n]
            solver = ConjugateGradients(rank=128, memory=1, tolerance=1e-3)
            gp = FeatureGPRegressor(
                features_for(X, columns, 0.4), noise_variance=0.5, prior_variance=2.0, solver=solver
            )
            seconds = timed(gp, X, y)
            found = {"all": seconds, "each": seconds / gp.n_iterations_}
            exponents = {
                name: _exponent(before[name], (size, value)) if before else ""
                for name, value in found.items()
            }
            before = {name: (size, value) for name, value in found.items()}
            totals.append(seconds)
            print(
                f"{n:6d} {columns:8d} {seconds:7.1f} {gp.n_iterations_:6d} {exponents['all']:>9s} "
                f"{found['each']:15.2f} {exponents['each']:>9s} {peak_mebibytes():17.0f}",
                flush=True,
            )
        slope, _ = np.polyfit(np.log(sizes), np.log(totals), 1)
        print(f"exponent of all numbers of {axis}: {slope:.2f}", flush=True)


def _exponent(before: tuple[float, float], after: tuple[float, float]) -> str:
    return f"{np.log(after[1] / before[1]) / np.log(after[0] / before[0]):.2f}"


def one_fit(name: str, solver: str, columns: int, rows: int | None) -> None:
    """A fit to a data set in this process; `wide` starts one for each solver."""
    split, _ = rows_of(name, rows)
    features = features_for(split.X_train, columns, SETS.get(name, 0.5))
    gp = FeatureGPRegressor(features, solver=solver)
    seconds = timed(gp, split.X_train, split.y_train)
    peak = peak_mebibytes()
    rmse = np.sqrt(np.mean((gp.predict(split.X_test) - split.y_test) ** 2))
    passes = getattr(gp, "n_iterations_", "")
    print(
        f"{solver:9s} {columns:7d} {len(split.X_train):7d} {seconds:7.1f} {peak:8.0f} "
        f"{rmse:7.4f} {gp.noise_variance_:6.4f} {passes}",
        flush=True,
    )


def wide(options: argparse.Namespace) -> None:
    print("solver    columns    rows   CPU s  peak MiB  RMSE  noise  iterations", flush=True)
    for solver, columns in (("cg", options.columns[-1]), ("cholesky", options.direct)):
        call = f"one_fit({options.sets[0]!r}, {solver!r}, {columns}, {options.rows})"
        code = f"from benchmarks.solvers import one_fit; {call}"
        subprocess.run([sys.executable, "-c", code], check=True)


def fashion(options: argparse.Namespace) -> None:
    data = load_dataset("fashion_mnist")
    X, test = (np.asarray(rows, dtype=np.float32) / 255 for rows in (data.X, data.X_test))
    X, y, labels = X[: options.rows], data.y[: options.rows], data.y_test
    print("model      columns    rows   CPU s  wall s  iterations  error", flush=True)
    for model in options.models:
        make, columns, is_on_sphere = MODELS[model]
        columns = options.columns[0] if options.columns[0] else columns
        train, held = (unit(rows) if is_on_sphere else rows for rows in (X, test))
        gp = make(train, columns, options.share)
        gp.set_params(verbose=options.verbose)
        start = time.perf_counter()
        seconds = timed(gp, train, y)
        wall = time.perf_counter() - start
        error = np.mean(gp.predict(held) != labels)
        iterations = getattr(gp, "n_iterations_", "")
        print(
            f"{model:9s} {columns:8d} {len(X):7d} {seconds:7.1f} {wall:7.1f} {iterations!s:>11s}  "
            f"{error:.4f}",
            flush=True,
        )


def adjoint(options: argparse.Namespace) -> None:
    rng = np.random.default_rng(0)
    Z = rng.standard_normal((128, 32_768), dtype=np.float32)
    print("columns of R  kernel ms  BLAS ms  ratio, quartiles")
    for columns in options.columns:
        R = rng.standard_normal((len(Z), columns), dtype=np.float32)
        total = np.zeros((columns, Z.shape[1]), dtype=np.float32)
        seconds = np.empty((40, 2))
        for repeat in seconds:
            for number, add in enumerate((compiled.add_adjoint, portable.add_adjoint)):
                fresh = Z.copy()  # as features are that were just computed
                start = time.process_time()
                add(fresh, R, total)
                repeat[number] = time.process_time() - start
        kernel, blas = 1000 * np.median(seconds, axis=0)
        low, middle, high = np.quantile(seconds[:, 1] / seconds[:, 0], (0.25, 0.5, 0.75))
        print(f"{columns:12d} {kernel:10.2f} {blas:8.2f}  {middle:.2f} ({low:.2f} to {high:.2f})")


def unit(X: np.ndarray) -> np.ndarray:
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def waves(X: np.ndarray, columns: int, share: float) -> FeatureGPClassifier:
    return FeatureGPClassifier(features_for(X, columns, share), alpha=0.01, solver="cg")


def landmarks(X: np.ndarray, columns: int, share: float) -> FeatureGPClassifier:
    kernel = features_for(X, columns, share).kernel
    features = NystromFeatures(kernel, n_components=columns, random_state=0)
    return FeatureGPClassifier(features, likelihood="softmax")


def complex_columns(X: np.ndarray, columns: int, share: float) -> FeatureGPClassifier:
    kernel = Polynomial(7, gamma=0.5, coef0=0.5)
    features = MaclaurinFeatures(
        kernel, n_components=columns, output="complex", n_jobs=-1, random_state=0
    )
    return FeatureGPClassifier(features, posterior="complex", alpha=0.001, solver="cholesky")


# The usual number of columns, and whether rows are scaled to unit length
MODELS: dict[str, tuple[Any, int, bool]] = {
    "waves": (waves, 16_384, False),
    "landmarks": (landmarks, 8192, False),
    "complex": (complex_columns, 5120, True),
}


TABLES = {
    "agreement": (agreement, [2048]),
    "crossover": (crossover, [1024, 2048, 4096]),
    "scale": (scale, [2048, 8192, 32_768, 65_536]),
    "wide": (wide, [32_768]),
    "fashion": (fashion, [0]),
    "adjoint": (adjoint, [8, 16, 32, 64]),
}


def main() -> None:
    parser = data_parser("The iterative solver against the direct one.", required=False)
    parser.add_argument("what", choices=list(TABLES))
    parser.add_argument("--columns", type=int, nargs="*", default=None)
    parser.add_argument("--rows", type=int, default=None, help="at most so many training rows")
    parser.add_argument("--sets", nargs="*", default=list(SETS))
    parser.add_argument("--direct", type=int, default=8192, help="columns of the direct solver")
    parser.add_argument("--share", type=float, default=0.4, help="of the median distance (fashion)")
    parser.add_argument("--models", nargs="*", default=list(MODELS), help=" ".join(MODELS))
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    table, columns = TABLES[options.what]
    options.columns = options.columns or columns
    table(options)


if __name__ == "__main__":
    main()

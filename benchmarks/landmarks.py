"""Uniform landmarks against those of a randomly pivoted Cholesky factor, at equal columns.

    python -m benchmarks.landmarks --data DIR [--sets protein magic …] [--landmarks 1.0]

The kernel error of Nyström features on 1000 rows held out of at most 20,000 (off-diagonal,
relative, median of five fits) with a Gaussian kernel at 1 and 0.4 times the median distance,
columns scaled to unit variance, and the seconds of a fit and these 1000 rows. DIR is a folder of
data sets, `--landmarks` their number per column.
"""

from __future__ import annotations

import argparse
import os
import time

import numpy as np

from dotsketch import Gaussian, NystromFeatures
from dotsketch.datasets import load_dataset

SETS = ("protein", "magic", "letter", "kin8nm", "drive", "covertype", "adult", "naval")


def scaled_rows(name: str) -> np.ndarray:
    X = np.asarray(load_dataset(name).X[:20_000], dtype=np.float64)
    X = X[np.random.default_rng(0).permutation(len(X))]
    scale = X.std(axis=0)
    return (X - X.mean(axis=0)) / np.where(scale > 0, scale, 1.0)


def error_and_seconds(features: NystromFeatures, X: np.ndarray) -> tuple[float, float]:
    """The error on the first 1000 rows of features fitted to the others, medians of five."""
    held, rest = X[:1000], X[1000:]
    K = features.kernel(held)
    np.fill_diagonal(K, 0)
    errors, seconds = [], []
    for seed in range(5):
        start = time.perf_counter()
        Z = features.set_params(random_state=seed).fit(rest).transform(held)
        seconds.append(time.perf_counter() - start)
        difference = Z @ Z.T - K
        np.fill_diagonal(difference, 0)
        errors.append(np.linalg.norm(difference) / np.linalg.norm(K))
    return float(np.median(errors)), float(np.median(seconds))


def main() -> None:
    parser = argparse.ArgumentParser(description="Errors of two rules for landmarks.")
    parser.add_argument("--data", required=True, help="the folder of data sets")
    parser.add_argument("--sets", nargs="*", default=SETS)
    parser.add_argument("--landmarks", type=float, default=1.0, help="landmarks per column")
    options = parser.parse_args()
    os.environ["DOTSKETCH_DATA"] = options.data
    print(f"{'set':10s} lengthscale columns   uniform  pivoted  ratio   seconds")
    for name in options.sets:
        X = scaled_rows(name)
        median = Gaussian().resolve(X).lengthscale
        for factor in (1.0, 0.4):
            for columns in (64, 256):
                kernel = Gaussian(lengthscale=factor * median)
                (uniform, fast), (pivoted, slow) = (
                    error_and_seconds(
                        NystromFeatures(
                            kernel,
                            n_components=columns,
                            n_landmarks=options.landmarks,
                            landmarks=rule,
                        ),
                        X,
                    )
                    for rule in ("uniform", "rpcholesky")
                )
                print(
                    f"{name:10s} {factor:11.1f} {columns:7d} {uniform:9.2g} {pivoted:8.2g} "
                    f"{uniform / pivoted:6.2f}   {fast:.2f} {slow:.2f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()

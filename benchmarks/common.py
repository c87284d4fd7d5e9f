"""What the scripts share: the folder of data sets, rows, clocks, errors."""

from __future__ import annotations

import argparse
import os
import resource
import sys
import time
from collections.abc import Callable

import numpy as np

from dotsketch.datasets import load_dataset


def data_parser(description: str, *, required: bool = True) -> argparse.ArgumentParser:
    """A parser with the option --data, where `load_dataset` looks for its sets."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--data", type=_use, required=required, help="the folder of data sets")
    return parser


def _use(folder: str) -> str:
    os.environ["DOTSKETCH_DATA"] = folder
    return folder


def scaled_rows(name: str) -> np.ndarray:
    """At most 20,000 rows in random order, columns of mean 0 and variance 1."""
    X = np.asarray(load_dataset(name).X[:20_000], dtype=np.float64)
    X = X[np.random.default_rng(0).permutation(len(X))]
    scale = X.std(axis=0)
    return (X - X.mean(axis=0)) / np.where(scale > 0, scale, 1.0)


def least_seconds(
    work: Callable[[], object], repeats: int = 1, clock: Callable[[], float] = time.process_time
) -> float:
    """The least of some runs, of the processor: what else the machine does only adds time."""
    times = []
    for _ in range(repeats):
        start = clock()
        work()
        times.append(clock() - start)
    return min(times)


def peak_mebibytes() -> float:
    """The greatest resident memory of this process so far."""
    unit = 2**20 if sys.platform == "darwin" else 2**10  # ru_maxrss is in bytes, or in KiB
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


def off_diagonal_error(Z: np.ndarray, K: np.ndarray) -> float:
    """The relative error of Z Zᵀ between different rows."""
    Z = np.asarray(Z, dtype=np.float64)
    different = ~np.eye(len(K), dtype=bool)
    return float(np.linalg.norm((Z @ Z.T - K)[different]) / np.linalg.norm(K[different]))

"""Figure 6: relative Frobenius errors of all methods for the polynomial kernel (1/2 + x·y/2)ᵖ.

Nonnegative ("raw") and centred data, rows of unit norm, D = d, 3d, 5d with d padded to a power of
two. The sketches of Section 6.2 and the tree, spherical features, and what goes beyond the paper.
The Gram matrix is that of n_test rows, of which n_measured are looked at: their errors, diagonal
and others weighted as in the whole matrix, are unbiased for the squared norms.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...kernels import Polynomial
from .. import plots
from ..data import PAPER_NAMES, prepare
from ..experiment import Experiment, Row, Setting, attempt
from ..kernel_errors import gram_errors
from ..methods import (
    BEYOND_METHODS,
    BEYOND_SKETCHES,
    MACLAURIN_METHODS,
    METHODS,
    RANDOM_MACLAURIN,
    SKETCH_METHODS,
    SPHERICAL_METHODS,
    TREE_METHODS,
    names,
    without,
)
from ..tables import pivot, progress_beyond

FAMILIES = {
    "sketch": names(SKETCH_METHODS),
    "tree": names(TREE_METHODS),
    "maclaurin": names([RANDOM_MACLAURIN], MACLAURIN_METHODS),
    "spherical": names(SPHERICAL_METHODS),
    "beyond": names(BEYOND_SKETCHES, BEYOND_METHODS),
}
AFFORDABLE = without(FAMILIES["beyond"], "auto", "auto_twice")


@dataclass(frozen=True)
class Config:
    dataset: str
    preprocessing: str
    degree: int
    times: int
    family: str
    methods: tuple[str, ...]
    n_train: int = 5000
    n_test: int = 5000
    n_measured: int = 1000


def configs(setting: Setting) -> list[Config]:
    (name,) = setting.datasets(["fashion_mnist"], ["fashion_mnist"], ["digits"])
    sizes = setting.choose(
        {},
        {"n_train": 2100, "n_test": 1000, "n_measured": 300},
        {"n_train": 160, "n_test": 50, "n_measured": 40},
    )
    families = FAMILIES if setting.size == "full" else FAMILIES | {"beyond": AFFORDABLE}
    return [
        Config(name, preprocessing, degree, times, family, methods, **sizes)
        for preprocessing in ("raw", "centred")
        for degree in setting.choose((3, 7, 10), (3, 7, 10), (3,))
        for times in setting.choose((1, 3, 5), (1, 2), (1,))
        for family, methods in families.items()
    ]


def run(config: Config, seed: int) -> list[Row]:
    data = prepare(
        config.dataset,
        seed,
        config.preprocessing,
        n_train=config.n_train,
        n_test=config.n_test,
        dtype=np.float32,
    )
    kernel = Polynomial(config.degree, gamma=0.5, coef0=0.5)
    size, X_test = len(data.X_test), data.X_test[: config.n_measured]
    K = kernel(X_test.astype(np.float64)).astype(np.float32)
    D = config.times * data.padded_dimension
    rows = []
    for name in config.methods:
        method = METHODS[name]

        def measure(method: Any = method) -> Row:
            begin = time.perf_counter()
            features = method.make(kernel, D, seed).fit(data.X_train)
            fitted = time.perf_counter()
            Z = features.transform(X_test)
            done = time.perf_counter()
            return gram_errors(K, Z, size=size) | {
                "fit_seconds": fitted - begin,
                "transform_seconds": done - fitted,
            }

        row = {"method": name, "n_features": D, "columns": method.columns(D)}
        rows.append(attempt(row, measure))
    return rows


def plot(rows: list[Row]) -> Any:
    preprocessings = plots.values(rows, "preprocessing")
    degrees = sorted(plots.values(rows, "degree"))
    methods = [name for name in METHODS if name in plots.values(rows, "method")]
    canvas, axes = plots.figure(
        len(preprocessings),
        len(degrees),
        width=2.9,
        height=0.16 * len(methods) + 0.7,
        margin=1.8,
        sharey=True,
    )
    for line, preprocessing in zip(axes, preprocessings, strict=True):
        for ax, degree in zip(line, degrees, strict=True):
            chosen = plots.select(rows, preprocessing=preprocessing, degree=degree)
            plots.method_dots(ax, chosen, "frobenius_error", methods)
            plots.log_scale(ax)
            name = PAPER_NAMES.get(chosen[0]["dataset"], chosen[0]["dataset"])
            ax.set_title(f"{name}, {preprocessing}, p = {degree}")
    for ax in axes[-1]:
        ax.set_xlabel("relative Frobenius error")
    plots.dots_legend(canvas, sorted(plots.values(rows, "times")))
    return canvas


def tables(rows: list[Row]) -> dict[str, list[Row]]:
    cells = ("preprocessing", "degree", "times")
    title = "Beyond the paper: best error at equal numbers of real columns"
    return {
        "Relative Frobenius error": pivot(rows, "frobenius_error", cells),
        "With the imaginary part": pivot(rows, "frobenius_error_complex", cells),
        title: progress_beyond(rows, "frobenius_error", cells),
    }


def cost(config: Config) -> float:
    """Trees multiply D × D matrices in every inner node; the others are linear in D."""
    if config.family == "tree":
        return 2e-4 * config.n_measured * config.times**2 * config.degree + 1
    return 2e-4 * config.n_measured * config.times * config.degree + 1


EXPERIMENT = Experiment(
    name="fig6",
    title="Relative Frobenius errors for polynomial kernels, all methods",
    reproduces="Figure 6 (Section 6.2)",
    configs=configs,
    run=run,
    plot=plot,
    tables=tables,
    cost=cost,
)

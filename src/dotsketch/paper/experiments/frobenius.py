"""Figure 6: relative Frobenius errors of all methods for the polynomial kernel (1/2 + x·y/2)ᵖ.

Nonnegative ("raw") and centred data, rows of unit norm, D = d, 3d, 5d with d padded to a power of
two. The sketches of Section 6.2 and the tree, spherical features, and what goes beyond the paper.
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
)

ALL = names(
    SKETCH_METHODS,
    TREE_METHODS,
    [RANDOM_MACLAURIN],
    MACLAURIN_METHODS,
    SPHERICAL_METHODS,
    BEYOND_SKETCHES,
    BEYOND_METHODS,
)


@dataclass(frozen=True)
class Config:
    dataset: str
    preprocessing: str
    degree: int
    times: int
    n_train: int = 5000
    n_test: int = 5000
    methods: tuple[str, ...] = ALL


def configs(setting: Setting) -> list[Config]:
    (name,) = setting.datasets(["fashion_mnist"], ["fashion_mnist"], ["digits"])
    n_train, n_test = setting.choose((5000, 5000), (500, 300), (100, 50))
    return [
        Config(name, preprocessing, degree, times, n_train, n_test)
        for preprocessing in ("raw", "centred")
        for degree in setting.choose((3, 7, 10), (3, 7, 10), (3,))
        for times in setting.choose((1, 3, 5), (1, 3), (1,))
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
    K = kernel(data.X_test.astype(np.float64)).astype(np.float32)
    D = config.times * data.padded_dimension
    rows = []
    for name in config.methods:
        method = METHODS[name]

        def measure(method: Any = method) -> Row:
            begin = time.perf_counter()
            features = method.make(kernel, D, seed).fit(data.X_train)
            fitted = time.perf_counter()
            Z = features.transform(data.X_test)
            done = time.perf_counter()
            return gram_errors(K, Z) | {
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


EXPERIMENT = Experiment(
    name="fig6",
    title="Relative Frobenius errors for polynomial kernels, all methods",
    reproduces="Figure 6 (Section 6.2)",
    configs=configs,
    run=run,
    plot=plot,
    cost=lambda c: 1e-6 * c.n_test * c.times * c.degree + 2e-3 * c.n_train,
)

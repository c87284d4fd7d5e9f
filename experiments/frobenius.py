"""Figure 6: relative Frobenius errors of all methods for the polynomial kernel (1/2 + x·y/2)ᵖ.

Nonnegative ("raw") and centred data, rows of unit norm, D = d, 3d, 5d with d padded to a power of
two. The sketches of Section 6.2 and the tree, spherical features, and what goes beyond the paper.
The Gram matrix is that of n_test rows, of which n_measured are looked at: their errors, diagonal
and others weighted as in the whole matrix, are unbiased for the squared norms. The family
"expected" has the errors in closed form, without the noise of few seeds (bars in the figure).
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from dotsketch.kernels import Polynomial
from dotsketch.pairs import PairStatistics
from dotsketch.sketches import make_sketch

from .harness import plots
from .harness.data import PAPER_NAMES, Prepared, prepare
from .harness.experiment import Experiment, Row, Setting, attempt
from .harness.methods import (
    BEYOND_METHODS,
    BEYOND_SKETCHES,
    MACLAURIN_METHODS,
    METHODS,
    RANDOM_MACLAURIN,
    SKETCH_METHODS,
    SPHERICAL_METHODS,
    TREE_METHODS,
    Method,
    names,
    without,
)
from .harness.plots import pivot, progress_beyond
from .harness.processes import expected_error, gram_errors

FAMILIES = {
    "sketch": names(SKETCH_METHODS),
    "tree": names(TREE_METHODS),
    "maclaurin": names([RANDOM_MACLAURIN], MACLAURIN_METHODS),
    "spherical": names(SPHERICAL_METHODS),
    "beyond": names(BEYOND_SKETCHES, BEYOND_METHODS),
    "expected": names(SKETCH_METHODS, TREE_METHODS, [RANDOM_MACLAURIN], MACLAURIN_METHODS),
}
AFFORDABLE = without(FAMILIES["beyond"], "auto", "auto_twice", "nystrom_twice")


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
    D = config.times * data.padded_dimension
    look = expected if config.family == "expected" else measured
    rows = []
    for name in config.methods:
        method = METHODS[name]
        row = {"method": name, "n_features": D, "columns": method.columns(D)}
        found = partial(look, method, kernel, D, data, config.n_measured, seed)
        rows.append(attempt(row, found))
    return rows


def measured(
    method: Method, kernel: Polynomial, D: int, data: Prepared, n_measured: int, seed: int
) -> Row:
    """Errors of the features with one draw of weights, and times."""
    X = data.X_test[:n_measured]
    K = kernel(X.astype(np.float64)).astype(np.float32)
    begin = time.perf_counter()
    features = method.make(kernel, D, seed).fit(data.X_train)
    fitted = time.perf_counter()
    Z = features.transform(X)
    done = time.perf_counter()
    return gram_errors(K, Z, size=len(data.X_test)) | {
        "fit_seconds": fitted - begin,
        "transform_seconds": done - fitted,
    }


def expected(
    method: Method, kernel: Polynomial, D: int, data: Prepared, n_measured: int, seed: int
) -> Row:
    """The root of the mean of squared errors (imaginary part kept) over all draws of weights."""
    if method.family == "maclaurin":
        features = method.make(kernel, D, seed).fit(data.X_train[:n_measured])
        return {"expected_error": features.expected_relative_error_}
    X = data.X_test[: min(n_measured, 400)].astype(np.float64)
    constant = np.full((len(X), 1), np.sqrt(kernel.coef0))
    field = "complex" if method.is_complex else "real"
    sketch = make_sketch(method.options["sketch"], kernel.degree, D, field)
    pairs = PairStatistics.between(np.concatenate([np.sqrt(kernel.gamma) * X, constant], axis=1))
    error = expected_error(kernel(X), sketch.variance(pairs), len(data.X_test))
    return {"expected_error": error}


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
            plots.method_dots(ax, chosen, "frobenius_error_complex", methods)
            plots.method_bars(ax, chosen, "expected_error", methods)
            plots.log_scale(ax)
            name = PAPER_NAMES.get(chosen[0]["dataset"], chosen[0]["dataset"])
            ax.set_title(f"{name}, {preprocessing}, p = {degree}")
    for ax in axes[-1]:
        ax.set_xlabel("relative Frobenius error, with Im")
    plots.dots_legend(canvas, sorted(plots.values(rows, "times")), bars="expected")
    return canvas


def tables(rows: list[Row]) -> dict[str, list[Row]]:
    cells = ("preprocessing", "degree", "times")
    title = "Beyond the paper: best error at equal numbers of real columns"
    return {
        "Relative Frobenius error": pivot(rows, "frobenius_error", cells),
        "With the imaginary part": pivot(rows, "frobenius_error_complex", cells),
        "With the imaginary part, expected": pivot(
            [row for row in rows if row["family"] == "expected"], "expected_error", cells
        ),
        title: progress_beyond(rows, "frobenius_error", cells),
    }


def cost(config: Config) -> float:
    """Trees multiply D × D matrices in every inner node; the others are linear in D."""
    if config.family == "expected":
        return 3.0
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

"""Figures 8, 9, 13, 14 and 16: Gaussian processes with polynomial kernels.

Classification and regression on centred rows of unit norm, kernel (1/2 + x·y/2)ᵖ, D = d, 3d, 5d:
Frobenius error, KL divergence from the exact process, test error and MNLL. The regularisation is
chosen with SRF. Mocap has no complete public copy; Drive and Letter are there in its place.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...kernels import Polynomial
from .. import plots
from ..data import PAPER_NAMES
from ..experiment import Experiment, Row, Setting
from ..gp_grid import gp_rows, gp_tables, plot_metrics
from ..methods import (
    BEYOND_METHODS,
    BEYOND_SKETCHES,
    MACLAURIN_METHODS,
    PACKED_MACLAURIN,
    RANDOM_MACLAURIN,
    SKETCH_METHODS,
    SPHERICAL_METHODS,
    TREE_METHODS,
    names,
    without,
)
from .datasets import REGRESSION

CLASSIFICATION = ("cod_rna", "magic", "fashion_mnist", "eeg", "mnist", "adult", "covertype",
                  "drive", "letter")  # fmt: skip
ALL = names(
    SKETCH_METHODS,
    TREE_METHODS,
    [RANDOM_MACLAURIN],
    MACLAURIN_METHODS,
    SPHERICAL_METHODS,
    BEYOND_SKETCHES,
    PACKED_MACLAURIN,
    BEYOND_METHODS,
)


@dataclass(frozen=True)
class Config:
    dataset: str
    degree: int
    times: int
    preprocessing: str = "centred"
    n_exact: int = 5000
    n_train: int | None = None
    n_test: int | None = None
    selection_times: int = 5
    baseline: str = "srf"
    n_samples: int = 1000
    methods: tuple[str, ...] = ALL


def configs(setting: Setting) -> list[Config]:
    datasets = setting.datasets(
        (*CLASSIFICATION, *REGRESSION), ("magic", "boston"), ("wine", "diabetes")
    )
    sizes = setting.choose(
        {},
        {"n_exact": 500, "n_train": 1000, "n_test": 500, "n_samples": 200, "selection_times": 3},
        {"n_exact": 60, "n_train": 80, "n_test": 20, "n_samples": 50, "selection_times": 1},
    )
    methods = setting.choose(ALL, without(ALL, "auto_twice"), without(ALL, "auto", "auto_twice"))
    return [
        Config(name, degree, times, methods=methods, **sizes)
        for name in datasets
        for degree in setting.choose((3, 7), (3, 7), (3,))
        for times in setting.choose((1, 3, 5), (1, 3), (1,))
    ]


def run(config: Config, seed: int) -> list[Row]:
    return gp_rows(config, seed, Polynomial(config.degree, gamma=0.5, coef0=0.5))


def plot(rows: list[Row]) -> Any:
    degrees = sorted(plots.values(rows, "degree"))
    name = PAPER_NAMES.get(rows[0]["dataset"], rows[0]["dataset"])
    return plot_metrics(rows, {f"{name}, p = {p}": plots.select(rows, degree=p) for p in degrees})


def tables(rows: list[Row]) -> dict[str, list[Row]]:
    return gp_tables(rows, ("dataset", "degree", "times"))


EXPERIMENT = Experiment(
    name="fig8",
    title="Gaussian processes with polynomial kernels, all methods",
    reproduces="Figures 8, 9, 13, 14, 16 (Sections 6.4.1, E)",
    configs=configs,
    run=run,
    plot=plot,
    tables=tables,
    figure_by=("dataset",),
    cost=lambda c: 3.0 * c.times + 2e-3 * c.n_exact,
)

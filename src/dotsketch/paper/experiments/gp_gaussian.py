"""Figures 10, 15 and 17: Gaussian processes with a Gaussian kernel.

Standardised columns, median lengthscale, D = d, 3d, 5d; the metrics of Figure 8. RFF, SORF and
their complex forms against optimised Maclaurin features. The regularisation is chosen with RFF.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...kernels import Gaussian
from .. import plots
from ..data import PAPER_NAMES
from ..experiment import Experiment, Row, Setting
from ..gp_grid import gp_rows, gp_tables, plot_metrics
from ..methods import (
    BEYOND_METHODS,
    FOURIER_METHODS,
    MACLAURIN_METHODS,
    PACKED_MACLAURIN,
    names,
    without,
)
from .datasets import REGRESSION
from .gp_polynomial import CLASSIFICATION

ALL = names(FOURIER_METHODS, MACLAURIN_METHODS, PACKED_MACLAURIN, BEYOND_METHODS)


@dataclass(frozen=True)
class Config:
    dataset: str
    times: int
    preprocessing: str = "standardised"
    n_exact: int = 5000
    n_train: int | None = None
    n_test: int | None = None
    selection_times: int = 5
    baseline: str = "rff"
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
        Config(name, times, methods=methods, **sizes)
        for name in datasets
        for times in setting.choose((1, 3, 5), (1, 3), (1,))
    ]


def run(config: Config, seed: int) -> list[Row]:
    return gp_rows(config, seed, Gaussian())


def plot(rows: list[Row]) -> Any:
    name = PAPER_NAMES.get(rows[0]["dataset"], rows[0]["dataset"])
    return plot_metrics(rows, {f"{name}, Gaussian kernel": plots.select(rows)})


def tables(rows: list[Row]) -> dict[str, list[Row]]:
    return gp_tables(rows, ("dataset", "times"))


EXPERIMENT = Experiment(
    name="fig10",
    title="Gaussian processes with a Gaussian kernel: RFF, SORF, optimised Maclaurin",
    reproduces="Figures 10, 15, 17 (Sections 6.4.2, E)",
    configs=configs,
    run=run,
    plot=plot,
    tables=tables,
    figure_by=("dataset",),
    cost=lambda c: 2.0 * c.times + 2e-3 * c.n_exact,
)

"""Figures 10, 15 and 17: Gaussian processes with a Gaussian kernel.

Standardised columns, median lengthscale, D = d, 3d, 5d; the metrics of Figure 8. RFF, SORF and
their complex forms against optimised Maclaurin features. The regularisation is chosen with RFF.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dotsketch.kernels import Gaussian

from .harness import plots
from .harness.data import PAPER_NAMES
from .harness.experiment import Experiment, Row, Setting
from .harness.methods import (
    BEYOND_METHODS,
    FOURIER_METHODS,
    MACLAURIN_METHODS,
    PACKED_MACLAURIN,
    names,
)
from .harness.processes import GPConfig, gp_rows, gp_tables, grid, plot_metrics

ALL = names(FOURIER_METHODS, MACLAURIN_METHODS, PACKED_MACLAURIN, BEYOND_METHODS)


@dataclass(frozen=True, kw_only=True)
class Config(GPConfig):
    preprocessing: str = "standardised"
    baseline: str = "rff"
    methods: tuple[str, ...] = ALL


def configs(setting: Setting) -> list[Config]:
    datasets, shared = grid(setting, ALL)
    return [
        Config(dataset=name, times=times, **shared)
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

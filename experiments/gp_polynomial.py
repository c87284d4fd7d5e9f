"""Figures 8, 9, 13, 14 and 16: Gaussian processes with polynomial kernels.

Classification and regression on centred rows of unit norm, kernel (1/2 + x·y/2)ᵖ, D = d, 3d, 5d:
Frobenius error, KL divergence from the exact process, test error and MNLL. The regularisation is
chosen with SRF. Mocap has no complete public copy; Drive and Letter are there in its place.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dotsketch.kernels import Polynomial

from .harness import plots
from .harness.data import PAPER_NAMES
from .harness.experiment import Experiment, Row, Setting
from .harness.methods import (
    BEYOND_METHODS,
    BEYOND_SKETCHES,
    MACLAURIN_METHODS,
    PACKED_MACLAURIN,
    RANDOM_MACLAURIN,
    SKETCH_METHODS,
    SPHERICAL_METHODS,
    TREE_METHODS,
    names,
)
from .harness.processes import GPConfig, gp_rows, gp_tables, grid, plot_metrics

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


@dataclass(frozen=True, kw_only=True)
class Config(GPConfig):
    degree: int
    preprocessing: str = "centred"
    baseline: str = "srf"
    methods: tuple[str, ...] = ALL


def configs(setting: Setting) -> list[Config]:
    datasets, shared = grid(setting, ALL)
    return [
        Config(dataset=name, degree=degree, times=times, **shared)
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

"""Figures 18 and 19: what the allocation decides, and how many rows it needs to decide.

The Gaussian kernel on centred data; p* searched in 1 … 20, for several sample sizes (500, 1000 and
2000 rows in the paper): the histogram of p* over random samples, and the features of every degree.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dotsketch.features import MaclaurinFeatures
from dotsketch.kernels import Gaussian

from .harness import plots
from .harness.data import PAPER_NAMES, loaded, padded, preprocess
from .harness.experiment import Experiment, Row, Setting

LABELS = {"rademacher": "real Rademacher", "tensor_srht": "real TensorSRHT"}


@dataclass(frozen=True)
class Config:
    dataset: str
    sketch: str
    n_sample: int
    n_repeats: int = 20
    max_degree: int = 20
    times: int = 5
    n_train: int = 10000


def configs(setting: Setting) -> list[Config]:
    (name,) = setting.datasets(["fashion_mnist"], ["fashion_mnist"], ["digits"])
    sizes = setting.choose((500, 1000, 2000), (250, 500, 1000), (50, 100))
    repeats = setting.choose(20, 5, 2)
    return [
        Config(name, sketch, n_sample, repeats, n_train=setting.choose(10000, 3000, 200))
        for sketch in LABELS
        for n_sample in sizes
    ]


def run(config: Config, seed: int) -> list[Row]:
    X = loaded(config.dataset).X[: config.n_train].astype(np.float64)
    X, _ = preprocess(X, X[:1], "standardised")
    D = config.times * padded(X.shape[1])
    kernel = Gaussian().resolve(X)
    rng = np.random.default_rng(seed)
    rows = []
    for repeat in range(config.n_repeats):
        features = MaclaurinFeatures(
            kernel,
            sketch=config.sketch,
            n_components=D + 1,
            max_degree=config.max_degree,
            allocation="sketched",
            random_state=1000 * seed + repeat,
        ).fit(X[rng.choice(len(X), min(config.n_sample, len(X)), replace=False)])
        found = features.allocation_
        for degree, projections in zip(found.degrees, found.projections, strict=True):
            if degree > 0:
                rows.append(
                    {
                        "repeat": repeat,
                        "p_star": found.max_degree,
                        "degree": int(degree),
                        "projections": int(projections),
                        "n_features": D,
                        "dimension": padded(X.shape[1]),
                    }
                )
    return rows


def plot(rows: list[Row]) -> Any:
    sketches = plots.values(rows, "sketch")
    sizes = sorted(plots.values(rows, "n_sample"))
    canvas, axes = plots.figure(2, len(sketches), width=4.6, height=2.3)
    width = 0.8 / len(sizes)
    last = max(row["p_star"] for row in rows) + 1
    for column, sketch in enumerate(sketches):
        top, bottom = axes[:, column]
        for number, size in enumerate(sizes):
            chosen = plots.select(rows, sketch=sketch, n_sample=size)
            colour = {"color": "#4477aa", "alpha": 0.35 + 0.65 * number / max(1, len(sizes) - 1)}
            shift = width * (number - (len(sizes) - 1) / 2)
            degrees = np.arange(1, last + 1)
            stars = [row["p_star"] for row in plots.select(chosen, degree=1)]
            counts = [stars.count(degree) for degree in degrees]
            top.bar(degrees + shift, counts, width, label=f"{size} rows", **colour)
            by_degree = [
                plots.column(plots.select(chosen, degree=int(n)), "projections") for n in degrees
            ]
            bottom.bar(
                degrees + shift,
                [found.mean() if len(found) else 0 for found in by_degree],
                width,
                yerr=[found.std() if len(found) else 0 for found in by_degree],
                error_kw={"elinewidth": 0.8},
                **colour,
            )
        name = PAPER_NAMES.get(rows[0]["dataset"], rows[0]["dataset"])
        top.set(title=f"{LABELS[sketch]}, {name}", xlabel="truncation p*", ylabel="runs")
        bottom.set(xlabel="degree n", ylabel="features")
        for ax in (top, bottom):
            ax.set_xticks(degrees[:: 1 if last <= 12 else 2])
    handles, labels = axes[0, 0].get_legend_handles_labels()
    canvas.legend(handles, labels, loc="outside upper center", ncols=len(sizes))
    return canvas


EXPERIMENT = Experiment(
    name="fig18",
    title="Allocation against sample size: p* and the features of every degree",
    reproduces="Figures 18 and 19 (Appendix F)",
    configs=configs,
    run=run,
    plot=plot,
    single_seed=True,
    cost=lambda c: 2e-4 * c.n_repeats * c.n_sample + 1,
)

"""Table 1: the closed-form variances of the sketches, beside what is measured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dotsketch.sketches import make_sketch

from .harness import plots
from .harness.data import aligned_pairs, unit_rows
from .harness.experiment import Experiment, Row, Setting

LABELS = {"gaussian": "Gaussian", "rademacher": "Rademacher", "tensor_srht": "TensorSRHT"}


@dataclass(frozen=True)
class Config:
    sketch: str
    field: str
    degree: int
    dimension: int = 16
    n_features: int = 24  # not a multiple of d: the last block of TensorSRHT is cut
    n_pairs: int = 50
    n_draws: int = 20000


def configs(setting: Setting) -> list[Config]:
    n_draws = setting.choose(20000, 1000, 200)
    return [
        Config(sketch, field, degree, n_draws=n_draws)
        for sketch in LABELS
        for field in ("real", "complex")
        for degree in (1, 2, 3)
    ]


def run(config: Config, seed: int) -> list[Row]:
    rng = np.random.default_rng([seed, config.degree])
    x, y = (unit_rows(rng.random((config.n_pairs, config.dimension))) for _ in "xy")
    pairs = aligned_pairs(x, y)
    sketch = make_sketch(config.sketch, config.degree, config.n_features, config.field)
    squared = np.empty(config.n_draws)
    for draw in range(config.n_draws):
        Z = sketch.apply(np.concatenate([x, y]), sketch.sample(config.dimension, rng))
        k = np.sum(Z[: len(x)] * Z[len(x) :].conj(), axis=1)
        squared[draw] = np.mean(np.abs(k - pairs.dot**config.degree) ** 2)
    return [
        {
            "predicted": float(np.mean(sketch.variance(pairs))),
            "measured": float(squared.mean()),
            "standard_error": float(squared.std(ddof=1) / np.sqrt(config.n_draws)),
        }
    ]


def plot(rows: list[Row]) -> Any:
    degrees = sorted(plots.values(rows, "degree"))
    canvas, axes = plots.figure(1, len(degrees), width=3.0, height=2.6, sharey=True)
    names = [(sketch, field) for sketch in LABELS for field in ("real", "complex")]
    for ax, degree in zip(axes[0], degrees, strict=True):
        for place, (sketch, field) in enumerate(names):
            for row in plots.select(rows, degree=degree, sketch=sketch, field=field):
                ax.plot(row["predicted"], place, "|", ms=14, color="#aa3377")
                ax.errorbar(
                    row["measured"],
                    place,
                    xerr=2 * row["standard_error"],
                    fmt="o",
                    ms=4,
                    color="#4477aa",
                )
        ax.set_yticks(range(len(names)), [f"{LABELS[s]}, {f}" for s, f in names])
        ax.set(title=f"degree {degree}", xlabel="mean variance")
        plots.log_scale(ax)
        ax.set_ylim(len(names) - 0.5, -0.5)
    return canvas


EXPERIMENT = Experiment(
    name="table1",
    title="Closed-form variances (bars) and measured ones (dots, ± 2 standard errors)",
    reproduces="Table 1",
    configs=configs,
    run=run,
    plot=plot,
    single_seed=True,
    cost=lambda c: 1e-4 * c.n_draws * c.degree,
)

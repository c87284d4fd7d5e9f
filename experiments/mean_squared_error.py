"""Figure 2: how the mean squared error of sketches of ⟨x, y⟩ᵖ grows with the degree.

Pairs x, y = |x̃|/‖x̃‖ of Gaussian x̃, so nonnegative unit vectors; the error is averaged over
pairs and over independent draws of the sketch. Beside what is measured stands the closed form,
which has no noise: the errors of high degrees are carried by few draws.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dotsketch.sketches import make_sketch

from .harness import plots
from .harness.data import aligned_pairs, unit_rows
from .harness.experiment import Experiment, Row, Setting
from .harness.methods import published

SKETCHES = {"gaussian": "Gaussian", "rademacher": "Rademacher", "tree_rademacher": "Tree"}
COLOURS = {"gaussian": "#888888", "rademacher": "#4477aa", "tree_rademacher": "#228866"}


@dataclass(frozen=True)
class Config:
    dimension: int = 8
    degree: int = 3
    n_features: int = 64
    n_pairs: int = 1000
    n_draws: int = 1000


def configs(setting: Setting) -> list[Config]:
    n_pairs, n_draws = setting.choose((1000, 1000), (100, 100), (20, 30))
    degrees = setting.choose(range(1, 11), (1, 2, 3, 5, 7, 10), (1, 3))
    dimensions = setting.choose((8, 32), (8, 32), (8,))
    return [
        Config(dimension, degree, n_pairs=n_pairs, n_draws=n_draws)
        for dimension in dimensions
        for degree in degrees
    ]


def run(config: Config, seed: int) -> list[Row]:
    rng = np.random.default_rng([seed, config.dimension, config.degree])
    x, y = (
        unit_rows(np.abs(rng.standard_normal((config.n_pairs, config.dimension)))) for _ in "xy"
    )
    pairs = aligned_pairs(x, y)
    exact = pairs.dot**config.degree
    rows = []
    for name in SKETCHES:
        for field in ("real", "complex"):
            sketch = published(make_sketch(name, config.degree, config.n_features, field))
            errors = np.empty((config.n_draws, config.n_pairs), dtype=complex)
            for draw in range(config.n_draws):
                weights = sketch.sample(config.dimension, rng)
                Z = sketch.apply(np.concatenate([x, y]), weights)
                Zx, Zy = Z[: len(x)], Z[len(x) :]
                errors[draw] = np.sum(Zx * Zy.conj(), axis=1) - exact
            by_draw = np.mean(np.abs(errors) ** 2, axis=1)
            rows.append(
                {
                    "sketch": name,
                    "field": field,
                    "mse": float(by_draw.mean()),
                    "mse_standard_error": float(by_draw.std(ddof=1) / np.sqrt(config.n_draws)),
                    "mse_real_part": float(np.mean(errors.real**2)),
                    "mse_predicted": float(np.mean(sketch.variance(pairs))),
                }
            )
    return rows


def plot(rows: list[Row]) -> Any:
    """Lines are closed forms, dots are measured (few draws miss the tails of high degrees)."""
    dimensions = sorted(plots.values(rows, "dimension"))
    canvas, axes = plots.figure(len(dimensions), 2, width=4.2, sharex=True)
    for (left, right), d in zip(axes, dimensions, strict=True):
        for name, label in SKETCHES.items():
            colour = COLOURS[name]
            found = {}
            for field, line, mark in (("real", "-", "o"), ("complex", "--", "D")):
                chosen = plots.select(rows, dimension=d, sketch=name, field=field)
                chosen.sort(key=lambda row: row["degree"])
                p = [row["degree"] for row in chosen]
                found[field] = chosen
                text = label if field == "real" else f"{label}, complex"
                predicted = [row["mse_predicted"] for row in chosen]
                left.plot(p, predicted, line, color=colour, label=text)
                left.plot(p, [row["mse"] for row in chosen], mark, ms=3.5, color=colour)
            for key, form in (("mse_predicted", "-"), ("mse", "o")):
                real, complex_ = (plots.column(found[f], key) for f in ("real", "complex"))
                right.plot(p, complex_ / real, form, ms=3.5, color=colour)
        left.set(ylabel="mean squared error", title=f"d = {d}, D = {rows[0]['n_features']}")
        right.set(ylabel="complex / real", title=f"ratio of errors, d = {d}", ylim=(0, 1.25))
        right.axhline(1, color="#999999", linewidth=0.8)
        plots.log_scale(left, "y")
    for ax in axes[-1]:
        ax.set_xlabel("degree p")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    canvas.legend(handles, labels, loc="outside upper center", ncols=3)
    return canvas


EXPERIMENT = Experiment(
    name="fig2",
    title="Mean squared error against the degree: Gaussian, Rademacher, tree; real and complex",
    reproduces="Figure 2",
    configs=configs,
    run=run,
    plot=plot,
    single_seed=True,
    cost=lambda c: 2e-7 * c.n_pairs * c.n_draws * c.degree,
)

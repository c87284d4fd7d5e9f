"""Figure 1: complex Rademacher weights, turned by 45 degrees, are the roots of unity ±1, ±i."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dotsketch.sketches import RademacherSketch

from .harness import plots
from .harness.experiment import Experiment, Row, Setting


@dataclass(frozen=True)
class Config:
    n_weights: int = 10000


def configs(setting: Setting) -> list[Config]:
    return [Config()]


def run(config: Config, seed: int) -> list[Row]:
    """The weights that the sketch draws, and the same turned back by 45 degrees."""
    sketch = RademacherSketch(1, config.n_weights, "complex")
    Z = sketch.apply(np.ones((1, 1)), sketch.sample(1, np.random.default_rng(seed)))[0]
    drawn, counts = np.unique(np.round(Z * np.sqrt(config.n_weights), 12), return_counts=True)
    return [
        {
            "weights": name,
            "real": float((w * turn).real),
            "imaginary": float((w * turn).imag),
            "share": int(count) / config.n_weights,
        }
        for name, turn in (("turned", 1.0), ("product", np.exp(-0.25j * np.pi)))
        for w, count in zip(drawn, counts, strict=True)
    ]


def plot(rows: list[Row]) -> Any:
    canvas, axes = plots.figure(1, 2, width=2.6, height=2.8)
    angle = np.linspace(0, 2 * np.pi, 200)
    titles = {"product": "(±1 ± i)/√2", "turned": "turned by 45°: ±1, ±i"}
    for ax, (name, title) in zip(axes[0], titles.items(), strict=True):
        chosen = plots.select(rows, weights=name)
        ax.plot(np.cos(angle), np.sin(angle), color="#bbbbbb", linewidth=0.8)
        ax.plot([r["real"] for r in chosen], [r["imaginary"] for r in chosen], "o", color="#4477aa")
        ax.set(title=title, xlabel="real part", aspect="equal", xlim=(-1.3, 1.3), ylim=(-1.3, 1.3))
    axes[0, 0].set_ylabel("imaginary part")
    return canvas


EXPERIMENT = Experiment(
    name="fig1",
    title="Complex Rademacher weights and their turn by 45 degrees",
    reproduces="Figure 1",
    configs=configs,
    run=run,
    plot=plot,
    single_seed=True,
    cost=lambda c: 0.05,
)

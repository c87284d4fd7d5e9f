"""Figure 12: the convex surrogate of the variance of TensorSRHT.

x = y = (√½, √½), so d = 2; degrees 1 and 2, real and complex weights. The surrogate is what the
allocation minimises; it meets the variance at D ≤ d and at multiples of d.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dotsketch.pairs import PairStatistics
from dotsketch.sketches import RademacherSketch, TensorSRHT

from .harness import plots
from .harness.experiment import Experiment, Row, Setting


@dataclass(frozen=True)
class Config:
    degree: int
    field: str
    max_features: int = 10


def configs(setting: Setting) -> list[Config]:
    return [Config(degree, field) for degree in (1, 2) for field in ("real", "complex")]


def run(config: Config, seed: int) -> list[Row]:
    x = np.full((1, 2), np.sqrt(0.5))
    pairs = PairStatistics.between(x)
    srht = TensorSRHT(config.degree, 1, config.field)
    *_, terms = srht.terms(pairs, config.degree, "complex", every_budget=True)
    rows = []
    for D in range(1, config.max_features + 1):
        of = [kind(config.degree, D, config.field) for kind in (TensorSRHT, RademacherSketch)]
        variances = [float(sketch.variance(pairs)[0, 0]) for sketch in of]
        surrogate = srht.surrogate([float(t[0, 0]) for t in terms], np.array([D]), 2)
        rows.append(
            {
                "n_features": D,
                "variance": variances[0],
                "surrogate": float(surrogate[0]),
                "variance_rademacher": variances[1],
            }
        )
    return rows


def plot(rows: list[Row]) -> Any:
    degrees = sorted(plots.values(rows, "degree"))
    fields = plots.values(rows, "field")
    canvas, axes = plots.figure(1, len(degrees) * len(fields), width=2.6, sharex=True)
    cells = [(degree, field) for degree in degrees for field in fields]
    for ax, (degree, field) in zip(axes[0], cells, strict=True):
        chosen = plots.select(rows, degree=degree, field=field)
        D = [row["n_features"] for row in chosen]
        for key, style, colour, label in (
            ("variance_rademacher", ":", "#888888", "Rademacher"),
            ("variance", "-", "#4477aa", "TensorSRHT"),
            ("surrogate", "--", "#aa3377", "convex surrogate"),
        ):
            ax.plot(D, [r[key] for r in chosen], style, marker="o", ms=3, color=colour, label=label)
        ax.set(title=f"degree {degree}, {field}", xlabel="features D", ylim=(-0.03, None))
    axes[0, 0].set_ylabel("variance")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    canvas.legend(handles, labels, loc="outside upper center", ncols=3)
    return canvas


EXPERIMENT = Experiment(
    name="fig12",
    title="The convex surrogate of the TensorSRHT variance",
    reproduces="Figure 12 (Appendix C)",
    configs=configs,
    run=run,
    plot=plot,
    single_seed=True,
    cost=lambda c: 0.05,
)

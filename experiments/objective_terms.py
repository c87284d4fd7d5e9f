"""Figure 4: the variance and bias terms of the allocation objective, degree by degree.

Real Gaussian sketch with one projection per degree, on random subsamples of the data: (a) the
variance of the term of degree n, (b) the squared bias of the series cut off after degree n.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dotsketch.features.maclaurin import ExpansionMoments, evaluate, expand
from dotsketch.kernels import Gaussian, Polynomial
from dotsketch.sketches import separable_sketch

from .harness import plots
from .harness.data import PAPER_NAMES, loaded, preprocess
from .harness.experiment import Experiment, Row, Setting

KERNELS = {
    "gaussian": "Gaussian kernel, median lengthscale",
    "polynomial": "polynomial kernel (7/8 + x·y/8)²⁰",
}


@dataclass(frozen=True)
class Config:
    dataset: str
    kernel: str
    max_degree: int
    n_rows: int = 500
    n_repeats: int = 100


def configs(setting: Setting) -> list[Config]:
    (name,) = setting.datasets(["fashion_mnist"], ["fashion_mnist"], ["digits"])
    n_rows, n_repeats = setting.choose((500, 100), (500, 20), (60, 3))
    return [
        Config(name, "gaussian", 10, n_rows, n_repeats),
        Config(name, "polynomial", 20, n_rows, n_repeats),
    ]


def run(config: Config, seed: int) -> list[Row]:
    rng = np.random.default_rng(seed)
    X = loaded(config.dataset).X
    rows = []
    for repeat in range(config.n_repeats):
        sample = X[rng.choice(len(X), config.n_rows, replace=False)].astype(np.float64)
        how = "standardised" if config.kernel == "gaussian" else "centred"
        sample, _ = preprocess(sample, sample[:1], how)
        kernel = (
            Gaussian().resolve(sample)
            if config.kernel == "gaussian"
            else Polynomial(20, gamma=1 / 8, coef0=7 / 8)
        )
        expansion = expand(kernel, config.max_degree, sample, sample.mean(axis=0))
        sketch = separable_sketch("gaussian")
        moments = ExpansionMoments.of(
            expansion.inputs(sample), expansion.degrees, kernel, sketch, "real", 1
        )
        none = np.zeros(len(moments.degrees), dtype=bool)
        for block, degree in enumerate(moments.degrees.tolist()):
            if degree == 0:
                continue
            used = (moments.degrees <= degree).astype(int)
            rows.append(
                {
                    "repeat": repeat,
                    "degree": degree,
                    "variance_term": float(moments.variances[block, 0]),
                    "bias_term": evaluate(moments, used, none).squared_bias,
                }
            )
    return rows


def plot(rows: list[Row]) -> Any:
    kernels = plots.values(rows, "kernel")
    canvas, axes = plots.figure(2, len(kernels), width=4.6, height=2.4)
    for column, kernel in enumerate(kernels):
        chosen = plots.select(rows, kernel=kernel)
        degrees = sorted(plots.values(chosen, "degree"))
        for ax, term, label in (
            (axes[0, column], "variance_term", "variance term (a)"),
            (axes[1, column], "bias_term", "bias term (b)"),
        ):
            boxes = [plots.column(plots.select(chosen, degree=n), term) for n in degrees]
            if term == "bias_term":  # what is left of k after its last digit is rounding
                boxes = [box[box > 1e-18] for box in boxes]
            ax.boxplot(
                boxes,
                positions=degrees,
                widths=0.6,
                flierprops={"marker": ".", "markersize": 2},
                medianprops={"color": "#aa3377"},
                boxprops={"color": "#4477aa"},
            )
            ax.set_yscale("log")
            ax.set(ylabel=label)
            ax.set_xticks(degrees, [str(n) if n % 2 == 0 or n == 1 else "" for n in degrees])
        name = chosen[0]["dataset"]
        axes[0, column].set_title(f"{KERNELS[kernel]}, {PAPER_NAMES.get(name, name)}")
        axes[1, column].set_xlabel("degree n")
    return canvas


EXPERIMENT = Experiment(
    name="fig4",
    title="Variance and bias terms of the objective, by degree",
    reproduces="Figure 4",
    configs=configs,
    run=run,
    plot=plot,
    single_seed=True,
    cost=lambda c: 0.05 * c.n_repeats,
)

"""Figure 3: Var(complex TensorSRHT) / Var(real TensorSRHT) over pairs of rows of real data.

Unit rows of nonnegative data, D = d. The paper also shows CIFAR10 ResNet34 features and Gisette,
which have no public copy in the form it used; FashionMNIST and Letter stand beside its EEG and
MNIST instead. At D = d and degree 1 both variances are zero (up to rounding), so degrees start
at 2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dotsketch.sketches import TensorSRHT

from .harness import plots
from .harness.data import PAPER_NAMES, aligned_pairs, padded, prepare
from .harness.experiment import Experiment, Row, Setting

QUANTILES = np.linspace(0, 1, 201)


@dataclass(frozen=True)
class Config:
    dataset: str
    degrees: tuple[int, ...] = (2, 3, 5, 7, 10)
    n_rows: int = 1000
    n_pairs: int = 1000


def configs(setting: Setting) -> list[Config]:
    paper = ("eeg", "mnist", "fashion_mnist", "letter")
    names = setting.datasets(paper, paper, ("digits", "wine"))
    return [Config(name, n_pairs=setting.choose(1000, 1000, 100)) for name in names]


def run(config: Config, seed: int) -> list[Row]:
    X = prepare(config.dataset, seed, "raw", n_train=config.n_rows).X_train
    rng = np.random.default_rng(seed)
    first, second = rng.integers(len(X), size=(2, 2 * config.n_pairs))
    distinct = first != second
    x, y = X[first[distinct]][: config.n_pairs], X[second[distinct]][: config.n_pairs]
    D = padded(X.shape[1])
    pairs = aligned_pairs(x, y)
    rows = []
    for degree in config.degrees:
        real, complex_ = (TensorSRHT(degree, D, f).variance(pairs) for f in ("real", "complex"))
        ratio = complex_ / real
        rows.append(
            {
                "degree": degree,
                "n_features": D,
                "share_below_one": float(np.mean(ratio < 1)),
                "median_ratio": float(np.median(ratio)),
                "quantiles": np.quantile(ratio, QUANTILES).tolist(),
            }
        )
    return rows


def plot(rows: list[Row]) -> Any:
    names = plots.values(rows, "dataset")
    canvas, axes = plots.figure(1, len(names), width=2.9, sharey=True)
    for ax, name in zip(axes[0], names, strict=True):
        chosen = plots.select(rows, dataset=name)
        degrees = sorted(plots.values(chosen, "degree"))
        for degree, shade in zip(degrees, np.linspace(0.25, 1, len(degrees)), strict=True):
            quantiles = np.mean(
                [row["quantiles"] for row in plots.select(chosen, degree=degree)], axis=0
            )
            ax.plot(quantiles, QUANTILES, color="#4477aa", alpha=shade, label=f"p = {degree}")
        ax.axvline(1, color="#aa3377", linewidth=0.8)
        ax.set(
            title=PAPER_NAMES.get(name, name),
            xlabel="variance complex / real",
            xlim=(0, max(1.1, ax.get_xlim()[1])),
        )
    axes[0, 0].set_ylabel("share of pairs")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    canvas.legend(handles, labels, loc="outside upper center", ncols=len(labels))
    return canvas


EXPERIMENT = Experiment(
    name="fig3",
    title="Variance of complex over real TensorSRHT on pairs of real data",
    reproduces="Figure 3",
    configs=configs,
    run=run,
    plot=plot,
    single_seed=True,
)

"""Figure 11: pairwise distances decide whether Maclaurin or spherical features do better.

Histograms of the distances between centred test rows of unit norm; over them the kernel
(7/8 + x·y/8)²⁰ as a function of the distance, its truncated series, and the variance of spherical
features, which is least where distances are small. (The paper gives p = 20 and not a; a = 4, as in
its Figure 4. With a = 2 the truncated series would be zero to the eye.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.metrics import pairwise_distances

from dotsketch.features import SphericalFeatures
from dotsketch.kernels import Polynomial

from .harness import plots
from .harness.data import PAPER_NAMES, Prepared, prepare
from .harness.experiment import Experiment, Row, Setting, attempt
from .harness.methods import METHODS
from .harness.processes import gram_errors

COMPARED = ("maclaurin_tensor_srht", "srf_orthogonal")
TAU = np.linspace(0, 2, 81)
BINS = np.linspace(0, 2, 41)
TRUNCATIONS = (1, 2, 3, 4)


@dataclass(frozen=True)
class Config:
    dataset: str
    degree: int = 20
    times: int = 5
    n_train: int = 5000
    n_test: int = 5000


def configs(setting: Setting) -> list[Config]:
    paper = ("kin8nm", "cod_rna", "naval", "protein")
    names = setting.datasets(paper, paper, ("diabetes", "wine"))
    n_train, n_test = setting.choose((5000, 5000), (1000, 500), (100, 40))
    return [Config(name, n_train=n_train, n_test=n_test) for name in names]


def run(config: Config, seed: int) -> list[Row]:
    data = prepare(config.dataset, seed, "centred", n_train=config.n_train, n_test=config.n_test)
    kernel = target(config.degree)
    distances = pairwise_distances(data.X_test)[np.triu_indices(len(data.X_test), 1)]
    K = kernel(data.X_test)
    D = config.times * data.padded_dimension
    shared = {
        "n_features": D,
        "histogram": (np.histogram(distances, BINS)[0] / len(distances)).tolist(),
        "median_distance": float(np.median(distances)),
        "share_below_half": float(np.mean(distances < 0.5)),
    }
    rows = []
    for name in COMPARED:

        def measure(name: str = name) -> Row:
            features = METHODS[name].make(kernel, D, seed).fit(data.X_train)
            return gram_errors(K, features.transform(data.X_test))

        rows.append(attempt({"method": name, **shared}, measure))
    rows.append(attempt({"method": "srf_variance"}, lambda: spherical_variance(config, data)))
    return rows


def spherical_variance(config: Config, data: Prepared) -> Row:
    """The variance of one spherical feature (a cosine and a sine) at the distances τ."""
    kernel = target(config.degree)
    feature = SphericalFeatures(kernel, projection="independent", n_components=2)
    x, others = (
        np.array([[1.0, 0.0]]),
        np.column_stack([1 - TAU**2 / 2, TAU * np.sqrt(1 - TAU**2 / 4)]),
    )
    width = data.X_train.shape[1]
    rows = [np.pad(points, [(0, 0), (0, width - 2)]) for points in (x, others)]
    variance: Any = feature.fit(rows[1]).variance(*rows)
    return {"variance": (variance[0] / float(kernel.diag(x)[0]) ** 2).tolist()}


def target(degree: int) -> Polynomial:
    """(1 − 2/a² + 2/a² s)^degree with a = 4."""
    return Polynomial(degree, gamma=1 / 8, coef0=7 / 8)


def truncation(degree: int, last: int) -> np.ndarray:
    """The series up to s^last as a function of the distance: s = 1 − τ²/2."""
    coefficients = target(degree).coefficients(last)
    result: np.ndarray = np.polynomial.polynomial.polyval((1 - TAU**2 / 2) / 8, coefficients)
    return result


def plot(rows: list[Row]) -> Any:
    names = plots.values(rows, "dataset")
    canvas, axes = plots.figure(1, len(names), width=3.1, height=3.0)
    for ax, name in zip(axes[0], names, strict=True):
        chosen = plots.select(rows, dataset=name)
        degree = chosen[0]["degree"]
        histogram = np.mean(
            [row["histogram"] for row in plots.select(chosen, method=COMPARED[0])], axis=0
        )
        ax.stairs(histogram / histogram.max(), BINS, fill=True, color="#c9d8e6", label="distances")
        exact = (1 - TAU**2 / 16) ** degree
        ax.plot(TAU, exact, color="black", label="kernel")
        for last in TRUNCATIONS:
            ax.plot(
                TAU,
                truncation(degree, last),
                color="#dd8833",
                alpha=0.3 + 0.17 * last,
                linewidth=1,
                label="degree 1 … 4" if last == TRUNCATIONS[-1] else None,
            )
        variance = plots.select(chosen, method="srf_variance")
        if variance:
            ax.plot(TAU, variance[0]["variance"], "k--", linewidth=1, label="variance of SRF")
        ax.axvline(np.sqrt(2), color="#228866", linewidth=0.8, label="orthogonal")
        errors = [
            plots.mean(plots.select(chosen, method=method), "frobenius_error")
            for method in COMPARED
        ]
        ax.set(
            title=f"{PAPER_NAMES.get(name, name)}\nMaclaurin {errors[0]:.3f}, SRF {errors[1]:.3f}",
            xlabel="distance τ",
            xlim=(0, 2),
            ylim=(-0.05, 1.05),
        )
    handles, labels = axes[0, 0].get_legend_handles_labels()
    canvas.legend(handles, labels, loc="outside upper center", ncols=len(labels))
    return canvas


EXPERIMENT = Experiment(
    name="fig11",
    title="Pairwise distances, the kernel, its truncations and the variance of SRF",
    reproduces="Figure 11 (Section 6.4.3)",
    configs=configs,
    run=run,
    plot=plot,
    cost=lambda c: 2e-3 * c.n_test,
)

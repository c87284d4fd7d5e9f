"""The figures of docs/gp.md.

    python -m benchmarks.gp [posteriors divergence] [--data DIR] [--out docs/figures]

- posteriors: the two posteriors of complex features beside the exact one, along a line.
- divergence: KL to the exact posterior as features grow, on concrete and kin8nm of DIR.

Every part prints its numbers and writes gp_<part>.svg.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt
import numpy as np
from sklearn.preprocessing import StandardScaler

from dotsketch import (
    ExactGPRegressor,
    FeatureGPRegressor,
    Gaussian,
    MaclaurinFeatures,
    gaussian_kl,
)
from dotsketch.datasets import load_dataset

from .common import data_parser

BLUE, ORANGE, GREY = "#2563a8", "#d97706", "#6b7280"


def posteriors() -> plt.Figure:
    rng = np.random.default_rng(1)
    X = rng.standard_normal((60, 6))
    y = np.sin(2 * X[:, 0]) + 0.2 * rng.standard_normal(60)
    line = np.linspace(-3, 3, 120)
    points = np.c_[line, np.zeros((120, 5))]
    settings = {"noise_variance": 0.04, "prior_variance": 1.0, "normalize_y": "mean"}
    kernel = Gaussian(lengthscale=2.0)
    exact = ExactGPRegressor(kernel, optimize=False, **settings).fit(X, y)
    mean, deviation = exact.predict(points, return_std=True)
    figure, axes = plt.subplots(1, 3, figsize=(11, 3), layout="constrained")
    axes[2].plot(line, deviation, color=GREY, label="exact")
    for axis, posterior in zip(axes, ("real", "complex"), strict=False):
        shade = {"color": GREY, "alpha": 0.25, "linewidth": 0}
        axis.fill_between(line, mean - 2 * deviation, mean + 2 * deviation, **shade)
        axis.plot(line, mean, color=GREY, label="exact")
        color = BLUE if posterior == "real" else ORANGE
        deviations = []
        for seed in range(20):
            features = MaclaurinFeatures(
                kernel, output="complex", n_components=60, random_state=seed
            )
            model = FeatureGPRegressor(features, posterior=posterior, **settings)
            m, s = model.fit(X, y).predict(points, return_std=True)
            deviations.append(s)
            if seed < 2:
                label = "60 complex features, 2 draws" if seed == 0 else None
                axis.plot(line, m, color=color, linewidth=1.2, label=label)
                for sign in (-2, 2):
                    axis.plot(line, m + sign * s, color=color, linewidth=0.6)
        axis.set(title=f'posterior="{posterior}"', ylim=(-3, 3.5), xlabel="first input")
        axis.legend(frameon=False)
        axes[2].plot(line, np.mean(deviations, axis=0), color=color, label=posterior)
    axes[0].set_ylabel("mean ± 2 standard deviations")
    axes[2].set(title="mean of 20 draws", ylim=(0, None), xlabel="first input")
    axes[2].set_ylabel("standard deviation")
    axes[2].legend(frameon=False)
    return figure


def divergence() -> plt.Figure:
    """KL of latent posteriors at held-out rows, summed over rows, mean of five draws."""
    columns = (64, 128, 256, 512, 1024)
    figure, axes = plt.subplots(1, 2, figsize=(8, 3), layout="constrained")
    for axis, name in zip(axes, ("concrete", "kin8nm"), strict=True):
        data = load_dataset(name)
        order = np.random.default_rng(0).permutation(len(data.X))[:2000]
        X, y = StandardScaler().fit_transform(data.X[order]), data.y[order] / data.y.std()
        n_test = len(X) // 4
        train, test, y = X[n_test:], X[:n_test], y[n_test:]
        settings = {"prior_variance": 1.0, "normalize_y": "mean"}
        exact = ExactGPRegressor(Gaussian(), optimize=False, **settings).fit(train, y)
        mean, deviation = exact.predict(test, return_std=True)
        settings["noise_variance"] = exact.noise_variance_
        for posterior, color in (("real", BLUE), ("complex", ORANGE)):
            results = []
            for D in columns:
                draws = []
                for seed in range(5):
                    features = MaclaurinFeatures(
                        exact.kernel_, n_components=D // 2, output="complex", random_state=seed
                    )
                    model = FeatureGPRegressor(features, posterior=posterior, **settings)
                    m, s = model.fit(train, y).predict(test, return_std=True)
                    approximate, reference = (m, s**2), (mean, deviation**2)
                    draws.append(
                        (
                            gaussian_kl(*approximate, *reference),
                            gaussian_kl(*reference, *approximate),
                        )
                    )
                results.append(np.mean(draws, axis=0))
                print(name, posterior, D, *(f"{value:.4g}" for value in results[-1]), flush=True)
            directions = ("approximate‖exact", "exact‖approximate")
            for values, style, order in zip(
                np.transpose(results), ("-", "--"), directions, strict=True
            ):
                label = f"{posterior}, {order}"
                axis.loglog(columns, values, style, color=color, marker=".", label=label)
        axis.set(title=name, xlabel="real columns")
        axis.set_xticks(columns, [str(D) for D in columns])
        axis.minorticks_off()
    axes[0].set_ylabel("KL, sum over test rows")
    axes[0].legend(frameon=False, fontsize=8)
    return figure


PARTS = {function.__name__: function for function in (posteriors, divergence)}


def main() -> None:
    parser = data_parser("Figures of Gaussian processes.", required=False)
    parser.add_argument("parts", nargs="*", default=list(PARTS), help=" ".join(PARTS))
    parser.add_argument("--out", type=Path, default=Path("docs/figures"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    matplotlib.rcParams["svg.hashsalt"] = "dotsketch"  # the same file for the same figure
    for part in options.parts:
        PARTS[part]().savefig(options.out / f"gp_{part}.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()

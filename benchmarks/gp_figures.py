"""The figures of docs/gp.md, from the tables of benchmarks/gp.py and from two small examples.

python -m benchmarks.gp divergence; python -m benchmarks.gp memory
python -m benchmarks.gp_figures [--tables out] [--out docs/figures]
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt
import numpy as np

from dotsketch import (
    ExactGPRegressor,
    FeatureGPRegressor,
    Gaussian,
    MaclaurinFeatures,
)

BLUE, ORANGE, GREY = "#2563a8", "#d97706", "#6b7280"


def rows_of(path: Path) -> list[list[str]]:
    """The cells of a Markdown table, without its head."""
    lines = [line for line in path.read_text().splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def band(axis, x, gp, color, label, **style) -> None:
    mean, deviation = gp.predict(x[:, None], return_std=True)
    axis.plot(x, mean, color=color, label=label, **style)
    for sign in (-2, 2):
        axis.plot(x, mean + sign * deviation, color=color, linewidth=0.8, **style)


def corrections(folder: Path) -> None:
    """The toy example of Section 5.6: variances far from zero, without and with a correction."""
    rng = np.random.default_rng(0)
    X = np.linspace(-4, 4, 60)[:, None]
    y = np.sin(5 * X[:, 0]) / X[:, 0] + 0.1 * rng.standard_normal(60)
    exact = ExactGPRegressor(Gaussian(lengthscale=1.0), noise_variance=0.01, prior_variance=1.0)
    exact.fit(X, y, optimize=True)
    settings = {"noise_variance": exact.noise_variance_, "prior_variance": exact.prior_variance_}
    x = np.linspace(-6, 6, 160)
    mean, deviation = exact.predict(x[:, None], return_std=True)
    figure, axes = plt.subplots(1, 3, figsize=(11, 3), sharey=True, layout="constrained")
    for axis, correction in zip(axes, (None, "posterior", "fitc"), strict=True):
        features = MaclaurinFeatures(
            exact.kernel_, sketch="rademacher", n_components=10, max_degree=9, random_state=0
        )
        gp = FeatureGPRegressor(features, variance_correction=correction, **settings).fit(X, y)
        shade = {"color": GREY, "alpha": 0.25, "linewidth": 0}
        axis.fill_between(x, mean - 2 * deviation, mean + 2 * deviation, **shade)
        axis.plot(x, mean, color=GREY, label="exact")
        band(axis, x, gp, BLUE, "10 features")
        axis.plot(X[:, 0], y, ".", color="black", markersize=2)
        axis.set(title=f"variance_correction={correction!r}", ylim=(-6, 9), xlabel="x")
    axes[0].set_ylabel("mean ± 2 standard deviations")
    axes[0].legend(frameon=False)
    figure.savefig(folder / "gp_corrections.svg")


def fields(folder: Path) -> None:
    """The two posteriors of complex features beside the exact one, along a line."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((60, 6))
    y = np.sin(2 * X[:, 0]) + 0.2 * rng.standard_normal(60)
    line = np.linspace(-3, 3, 120)
    points = np.c_[line, np.zeros((120, 5))]
    settings = {"noise_variance": 0.04, "prior_variance": 1.0, "normalize_y": "mean"}
    exact = ExactGPRegressor(Gaussian(lengthscale=2.0), **settings).fit(X, y)
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
                exact.kernel_, output="complex", n_components=60, random_state=seed
            )
            gp = FeatureGPRegressor(features, posterior=posterior, **settings)
            m, s = gp.fit(X, y).predict(points, return_std=True)
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
    figure.savefig(folder / "gp_posteriors.svg")


def divergences(tables: Path, folder: Path) -> None:
    rows = rows_of(tables / "gp_divergence.md")
    names = list(dict.fromkeys(row[0] for row in rows))
    figure, axes = plt.subplots(1, len(names), figsize=(4 * len(names), 3), layout="constrained")
    for axis, name in zip(np.atleast_1d(axes), names, strict=True):
        for posterior, color in (("real", BLUE), ("complex", ORANGE)):
            for column, style, order in (
                (3, "-", "approximate‖exact"),
                (4, "--", "exact‖approximate"),
            ):
                chosen = [row for row in rows if row[0] == name and row[2] == posterior]
                axis.loglog(
                    [int(row[1]) for row in chosen],
                    [float(row[column]) for row in chosen],
                    style,
                    color=color,
                    marker=".",
                    label=f"{posterior}, {order}",
                )
        axis.set(title=name, xlabel="real columns")
        axis.set_xticks([64, 128, 256, 512, 1024], ["64", "128", "256", "512", "1024"])
        axis.minorticks_off()
    np.atleast_1d(axes)[0].set_ylabel("KL, sum over test rows")
    np.atleast_1d(axes)[0].legend(frameon=False, fontsize=8)
    figure.savefig(folder / "gp_divergence.svg")


def scale(tables: Path, folder: Path) -> None:
    rows = rows_of(tables / "gp_memory.md")
    n = [int(row[0].replace(",", "")) / 1e6 for row in rows]
    figure, axes = plt.subplots(1, 2, figsize=(8, 2.8), layout="constrained")
    axes[0].plot(n, [float(row[2]) for row in rows], "o-", color=BLUE)
    axes[0].set(xlabel="million rows", ylabel="fit, CPU time (s)", xlim=(0, None), ylim=(0, None))
    axes[1].plot(n, [float(row[4]) for row in rows], "o-", color=BLUE)
    axes[1].axhline(1024, color=GREY, linestyle=":")
    axes[1].set(xlabel="million rows", ylabel="peak memory (MiB)", xlim=(0, None), ylim=(0, 1100))
    figure.savefig(folder / "gp_scale.svg")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", type=Path, default=Path("out"))
    parser.add_argument("--out", type=Path, default=Path("out"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    matplotlib.rcParams["svg.hashsalt"] = "dotsketch"  # the same file for the same figure
    corrections(options.out)
    fields(options.out)
    if (options.tables / "gp_divergence.md").exists():
        divergences(options.tables, options.out)
    if (options.tables / "gp_memory.md").exists():
        scale(options.tables, options.out)


if __name__ == "__main__":
    main()

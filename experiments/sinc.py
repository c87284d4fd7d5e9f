"""Figure 5: one-dimensional regression on sinc functions, RFF against optimised Maclaurin.

f(x) = sin(ax)/x with a = 5, 2, 0.5, noise variance 0.01, D = 10 features. Lengthscale and
variance of the Gaussian kernel maximise the marginal likelihood of the exact process, which is
the reference. In one dimension the Rademacher sketch has no variance: all error of the Maclaurin
features is truncation, far from 0, where their posterior variance collapses (the library warns of
it, and the warning is shown). The correction of Section 5.6 adds k(x, x) − E k̂(x, x).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from dotsketch.features import FourierFeatures, MaclaurinFeatures
from dotsketch.gp import ExactGPRegressor, FeatureGPRegressor
from dotsketch.kernels import Gaussian
from dotsketch.metrics import gaussian_kl

from .harness import plots
from .harness.experiment import Experiment, Row, Setting

LABELS = {
    "rff": "RFF",
    "maclaurin": "optimised Maclaurin",
    "maclaurin_corrected": "optimised Maclaurin, corrected variance",
}


@dataclass(frozen=True)
class Config:
    frequency: float
    n_features: int = 10
    n_train: int = 100
    n_test: int = 201
    width: float = 5.0  # training inputs in [−width, width]
    noise_variance: float = 0.01


def configs(setting: Setting) -> list[Config]:
    n_train, n_test = setting.choose((100, 201), (100, 201), (30, 31))
    frequencies = (5.0, 2.0, 0.5)
    return [Config(frequency, n_train=n_train, n_test=n_test) for frequency in frequencies]


def run(config: Config, seed: int) -> list[Row]:
    rng = np.random.default_rng([seed, int(10 * config.frequency)])
    x = np.sort(rng.uniform(-config.width, config.width, config.n_train))[:, None]
    noise = np.sqrt(config.noise_variance) * rng.standard_normal(config.n_train)
    y = sinc(x[:, 0], config.frequency) + noise
    grid = np.linspace(-config.width, config.width, config.n_test)[:, None]
    kernel = best_kernel(x, y, config.noise_variance)
    gps = {
        name: FeatureGPRegressor(
            features,
            noise_variance=config.noise_variance,
            prior_variance=1.0,
            normalize_y=None,
            variance_correction=correction,
        )
        for name, features, correction in (
            ("rff", rff(kernel, config.n_features, seed), None),
            ("maclaurin", maclaurin(kernel, config.n_features, seed), None),
            ("maclaurin_corrected", maclaurin(kernel, config.n_features, seed), "posterior"),
        )
    }
    exact = ExactGPRegressor(
        kernel, noise_variance=config.noise_variance, prior_variance=1.0, normalize_y=None
    )
    mean, deviation = exact.fit(x, y).predict(grid, return_std=True)
    near = np.abs(grid[:, 0]) <= 1
    rows = []
    for name, gp in gps.items():
        found, spread = gp.fit(x, y).predict(grid, return_std=True)
        variance = np.maximum(spread, 1e-12) ** 2
        rows.append(
            {
                "method": name,
                "lengthscale": float(kernel.lengthscale),
                "variance": float(kernel.variance),
                "kl": gaussian_kl(found, variance, mean, deviation**2) / len(grid),
                "mean_error_near_zero": root_mean_square((found - mean)[near]),
                "mean_error": root_mean_square(found - mean),
                "deviation_ratio_at_edge": float(spread[-1] / deviation[-1]),
                "x": grid[:, 0].tolist(),
                "exact_mean": mean.tolist(),
                "exact_deviation": deviation.tolist(),
                "mean": found.tolist(),
                "deviation": spread.tolist(),
            }
        )
    return rows


def sinc(x: np.ndarray, frequency: float) -> np.ndarray:
    """sin(ax)/x, a at 0."""
    return frequency * np.sinc(frequency * x / np.pi)


def best_kernel(x: np.ndarray, y: np.ndarray, noise_variance: float) -> Gaussian:
    """Lengthscale and variance of the greatest marginal likelihood, from five starts."""
    start = ConstantKernel(1.0, (1e-3, 1e3)) * RBF(1.0, (1e-2, 1e2))
    gp = GaussianProcessRegressor(
        start, alpha=noise_variance, n_restarts_optimizer=4, random_state=0
    ).fit(x, y)
    found = gp.kernel_.get_params()
    return Gaussian(lengthscale=found["k2__length_scale"], variance=found["k1__constant_value"])


def rff(kernel: Gaussian, n_features: int, seed: int) -> FourierFeatures:
    return FourierFeatures(
        kernel, projection="independent", n_components=n_features, random_state=seed
    )


def maclaurin(kernel: Gaussian, n_features: int, seed: int) -> MaclaurinFeatures:
    return MaclaurinFeatures(
        kernel,
        sketch="rademacher",
        n_components=n_features,
        max_degree=n_features - 1,
        allocation="sketched",
        random_state=seed,
    )


def root_mean_square(values: np.ndarray) -> float:
    return float(np.sqrt(np.mean(values**2)))


def plot(rows: list[Row]) -> Any:
    rows = plots.select(rows, seed=min(plots.values(rows, "seed")))
    frequencies = sorted(plots.values(rows, "frequency"), reverse=True)
    canvas, axes = plots.figure(len(LABELS), len(frequencies), width=3.4, height=2.0, sharex=True)
    for line, (name, label) in zip(axes, LABELS.items(), strict=True):
        for ax, frequency in zip(line, frequencies, strict=True):
            for row in plots.select(rows, method=name, frequency=frequency):
                x, mean = np.array(row["x"]), np.array(row["exact_mean"])
                exact, found = np.array(row["exact_deviation"]), np.array(row["mean"])
                spread = np.array(row["deviation"])
                band = (mean - 2 * exact, mean + 2 * exact)
                ax.fill_between(x, *band, color="#c9d8e6", label="exact ± 2 deviations")
                ax.plot(x, mean, color="#4477aa", linewidth=1, label="exact mean")
                ax.plot(x, found, "--", color="black", linewidth=1, label="approximate mean")
                for sign in (-2, 2):
                    ax.plot(
                        x,
                        found + sign * spread,
                        color="black",
                        linewidth=0.6,
                        label="approximate ± 2 deviations" if sign > 0 else None,
                    )
                low, high = band[0].min(), band[1].max()
                ax.set_ylim(low - 0.3 * (high - low), high + 0.3 * (high - low))
                if name == "rff":
                    ax.set_title(
                        f"a = {frequency:g}: l = {row['lengthscale']:.2f}, "
                        f"σ² = {row['variance']:.2f}"
                    )
        line[0].set_ylabel(label.replace(", ", ",\n"))
    for ax in axes[-1]:
        ax.set_xlabel("x")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    canvas.legend(handles, labels, loc="outside upper center", ncols=4)
    return canvas


EXPERIMENT = Experiment(
    name="fig5",
    title="One-dimensional regression on sinc functions: RFF against optimised Maclaurin",
    reproduces="Figure 5 (Section 5.6)",
    configs=configs,
    run=run,
    plot=plot,
)

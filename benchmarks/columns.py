"""Errors of the kernel against columns and time, and the best possible with D columns.

    python -m benchmarks.columns figures --data DIR [--out docs/figures]
    python -m benchmarks.columns landmarks --data DIR [--sets protein magic …]
    python -m benchmarks.columns limit --data DIR [--sets protein magic …]
    python -m benchmarks.columns posterior --data DIR

- figures: the figures of docs/columns.md. Features are fitted to 3000 rows, with a Gaussian kernel
  at 0.6 times the median distance; microseconds per row are those of `transform` on one thread,
  float32.
- landmarks: uniform rows and pivots of a Cholesky factor as landmarks, 1, 2 and 4 per column,
  relative to the limit, with 4000 training rows and a Gaussian kernel at 1 and 0.4 times the
  median distance.
- limit: the estimate of the limit that `plan` makes from 1000 of 4000 rows, over the value of all.
- posterior: KL(approximate ‖ exact) per row held out of Gaussian processes on 256 columns with the
  same noise, at most 2000 training rows.

Errors of the kernel are relative, between distinct rows held out; medians of several draws. The
limit is the error of the eigenvectors of all training rows. Set OMP_NUM_THREADS=1.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from scipy.linalg import eigh

from dotsketch import (
    ExactGPRegressor,
    FeatureGPRegressor,
    FourierFeatures,
    Gaussian,
    MaclaurinFeatures,
    NystromFeatures,
    gaussian_kl,
    plan,
)
from dotsketch.datasets import load_dataset

from .common import data_parser, least_seconds, off_diagonal_error, scaled_rows

COLUMNS = (16, 32, 64, 128, 256, 512)
LANDMARKS: dict[str, dict[str, Any]] = {
    f"{factor:g} D, {rule}": {"n_landmarks": factor, "landmarks": rule}
    for factor in (1.0, 2.0, 4.0)
    for rule in ("uniform", "rpcholesky")
}
FAMILIES: dict[str, tuple[Any, dict[str, Any]]] = {
    "Maclaurin, complex to real": (MaclaurinFeatures, {"output": "complex_to_real"}),
    "Fourier, orthogonal": (FourierFeatures, {}),
    "Nyström, D landmarks": (NystromFeatures, LANDMARKS["1 D, uniform"]),
    "Nyström, 2 D": (NystromFeatures, LANDMARKS["2 D, uniform"]),
    "Nyström, 4 D": (NystromFeatures, LANDMARKS["4 D, uniform"]),
}


def gaussian(X: np.ndarray, factor: float) -> Gaussian:
    return Gaussian(lengthscale=factor * float(Gaussian().resolve(X).lengthscale))


def error(features: Any, rows: np.ndarray, held: np.ndarray, n_draws: int) -> float:
    """The median error on the rows held out."""
    draws = (features.set_params(random_state=seed).fit(rows) for seed in range(n_draws))
    exact = features.kernel(held)
    return float(np.median([off_diagonal_error(fit.transform(held), exact) for fit in draws]))


def limits(kernel: Gaussian, rows: np.ndarray, held: np.ndarray, columns: Any) -> list[float]:
    """The errors of the top eigenvectors of all training rows."""
    eigenvalues, V = eigh(kernel(rows), driver="evd")
    cross, exact = kernel(held, rows), kernel(held)
    best = (cross @ (V[:, -D:] / np.sqrt(eigenvalues[-D:])) for D in columns)
    return [off_diagonal_error(Z, exact) for Z in best]


def figures(options: argparse.Namespace) -> None:
    by_columns, first = plt.subplots(1, 3, figsize=(11, 3.8), layout="constrained")
    by_time, second = plt.subplots(1, 3, figsize=(11, 3.8), layout="constrained")
    for left, right, name in zip(first, second, ("protein", "letter", "kin8nm"), strict=True):
        X = scaled_rows(name)[:3500]
        held, rows = X[:500], X[500:]
        batch = np.repeat(held.astype(np.float32), 8, axis=0)
        kernel = gaussian(rows, 0.6)
        for label, (family, settings) in FAMILIES.items():
            errors, times = [], []
            for D in COLUMNS:
                features = family(kernel, n_components=D, **settings)
                errors.append(error(features, rows, held, 3))
                seconds = least_seconds(lambda: features.transform(batch), 3)  # noqa: B023
                times.append(1e6 * seconds / len(batch))
            left.loglog(COLUMNS, errors, ".-", label=label)
            right.loglog(times, errors, ".-", label=label)
            print(name, label, np.array2string(np.array([errors, times]), precision=3), flush=True)
        best = limits(kernel, rows, held, COLUMNS)
        left.loglog(COLUMNS, best, "k:", label="best possible")
        print(name, "best possible", np.array2string(np.array(best), precision=3), flush=True)
        left.set(title=name, xlabel="columns")
        left.set_xticks(COLUMNS, [str(D) for D in COLUMNS], minor=False)
        left.minorticks_off()
        right.set(title=name, xlabel="microseconds per row")
    for figure, axes in ((by_columns, first), (by_time, second)):
        axes[0].set_ylabel("relative error of the kernel")
        axes[0].legend(fontsize=7, frameon=False)
        for panel in axes:
            panel.grid(alpha=0.3)
        figure.canvas.draw()
    plt.rcParams["svg.hashsalt"] = "dotsketch"  # the same file every time
    by_columns.savefig(options.out / "columns_error.svg", metadata={"Date": None})
    by_time.savefig(options.out / "columns_time.svg", metadata={"Date": None})


def landmarks(options: argparse.Namespace) -> None:
    print(f"{'set':8s} scale     D     limit" + "".join(f"{name:>16s}" for name in LANDMARKS))
    for name in options.sets:
        X = scaled_rows(name)[:5000]
        held, rows = X[:1000], X[1000:]
        for factor in (1.0, 0.4):
            kernel = gaussian(rows, factor)
            columns = (64, 256)
            for D, limit in zip(columns, limits(kernel, rows, held, columns), strict=True):
                ratios = [
                    error(NystromFeatures(kernel, n_components=D, **rule), rows, held, 5) / limit
                    for rule in LANDMARKS.values()
                ]
                cells = "".join(f"{ratio:16.2f}" for ratio in ratios)
                print(f"{name:8s} {factor:5.1f} {D:5d} {limit:9.2e}{cells}", flush=True)


def limit(options: argparse.Namespace) -> None:
    print("estimate of the limit from 1000 rows over the value of 4000, D = 31, 62, 125, 250")
    for name in options.sets:
        X = scaled_rows(name)[:4000]
        for factor in (1.0, 0.4):
            kernel = gaussian(X, factor)
            columns = (31, 62, 125, 250)
            ratios = []
            for D, exact in zip(columns, limits(kernel, X, X, columns), strict=True):
                estimate = plan(kernel, X[:1000], n_components=D, random_state=0).limit
                ratios.append(f"{estimate.relative_error / exact:.2f}")
            print(f"{name:8s} {factor:3.1f}  " + "   ".join(ratios), flush=True)


def posterior(options: argparse.Namespace) -> None:
    print("KL to the exact posterior, D = 256" + "".join(f"{name:>16s}" for name in LANDMARKS))
    for name in ("kin8nm", "protein", "concrete"):
        data = load_dataset(name)
        order = np.random.default_rng(0).permutation(len(data.X))[:2500]
        X, y = np.asarray(data.X, float)[order], np.asarray(data.y, float)[order]
        X, y = (X - X.mean(axis=0)) / X.std(axis=0), (y - y.mean()) / y.std()
        n = len(X) * 4 // 5
        kernel = gaussian(X[:n], 0.6)
        variances = {"noise_variance": 0.1, "prior_variance": 1.0, "optimize": False}
        exact = ExactGPRegressor(kernel, **variances).fit(X[:n], y[:n])
        mean, std = exact.predict(X[n:], return_std=True, include_noise=True)
        cells = []
        for rule in LANDMARKS.values():
            divergences = []
            for seed in range(5):
                features = NystromFeatures(kernel, n_components=256, random_state=seed, **rule)
                model = FeatureGPRegressor(features, **variances).fit(X[:n], y[:n])
                m, s = model.predict(X[n:], return_std=True, include_noise=True)
                divergences.append(gaussian_kl(m, s**2, mean, std**2) / len(m))
            cells.append(f"{np.median(divergences):16.4f}")
        print(f"{name:34s}" + "".join(cells), flush=True)


PARTS = {function.__name__: function for function in (figures, landmarks, limit, posterior)}


def main() -> None:
    parser = data_parser("Errors against columns and time, and the best possible.")
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--sets", nargs="*", default=("protein", "magic", "letter", "kin8nm"))
    parser.add_argument("--out", type=Path, default=Path("docs/figures"))
    options = parser.parse_args()
    PARTS[options.part](options)


if __name__ == "__main__":
    main()

"""The UCI regression benchmark of Gaussian processes, beside published figures.

    python -m benchmarks.uci --data DIR [--sets pol bike …] [--splits 0 1 2] [--columns 4096]
                             [--kernel auto|matern|gaussian] [--landmarks FACTOR] [--rule learned]
                             [--solver auto|cholesky|cg] [--table FILE] [--verbose]

DIR holds pol.npz, elevators.npz, bike.npz, kin40k.npz and protein.npz with the arrays X, y and
test_mask (n, 10): column s marks the test rows of split s. (They are the sets and splits of
github.com/treforevans/uci_datasets.) X and y are standardised by the training rows of a split; the
figures are on the standardised target: root mean squared error, mean negative log-likelihood with
the noise, share of test rows inside of 95 % intervals, and seconds of search, fit and prediction
together, by the clock and of the processor. `--table` adds them to a CSV file as they are found;
docs/tables/uci.csv is such a file.

The recipe: a Matérn or Gaussian kernel, whichever fits the data best (`Matern("auto")`), with one
lengthscale per column (`optimize=True`), and Nyström features of rows in float32, whose landmarks
are rows or means of clusters, whichever fits better (`landmarks="auto"`), with the variance that
they do not carry added to predictions.
"""

from __future__ import annotations

import argparse
import csv
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

from dotsketch import FeatureGPRegressor, Gaussian, Matern, NystromFeatures


class Published(NamedTuple):
    """RMSE and NLL in the same splits; None where none were found."""

    # SGPR with 512 inducing points, one lengthscale per column, split 0 (a run of Titsias' bound,
    # checked against GPyTorch 1.15.2; 132 to 388 CPU seconds)
    sgpr: tuple[float, float]
    # SVGP with 1024 inducing points, and conjugate gradients with the full kernel, means of splits
    # 0 to 4: Lin et al., "Sampling from Gaussian Process Posteriors using Stochastic Gradient
    # Descent", NeurIPS 2023, from the results in github.com/cambridge-mlg/sgd-gp, commit 7f8a729
    svgp: tuple[float, float] | None
    full: tuple[float, float] | None


PUBLISHED = {
    "pol": Published((0.1001, -0.8257), (0.1034, -0.637), (0.0809, -1.165)),
    "elevators": Published((0.3657, 0.4144), (0.3721, 0.444), (0.3522, 0.379)),
    "bike": Published((0.0295, -1.9896), (0.0805, -1.466), (0.0367, -2.623)),
    "kin40k": Published((0.1545, -0.3810), None, None),
    "protein": Published((0.6024, 0.9188), (0.6178, 0.940), (0.5035, 0.619)),
}
HEADER = (
    "set",
    "split",
    "columns",
    "kernel",
    "landmarks",
    "RMSE",
    "NLL",
    "coverage",
    "processor seconds",
    "SGPR 512 in split 0: RMSE",
    "NLL",
)
KERNELS = {"auto": Matern("auto"), "matern": Matern(1.5), "gaussian": Gaussian()}


class Split(NamedTuple):
    """Standardised rows and targets."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray


class Figures(NamedTuple):
    rmse: float
    nll: float
    coverage: float
    seconds: float
    processor: float  # seconds of all threads together


class Result(NamedTuple):
    """The figures of a split, and what the search has chosen."""

    figures: Figures
    kernel: str
    landmarks: str


def load_split(folder: Path, name: str, split: int) -> Split:
    """Means and standard deviations come from the training rows only."""
    with np.load(folder / f"{name}.npz") as file:
        X, y, test = file["X"], file["y"], file["test_mask"][:, split]
    train = ~test
    deviations = X[train].std(axis=0)
    # By max == min: a standard deviation of zero can fail by rounding
    deviations[X[train].max(axis=0) == X[train].min(axis=0)] = np.inf
    X = (X - X[train].mean(axis=0)) / deviations
    y = (y - y[train].mean()) / y[train].std()
    return Split(X[train], y[train], X[test], y[test])


def run(rows: Split, options: argparse.Namespace) -> Result:
    start, begun = time.perf_counter(), time.process_time()
    columns = min(options.columns, len(rows.X))
    features = NystromFeatures(
        KERNELS[options.kernel],
        n_components=columns,
        n_landmarks=options.landmarks or "auto",
        landmarks=options.rule,
        n_jobs=-1,
        random_state=0,
    )
    gp = FeatureGPRegressor(
        features,
        optimize=True,
        solver=options.solver,
        time_budget=options.time_budget,
        verbose=options.verbose,
    )
    # in float32: features take half the time, and no two rows become equal
    gp.fit(rows.X.astype(np.float32), rows.y)
    mean, std = gp.predict(rows.X_test.astype(np.float32), return_std=True, include_noise=True)
    seconds, processor = time.perf_counter() - start, time.process_time() - begun
    errors = rows.y_test - mean
    if options.verbose:
        print(f"noise {gp.noise_variance_:.3g}, prior {gp.prior_variance_:.3g}")
        print(type(gp.kernel_).__name__, getattr(gp.kernel_, "nu", ""), end=" ")
        print("lengthscales", np.round(gp.kernel_.lengthscale, 3))
    figures = Figures(
        float(np.sqrt(np.mean(errors**2))),
        float(np.mean(np.log(2 * np.pi * std**2) / 2 + (errors / std) ** 2 / 2)),
        float(np.mean(np.abs(errors) < 1.96 * std)),
        seconds,
        processor,
    )
    nu = getattr(gp.kernel_, "nu", None)
    kernel = type(gp.kernel_).__name__ + ("" if nu is None else f" {nu}")
    rule = gp.features_.landmarks
    return Result(figures, kernel, rule if isinstance(rule, str) else "learned")


def shown(pair: tuple[float, float] | None) -> str:
    return "–" if pair is None else f"{pair[0]:.4f} / {pair[1]:.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="the folder of the five sets")
    parser.add_argument("--sets", nargs="*", default=list(PUBLISHED), choices=list(PUBLISHED))
    parser.add_argument("--splits", nargs="*", type=int, default=[0, 1, 2])
    parser.add_argument("--columns", type=int, default=4096)
    parser.add_argument("--kernel", choices=list(KERNELS), default="auto")
    parser.add_argument("--landmarks", type=float, default=None, help="landmarks per column")
    parser.add_argument("--rule", default="auto", help="of landmarks: uniform, kmeans, learned, …")
    parser.add_argument("--solver", default="auto", choices=("auto", "cholesky", "cg"))
    parser.add_argument("--time-budget", type=float, default=None, help="seconds of the search")
    parser.add_argument("--table", type=Path, help="a CSV file to which the figures are added")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    print(
        "| set | split | RMSE | NLL | coverage | seconds | processor | SGPR 512 (split 0) | "
        "SVGP 1024 | full kernel |\n|---|---|---|---|---|---|---|---|---|---|"
    )
    for name in options.sets:
        reference = " | ".join(map(shown, PUBLISHED[name]))
        found: list[Result] = []
        for split in options.splits:
            found.append(run(load_split(options.data, name, split), options))
            print(_line(name, str(split), found[-1].figures), reference, "|", flush=True)
            if options.table:
                add_line(options.table, name, str(split), options.columns, found[-1])
        if len(found) > 1:
            means = Figures(*np.mean([result.figures for result in found], axis=0))
            print(_line(name, "mean", means), reference, "|", flush=True)
            if options.table:
                add_line(options.table, name, "mean", options.columns, Result(means, "", ""))


def add_line(file: Path, name: str, split: str, columns: int, result: Result) -> None:
    """One line more, as soon as it is known: all sets take an hour."""
    figures = result.figures
    cells = name, split, columns, result.kernel, result.landmarks, f"{figures.rmse:.4f}"
    rest = f"{figures.nll:.3f}", f"{figures.coverage:.3f}", f"{figures.processor:.0f}"
    is_new = not file.exists()
    with file.open("a", newline="") as out:
        writer = csv.writer(out, lineterminator="\n")
        if is_new:
            writer.writerow(HEADER)
        writer.writerow([*cells, *rest, *PUBLISHED[name].sgpr])


def _line(name: str, split: str, figures: Figures) -> str:
    return (
        f"| {name} | {split} | {figures.rmse:.4f} | {figures.nll:.4f} | {figures.coverage:.3f} | "
        f"{figures.seconds:.0f} | {figures.processor:.0f} |"
    )


if __name__ == "__main__":
    main()

"""The UCI regression benchmark of Gaussian processes, beside published figures.

    python -m benchmarks.uci --data DIR [--sets pol bike …] [--splits 0 1 2] [--columns 4096]
                             [--table FILE]

Sets, splits and figures are those of `benchmarks.whole_models`, for sets with published figures and
`FeatureGPRegressor(columns)`: search, fit and prediction together. `--table` adds the lines to a
CSV file as soon as they are there; docs/tables/uci.csv is such a file. The sets and splits come
from github.com/treforevans/uci_datasets.
"""

from __future__ import annotations

import argparse
import csv
import time
from pathlib import Path

import numpy as np

from dotsketch import FeatureGPRegressor

from .whole_models import load_split

# RMSE and NLL of SGPR with 512 inducing points and one lengthscale per input in split 0 (a run of
# Titsias' bound, checked against GPyTorch 1.15.2; 132 to 388 processor seconds), then of conjugate
# gradients with the full kernel, means of splits 0 to 4: Lin et al., "Sampling from Gaussian
# Process Posteriors using Stochastic Gradient Descent", NeurIPS 2023, from the results in
# github.com/cambridge-mlg/sgd-gp, commit 7f8a729.
PUBLISHED = {
    "pol": (0.1001, -0.8257, 0.0809, -1.165),
    "elevators": (0.3657, 0.4144, 0.3522, 0.379),
    "bike": (0.0295, -1.9896, 0.0367, -2.623),
    "kin40k": (0.1545, -0.3810, "", ""),
    "protein": (0.6024, 0.9188, 0.5035, 0.619),
}
HEADER = (
    *("set", "split", "columns", "RMSE", "NLL", "coverage", "processor seconds"),
    *("SGPR 512, split 0: RMSE", "NLL", "full kernel: RMSE", "NLL"),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="the folder of the sets")
    parser.add_argument("--sets", nargs="*", default=list(PUBLISHED), choices=PUBLISHED)
    parser.add_argument("--splits", nargs="*", type=int, default=[0, 1, 2])
    parser.add_argument("--columns", type=int, default=4096)
    parser.add_argument("--table", type=Path, help="a CSV file to which the lines are added")
    options = parser.parse_args()
    if options.table and not options.table.exists():
        add_line(options.table, HEADER)
    for name in options.sets:
        for split in options.splits:
            rows = load_split(options.data / f"{name}.npz", split)
            begun = time.process_time()
            # In float32: features take half the time, and no two rows become equal.
            model = FeatureGPRegressor(options.columns).fit(rows.X.astype(np.float32), rows.y)
            test = rows.X_test.astype(np.float32)
            mean, std = model.predict(test, return_std=True, include_noise=True)
            seconds = time.process_time() - begun
            errors = rows.y_test - mean
            rmse = np.sqrt(np.mean(errors**2))
            nll = np.mean(np.log(2 * np.pi * std**2) / 2 + (errors / std) ** 2 / 2)
            coverage = np.mean(np.abs(errors) < 1.96 * std)
            figures = f"{rmse:.4f}", f"{nll:.3f}", f"{coverage:.3f}", f"{seconds:.0f}"
            line = (name, split, options.columns, *figures, *PUBLISHED[name])
            print(*line, flush=True)
            if options.table:
                add_line(options.table, line)


def add_line(file: Path, cells: tuple[object, ...]) -> None:
    with file.open("a", newline="") as out:
        csv.writer(out, lineterminator="\n").writerow(cells)


if __name__ == "__main__":
    main()

"""Predicted against measured error on rows that were not seen.

    python -m benchmarks.prediction --table docs/tables/prediction.csv  # the digits, two minutes
    DOTSKETCH_DATA=folder python -m benchmarks.prediction --sets mnist fashion_mnist
        --table docs/tables/prediction_images.csv

The mean squared error of the approximate kernel over pairs of distinct held-out rows, averaged over
draws of the weights, against `expected_squared_error_` of the fit. Digits come with scikit-learn;
MNIST and FashionMNIST are read from the folder if it has them. Asserts nothing.
"""

from __future__ import annotations

import argparse
import csv
import os
from pathlib import Path

import numpy as np
from rich.progress import track
from sklearn.datasets import load_digits

from dotsketch import Gaussian, MaclaurinFeatures, Polynomial

KERNELS = {
    "p = 3": Polynomial(3, gamma=0.5, coef0=0.5),
    "p = 7": Polynomial(7, gamma=0.5, coef0=0.5),
    "p = 10": Polynomial(10, gamma=0.5, coef0=0.5),
    "Gaussian": Gaussian(),
}
OPTIONS = {
    "real": {},
    "complex": {"output": "complex_to_real"},
    "fitted": {"output": "complex_to_real", "coefficients": "fitted"},
    "split": {"output": "complex_to_real", "mean_split": True},
}


def data_sets() -> dict[str, np.ndarray]:
    found = {"digits": load_digits().data}
    folder = Path(os.environ.get("DOTSKETCH_DATA", "."))
    for name in ("mnist", "fashion_mnist"):
        if (folder / f"{name}.npz").exists():
            with np.load(folder / f"{name}.npz") as file:
                found[name] = np.asarray(file["X_train"][:6000], dtype=np.float64)
    return found


def compare(X: np.ndarray, kernel, options: dict, draws: int) -> tuple[float, float, float]:
    """Predicted and measured mean squared error, and the standard error of their difference.

    Ten random splits, with a tenth of the draws each: one split alone may be easier than another.
    The distribution over draws is skewed, so that few draws give too small a mean.
    """
    X = X / np.linalg.norm(X, axis=1, keepdims=True)
    predicted, measured = [], []
    for split in range(10):
        rows = X[np.random.default_rng(split).permutation(len(X))]
        test, train = np.split(rows, [min(600, len(X) // 3)])
        features = MaclaurinFeatures(kernel, n_components=512, random_state=0, **options)
        features.fit(train)
        K = features.kernel_(test)
        off_diagonal = ~np.eye(len(test), dtype=bool)
        errors = []
        for seed in range(max(draws // 10, 1)):
            rng = np.random.default_rng([split, seed])
            features.weights_ = features.design_.sample(rng)
            Z = features.transform(test)
            errors.append(np.mean((K - Z @ Z.T)[off_diagonal] ** 2))
        predicted.append(features.expected_squared_error_)
        measured.append(np.mean(errors))
    standard_error = np.std(np.subtract(measured, predicted), ddof=1) / np.sqrt(10)
    return float(np.mean(predicted)), float(np.mean(measured)), float(standard_error)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=400)
    parser.add_argument("--sets", nargs="*", default=["digits"])
    parser.add_argument("--table", type=Path, default=Path("out/prediction.csv"))
    arguments = parser.parse_args()
    cells = [
        (name, X, label, choice)
        for name, X in data_sets().items()
        if name in arguments.sets
        for label in KERNELS
        for choice in OPTIONS
    ]
    arguments.table.parent.mkdir(parents=True, exist_ok=True)
    rows = [["data", "kernel", "features", "predicted", "measured / predicted"]]
    for name, X, label, choice in track(cells, description="cells"):
        predicted, measured, spread = compare(X, KERNELS[label], OPTIONS[choice], arguments.draws)
        ratio = f"{measured / predicted:.3f} ± {spread / predicted:.3f}"
        rows.append([name, label, choice, f"{predicted:.3g}", ratio])
        print(*rows[-1], sep="  ", flush=True)
        with arguments.table.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file, lineterminator="\n").writerows(rows)


if __name__ == "__main__":
    main()

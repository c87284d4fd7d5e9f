"""Regression on molecular fingerprints: who predicts best, with which features, in what time.

    python -m benchmarks.molecules --data DIR [--sets lipophilicity hiv] [--sketched 1024 4096]

A fifth of the rows (at most 2,000) are held out, at most 10,000 others are fitted to. The target is
`y` (lipophilicity) or `qed` (hiv), standardised. RMSE, mean negative log likelihood, share of the
values within 95 % intervals, and seconds of fitting and predicting. Fingerprints are binary.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.linear_model import BayesianRidge

from dotsketch import (
    ExactGPRegressor,
    FeatureGPRegressor,
    MaclaurinFeatures,
    NystromFeatures,
    Tanimoto,
    mean_negative_log_likelihood,
)

from .tanimoto import fingerprints

EXACT_ROWS = 2000
TARGETS = {"lipophilicity": "y", "hiv": "qed", "esol": "y"}
SPLIT = {"sketch": "balanced_tensor_sketch", "mean_split": True}


def models(sketched: list[int]) -> Iterator[tuple[str, Any, int | None]]:
    """Names, estimators, and the number of rows if it is not all of them."""
    yield f"exact GP on {EXACT_ROWS} rows", ExactGPRegressor(Tanimoto()), EXACT_ROWS
    yield "Bayesian ridge on the bits", BayesianRidge(), None
    for columns in (256, 1024):
        for label, landmarks in (("D landmarks", 1.0), ("2 D landmarks, cut to D", 2.0)):
            features = NystromFeatures(
                Tanimoto(),
                n_components=columns,
                n_landmarks=landmarks,
                landmarks="uniform",
                random_state=0,
            )
            yield f"Nyström, D = {columns}, {label}", FeatureGPRegressor(features), None
    for columns in sketched:
        features = MaclaurinFeatures(Tanimoto(), n_components=columns, random_state=0, **SPLIT)
        yield f"sketches, mean split, D = {columns}", FeatureGPRegressor(features), None


def predictor(model: Any, X: Any, y: np.ndarray) -> Callable[[Any], tuple[np.ndarray, np.ndarray]]:
    """The fitted model as a function to means and standard deviations of values."""
    if isinstance(model, BayesianRidge):  # is for dense rows
        model.fit(X.toarray(), y)
        return lambda rows: model.predict(rows.toarray(), return_std=True)
    model.fit(X, y)
    return lambda rows: model.predict(rows, return_std=True, include_noise=True)


def compare(name: str, X: scipy.sparse.csr_array, y: np.ndarray, sketched: list[int]) -> None:
    order = np.random.default_rng(0).permutation(len(y))
    n_test = min(len(y) // 5, 2000)
    test, train = order[:n_test], order[n_test : n_test + 10_000]
    y = (y - y[train].mean()) / y[train].std()
    for label, model, n_rows in models(sketched):
        rows = train[:n_rows]
        start = time.perf_counter()
        mean, deviation = predictor(model, X[rows], y[rows])(X[test])
        seconds = time.perf_counter() - start
        rmse = np.sqrt(np.mean((mean - y[test]) ** 2))
        nll = mean_negative_log_likelihood(y[test], mean, deviation**2)
        coverage = np.mean(np.abs(mean - y[test]) < 1.96 * deviation)
        print(
            f"{name:14s} {len(rows):6d}  {label:42s} {rmse:7.4f} {nll:7.4f} {coverage:8.3f} "
            f"{seconds:8.1f}",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description="Regression on molecular fingerprints.")
    parser.add_argument("--data", required=True, help="the folder of fingerprints")
    parser.add_argument("--sets", nargs="*", default=["lipophilicity", "hiv"])
    parser.add_argument("--sketched", nargs="*", type=int, default=[1024, 4096])
    options = parser.parse_args()
    print(f"{'set':14s} {'rows':>6s}  {'model':42s}    RMSE     NLL coverage  seconds")
    for name in options.sets:
        with np.load(Path(options.data) / f"{name}.npz") as file:
            y = np.asarray(file[TARGETS[name]], dtype=np.float64)
        compare(name, fingerprints(options.data, name), y, options.sketched)


if __name__ == "__main__":
    main()

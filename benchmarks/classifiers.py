"""Classifiers on the same columns: ours as it is, with the authors' settings, logistic regression.

    python -m benchmarks.classifiers --data DIR [--sets letter adult …] [--columns 400] [--optimize]
    python -m benchmarks.classifiers --data DIR --speed [--against PATH/src] [--rows 10000]

The first prints errors and mean negative log-likelihoods (NLL) of at most 20,000 rows, a quarter of
them for the test, columns scaled to unit variance, on Nyström features of a Gaussian kernel with
the median distance as lengthscale. "paper" is `prior_variance="labels", temperature=1`, "labels"
`likelihood="dirichlet"`. The difference to logistic regression has the standard error of paired
rows. `LogisticRegressionCV` chooses among five strengths by the likelihood of three folds. With
`--optimize` there is one more: the kernel that the search of the classifier finds.

The second measures fit and `predict_proba` (10,000 rows) with ten classes of FashionMNIST,
2048 Fourier features and α = "auto"; with `--against` the source of another version takes turns
with this one in the same run, and the ratios of the pairs are printed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegressionCV
from sklearn.preprocessing import StandardScaler

from dotsketch import FeatureGPClassifier, FourierFeatures, Gaussian, NystromFeatures
from dotsketch.datasets import load_dataset

SETS = ("adult", "magic", "eeg", "covertype", "letter")
STRENGTHS = (1.0, 10.0, 100.0, 1e3, 1e4)


def scaled_rows(name: str, n: int) -> tuple[np.ndarray, ...]:
    """Rows for training, three quarters, and for the test, with their labels."""
    data = load_dataset(name)
    chosen = np.random.default_rng(0).permutation(len(data.X))[:n]
    X, y = np.asarray(data.X[chosen], dtype=np.float64), np.asarray(data.y)[chosen]
    cut = 3 * len(X) // 4
    X = StandardScaler().fit(X[:cut]).transform(X)
    return X[:cut], y[:cut], X[cut:], y[cut:]


def losses(y: np.ndarray, p: np.ndarray, classes: np.ndarray) -> np.ndarray:
    return -np.log(np.maximum(p[np.arange(len(y)), np.searchsorted(classes, y)], 1e-300))


def logistic(Z: np.ndarray, y: np.ndarray) -> LogisticRegressionCV:
    is_binary = len(np.unique(y)) == 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", FutureWarning)
        return LogisticRegressionCV(
            Cs=STRENGTHS,
            cv=3,
            scoring="neg_log_loss",
            solver="newton-cholesky" if is_binary else "lbfgs",
            max_iter=200,
        ).fit(Z, y)


def compare(name: str, columns: int, optimize: bool) -> None:
    X, y, X_test, y_test = scaled_rows(name, 20_000)
    features = NystromFeatures(
        Gaussian(), n_components=columns, landmarks="uniform", random_state=0
    )
    Z, Z_test = features.fit(X).transform(X), features.transform(X_test)
    found = {}
    for label, options in {
        "paper": {"prior_variance": "labels", "temperature": 1.0},
        "labels": {"likelihood": "dirichlet"},
        "dotsketch": {},
        **({"optimized": {"optimize": True}} if optimize else {}),
    }.items():
        start = time.process_time()
        gp = FeatureGPClassifier(features, **options).fit(X, y)
        seconds = time.process_time() - start
        p = gp.predict_proba(X_test)
        found[label] = losses(y_test, p, gp.classes_)
        error = np.mean(gp.classes_[p.argmax(axis=1)] != y_test)
        chosen = f"s {gp.prior_variance_:.3g} T {gp.temperature_:.2f}"
        chosen += "" if gp.alpha_ is None else f" α {gp.alpha_:.0e}"
        print(
            f"{name:10s} {label:10s} error {error:.4f}  NLL {np.mean(found[label]):.4f}  "
            f"{seconds:6.1f} s  {chosen}",
            flush=True,
        )
    start = time.process_time()
    model = logistic(Z, y)
    seconds = time.process_time() - start
    p = model.predict_proba(Z_test)
    theirs = losses(y_test, p, model.classes_)
    error = np.mean(model.classes_[p.argmax(axis=1)] != y_test)
    strength = np.ravel(model.C_)[0]
    print(
        f"{name:10s} {'logistic':10s} error {error:.4f}  NLL {np.mean(theirs):.4f}  "
        f"{seconds:6.1f} s  C {strength:.3g}"
    )
    gap = found["dotsketch"] - theirs
    print(
        f"{name:10s} dotsketch − logistic: {np.mean(gap):+.4f} ± {gap.std() / len(gap) ** 0.5:.4f}",
        flush=True,
    )


def measure(rows: int) -> None:
    """Seconds of a fit and of `predict_proba`, in this process."""
    X, y, X_test, _ = scaled_rows("fashion_mnist", 20_000)
    X, y = X[:rows].astype(np.float32), y[:rows]
    X_test = np.concatenate([X_test, X_test]).astype(np.float32)[:10_000]
    kernel = Gaussian(lengthscale=Gaussian().resolve(X[:1000]).lengthscale)
    features = FourierFeatures(kernel, n_components=2048, random_state=0)
    start = time.process_time()
    gp = FeatureGPClassifier(features).fit(X, y)
    middle = time.process_time()
    gp.predict_proba(X_test)
    print(middle - start, time.process_time() - middle)


def speed(against: str | None, rows: int, repeats: int) -> None:
    here = str(Path(__file__).parent.parent / "src")
    ratios = []
    for _ in range(repeats):
        pair = []
        for source in [path for path in (against, here) if path]:
            environment = {**os.environ, "PYTHONPATH": source}
            command = [sys.executable, "-m", "benchmarks.classifiers", "--data", "", "--worker"]
            command.append(f"--rows={rows}")
            answer = subprocess.run(
                command, env=environment, capture_output=True, text=True, check=True
            )
            pair.append([float(number) for number in answer.stdout.split()])
            print(
                f"{source}: fit {pair[-1][0]:.2f} s, predict_proba {pair[-1][1]:.2f} s", flush=True
            )
        if len(pair) == 2:
            ratios.append(np.divide(*pair))
    for name, values in zip(("fit", "predict_proba"), np.transpose(ratios), strict=False):
        low, high = np.min(values), np.max(values)
        print(f"{name}: {np.median(values):.2f} times faster ({low:.2f} to {high:.2f})")


def main() -> None:
    parser = argparse.ArgumentParser(description="Classifiers on the same columns.")
    parser.add_argument("--data", required=True, help="the folder of data sets")
    parser.add_argument("--sets", nargs="*", default=SETS)
    parser.add_argument("--columns", type=int, default=400)
    parser.add_argument("--optimize", action="store_true", help="search for the kernel too")
    parser.add_argument("--speed", action="store_true", help="measure seconds instead")
    parser.add_argument("--against", help="the folder src of another version, for --speed")
    parser.add_argument("--rows", type=int, default=10_000, help="training rows of --speed")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.data:
        os.environ["DOTSKETCH_DATA"] = options.data
    if options.worker:
        measure(options.rows)
    elif options.speed:
        speed(options.against, options.rows, options.repeats)
    else:
        for name in options.sets:
            compare(name, options.columns, options.optimize)


if __name__ == "__main__":
    main()

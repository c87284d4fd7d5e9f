"""Predictive distributions on public tables, on the rows of a published comparison of 20 methods.

    python -m benchmarks.distributions --data DIR --published FILE [--tables kin8nm …]
        [--rows 5000 …] [--repetitions 5] [--methods dotsketch …] [--figure FILE]

The comparison is that of Izbicki and Rodrigues (arXiv 2603.26611). DIR holds one file per table,
such as kin8nm.npz, with the arrays X and y in its order of rows. A table is cut to `--rows` rows
(permuted with the seed 42), and repetition r keeps a quarter of them for testing (permuted with the
seed r). A method gives the density of y at 200 points, the range of the training targets and 5 % of
it on either side, which are normalised; the scores are the mean log density, the mean CRPS and the
coverage of the central 90 %. FILE is a table of the published scores, with the columns table, n,
method, log_lik and crps, to stand beside ours.

Every fit runs in a process of its own, and its scores go to docs/tables/distributions.csv at once;
a fit that the table has is not run again. Seconds are processor seconds of fit and prediction, on
one thread. Settings of peers are their defaults; quantile methods (CQR on LightGBM) have their
interval score only.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dotsketch.metrics import crps_of_density, interval_score

TABLES = ("cpu_act", "kin8nm", "elevators", "cal_housing", "protein", "diamonds")
DOCS = Path(__file__).parents[1] / "docs"
TABLE = DOCS / "tables" / "distributions.csv"
COLUMNS = (
    "table",
    "rows",
    "repetition",
    "method",
    "log density",
    "CRPS",
    "coverage",
    "interval score",
    "seconds",
)
COVERAGE = 0.9


class Split(NamedTuple):
    """Standardised inputs, and targets in their units."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray


class Prediction(NamedTuple):
    """Densities of the test rows at the points, or None, and bounds of their intervals."""

    density: np.ndarray | None  # (n, k)
    interval: np.ndarray  # (n, 2)


def load_split(file: Path, rows: int, repetition: int) -> Split:
    with np.load(file) as arrays:
        X, y = arrays["X"].astype(float), arrays["y"].astype(float)
    if len(y) > rows:
        kept = np.random.RandomState(42).permutation(len(y))[:rows]
        X, y = X[kept], y[kept]
    order = np.random.RandomState(repetition).permutation(len(y))
    n_test = int(np.ceil(0.25 * len(y)))
    train, test = order[n_test:], order[:n_test]
    deviations = X[train].std(axis=0)
    deviations[X[train].max(axis=0) == X[train].min(axis=0)] = np.inf
    X = (X - X[train].mean(axis=0)) / deviations
    return Split(X[train], y[train], X[test], y[test])


def points_of(y: np.ndarray) -> np.ndarray:
    margin = 0.05 * np.ptp(y)
    return np.linspace(y.min() - margin, y.max() + margin, 200)


def normal_prediction(mean: Any, std: Any, points: np.ndarray) -> Prediction:
    from scipy.stats import norm

    mean, std = (np.asarray(part, dtype=float)[:, None] for part in (mean, std))
    reach = norm.ppf(0.5 + COVERAGE / 2) * std
    return Prediction(norm.pdf(points, mean, std), np.hstack([mean - reach, mean + reach]))


# -- methods ---------------------------------------------------------------------------------------


def ours(**options: Any) -> Callable[[Split, np.ndarray], Prediction]:
    def run(rows: Split, points: np.ndarray) -> Prediction:
        from dotsketch import FeatureGPRegressor

        method = options.pop("method", "posterior")
        model = FeatureGPRegressor(**options).fit(rows.X, rows.y)
        interval = model.predict_interval(rows.X_test, COVERAGE, method)
        return Prediction(model.predict_density(rows.X_test, points), interval)

    return run


def catboost(rows: Split, points: np.ndarray) -> Prediction:
    from catboost import CatBoostRegressor

    model = CatBoostRegressor(loss_function="RMSEWithUncertainty", thread_count=1, verbose=False)
    mean, variance = model.fit(rows.X, rows.y).predict(rows.X_test).T
    return normal_prediction(mean, np.sqrt(variance), points)


def ngboost(rows: Split, points: np.ndarray) -> Prediction:
    from ngboost import NGBRegressor

    found = NGBRegressor(verbose=False, random_state=0).fit(rows.X, rows.y).pred_dist(rows.X_test)
    return normal_prediction(found.loc, found.scale, points)


def cqr_lightgbm(rows: Split, points: np.ndarray) -> Prediction:
    """Conformalised quantile regression (Romano et al., 2019): a fifth of the rows calibrates."""
    from lightgbm import LGBMRegressor

    n = len(rows.y) // 5
    ends = []
    for level in (0.5 - COVERAGE / 2, 0.5 + COVERAGE / 2):
        model = LGBMRegressor(objective="quantile", alpha=level, n_jobs=1, verbosity=-1)
        model.fit(rows.X[n:], rows.y[n:])
        ends.append((model.predict(rows.X[:n]), model.predict(rows.X_test)))
    (low, low_test), (high, high_test) = ends
    scores = np.sort(np.maximum(low - rows.y[:n], rows.y[:n] - high))
    reach = scores[min(int(np.ceil(COVERAGE * (n + 1))), n) - 1]
    return Prediction(None, np.stack([low_test - reach, high_test + reach], axis=1))


def gpboost(rows: Split, points: np.ndarray) -> Prediction:
    import gpboost

    model = gpboost.GPModel(
        gp_coords=rows.X, cov_function="matern_ard", cov_fct_shape=1.5, gp_approx="vecchia"
    )
    scale = rows.y.std()
    model.fit(y=(rows.y - rows.y.mean()) / scale)
    found = model.predict(gp_coords_pred=rows.X_test, predict_var=True, predict_response=True)
    mean = found["mu"] * scale + rows.y.mean()
    return normal_prediction(mean, np.sqrt(found["var"]) * scale, points)


METHODS: dict[str, Callable[[Split, np.ndarray], Prediction]] = {
    "dotsketch": ours(),
    "dotsketch, constant noise": ours(noise_variance="constant"),
    "dotsketch, warp": ours(target_transform="auto"),
    "dotsketch, jackknife+": ours(method="jackknife+"),
    "CatBoost": catboost,
    "NGBoost": ngboost,
    "CQR on LightGBM": cqr_lightgbm,
    "GPBoost": gpboost,
}


# -- runs ------------------------------------------------------------------------------------------


def scores(prediction: Prediction, points: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """By the rule of the comparison: a floor of 1e-10 for densities."""
    low, high = prediction.interval.T
    result = {"coverage": float(np.mean((y >= low) & (y <= high)))}
    result["interval score"] = float(np.mean(interval_score(y, low, high, COVERAGE)))
    if prediction.density is None:
        return result
    density = prediction.density + 1e-300
    density = density / np.trapezoid(density, points, axis=1)[:, None]
    at = [np.interp(v, points, row, left=0, right=0) for v, row in zip(y, density, strict=True)]
    result["log density"] = float(np.mean(np.log(np.maximum(at, 1e-10))))
    result["CRPS"] = float(np.mean(crps_of_density(y, points, density)))
    return result


def run_one(data: Path, table: str, rows: int, repetition: int, method: str) -> None:
    """In a process of its own: one line of JSON."""
    split = load_split(data / f"{table}.npz", rows, repetition)
    points = points_of(split.y)
    prediction = METHODS[method](split, points)
    used = resource.getrusage(resource.RUSAGE_SELF)
    seconds = used.ru_utime + used.ru_stime
    print(json.dumps({**scores(prediction, points, split.y_test), "seconds": round(seconds, 1)}))


def read_table() -> list[dict[str, str]]:
    if not TABLE.exists():
        return []
    with TABLE.open(newline="") as file:
        return list(csv.DictReader(file))


def run_all(arguments: argparse.Namespace) -> None:
    done = {tuple(row[name] for name in COLUMNS[:4]) for row in read_table()}
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    for table in arguments.tables:
        for rows in arguments.rows:
            for repetition in range(arguments.repetitions):
                for method in arguments.methods:
                    key = (table, str(rows), str(repetition), method)
                    if key in done:
                        continue
                    one = ["--one", *key, "--data", str(arguments.data)]
                    command = [sys.executable, "-m", "benchmarks.distributions", *one]
                    result = subprocess.run(
                        command, capture_output=True, text=True, env=environment, check=False
                    )
                    if result.returncode:
                        print(*key, "failed:", result.stderr.strip().splitlines()[-1:])
                        continue
                    values = json.loads(result.stdout.strip().splitlines()[-1])
                    record = dict(zip(COLUMNS[:4], key, strict=True))
                    record |= {name: f"{value:.6g}" for name, value in values.items()}
                    print(*record.values(), flush=True)
                    is_new = not TABLE.exists()
                    with TABLE.open("a", newline="") as file:
                        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
                        if is_new:
                            writer.writeheader()
                        writer.writerow(record)


def summary(published: Path | None) -> dict[tuple[str, str], dict[str, dict[str, float]]]:
    """Mean scores of every method, by table and rows."""
    parts: dict[tuple[str, str], dict[str, dict[str, list[float]]]] = {}
    for row in read_table():
        own = parts.setdefault((row["table"], row["rows"]), {}).setdefault(row["method"], {})
        for name in COLUMNS[4:]:
            if row[name]:
                own.setdefault(name, []).append(float(row[name]))
    result = {
        key: {m: {k: float(np.mean(v)) for k, v in own.items()} for m, own in methods.items()}
        for key, methods in parts.items()
    }
    if published is not None:
        with published.open(newline="") as file:
            for row in csv.DictReader(file):
                key = row["table"], row["n"]
                if key in result:
                    result[key][row["method"]] = {
                        "log density": float(row["log_lik"]),
                        "CRPS": float(row["crps"]),
                        "coverage": float(row["coverage_90"]),
                    }
    return result


def print_summary(published: Path | None) -> None:
    for (table, rows), methods in sorted(summary(published).items()):
        print(f"\n{table}, {rows} rows")
        order = sorted(methods, key=lambda name: methods[name].get("CRPS", np.inf))
        for name in order:
            values = "".join(f"{methods[name].get(c, np.nan):>14.5g}" for c in COLUMNS[4:])
            print(f"{name:28}{values}")


def draw(published: Path, file: Path) -> None:
    """CRPS relative to TabPFN-2.5, one column of dots for every table."""
    import matplotlib.pyplot as plt

    groups = [(k, v) for k, v in sorted(summary(published).items()) if "TabPFN-2.5" in v]
    figure, axes = plt.subplots(figsize=(8, 4), layout="constrained")
    for place, (_, methods) in enumerate(groups):
        base = methods["TabPFN-2.5"]["CRPS"]
        for name, values in methods.items():
            if "CRPS" not in values:
                continue
            color, size = ("#c0392b", 60) if name.startswith("dotsketch") else ("#9aa5b1", 25)
            label = name if place == 0 and name.startswith("dotsketch") else None
            marker = {"dotsketch, warp": "^", "dotsketch, constant noise": "s"}.get(name, "o")
            axes.scatter(place, values["CRPS"] / base, s=size, c=color, marker=marker, label=label)
    axes.set(ylim=(0.9, 2.5), ylabel="CRPS relative to TabPFN-2.5")
    axes.set_xticks(range(len(groups)), [f"{t}\n{n} rows" for (t, n), _ in groups], fontsize=7)
    axes.axhline(1, color="#9aa5b1", lw=0.8)
    axes.legend(fontsize=8)
    figure.savefig(file)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--published", type=Path)
    parser.add_argument("--tables", nargs="+", default=list(TABLES))
    parser.add_argument("--rows", nargs="+", type=int, default=[5000])
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--figure", type=Path)
    parser.add_argument("--one", nargs=4, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        table, rows, repetition, method = arguments.one
        run_one(arguments.data, table, int(rows), int(repetition), method)
        return
    run_all(arguments)
    print_summary(arguments.published)
    if arguments.figure is not None:
        draw(arguments.published, arguments.figure)


if __name__ == "__main__":
    main()

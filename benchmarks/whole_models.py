"""Whole models on tables of numbers: error, likelihood, coverage and time, everybody's defaults.

    python -m benchmarks.whole_models --data DIR [--sets airfoil wine …] [--methods dotsketch …]
                                      [--limit 600] [--table FILE] [--figure FILE]

DIR holds one file per set, such as airfoil.npz, with the arrays X, y and test_mask (n, splits):
column 0 marks the test rows. X and y are standardized by the training rows. RMSE, mean negative log
likelihood (with the noise) and the coverage of 95 % intervals are those of the test rows, on the
standardized target; the last two are left out for models without a predictive variance. Seconds are
processor seconds of fit and prediction together.

Every fit runs in a process of its own, on one thread, and is stopped after `--limit` processor
seconds. Results go to the table as soon as they are there; a set and method that the table has is
not run again (remove the line to repeat it). The figure is drawn from the table. A method whose
library is missing is skipped: `pip install -r benchmarks/requirements.txt` installs all of them.

Settings: every library has its defaults. Where a library has none (GPyTorch, GPBoost, the kernel of
scikit-learn's process), the model has a Matérn-3/2 kernel with one lengthscale per input and the
optimizer of the library's tutorial. xRFM needs validation rows and gets a fifth of the training
rows. CatBoost has the loss that predicts variances, RMSEWithUncertainty.
"""

from __future__ import annotations

import argparse
import csv
import importlib.metadata
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

SETS = ("stock", "airfoil", "wine", "gas", "pol", "elevators", "bike", "kin40k", "protein")
HEADER = (
    "set",
    "training rows",
    "inputs",
    "method",
    "version",
    "RMSE",
    "NLL",
    "coverage",
    "seconds",
)
DOCS = Path(__file__).parents[1] / "docs"
Prediction = tuple[np.ndarray, np.ndarray | None]  # mean and variance, or no variance


class Split(NamedTuple):
    """Standardized rows and targets."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray


def load_split(file: Path, split: int = 0) -> Split:
    """Means and standard deviations come from the training rows only."""
    with np.load(file) as arrays:
        X, y, test = arrays["X"], arrays["y"], arrays["test_mask"][:, split]
    train = ~test
    deviations = X[train].std(axis=0)
    # By max == min: a standard deviation of zero can fail by rounding.
    deviations[X[train].max(axis=0) == X[train].min(axis=0)] = np.inf
    X = (X - X[train].mean(axis=0)) / deviations
    y = (y - y[train].mean()) / y[train].std()
    return Split(X[train], y[train], X[test], y[test])


def dotsketch(rows: Split) -> Prediction:
    from dotsketch import FeatureGPRegressor

    model = FeatureGPRegressor().fit(rows.X, rows.y)
    mean, std = model.predict(rows.X_test, return_std=True, include_noise=True)
    return mean, std**2


def scikit_learn(rows: Split) -> Prediction:
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

    matern = Matern(np.ones(rows.X.shape[1]), nu=1.5)
    model = GaussianProcessRegressor(ConstantKernel() * matern + WhiteKernel(), random_state=0)
    mean, std = model.fit(rows.X, rows.y).predict(rows.X_test, return_std=True)
    return mean, std**2


def sgpr(rows: Split) -> Prediction:
    """Titsias' bound with 512 inducing points, 100 steps of Adam."""
    import gpytorch
    import torch

    X, y, X_test = (torch.tensor(part, dtype=torch.float32) for part in rows[:3])
    torch.manual_seed(0)
    likelihood = gpytorch.likelihoods.GaussianLikelihood()

    class Model(gpytorch.models.ExactGP):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__(X, y, likelihood)
            self.mean_module = gpytorch.means.ConstantMean()
            self.covar_module = gpytorch.kernels.InducingPointKernel(
                matern_kernel(X.shape[1]),
                inducing_points=X[torch.randperm(len(X))[:512]].clone(),
                likelihood=likelihood,
            )

        def forward(self, x: Any) -> Any:
            return gpytorch.distributions.MultivariateNormal(
                self.mean_module(x), self.covar_module(x)
            )

    model = Model()
    objective = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    for _ in range(100):
        optimizer.zero_grad()
        (-objective(model(X), y)).backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        predicted = likelihood.eval()(model(X_test))
        return predicted.mean.numpy(), predicted.variance.numpy()


def svgp(rows: Split) -> Prediction:
    """512 inducing points, 3000 steps of Adam with batches of 256 rows (19 epochs of protein)."""
    import gpytorch
    import torch

    X, y, X_test = (torch.tensor(part, dtype=torch.float32) for part in rows[:3])
    torch.manual_seed(0)
    points = X[torch.randperm(len(X))[:512]].clone()
    variational = gpytorch.variational

    class Model(gpytorch.models.ApproximateGP):  # type: ignore[misc]
        def __init__(self) -> None:
            distribution = variational.CholeskyVariationalDistribution(len(points))
            super().__init__(variational.VariationalStrategy(self, points, distribution))
            self.mean_module = gpytorch.means.ConstantMean()
            self.covar_module = matern_kernel(X.shape[1])

        def forward(self, x: Any) -> Any:
            return gpytorch.distributions.MultivariateNormal(
                self.mean_module(x), self.covar_module(x)
            )

    model, likelihood = Model(), gpytorch.likelihoods.GaussianLikelihood()
    objective = gpytorch.mlls.VariationalELBO(likelihood, model, num_data=len(X))
    optimizer = torch.optim.Adam([*model.parameters(), *likelihood.parameters()], lr=0.01)
    for _ in range(3000):
        batch = torch.randint(len(X), (256,))
        optimizer.zero_grad()
        (-objective(model(X[batch]), y[batch])).backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        predicted = likelihood.eval()(model(X_test))
        return predicted.mean.numpy(), predicted.variance.numpy()


def matern_kernel(n_inputs: int) -> Any:
    import gpytorch

    return gpytorch.kernels.ScaleKernel(gpytorch.kernels.MaternKernel(1.5, ard_num_dims=n_inputs))


def gpboost(rows: Split) -> Prediction:
    """Vecchia's approximation."""
    import gpboost

    model = gpboost.GPModel(
        gp_coords=rows.X,
        cov_function="matern_ard",
        cov_fct_shape=1.5,
        gp_approx="vecchia",
        likelihood="gaussian",
        num_parallel_threads=1,
        seed=0,
    )
    model.fit(y=rows.y)
    predicted = model.predict(gp_coords_pred=rows.X_test, predict_var=True, predict_response=True)
    return predicted["mu"], predicted["var"]


def xrfm(rows: Split) -> Prediction:
    import torch
    from xrfm import xRFM

    torch.manual_seed(0)
    X, y, X_test = (torch.tensor(part, dtype=torch.float32) for part in rows[:3])
    order = torch.randperm(len(X))
    fitted, held_out = order[len(X) // 5 :], order[: len(X) // 5]
    model = xRFM(device=torch.device("cpu"), tuning_metric="mse")
    model.fit(X[fitted], y[fitted, None], X[held_out], y[held_out, None])
    return np.asarray(model.predict(X_test)).reshape(-1), None


def catboost(rows: Split) -> Prediction:
    from catboost import CatBoostRegressor

    model = CatBoostRegressor(
        loss_function="RMSEWithUncertainty",
        random_seed=0,
        thread_count=1,
        verbose=False,
        allow_writing_files=False,
    )
    predicted = model.fit(rows.X, rows.y).predict(rows.X_test)
    return predicted[:, 0], predicted[:, 1]


def lightgbm(rows: Split) -> Prediction:
    from lightgbm import LGBMRegressor

    model = LGBMRegressor(n_jobs=1, random_state=0, verbosity=-1)
    return np.asarray(model.fit(rows.X, rows.y).predict(rows.X_test)), None


def hist_gradient_boosting(rows: Split) -> Prediction:
    from sklearn.ensemble import HistGradientBoostingRegressor

    model = HistGradientBoostingRegressor(random_state=0)
    return model.fit(rows.X, rows.y).predict(rows.X_test), None


class Method(NamedTuple):
    label: str
    library: str  # as pip calls it
    predict: Callable[[Split], Prediction]
    most_rows: float = np.inf  # sets with more training rows are left out


METHODS = {
    "dotsketch": Method("dotsketch, FeatureGPRegressor()", "dotsketch", dotsketch),
    # Its matrices of n rows take n³ operations per step: minutes at 2,500 rows, hours at 15,000.
    "sklearn": Method("scikit-learn, exact GP", "scikit-learn", scikit_learn, 2500),
    "sgpr": Method("GPyTorch, SGPR", "gpytorch", sgpr),
    "svgp": Method("GPyTorch, SVGP", "gpytorch", svgp),
    "gpboost": Method("GPBoost, Vecchia", "gpboost", gpboost),
    "xrfm": Method("xRFM", "xrfm", xrfm),
    "catboost": Method("CatBoost", "catboost", catboost),
    "lightgbm": Method("LightGBM", "lightgbm", lightgbm),
    "histgb": Method("HistGradientBoosting", "scikit-learn", hist_gradient_boosting),
}


def measure(method: str, file: Path) -> dict[str, Any]:
    """The figures of one fit, in this process; imports are not counted."""
    rows = load_split(file)
    few = Split(rows.X[:50], rows.y[:50], rows.X_test[:2], rows.y_test[:2])
    METHODS[method].predict(few)  # imports, and what libraries compile or load at first
    begun = time.process_time()
    mean, variance = METHODS[method].predict(rows)
    seconds = time.process_time() - begun
    errors = rows.y_test - mean
    figures = {"RMSE": float(np.sqrt(np.mean(errors**2))), "seconds": seconds}
    if variance is not None:
        log_densities = -0.5 * (np.log(2 * np.pi * variance) + errors**2 / variance)
        figures["NLL"] = -float(np.mean(log_densities))
        figures["coverage"] = float(np.mean(np.abs(errors) < 1.96 * np.sqrt(variance)))
    return figures


def measure_apart(method: str, file: Path, limit: int) -> dict[str, Any]:
    """The same in a process with one thread and so many processor seconds.

    A fit that runs out of time has no figures but the limit as its seconds.
    """
    threads = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL")}
    command = [sys.executable, "-m", "benchmarks.whole_models", "--data", str(file.parent)]
    done = subprocess.run(
        [*command, "--fit", method, file.stem],
        env=os.environ | threads,
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (limit, limit)),
    )
    if done.returncode == 0:
        return dict(json.loads(done.stdout.splitlines()[-1]))
    if done.returncode < 0:  # by a signal: of the limit
        return {"seconds": f">{limit}"}
    raise RuntimeError(f"{method} failed on {file.stem}:\n{done.stderr}")


def read_table(table: Path) -> list[dict[str, str]]:
    if not table.exists():
        return []
    with table.open(newline="") as file:
        return list(csv.DictReader(file))


def add_line(table: Path, line: dict[str, object]) -> None:
    is_new = not table.exists()
    with table.open("a", newline="") as file:
        writer = csv.DictWriter(file, HEADER, lineterminator="\n")
        if is_new:
            writer.writeheader()
        writer.writerow(line)


def draw(lines: list[dict[str, str]], figure: Path) -> None:
    """Left the error relative to gradient boosting, right the seconds; one line per set."""
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    plt.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "", "font.size": 9})
    boosting = {line["set"]: float(line["RMSE"]) for line in lines if line["method"] == "histgb"}
    sets = [name for name in SETS if name in boosting]
    lines = [line for line in lines if line["set"] in boosting]
    sizes = {line["set"]: f"{line['set']}\n{int(line['training rows']):,}" for line in lines}
    size = (9, 0.52 * len(sets) + 1.5)
    picture, (errors, seconds) = plt.subplots(1, 2, figsize=size, sharey=True)
    markers = ("o", "s", "v", "^", "D", "X", "P", "<", ">")
    colors = ("#c8102e", "C1", "C2", "C0", "C4", "C5", "C6", "C9", "C7")
    for (key, method), marker, color in zip(METHODS.items(), markers, colors, strict=True):
        own = [line for line in lines if line["method"] == key and line["RMSE"]]
        is_ours = key == "dotsketch"
        style = {
            "s": 70 if is_ours else 32,
            "marker": marker,
            "zorder": 3 if is_ours else 2,
            "color": color,
            "alpha": 1.0 if is_ours else 0.8,
        }
        places = [sets.index(line["set"]) for line in own]
        relative = [float(line["RMSE"]) / boosting[line["set"]] for line in own]
        errors.scatter(relative, places, label=method.label, **style)
        seconds.scatter([float(line["seconds"]) for line in own], places, **style)
    for axes, title in (
        (errors, "RMSE, relative to HistGradientBoosting"),
        (seconds, "processor seconds, fit and prediction"),
    ):
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter("{x:g}")
        axes.xaxis.set_minor_formatter("")
        axes.set_title(title, fontsize=9)
        axes.grid(axis="y", color="#dddddd", linewidth=0.8)
        axes.spines[["top", "right", "left"]].set_visible(False)
        axes.tick_params(axis="y", length=0)
    errors.set_xticks([0.2, 0.5, 1, 2])
    errors.axvline(1, color="#bbbbbb", linewidth=0.8, zorder=1)
    errors.set_yticks(range(len(sets)), [sizes[name] for name in sets])
    errors.invert_yaxis()
    picture.legend(loc="outside lower center", ncols=5, frameon=False, fontsize=8)
    picture.set_layout_engine("constrained")
    picture.savefig(figure, metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="the folder of the sets")
    parser.add_argument("--sets", nargs="*", default=SETS, choices=SETS, metavar="SET")
    parser.add_argument("--methods", nargs="*", default=[*METHODS], choices=METHODS)
    parser.add_argument("--limit", type=int, default=600, help="processor seconds per fit")
    parser.add_argument("--table", type=Path, default=DOCS / "tables" / "whole_models.csv")
    parser.add_argument("--figure", type=Path, default=DOCS / "figures" / "whole_models.svg")
    parser.add_argument("--fit", nargs=2, metavar=("METHOD", "SET"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.fit:
        method, name = options.fit
        print(json.dumps(measure(method, options.data / f"{name}.npz")))
        return
    for method in options.methods:
        try:
            version = importlib.metadata.version(METHODS[method].library)
        except importlib.metadata.PackageNotFoundError:
            print(f"{method} is skipped: {METHODS[method].library} is not installed.")
            continue
        for name in options.sets:
            file = options.data / f"{name}.npz"
            rows = load_split(file)
            done = {(line["set"], line["method"]) for line in read_table(options.table)}
            if (name, method) in done or len(rows.X) > METHODS[method].most_rows:
                continue
            figures = measure_apart(method, file, options.limit)
            line = dict(zip(HEADER, (name, *rows.X.shape, method, version), strict=False))
            digits = {"RMSE": ".4f", "NLL": ".3f", "coverage": ".3f", "seconds": ".3g"}
            for key, value in figures.items():
                line[key] = value if isinstance(value, str) else format(value, digits[key])
            add_line(options.table, line)
            print(*line.values(), flush=True)
    draw(read_table(options.table), options.figure)


if __name__ == "__main__":
    main()

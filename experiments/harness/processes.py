"""Gaussian processes with approximate kernels, measured against the exact one.

The protocol of Section 6.1: the regularisation (noise variance, or α of Dirichlet labels) is
chosen by the likelihood of validation rows with a baseline method, and shared by all methods.
Frobenius error and KL divergence are measured on at most m training and test rows, where the
exact Gaussian process is affordable; prediction error and likelihood with all rows. Targets of
regression are standardised, so that the kernel's variance σ² = Var y is one; likelihoods are
reported in units of y.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from dotsketch.gp import (
    DirichletGPClassifier,
    ExactGPClassifier,
    ExactGPRegressor,
    FeatureGPRegressor,
)
from dotsketch.kernels import DotProductKernel
from dotsketch.metrics import (
    error_rate,
    gaussian_kl,
    mean_negative_log_likelihood,
    normalized_mean_squared_error,
)

from . import plots
from .data import Prepared, prepare
from .experiment import Row, Setting, attempt
from .methods import METHODS, Method, without

NOISE_VARIANCES = tuple(2.0**k for k in range(-15, 16))
ALPHAS = tuple(10.0**k for k in range(-5, 1))

# The classifiers of the paper have the variance of the labels as their prior variance
AUTHORS: Any = {"prior_variance": "labels"}


@dataclass(frozen=True, eq=False)
class Task:
    """Data of one seed with the kernel to approximate; `size` rows are for the exact process."""

    data: Prepared
    kernel: DotProductKernel
    size: int

    @property
    def is_classification(self) -> bool:
        return self.data.task == "classification"

    @property
    def scale(self) -> float:
        """The unit of y that is one unit of the standardised targets."""
        return 1.0 if self.is_classification else float(np.std(self.data.y_train)) or 1.0

    @property
    def train(self) -> tuple[np.ndarray, np.ndarray]:
        y = self.data.y_train
        return self.data.X_train, y if self.is_classification else self.standardised(y)

    @property
    def test(self) -> tuple[np.ndarray, np.ndarray]:
        y = self.data.y_test
        return self.data.X_test, y if self.is_classification else self.standardised(y)

    def standardised(self, y: np.ndarray) -> np.ndarray:
        result: np.ndarray = (y - np.mean(self.data.y_train)) / self.scale
        return result

    def subset(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Rows and targets of training, and rows of testing, for the exact process."""
        X, y = self.train
        return X[: self.size], y[: self.size], self.data.X_test[: self.size]


@dataclass(frozen=True, eq=False)
class Latent:
    """Mean and variance of the latent function(s) at the test rows."""

    mean: np.ndarray
    variance: np.ndarray


def make_gp(task: Task, features: Any, regularisation: float, posterior: str = "real") -> Any:
    if task.is_classification:
        return DirichletGPClassifier(
            features,
            alpha=regularisation,
            posterior=posterior,
            variance_correction=None,
            **AUTHORS,
        )
    return FeatureGPRegressor(
        features,
        noise_variance=regularisation,
        prior_variance=1.0,
        posterior=posterior,
        variance_correction=None,
        normalize_y=None,
    )


def latent(gp: Any, X: np.ndarray) -> Latent:
    """The posterior of f, without noise."""
    if hasattr(gp, "predict_latent"):
        mean, deviation = gp.predict_latent(X)
    else:
        mean, deviation = gp.predict(X, return_std=True)
    return Latent(mean, deviation**2)


def scores(task: Task, gp: Any, X: np.ndarray, y: np.ndarray) -> Row:
    """Test error (misclassified share, or normalised squared error) and MNLL in units of y."""
    if task.is_classification:
        p = gp.predict_proba(X)
        mnll = mean_negative_log_likelihood(y, p, classes=gp.classes_)
        return {"test_error": error_rate(y, gp.classes_[p.argmax(axis=1)]), "mnll": mnll}
    mean, deviation = gp.predict(X, return_std=True, include_noise=True)
    mnll = mean_negative_log_likelihood(y, mean, deviation**2) + np.log(task.scale)
    error = normalized_mean_squared_error(y, mean)
    squared = float(np.mean((mean - y) ** 2)) * task.scale**2  # in squared units of y
    return {"test_error": error, "squared_error": squared, "mnll": float(mnll)}


def choose_regularisation(task: Task, baseline: Method, n_features: int, seed: int) -> float:
    """The value with the least MNLL on a tenth of the training rows, learned on the others."""
    X, y = task.train
    n_validation = max(1, len(X) // 10)
    X, y, X_validation, y_validation = (
        X[n_validation:],
        y[n_validation:],
        X[:n_validation],
        y[:n_validation],
    )
    grid = ALPHAS if task.is_classification else NOISE_VARIANCES
    gp = make_gp(task, baseline.make(task.kernel, n_features, seed), grid[0])
    fit_on(gp, task, X, y)
    losses = []
    for value in grid:
        gp.set_params(**{"alpha" if task.is_classification else "noise_variance": value})
        losses.append(scores(task, gp.refit(), X_validation, y_validation)["mnll"])
    return grid[int(np.nanargmin(losses))]


def fit_on(gp: Any, task: Task, X: np.ndarray, y: np.ndarray) -> Any:
    """Fit; classes of which a subset has no rows are known all the same."""
    if task.is_classification and isinstance(gp, DirichletGPClassifier):
        return gp.fit(X, y, classes=np.unique(task.data.y_train))
    return gp.fit(X, y)


def exact_process(task: Task, regularisation: float) -> tuple[Latent, Row]:
    """The exact posterior on the subset, and its scores on the test rows."""
    X, y, X_test = task.subset()
    if task.is_classification:
        gp: Any = ExactGPClassifier(task.kernel, alpha=regularisation, **AUTHORS)
    else:
        gp = ExactGPRegressor(
            task.kernel, noise_variance=regularisation, prior_variance=1.0, normalize_y=None
        )
    gp.fit(X, y)
    y_test = task.test[1][: task.size]
    return latent(gp, X_test), scores(task, gp, X_test, y_test)


def measure(
    task: Task,
    method: Method,
    n_features: int,
    seed: int,
    regularisation: float,
    exact: Latent,
    K: np.ndarray,
) -> Row:
    """All metrics of one method. Complex features have the paper's complex posterior.

    K is the exact Gram matrix of the test rows of the subset.
    """
    X, y, X_test = task.subset()
    features = method.make(task.kernel, n_features, seed)
    posterior = "complex" if method.is_complex and method.family != "beyond" else "real"
    begin = time.perf_counter()
    gp = fit_on(make_gp(task, features, regularisation, posterior), task, X, y)
    seconds = time.perf_counter() - begin
    row = gram_errors(K, np.asarray(gp.features_.transform(X_test)))
    row |= divergences(latent(gp, X_test), exact)
    if len(task.data.X_train) > task.size:
        fit_on(gp, task, *task.train)
    return row | scores(task, gp, *task.test) | {"fit_seconds": seconds}


def divergences(approximate: Latent, exact: Latent) -> Row:
    """KL(approximate ‖ exact), as the authors compute it, and the other way round."""
    ours = approximate.mean, np.maximum(approximate.variance, 1e-12)
    theirs = exact.mean, np.maximum(exact.variance, 1e-12)
    return {"kl": gaussian_kl(*ours, *theirs), "kl_reverse": gaussian_kl(*theirs, *ours)}


def gram_errors(
    K: np.ndarray, Z: np.ndarray, *, size: int | None = None, block_size: int = 1024
) -> Row:
    """‖K − Z Zᴴ‖_F / ‖K‖_F for an exact Gram matrix (n, n) and features (n, D).

    `frobenius_error` drops the imaginary part of Z Zᴴ, as the paper's text defines it;
    `frobenius_error_complex` keeps it, as the authors' results do for polynomial kernels. Both
    are the same for real features. Works on blocks above the diagonal, sums in float64.

    With `size`, the rows are a random sample of so many, whose matrix is meant: its size diagonal
    and size (size − 1) other entries are as large in the mean as those of the sample. The squared
    norms are then unbiased. (Without this weight a small sample has too much diagonal.)
    """
    n = len(K)
    weight = 1.0 if size is None or n < 2 else (size - 1) / (n - 1)
    real = np.concatenate([Z.real, Z.imag], axis=1) if np.iscomplexobj(Z) else Z
    imaginary = np.ascontiguousarray(Z.imag) if np.iscomplexobj(Z) else None
    real_part = np.ascontiguousarray(Z.real)
    total = kept = dropped = 0.0
    for start in range(0, n, block_size):
        rows, rest = slice(start, start + block_size), slice(start, n)
        exact = K[rows, rest]
        total += weighted(exact, weight)
        kept += weighted(exact - real[rows] @ real[rest].T, weight)
        if imaginary is not None:
            block = imaginary[rows] @ real_part[rest].T - real_part[rows] @ imaginary[rest].T
            dropped += weighted(block, weight)
    return {
        "frobenius_error": float(np.sqrt(kept / total)),
        "frobenius_error_complex": float(np.sqrt((kept + dropped) / total)),
    }


def expected_error(K: np.ndarray, variance: np.ndarray, size: int | None = None) -> float:
    """√(E‖K − K̂‖² / ‖K‖²) of an unbiased K̂, from the variances of its entries, (n, n) each."""
    weight = 1.0 if size is None else (size - 1) / (len(K) - 1)
    return float(np.sqrt(weighted(np.sqrt(variance), weight) / weighted(K, weight)))


def weighted(block: np.ndarray, weight: float) -> float:
    """Σ of squares over a block that starts at the diagonal and reaches to the last column.

    What lies right of the diagonal block counts twice, for its mirror image; what is not on the
    diagonal counts `weight` times.
    """
    squares = np.einsum("ij,ij->j", block, block, dtype=np.float64)
    diagonal = float(np.sum(np.diagonal(block).astype(np.float64) ** 2))
    width = len(block)
    total = squares[:width].sum() + 2 * squares[width:].sum()
    return diagonal + weight * (float(total) - diagonal)


CLASSIFICATION = ("cod_rna", "magic", "fashion_mnist", "eeg", "mnist", "adult", "covertype",
                  "drive", "letter")  # fmt: skip
REGRESSION = ("boston", "concrete", "energy", "kin8nm", "naval", "powerplant", "protein",
              "yacht")  # fmt: skip
METRICS = {
    "frobenius_error": "relative Frobenius error",
    "kl": "KL divergence",
    "test_error": "test error",
    "mnll": "MNLL",
}


@dataclass(frozen=True, kw_only=True)
class GPConfig:
    """One cell: D = times · d features. The regularisation is chosen with the baseline at
    selection_times · d; the exact process has n_exact rows."""

    dataset: str
    preprocessing: str
    times: int
    baseline: str
    methods: tuple[str, ...]
    n_exact: int = 5000
    n_train: int | None = None
    n_test: int | None = None
    selection_times: int = 5


def grid(setting: Setting, methods: tuple[str, ...]) -> tuple[tuple[str, ...], dict[str, Any]]:
    """The data sets of Figures 8 and 10, and sizes and methods that all their cells share."""
    datasets = setting.datasets(
        (*CLASSIFICATION, *REGRESSION), ("magic", "boston"), ("wine", "diabetes")
    )
    sizes = setting.choose(
        {},
        {"n_exact": 500, "n_train": 1000, "n_test": 500, "selection_times": 3},
        {"n_exact": 60, "n_train": 80, "n_test": 20, "selection_times": 1},
    )
    left_out = setting.choose((), ("auto_twice",), ("auto", "auto_twice"))
    return datasets, sizes | {"methods": without(methods, *left_out)}


def gp_rows(config: GPConfig, seed: int, kernel: DotProductKernel) -> list[Row]:
    """A row for each method, and one for the exact process ("full_gp")."""
    data = prepare(
        config.dataset, seed, config.preprocessing, n_train=config.n_train, n_test=config.n_test
    )
    task = Task(data, kernel.resolve(data.X_train), config.n_exact)
    d = data.padded_dimension
    baseline = METHODS[config.baseline]
    regularisation = choose_regularisation(task, baseline, config.selection_times * d, seed)
    exact, reference = exact_process(task, regularisation)
    X_test = task.subset()[2]
    K = task.kernel(X_test)
    D = config.times * d
    shared = {"task": data.task, "n_features": D, "regularisation": regularisation}
    rows = [shared | {"method": "full_gp", "columns": 0} | reference]
    for name in config.methods:
        method = METHODS[name]

        def found(method: Any = method) -> Row:
            return measure(task, method, D, seed, regularisation, exact, K)

        row = shared | {"method": name, "columns": method.columns(D)}
        rows.append(attempt(row, found))
    return rows


def plot_metrics(rows: list[Row], lines: dict[str, list[Row]]) -> Any:
    """A line of panels for each entry, a panel for each metric; dashed: the exact process."""
    methods = [name for name in METHODS if name in plots.values(rows, "method")]
    canvas, axes = plots.figure(
        len(lines),
        len(METRICS),
        width=2.5,
        height=0.16 * len(methods) + 0.7,
        margin=1.8,
        sharey=True,
    )
    for panels, (title, chosen) in zip(axes, lines.items(), strict=True):
        for ax, (metric, label) in zip(panels, METRICS.items(), strict=True):
            plots.method_dots(ax, chosen, metric, methods)
            exact = plots.mean(plots.select(chosen, method="full_gp"), metric)
            if exact == exact:
                ax.axvline(exact, color="black", linestyle="--", linewidth=0.8)
            if metric in ("frobenius_error", "kl"):
                plots.log_scale(ax)
            else:
                ax.locator_params(axis="x", nbins=4)
            ax.set_xlabel(label)
        panels[0].set_title(title, loc="left")
    plots.dots_legend(canvas, sorted(plots.values(rows, "times")))
    return canvas


def gp_tables(rows: list[Row], cells: tuple[str, ...]) -> dict[str, list[Row]]:
    """Means and deviations of every metric, and what goes beyond the paper."""
    found = {label: plots.pivot(rows, metric, cells) for metric, label in METRICS.items()}
    for metric in ("frobenius_error", "kl"):
        title = f"Beyond the paper: best {METRICS[metric]} at equal numbers of real columns"
        found[title] = plots.progress_beyond(rows, metric, cells)
    return found

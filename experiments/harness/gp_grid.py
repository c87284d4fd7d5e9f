"""What the Gaussian process experiments share: configurations, rows of one cell, figures and
tables of many."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dotsketch.kernels import DotProductKernel

from . import plots
from .data import prepare
from .experiment import Row, Setting, attempt
from .methods import METHODS, without
from .posteriors import Task, choose_regularisation, exact_process, measure
from .tables import pivot, progress_beyond

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
    n_samples: int = 1000


def grid(setting: Setting, methods: tuple[str, ...]) -> tuple[tuple[str, ...], dict[str, Any]]:
    """The data sets of Figures 8 and 10, and sizes and methods that all their cells share."""
    datasets = setting.datasets(
        (*CLASSIFICATION, *REGRESSION), ("magic", "boston"), ("wine", "diabetes")
    )
    sizes = setting.choose(
        {},
        {"n_exact": 500, "n_train": 1000, "n_test": 500, "n_samples": 200, "selection_times": 3},
        {"n_exact": 60, "n_train": 80, "n_test": 20, "n_samples": 50, "selection_times": 1},
    )
    left_out = setting.choose((), ("auto_twice",), ("auto", "auto_twice"))
    return datasets, sizes | {"methods": without(methods, *left_out)}


def gp_rows(config: GPConfig, seed: int, kernel: DotProductKernel) -> list[Row]:
    """A row for each method, and one for the exact process ("full_gp")."""
    data = prepare(
        config.dataset, seed, config.preprocessing, n_train=config.n_train, n_test=config.n_test
    )
    task = Task(data, kernel.resolve(data.X_train), config.n_exact, config.n_samples)
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
    found = {label: pivot(rows, metric, cells) for metric, label in METRICS.items()}
    for metric in ("frobenius_error", "kl"):
        title = f"Beyond the paper: best {METRICS[metric]} at equal numbers of real columns"
        found[title] = progress_beyond(rows, metric, cells)
    return found

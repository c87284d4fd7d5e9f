"""Figure 7: KL divergence against wall-clock time, real and complex features.

Gaussian process classification with (1/2 + x·y/2)ᵖ; the time is that of making the features and
of computing the posterior. Real features D = d … 10d, complex ones d … 5d.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from dotsketch.kernels import Polynomial

from .harness import plots
from .harness.data import PAPER_NAMES, prepare
from .harness.experiment import Experiment, Row, Setting, attempt
from .harness.methods import METHODS
from .harness.processes import (
    Latent,
    Task,
    choose_regularisation,
    divergences,
    exact_process,
    fit_on,
    latent,
    make_gp,
)

COMPARED = ("rademacher", "rademacher_complex", "tensor_srht", "tensor_srht_complex")
COLOURS = {"rademacher": "#4477aa", "tensor_srht": "#dd8833"}


@dataclass(frozen=True)
class Config:
    dataset: str
    preprocessing: str
    degree: int
    real_times: tuple[int, ...] = tuple(range(1, 11))
    complex_times: tuple[int, ...] = tuple(range(1, 6))
    n_train: int = 5000
    n_test: int = 5000
    selection_times: int = 5


def configs(setting: Setting) -> list[Config]:
    (name,) = setting.datasets(["fashion_mnist"], ["fashion_mnist"], ["digits"])
    sizes = setting.choose(
        {},
        {"real_times": (1, 2), "complex_times": (1,), "n_train": 500, "n_test": 200,
         "selection_times": 1},
        {"real_times": (1, 2), "complex_times": (1,), "n_train": 60, "n_test": 20,
         "selection_times": 1},
    )  # fmt: skip
    return [
        Config(name, how, degree, **sizes)
        for how in ("raw", "centred")
        for degree in setting.choose((3, 7, 10, 20), (3, 10), (3,))
    ]


def run(config: Config, seed: int) -> list[Row]:
    data = prepare(
        config.dataset, seed, config.preprocessing, n_train=config.n_train, n_test=config.n_test
    )
    kernel = Polynomial(config.degree, gamma=0.5, coef0=0.5)
    task = Task(data, kernel, config.n_train)
    d = data.padded_dimension
    alpha = choose_regularisation(task, METHODS["srf"], config.selection_times * d, seed)
    exact, _ = exact_process(task, alpha)
    rows = []
    for name in COMPARED:
        for times in config.complex_times if METHODS[name].is_complex else config.real_times:
            row = {"method": name, "times": times, "n_features": times * d, "alpha": alpha}

            def found(name: str = name, times: int = times) -> Row:
                return timed_divergence(task, name, times * d, seed, alpha, exact)

            rows.append(attempt(row, found))
    return rows


def timed_divergence(
    task: Task, name: str, n_features: int, seed: int, alpha: float, exact: Latent
) -> Row:
    method = METHODS[name]
    X, y, X_test = task.subset()
    features = method.make(task.kernel, n_features, seed)
    posterior = "complex" if method.is_complex else "real"
    begin = time.perf_counter()
    gp = fit_on(make_gp(task, features, alpha, posterior), task, X, y)
    seconds = time.perf_counter() - begin
    return divergences(latent(gp, X_test), exact) | {"seconds": seconds}


def plot(rows: list[Row]) -> Any:
    preprocessings = plots.values(rows, "preprocessing")
    degrees = sorted(plots.values(rows, "degree"))
    canvas, axes = plots.figure(len(preprocessings), len(degrees), width=3.1, height=2.6)
    for line, how in zip(axes, preprocessings, strict=True):
        for ax, degree in zip(line, degrees, strict=True):
            for name in COMPARED:
                chosen = plots.select(rows, preprocessing=how, degree=degree, method=name)
                multiples = sorted(plots.values(chosen, "times"))
                points = [plots.select(chosen, times=times) for times in multiples]
                seconds = [plots.mean(found, "seconds") for found in points]
                divergence = [plots.mean(found, "kl") for found in points]
                is_complex = METHODS[name].is_complex
                ax.plot(
                    seconds,
                    divergence,
                    "--" if is_complex else "-",
                    marker="D" if is_complex else "o",
                    markersize=3.5,
                    color=COLOURS[name.removesuffix("_complex")],
                    label=METHODS[name].label,
                )
                for x, y, times in zip(seconds, divergence, multiples, strict=True):
                    if times in (multiples[0], multiples[-1]):
                        place = (3, 4) if is_complex else (3, -9)
                        ax.annotate(
                            f"{times}d", (x, y), place, textcoords="offset points", fontsize=7
                        )
            data = PAPER_NAMES.get(rows[0]["dataset"], rows[0]["dataset"])
            ax.set_title(f"{data}, {how}, p = {degree}")
            ax.margins(0.15)
            plots.log_scale(ax, "x")
            plots.log_scale(ax, "y")
        line[0].set_ylabel("KL divergence")
    for ax in axes[-1]:
        ax.set_xlabel("seconds")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    canvas.legend(handles, labels, loc="outside upper center", ncols=4)
    return canvas


def tables(rows: list[Row]) -> dict[str, list[Row]]:
    columns = ("preprocessing", "degree", "method", "times", "seed", "seconds", "kl", "kl_reverse")
    lines = [{key: row[key] for key in columns} for row in plots.select(rows)]
    return {"Times and divergences": lines}


EXPERIMENT = Experiment(
    name="fig7",
    title="KL divergence against wall-clock time: real and complex features",
    reproduces="Figure 7 (Section 6.3)",
    configs=configs,
    run=run,
    plot=plot,
    tables=tables,
    timed=True,
    cost=lambda c: 0.006 * c.n_train * max(c.real_times),
)

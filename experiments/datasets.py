"""Table 2: the data sets, how many rows and columns they have, and where they come from.

Mocap has no complete public copy that could be found; it is listed as missing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .harness import plots
from .harness.data import PAPER_NAMES, loaded, padded
from .harness.experiment import Experiment, Row, Setting, attempt
from .harness.processes import REGRESSION

CLASSIFICATION = ("adult", "cod_rna", "covertype", "eeg", "fashion_mnist", "magic", "mnist",
                  "mocap")  # fmt: skip
BUNDLED = ("breast_cancer", "diabetes", "digits", "iris", "wine")


@dataclass(frozen=True)
class Config:
    dataset: str


def configs(setting: Setting) -> list[Config]:
    paper = (*CLASSIFICATION, *REGRESSION)
    return [Config(name) for name in setting.datasets(paper, paper, BUNDLED)]


def run(config: Config, seed: int) -> list[Row]:
    def facts() -> Row:
        data = loaded(config.dataset)
        return {
            "task": data.task,
            "rows": len(data.X) + (0 if data.X_test is None else len(data.X_test)),
            "dimension": data.X.shape[1],
            "padded_dimension": padded(data.X.shape[1]),
            "classes": 0 if data.task == "regression" else int(data.y.max()) + 1,
            "predefined_split": data.X_test is not None,
        }

    return [attempt({"label": PAPER_NAMES.get(config.dataset, config.dataset)}, facts)]


def plot(rows: list[Row]) -> Any:
    found = sorted(plots.select(rows), key=lambda row: (row["task"], -row["rows"]))
    canvas, axes = plots.figure(1, 1, width=6.0, height=0.25 * len(found) + 0.9)
    ax = axes[0, 0]
    colours = {"classification": "#4477aa", "regression": "#997744"}
    ax.barh(
        [row["label"] for row in found],
        [row["rows"] for row in found],
        color=[colours[row["task"]] for row in found],
    )
    for place, row in enumerate(found):
        ax.annotate(
            f" {row['rows']} × {row['dimension']}, {row['task']}",
            (row["rows"], place),
            va="center",
            fontsize=8,
        )
    ax.set(xscale="log", xlabel="rows", xlim=(50, 3e7))
    ax.invert_yaxis()
    return canvas


EXPERIMENT = Experiment(
    name="table2",
    title="The data sets",
    reproduces="Table 2",
    configs=configs,
    run=run,
    plot=plot,
    single_seed=True,
    cost=lambda c: 0.3,
)

"""What an experiment is: a table that is filled row by row, and a figure drawn from the table.

An experiment has frozen configurations, `run(config, seed) -> rows` (dictionaries of plain
numbers and strings) and `plot(rows) -> Figure`. The pair (config, seed) decides the rows; the
harness around it stores, resumes and reports, and knows nothing of sketches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

Row = dict[str, Any]
Config = Any  # a frozen dataclass of plain values

SETTINGS = ("full", "quick", "tiny")


@dataclass(frozen=True)
class Setting:
    """How much to compute, and whether the data sets of the paper are at hand.

    "full" is the paper's setting; "quick" runs all experiments in minutes on small subsamples;
    "tiny" is for tests. Without the paper's data, "quick" and "tiny" take those that
    scikit-learn brings along.
    """

    size: str = "full"
    has_data: bool = True

    def __post_init__(self) -> None:
        if self.size not in SETTINGS:
            raise ValueError(f"size must be one of {SETTINGS}; got {self.size!r}.")

    def choose(self, full: Any, quick: Any, tiny: Any) -> Any:
        """The value for this size."""
        return {"full": full, "quick": quick, "tiny": tiny}[self.size]

    def datasets(
        self, full: Iterable[str], quick: Iterable[str], bundled: Iterable[str]
    ) -> tuple[str, ...]:
        """The paper's data sets, some of them, or scikit-learn's own.

        The full setting asks for the paper's even where they are missing, so that what could not
        be run is seen in the results.
        """
        if self.size == "full":
            return tuple(full)
        return tuple(quick if self.has_data and self.size == "quick" else bundled)


def one_second(config: Config) -> float:
    return 1.0


@dataclass(frozen=True)
class Experiment:
    """One figure or table of the paper.

    Parameters
    ----------
    name : the paper's number, such as "fig6"
    title : one line for lists and reports
    reproduces : which figures or tables of the paper
    configs : the configurations of a setting
    run : rows of one configuration and seed
    plot : a figure of many rows (of one value of `figure_by`, if given)
    tables : tables for the report, by their titles
    figure_by : columns of which every combination of values gets a figure of its own
    single_seed : repetitions, if any, are within `run`
    timed : measures wall-clock time, so that nothing else may run beside it
    cost : about how many seconds a configuration takes, for the estimate of the time left
    """

    name: str
    title: str
    reproduces: str
    configs: Callable[[Setting], list[Config]]
    run: Callable[[Config, int], list[Row]]
    plot: Callable[[list[Row]], Any]
    tables: Callable[[list[Row]], dict[str, list[Row]]] | None = None
    figure_by: tuple[str, ...] = ()
    single_seed: bool = False
    timed: bool = False
    cost: Callable[[Config], float] = one_second

    def units(self, setting: Setting, seeds: int) -> Iterator[Unit]:
        """Everything there is to run: each configuration with each seed."""
        for config in self.configs(setting):
            for seed in range(1 if self.single_seed else seeds):
                yield Unit(self, config, seed)


@dataclass(frozen=True)
class Unit:
    """What is run, stored and resumed as one piece."""

    experiment: Experiment
    config: Config
    seed: int

    @property
    def description(self) -> Row:
        return {
            "experiment": self.experiment.name,
            "config": asdict(self.config),
            "seed": self.seed,
        }

    def __str__(self) -> str:
        values = ", ".join(
            f"{key}={value}"
            for key, value in asdict(self.config).items()
            if isinstance(value, (str, int, float)) and value != ""
        )
        return f"{self.experiment.name} ({values}), seed {self.seed}"


def attempt(row: Row, measure: Callable[[], Row]) -> Row:
    """The row with what `measure` found, or with its error: nothing fails in silence."""
    try:
        return {**row, **measure()}
    except (ValueError, TypeError, ArithmeticError, NotImplementedError, MemoryError) as error:
        return {**row, "error": f"{type(error).__name__}: {error}"}

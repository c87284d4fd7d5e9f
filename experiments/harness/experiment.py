"""What an experiment is, and how it is run and stored.

An experiment has frozen configurations, `run(config, seed) -> rows` (dictionaries of plain numbers
and strings) and `plot(rows) -> Figure`. The pair (config, seed) decides the rows. Each finished
pair is one file, written atomically: a run that is killed resumes where it was. The name of the
file is a digest of experiment, configuration and seed, so a changed configuration is run again.
"""

from __future__ import annotations

import csv
import hashlib
import json
import os
import platform
import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import threadpoolctl
from joblib import Parallel, delayed, parallel_config
from threadpoolctl import threadpool_limits

from dotsketch._support.files import atomic_write
from dotsketch._versions import installed_versions

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


LIBRARIES = ("dotsketch", "numpy", "scipy", "scikit-learn")


class Store:
    """The results below one folder."""

    def __init__(self, folder: str | Path):
        self.folder = Path(folder)

    def path(self, unit: Unit) -> Path:
        text = json.dumps(unit.description, sort_keys=True, default=list)
        digest = hashlib.sha256(text.encode()).hexdigest()[:20]
        return self.folder / "results" / unit.experiment.name / f"{digest}.json"

    def save(self, unit: Unit, record: Row) -> None:
        write_atomically(self.path(unit), json.dumps(unit.description | record, default=plain))

    def load(self, unit: Unit) -> Row | None:
        """The record of a unit, or None if it has not been finished."""
        try:
            result: Row | None = json.loads(self.path(unit).read_text(encoding="utf-8"))
            return result
        except FileNotFoundError:
            return None

    def is_done(self, unit: Unit) -> bool:
        """Whether nothing is left to do; a unit that failed as a whole is tried again."""
        record = self.load(unit)
        return record is not None and record["error"] is None

    def rows(self, units: Iterable[Unit]) -> list[Row]:
        """Tidy rows of all finished units: configuration, seed, results, error."""
        found = []
        for unit in units:
            record = self.load(unit)
            if record is None:
                continue
            columns = record["config"] | {"seed": unit.seed}
            if record["error"] is not None:
                found.append(columns | {"error": record["error"]})
            found += [columns | row for row in record["rows"]]
        return found


def write_atomically(path: Path, text: str | bytes) -> None:
    """A complete file, in a folder that is made for it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as file:
        file.write(text.encode() if isinstance(text, str) else text)


def write_csv(path: Path, rows: list[Row]) -> None:
    """A tidy table: one line a row, columns in the order of their appearance."""
    columns = list(dict.fromkeys(key for row in rows for key in row))
    lines: list[str] = []

    class Lines:
        write = staticmethod(lines.append)

    writer = csv.DictWriter(Lines, columns, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(
        {
            key: ";".join(map(str, value)) if isinstance(value, (list, tuple)) else value
            for key, value in row.items()
        }
        for row in rows
    )
    write_atomically(path, "".join(lines))


def plain(value: Any) -> Any:
    """Numbers of NumPy as those of Python, for JSON."""
    return value.item() if hasattr(value, "item") else list(value)


@cache
def environment() -> Row:
    """What a result depends on besides configuration and seed."""
    blas = [
        f"{library['internal_api']} {library.get('version')}"
        for library in threadpoolctl.threadpool_info()
        if library.get("user_api") == "blas"
    ]
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        **installed_versions(*LIBRARIES),
        "blas": sorted(set(blas)),
    }


Progress = Callable[[Unit, float, str | None], None]  # unit, seconds, error


def run_units(
    units: Iterable[Unit], store: Store, *, jobs: int = 1, progress: Progress | None = None
) -> int:
    """Run what the store does not have yet; returns how many units failed.

    Units are independent and each process writes its own results, so nothing is lost if this one
    is killed. Timed experiments run alone, after all others. A unit that raises is stored with
    its error and counted; the others go on.
    """
    waiting = [unit for unit in units if not store.is_done(unit)]
    threads = max(1, (os.cpu_count() or 1) // max(jobs, 1))
    failed = 0
    for timed, workers in ((False, jobs), (True, 1)):
        group = [unit for unit in waiting if unit.experiment.timed is timed]
        # the longest first, so that no process is left alone with a long one at the end
        group.sort(key=lambda unit: -unit.experiment.cost(unit.config))
        with parallel_config(backend="loky", n_jobs=workers):
            tasks = (
                delayed(run_unit)(number, unit, store, threads) for number, unit in enumerate(group)
            )
            for number, seconds, error in Parallel(return_as="generator_unordered")(tasks):
                failed += error is not None
                if progress is not None:
                    progress(group[number], seconds, error)
    return failed


def run_unit(number: int, unit: Unit, store: Store, threads: int) -> tuple[int, float, str | None]:
    """Run one unit and store its rows, with times and versions; returns its number and error."""
    started = datetime.now(UTC).isoformat(timespec="seconds")
    begin, processor = time.perf_counter(), time.process_time()
    rows: list[Row] = []
    error = trace = None
    try:
        with threadpool_limits(threads, user_api="blas"), warnings.catch_warnings():
            # Methods of the paper are run as they are, also in dimensions that they do not suit
            warnings.filterwarnings("ignore", message='projection="sorf"')
            rows = unit.experiment.run(unit.config, unit.seed)
    except Exception as exception:  # any failure is a result, with its cause
        error = f"{type(exception).__name__}: {exception}"
        trace = traceback.format_exc()
    seconds = time.perf_counter() - begin
    record = {
        "rows": rows,
        "error": error,
        "traceback": trace,
        "started": started,
        "seconds": seconds,
        "processor_seconds": time.process_time() - processor,
        "environment": environment(),
    }
    store.save(unit, record)
    return number, seconds, error

"""The command `python -m experiments` (or `make reproduce`)."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints

import click
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table

from . import EXPERIMENTS
from .harness.claims import Claim, Verdict
from .harness.experiment import Config, Experiment, Row, Setting, Store, Unit, run_units
from .harness.methods import METHODS
from .harness.report import medians, read_reference, write_report

DEFAULT_SEEDS = {"full": 10, "quick": 2}


def chosen_experiments(names: tuple[str, ...]) -> list[Experiment]:
    """The experiments of these names; "all" is every one, "fig" and "table" numbers the paper's."""
    unknown = [name for name in names if name not in (*EXPERIMENTS, "all")]
    if unknown:
        raise click.UsageError(
            f"There is no experiment {unknown[0]!r}; there are all, {', '.join(EXPERIMENTS)}."
        )
    return [e for name, e in EXPERIMENTS.items() if name in names or "all" in names]


def parse_pairs(pairs: tuple[str, ...], option: str) -> dict[str, str]:
    """key=value → {key: value}"""
    found = {}
    for text in pairs:
        key, separator, value = text.partition("=")
        if not separator or not value:
            raise click.UsageError(f"{option} takes key=value; got {text!r}.")
        found[key] = value
    return found


def check_keys(units: list[Unit], keys: list[str]) -> None:
    known = sorted({key for unit in units for key in unit.description["config"]})
    unknown = [key for key in keys if key not in known]
    if unknown:
        raise click.UsageError(f"No configuration has {unknown[0]!r}; there are {known}.")


def check_methods(units: list[Unit]) -> None:
    asked = {name for unit in units for name in getattr(unit.config, "methods", ())}
    unknown = sorted(asked - set(METHODS))
    if unknown:
        raise click.UsageError(f"There is no method {unknown[0]!r}; there are {list(METHODS)}.")


def matches(unit: Unit, filters: dict[str, set[str]]) -> bool:
    """Whether the configuration has one of the values of every key that it has."""
    config = unit.description["config"]
    return all(str(config[key]) in values for key, values in filters.items() if key in config)


def changed(config: Config, changes: dict[str, str]) -> Config:
    """The configuration with other values for the fields that it has."""
    types = get_type_hints(type(config))
    found = {}
    for key, text in changes.items():
        try:
            if key in types:
                found[key] = read_as(types[key], text)
        except ValueError:
            raise click.UsageError(
                f"--set {key}={text}: now it is {getattr(config, key)!r}, and this cannot be read "
                "as something like it."
            ) from None
    return replace(config, **found)


def read_as(kind: Any, text: str) -> Any:
    """A value of a field's type: tuples are lists with commas, None cannot be asked for."""
    if get_origin(kind) is tuple:
        return tuple(get_args(kind)[0](part) for part in text.split(","))
    [kind] = set(get_args(kind) or (kind,)) - {NoneType}
    return kind(text)


@click.command("reproduce")
@click.argument("names", nargs=-1, required=True)
@click.option("--quick", is_flag=True, help="Small subsamples: everything in minutes.")
@click.option("--seeds", type=click.IntRange(1), help="Random seeds [10; 2 with --quick].")
@click.option(
    "--data",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    envvar="DOTSKETCH_DATA",
    help="The folder of the paper's data sets [$DOTSKETCH_DATA].",
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("out/reproduction"),
    show_default=True,
    help="Where results, figures and the report go; finished runs there are kept.",
)
@click.option("--jobs", type=click.IntRange(1), help="Processes [1; all cores with --quick].")
@click.option(
    "--reference",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The authors' results as CSV, to compare with cell by cell.",
)
@click.option(
    "--only", multiple=True, metavar="KEY=VALUE", help="Only configurations with this value."
)
@click.option(
    "--set", "changes", multiple=True, metavar="KEY=VALUE", help="Change sizes, methods or data."
)
@click.option("--report-only", is_flag=True, help="Run nothing; report on the finished runs.")
def reproduce(
    names: tuple[str, ...],
    quick: bool,
    seeds: int | None,
    data: Path | None,
    out: Path,
    jobs: int | None,
    reference: Path | None,
    only: tuple[str, ...],
    changes: tuple[str, ...],
    report_only: bool,
) -> None:
    """Run experiments of the paper: NAMES as `list` shows them, or all.

    Finished runs are kept: a command that was stopped resumes where it left off. Without --data,
    --quick uses the data sets that come with scikit-learn.

    \b
    Examples:
      python -m experiments list
      python -m experiments fig5 --quick
      python -m experiments all --seeds 10 --data folder --jobs 8
    """
    console = Console()
    if names == ("list",):
        console.print(experiment_table())
        return
    experiments = chosen_experiments(names)
    if data is not None:
        os.environ["DOTSKETCH_DATA"] = str(data.resolve())  # for this process and its children
    setting = Setting("quick" if quick else "full", has_data=data is not None)
    count = seeds or DEFAULT_SEEDS[setting.size]
    filters = {key: set(text.split(",")) for key, text in parse_pairs(only, "--only").items()}
    values = parse_pairs(changes, "--set")
    found = [unit for experiment in experiments for unit in experiment.units(setting, count)]
    check_keys(found, [*filters, *values])
    # Configurations that --set makes equal are one
    units = list(
        dict.fromkeys(
            replace(unit, config=changed(unit.config, values))
            for unit in found
            if matches(unit, filters)
        )
    )
    if not units:
        raise click.UsageError("No configuration has the values given by --only.")
    check_methods(units)
    store = Store(out / setting.size)
    jobs = jobs or (os.cpu_count() or 1 if quick else 1)
    theirs = read_reference(reference) if reference is not None else None
    begin = time.perf_counter()
    failed = 0 if report_only else run_with_progress(units, store, jobs, console)
    with console.status("drawing figures and writing the report"):
        path, verdicts, lines = write_report(
            experiments, units, store, reference=theirs, size=setting.size
        )
    show(console, verdicts, lines)
    minutes = (time.perf_counter() - begin) / 60
    console.print(f"{path} after {minutes:.1f} minutes", soft_wrap=True)
    if failed:
        runs = "1 run" if failed == 1 else f"{failed} runs"
        raise click.ClickException(f"{runs} failed as a whole; the report has the errors.")


def run_with_progress(units: list[Unit], store: Store, jobs: int, console: Console) -> int:
    """Run the units under a progress bar whose estimate weighs them by their cost."""
    waiting = [unit for unit in units if not store.is_done(unit)]
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[done]}/{task.fields[count]} runs"),
        TimeElapsedColumn(),
        TextColumn("left:"),
        TimeRemainingColumn(),
    )
    said = time.monotonic()
    with Progress(*columns, console=console, speed_estimate_period=600) as bar:
        total = sum(unit.experiment.cost(unit.config) for unit in waiting)
        skipped = len(units) - len(waiting)
        task = bar.add_task("running", total=total, done=skipped, count=len(units))

        def advance(unit: Unit, seconds: float, error: str | None) -> None:
            nonlocal said
            state = bar.tasks[task]
            done = state.fields["done"] + 1
            bar.update(task, advance=unit.experiment.cost(unit.config), done=done)
            bar.update(task, description=unit.experiment.name)
            if error is not None:
                bar.console.print(f"[red]failed[/red] {escape(f'{unit}: {error}')}", soft_wrap=True)
            if not console.is_terminal and time.monotonic() - said > 30:  # a log has no bar
                said = time.monotonic()
                left = (state.time_remaining or 0) / 60
                console.print(f"{done}/{len(units)} runs, about {left:.1f} minutes left")

        return run_units(units, store, jobs=jobs, progress=advance)


def experiment_table() -> Table:
    table = Table("name", "reproduces", "what", title="Experiments")
    for experiment in EXPERIMENTS.values():
        table.add_row(experiment.name, experiment.reproduces, experiment.title)
    return table


def show(console: Console, verdicts: list[tuple[Claim, Verdict]], lines: list[Row]) -> None:
    """Claims and comparison on the terminal."""
    if verdicts:
        table = Table("", "holds", "the paper claims", "numbers", title="Claims")
        colours = {"yes": "green", "no": "red", "within noise": "yellow", "no data": "dim"}
        for claim, verdict in verdicts:
            holds = f"[{colours[str(verdict)]}]{verdict}[/]"
            table.add_row(claim.experiment, holds, claim.text, escape(verdict.numbers))
        console.print(table)
    if lines:
        found = medians(lines)
        table = Table(title="Beside the authors' results", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
        for heading in found[0]:
            table.add_column(heading, no_wrap=True)
        for row in found:
            table.add_row(*map(str, row.values()))
        console.print(table)
        console.print("Medians of ours/theirs over cells; MNLL: ours − theirs.")

"""Measure everything in one run: `python -m benchmarks`; writes out/bench.json and out/bench.md."""

from __future__ import annotations

import argparse
import json
import os
import platform
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markdown import Markdown
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

import dotsketch

from .adapters import SCALING_KEYS, Adapter, all_adapters
from .cases import main_cases, scaling_cases
from .report import markdown
from .worker import Settings, run_adapter, run_limits


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes, about two minutes")
    parser.add_argument("--budget", type=float, help="seconds to repeat each measurement for")
    parser.add_argument("--only", default="", help="measure adapters whose name contains this")
    parser.add_argument("--dp-rfs", help="path of a clone of the repository of the paper's authors")
    parser.add_argument("--pyrfm", help="path of a clone of pyrfm, built in place")
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder of the results")
    return parser.parse_args()


def select(options: argparse.Namespace) -> tuple[dict[str, Adapter], list[dict[str, Any]]]:
    """The adapters to run, and rows for those that lack the path of a clone."""
    chosen, without_path = {}, []
    for key, adapter in all_adapters().items():
        if options.only not in key:
            continue
        if adapter.needs_path and getattr(options, adapter.needs_path) is None:
            option = "--" + adapter.needs_path.replace("_", "-")
            without_path.append({"key": key, "skipped": f"give the path of a clone with {option}"})
        else:
            chosen[key] = adapter
    return chosen, without_path


def main() -> None:
    options = parse()
    budget = options.budget or (0.2 if options.quick else 2.0)
    thread_counts = sorted({1, os.cpu_count() or 1})
    adapters, left_out = select(options)
    cases = main_cases(options.quick)
    jobs = [(n, case, key) for case in cases for n in thread_counts for key in adapters]
    scaling_keys = [key for key in SCALING_KEYS if key in adapters]
    scaling = [(*item, key) for item in scaling_cases(options.quick) for key in scaling_keys]

    def run(key: str, case: Any, threads: int, **more: Any) -> dict[str, Any]:
        adapter = adapters[key]
        path = getattr(options, adapter.needs_path) if adapter.needs_path else None
        answer = run_adapter(adapter, case, Settings(threads, budget, path))
        return {"key": key, "case": asdict(case), "threads": threads, **more, **answer}

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeElapsedColumn(), transient=True) as progress:
        task = progress.add_task("limits", total=len(jobs) + len(scaling))
        limits = {str(threads): run_limits(threads) for threads in thread_counts}
        rows, curves = list(left_out), []
        for threads, case, key in jobs:
            progress.update(task, description=f"d={case.dimension} {key}")
            rows.append(run(key, case, threads))
            progress.advance(task)
        for varied, case, key in scaling:
            progress.update(task, description=f"scaling in {varied}")
            curves.append(run(key, case, 1, varied=varied))
            progress.advance(task)

    results = {
        "machine": f"{platform.machine()}, {os.cpu_count()} processors, {platform.system()}",
        "version": dotsketch.__version__,
        "n_rows": cases[0].n_rows,
        "limits": limits,
        "rows": rows,
        "scaling": curves,
    }
    options.out.mkdir(exist_ok=True)
    (options.out / "bench.json").write_text(json.dumps(results, indent=1), encoding="utf-8")
    report = markdown(results, all_adapters())
    (options.out / "bench.md").write_text(report, encoding="utf-8")
    Console().print(Markdown(report))


if __name__ == "__main__":
    main()

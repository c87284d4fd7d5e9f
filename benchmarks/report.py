"""The results as Markdown tables."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

import numpy as np

from .adapters import Adapter
from .cases import SCALING_BASE, Case
from .machine import least_seconds

Row = dict[str, Any]  # key, case (as a dictionary), threads, and what the worker answered


def markdown(results: Row, adapters: dict[str, Adapter]) -> str:
    """The whole report."""
    parts = [heading(results), limits_table(results["limits"])]
    rows = [row for row in results["rows"] if "skipped" not in row]
    cases = list(dict.fromkeys(Case(**row["case"]) for row in rows))
    for case in cases:
        shown = [row for row in rows if Case(**row["case"]) == case]
        parts.append(case_section(case, shown, results["limits"], adapters))
    parts += [scaling_table(results["scaling"]), skipped_list(results["rows"])]
    return "\n\n".join(parts) + "\n"


def heading(results: Row) -> str:
    return (
        "# Benchmarks\n\n"
        f"{results['machine']}; dotsketch {results['version']}. float32, N = {results['n_rows']} "
        "rows. Times are medians in µs per row, with the least and the greatest in brackets; "
        "“× best peer” is how many times faster than the fastest other library with the same kind "
        "of output, “× same method” than the fastest that uses the same algorithm, both on one "
        "thread; “of limit” is the share of the speed that the machine's limits would allow for "
        "the algorithm's operations, on one thread; “memory” is the growth of the peak resident "
        "memory in the first transform, the result included. Rows in italics are of another "
        "kernel (Gaussian), for scale."
    )


def limits_table(limits: dict[str, dict]) -> str:
    lines = ["| threads | additions, G/s | sgemm, GFLOP/s | copy, GB/s |", "|--:|--:|--:|--:|"]
    for threads, limit in limits.items():
        adds = "–" if limit["adds"] is None else f"{limit['adds'] / 1e9:.0f}"
        rates = f"{limit['sgemm_flops'] / 1e9:.0f} | {limit['copy_bytes'] / 1e9:.1f}"
        lines.append(f"| {threads} | {adds} | {rates} |")
    return "\n".join(["## Limits of the machine", "", *lines])


def case_section(case: Case, rows: list[Row], limits: dict, adapters: dict[str, Adapter]) -> str:
    """One table: every library at one size, on one and on all threads."""
    threads = sorted({row["threads"] for row in rows})
    times = [f"{n} thread{'s' if n > 1 else ''}" for n in threads]
    columns = ["library", "features", "output", *times]
    columns += ["× best peer", "× same method", "of limit", "memory, MiB"]
    single = {row["key"]: row for row in rows if row["threads"] == 1}
    lines = [" | ".join(columns), " | ".join(["---"] * 3 + ["--:"] * (len(columns) - 3))]
    for key, row in single.items():
        adapter = adapters[key]
        by_threads = {r["threads"]: r for r in rows if r["key"] == key}
        cells = [adapter.library, adapter.name, adapter.output]
        cells += [time_cell(by_threads.get(n), case) for n in threads]
        cells.append(speed_up(adapter, row, single, adapters, lambda peer: True))
        cells.append(speed_up(adapter, row, single, adapters, uses_method(adapter.method)))
        least = least_seconds(adapter.method, adapter.output, case, limits["1"])
        cells.append("–" if least is None else f"{least / median(row):.0%}")
        cells.append(f"{row['peak_bytes'] / 2**20:.0f}")
        if adapter.kernel != "polynomial":
            cells[:3] = [f"*{cell}*" for cell in cells[:3]]
        lines.append(" | ".join(cells))
    title = f"## d = {case.dimension}, D = {case.n_components}, p = {case.degree}"
    return "\n".join([title, "", *(f"| {line} |" for line in lines)])


def median(row: Row) -> float:
    return statistics.median(row["seconds"])


def time_cell(row: Row | None, case: Case) -> str:
    if row is None:
        return "–"
    low, middle, high = (
        f"{1e6 * value / case.n_rows:.3g}"
        for value in (min(row["seconds"]), median(row), max(row["seconds"]))
    )
    return f"{middle} [{low}, {high}]"


def uses_method(method: str) -> Callable[[Adapter], bool]:
    return lambda peer: peer.method == method


def speed_up(
    adapter: Adapter,
    row: Row,
    single: dict[str, Row],
    adapters: dict[str, Adapter],
    accepted: Callable[[Adapter], bool],
) -> str:
    """How many times faster than the best accepted peer; for our own features only."""
    peers = [
        median(other)
        for key, other in single.items()
        if not adapters[key].is_ours
        and (adapters[key].kernel, adapters[key].output) == (adapter.kernel, adapter.output)
        and accepted(adapters[key])
    ]
    return f"{min(peers) / median(row):.1f}" if adapter.is_ours and peers else ""


def scaling_table(rows: list[Row]) -> str:
    """Exponents b of time ∝ sizeᵇ, fitted on logarithms, one size varied at a time."""
    names = list(dict.fromkeys(row["varied"] for row in rows))
    lines = ["| features | " + " | ".join(f"in {name}" for name in names) + " |"]
    lines.append("|---|" + "--:|" * len(names))
    for key in dict.fromkeys(row["key"] for row in rows):
        cells = [exponent([r for r in rows if (r["key"], r["varied"]) == (key, n)]) for n in names]
        lines.append(f"| {key} | " + " | ".join(cells) + " |")
    base = SCALING_BASE
    text = (
        "Exponents b of time ∝ sizeᵇ, fitted by least squares on logarithms, one thread; the other "
        f"sizes are n_rows = {base.n_rows}, dimension = {base.dimension}, n_components = "
        f"{base.n_components}, degree = {base.degree}."
    )
    return "\n".join(["## Scaling", "", text, "", *lines])


def exponent(rows: list[Row]) -> str:
    measured = [(row["case"][row["varied"]], median(row)) for row in rows if "skipped" not in row]
    if len(measured) < 2:
        return "–"
    sizes, seconds = np.log(np.array(measured)).T
    return f"{np.polyfit(sizes, seconds, 1)[0]:.2f}"


def skipped_list(rows: list[Row]) -> str:
    reasons = dict.fromkeys((row["key"], row["skipped"]) for row in rows if "skipped" in row)
    lines = [f"- {key}: {reason}" for key, reason in reasons] or ["- nothing"]
    return "\n".join(["## Left out", "", *lines])

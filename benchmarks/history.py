"""A history of key ratios: one line of docs/tables/history.csv per run, which the docs plot.

    python -m benchmarks.history [--file FILE]     # `make bench` does it, too; seconds

Ratios are times of the other side over ours (`ratios`), in processor time on one thread, so that
lines of a busy and of an idle machine can be compared; those of different machines cannot. Commit
the line if it is of a revision that others should compare with. Asserts nothing.
"""

from __future__ import annotations

import argparse
import csv
import datetime
import platform
import subprocess
import time
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from .ratios import comparisons, medians

FILE = Path(__file__).parents[1] / "docs" / "tables" / "history.csv"
# The column of the file, and how the name of a comparison begins; the first that does
COLUMNS = {
    "TensorSRHT : portable": "TensorSRHT real, d = 64, D = 320, p = 3",
    "TensorSRHT complex : portable": "TensorSRHT complex, d = 64, D = 320, p = 3",
    "TensorSketch : scikit-learn": "TensorSketch, d = 64, D = 320, p = 3",
    "FWHT : portable": "FWHT, d = 1024",
    "Rademacher : BLAS": "Rademacher real",
    "Fourier : NumPy": "Fourier float32, N = 2000, d = 9",
    "one row, Fourier : RBFSampler": "One row, Fourier transform",
    "one row, predict : exact process": "One row, Fourier predict, ",
}


def machine() -> str:
    """The name of the processor."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        lines = (line.partition(":") for line in cpuinfo.read_text().splitlines())
        model = next((v.strip() for k, _, v in lines if k.strip() == "model name"), model)
    return model


def commit() -> str:
    """The revision of the source tree, with a + if there are changes; empty outside of git."""
    folder = Path(__file__).parent

    def git(*arguments: str) -> str:
        return subprocess.run(
            ["git", *arguments], cwd=folder, capture_output=True, text=True, check=True
        ).stdout.strip()

    try:
        changes = git("status", "--porcelain", "--untracked-files=no")
        return git("rev-parse", "--short", "HEAD") + ("+" if changes else "")
    except (OSError, subprocess.CalledProcessError):
        return ""


def measure() -> dict[str, float]:
    """The ratio of every column."""
    found: dict[str, float] = {}
    for comparison in comparisons():
        for column, start in COLUMNS.items():
            if column not in found and comparison.name.startswith(start):
                ours, other = medians(comparison, time.process_time)
                found[column] = round(other / ours, 2)
                print(f"{column}: {found[column]}", flush=True)
        if len(found) == len(COLUMNS):
            return found
    raise ValueError(f"There are no comparisons for {sorted(set(COLUMNS) - set(found))}.")


def append(file: Path, line: dict[str, Any]) -> None:
    """Add a line; columns that the file does not have, or lacks, are an error."""
    is_new = not file.exists()
    if not is_new:
        with file.open(newline="", encoding="utf-8") as old:
            header = next(csv.reader(old))
        if header != list(line):
            raise ValueError(f"{file} has the columns {header}, and this line {list(line)}.")
    with file.open("a", newline="", encoding="utf-8") as out:
        writer = csv.DictWriter(out, list(line), lineterminator="\n")
        if is_new:
            writer.writeheader()
        writer.writerow(line)


def read(file: Path = FILE) -> list[dict[str, str]]:
    with file.open(newline="", encoding="utf-8") as lines:
        return list(csv.DictReader(lines))


def plot(file: Path = FILE) -> Any:
    """A figure of the ratios over the lines of the file: a panel per machine."""
    import matplotlib.pyplot as plt

    lines = read(file)
    machines = list(dict.fromkeys(line["machine"] for line in lines))
    size = (7, 3.2 * len(machines))
    figure, panels = plt.subplots(len(machines), squeeze=False, figsize=size, layout="constrained")
    for panel, name in zip(panels[:, 0], machines, strict=True):
        own = [line for line in lines if line["machine"] == name]
        for column in COLUMNS:
            panel.plot([float(line[column]) for line in own], marker="o", label=column)
        labels = [f"{line['date']}\n{line['commit']}" for line in own]
        panel.set_xticks(np.arange(len(own)), labels, fontsize="small")
        panel.set_yscale("log")
        panel.axhline(1.0, color="gray", linewidth=0.8)
        panel.set(title=name, ylabel="times as fast")
        panel.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize="small")
    return figure


def main() -> None:
    parser = argparse.ArgumentParser(description="Append a line of key ratios.")
    parser.add_argument("--file", type=Path, default=FILE)
    options = parser.parse_args()
    head = {"date": datetime.date.today().isoformat(), "commit": commit(), "machine": machine()}
    with threadpool_limits(1):
        append(options.file, head | measure())


if __name__ == "__main__":
    main()

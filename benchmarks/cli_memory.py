"""Memory of `dotsketch fit` on a CSV file that is larger than memory should be.

Writes a table of the given size (2 GB by default) of random numbers and one column of texts, fits
it in a process of its own, and prints the process's greatest resident memory and its time:

    python -m benchmarks.cli_memory --gigabytes 2
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv

COLUMNS = 20
ROWS_AT_ONCE = 100_000


def write_table(path: Path, n_bytes: float, seed: int = 0) -> int:
    """Random rows until the file has so many bytes; the number of rows."""
    rng = np.random.default_rng(seed)
    towns = np.array(["Basel", "Bern", "Genf", "Zug"])
    weights = rng.normal(size=COLUMNS) / np.sqrt(COLUMNS)
    rows = 0
    writer = None
    with path.open("wb") as file:
        while file.tell() < n_bytes:
            X = rng.normal(size=(ROWS_AT_ONCE, COLUMNS))
            columns = {f"x{j}": X[:, j] for j in range(COLUMNS)}
            columns["town"] = rng.choice(towns, ROWS_AT_ONCE)
            columns["y"] = np.sin(X @ weights) + 0.1 * rng.normal(size=ROWS_AT_ONCE)
            batch = pa.RecordBatch.from_pydict({n: pa.array(c) for n, c in columns.items()})
            writer = writer or pa.csv.CSVWriter(file, batch.schema)
            writer.write_batch(batch)
            rows += ROWS_AT_ONCE
        if writer is not None:
            writer.close()
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--gigabytes", type=float, default=2.0)
    parser.add_argument("--components", type=int, default=500)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.csv"
        rows = write_table(path, arguments.gigabytes * 1e9)
        size = path.stat().st_size
        print(f"{size / 1e9:.2f} GB, {rows:,} rows, {COLUMNS + 1} columns")
        words = ["fit", str(path), "--target", "y", "--components", str(arguments.components)]
        words += ["--kernel", "gaussian:4", "--features", "maclaurin: tensor_srht, real"]
        words += ["-o", str(Path(folder) / "table.model")]
        start = time.perf_counter()
        subprocess.run([sys.executable, "-m", "dotsketch", *words], check=True)
        seconds = time.perf_counter() - start
    unit = 1 if sys.platform == "darwin" else 1024  # ru_maxrss is in bytes, or in KiB
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * unit
    print(f"peak memory {peak / 2**30:.2f} GiB, {seconds:.0f} s on {os.cpu_count()} processors")


if __name__ == "__main__":
    main()

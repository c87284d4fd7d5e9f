"""The figures of docs/columns.md: error against columns and against time per row, and the limit.

    python -m benchmarks.column_figures --data DIR [--out docs/figures]

The kernel error on 500 rows held out (off-diagonal, relative, median of three draws) of features
fitted to 3000 rows, Gaussian kernel at 0.6 times the median distance; microseconds per row of
`transform` on one thread, float32. Writes columns_error.svg and columns_time.svg, prints the
numbers.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from scipy.linalg import eigh

from dotsketch import FourierFeatures, Gaussian, MaclaurinFeatures, NystromFeatures

from .common import data_parser, least_seconds, off_diagonal_error, scaled_rows

SETS = ("protein", "letter", "kin8nm")
COLUMNS = (16, 32, 64, 128, 256, 512)
FAMILIES: dict[str, tuple[Any, dict[str, Any]]] = {
    "Maclaurin, complex to real": (MaclaurinFeatures, {"output": "complex_to_real"}),
    "Fourier, orthogonal": (FourierFeatures, {}),
    "Nyström, D landmarks": (NystromFeatures, {"n_landmarks": 1.0}),
    "Nyström, 2 D": (NystromFeatures, {"n_landmarks": 2.0, "landmarks": "uniform"}),
    "Nyström, 4 D": (NystromFeatures, {"n_landmarks": 4.0, "landmarks": "uniform"}),
}


def measured(features: Any, rows: np.ndarray, held: np.ndarray) -> tuple[float, float]:
    """The error, and microseconds per row."""
    errors = []
    for seed in range(3):
        Z = features.set_params(random_state=seed).fit(rows).transform(held)
        errors.append(off_diagonal_error(Z, features.kernel(held)))
    batch = np.repeat(held.astype(np.float32), 8, axis=0)
    seconds = least_seconds(lambda: features.transform(batch), 3)
    return float(np.median(errors)), seconds / len(batch) * 1e6


def main() -> None:
    parser = data_parser("Error against columns and time, with the limit.")
    parser.add_argument("--out", type=Path, default=Path("docs/figures"))
    options = parser.parse_args()
    by_columns, first = plt.subplots(1, 3, figsize=(11, 3.8), layout="constrained")
    by_time, second = plt.subplots(1, 3, figsize=(11, 3.8), layout="constrained")
    for left, right, name in zip(first, second, SETS, strict=True):
        X = scaled_rows(name)[:3500]
        held, rows = X[:500], X[500:]
        kernel = Gaussian(lengthscale=0.6 * Gaussian().resolve(rows).lengthscale)
        for label, (family, settings) in FAMILIES.items():
            found = [
                measured(family(kernel, n_components=D, **settings), rows, held) for D in COLUMNS
            ]
            errors, times = zip(*found, strict=True)
            left.loglog(COLUMNS, errors, ".-", label=label)
            right.loglog(times, errors, ".-", label=label)
            numbers = "  ".join(f"{e:.2g} ({t:.2g})" for e, t in found)
            print(f"{name:8s} {label:27s} {numbers}", flush=True)
        w, V = eigh(kernel(rows), driver="evd")
        cross = kernel(held, rows)
        limit = [
            off_diagonal_error(cross @ (V[:, -D:] / np.sqrt(w[-D:])), kernel(held)) for D in COLUMNS
        ]
        left.loglog(COLUMNS, limit, "k:", label="best possible")
        print(
            f"{name:8s} {'best possible':27s} " + "  ".join(f"{e:.2g}" for e in limit), flush=True
        )
        left.set(title=name, xlabel="columns")
        left.set_xticks(COLUMNS, [str(D) for D in COLUMNS], minor=False)
        left.minorticks_off()
        right.set(title=name, xlabel="microseconds per row")
    for figure, axes in ((by_columns, first), (by_time, second)):
        axes[0].set_ylabel("relative error of the kernel")
        axes[0].legend(fontsize=7, frameon=False)
        for side in axes:
            side.grid(alpha=0.3)
        figure.canvas.draw()
    plt.rcParams["svg.hashsalt"] = "dotsketch"  # the same file every time
    by_columns.savefig(options.out / "columns_error.svg", metadata={"Date": None})
    by_time.savefig(options.out / "columns_time.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()

"""Kernel errors of random Fourier features on the paper's data, beside the authors' results.

    DOTSKETCH_DATA=folder python -m benchmarks.fourier_errors [--reference paper_results.csv]

The Gaussian kernel (median lengthscale) on standardised columns; relative Frobenius error of the
Gram matrix of held-out rows, the imaginary part dropped. Real features have D columns, complex
ones D frequencies. `z` is the difference of our mean and the authors' over both spreads. Their
"gaussian" is "independent" here, their "srht" is "sorf" with constant norms. "predicted" is
√(Σ expected squared error)/‖K‖.

    python -m benchmarks.fourier_errors --sorf

needs no data: the bias of "sorf", and its mean squared error over that of orthogonal
frequencies, at several dimensions. Prints Markdown tables; asserts nothing.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path

import numpy as np
from rich.progress import track

from dotsketch import Gaussian
from dotsketch.features import FourierDesign
from dotsketch.projections import Frequencies

from .published import DATA_SETS, prepared, published, reference_rows, relative_error

UNIT = Gaussian(lengthscale=1.0)
PROJECTIONS = {"independent": "gaussian", "orthogonal": None, "sorf": "srht"}


def errors_of(fourier: FourierDesign, test: np.ndarray, K: np.ndarray, seeds: int) -> np.ndarray:
    found = []
    for seed in range(seeds):
        weights = fourier.sample(np.random.default_rng(seed))
        found.append(relative_error(K, fourier.apply(test, weights), False))
    return np.array(found)


def cell(label: str, data, times: int, is_complex: bool, seeds: int, rows) -> str:
    """One line of the table."""
    train, test, D = data.X_train, data.X_test, times * data.padded_dimension
    kernel = Gaussian().resolve(train)
    K, scaled = kernel(test), test / kernel.lengthscale
    output = "complex" if is_complex else "real"
    key = {"kernel": "gaussian median heuristic", "dataset": label, "method": "rff", "D": D}
    columns = [label, str(D), output]
    for projection, theirs_name in PROJECTIONS.items():
        fourier = FourierDesign(UNIT, test.shape[1], D, output, projection)
        errors = errors_of(fourier, scaled, K, seeds)
        text = f"{errors.mean():.4f}"
        if theirs_name and rows:
            theirs, spread = published(rows, **key, projection=theirs_name, complex=is_complex)
            z = (errors.mean() - theirs) / math.hypot(spread, errors.std(ddof=1))
            text += f" / {theirs:.4f} ({z:+.1f})"
        columns.append(text)
    with np.errstate(divide="ignore"):
        squared = -2 * np.log(K)
    for norms in ("constant", "random"):
        fourier = FourierDesign(UNIT, test.shape[1], D, output, "sorf", norms)
        measured = errors_of(fourier, scaled, K, seeds).mean()
        predicted = fourier.variance_at(squared, "real") + fourier.bias_at(squared) ** 2
        relative = math.sqrt(predicted.sum()) / np.linalg.norm(K)
        columns.append(f"{measured:.4f} ({relative:.4f})")
    return "| " + " | ".join(columns) + " |"


def bias(x: np.ndarray, radius: float | None) -> str:
    """E[cos ωᵀx] − exp(−|x|²/2) of "sorf" from 2²¹ frequencies, ± its standard error."""
    p, n = len(x), 1 << 21
    frequencies = Frequencies(n, "sorf")
    radii = None if radius is None else np.full(n, radius)
    weights = frequencies.sample(p, np.random.default_rng(0), radii)
    blocks = np.cos(frequencies.apply(x[None], weights)).reshape(-1, p).mean(axis=1)
    deviation = blocks.mean() - np.exp(-(x @ x) / 2)
    return f"{deviation:+.4f} ± {blocks.std() / math.sqrt(len(blocks)):.4f}"


def error_ratio(X: np.ndarray, D: int, norms: str) -> str:
    """Mean over pairs of the squared error of "sorf", over that of the formula."""
    kernel = Gaussian().resolve(X)
    S, fourier = X / kernel.lengthscale, FourierDesign(UNIT, X.shape[1], D, "real", "sorf", norms)
    rng, truth = np.random.default_rng(1), fourier.kernel(S, S)
    error = np.zeros_like(truth)
    for _ in range(400):
        Z = fourier.apply(S, fourier.sample(rng))
        error += np.abs(Z @ Z.conj().T - truth) ** 2 / 400
    with np.errstate(divide="ignore"):
        squares = -2 * np.log(kernel(X))
    predicted = fourier.variance_at(squares, "real") + fourier.bias_at(squares) ** 2
    off = ~np.eye(len(X), dtype=bool)
    return f"{error[off].mean() / predicted[off].mean():.2f}"


def sorf_tables() -> None:
    rng = np.random.default_rng(0)
    print("| p | direction | length | bias | bias with norms √p |\n|" + " --- |" * 5)
    for p in (2, 4, 8, 16, 64, 256):
        dense = rng.standard_normal(p)
        for name, x in (("axis", np.eye(p)[0]), ("random", dense / np.linalg.norm(dense))):
            for length in (1, 2):
                found = bias(length * x, None), bias(length * x, math.sqrt(p))
                print(f"| {p} | {name} | {length} | {found[0]} | {found[1]} |")
    print("\n| p | rows | norms | D = p | D = 2p | D = 8p |\n|" + " --- |" * 6)
    for p in (4, 8, 16, 64, 256):
        X = rng.standard_normal((30, p))
        for name, rows in (("dense", X), ("two entries", X * (rng.random(X.shape) < 2 / p))):
            for norms in ("constant", "random"):
                ratios = " | ".join(error_ratio(rows, times * p, norms) for times in (1, 2, 8))
                print(f"| {p} | {name} | {norms} | {ratios} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--reference", type=Path, help="the authors' results as CSV")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--sets", nargs="+", default=list(DATA_SETS), choices=list(DATA_SETS))
    parser.add_argument("--sorf", action="store_true", help="bias and error of sorf alone")
    arguments = parser.parse_args()
    if arguments.sorf:
        sorf_tables()
        return
    rows = reference_rows(arguments.reference)
    header = ["data", "D", "output", *(f"{p}: ours / theirs (z)" for p in PROJECTIONS)]
    header += [f"sorf, {norms} norms (predicted)" for norms in ("constant", "random")]
    lines = ["| " + " | ".join(header) + " |", "|" + " --- |" * len(header)]
    cells = [
        (label, times, is_complex)
        for label in arguments.sets
        for times in (1, 3, 5)
        for is_complex in (False, True)
    ]
    loaded = {label: prepared(label, "standardised") for label in arguments.sets}
    for label, times, is_complex in track(cells, description="cells"):
        lines.append(cell(label, loaded[label], times, is_complex, arguments.seeds, rows))
    print("\n".join(lines))


if __name__ == "__main__":
    main()

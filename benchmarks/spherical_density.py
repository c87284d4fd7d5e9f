"""How close spherical features come to polynomial kernels, beside the authors' results.

    python -m benchmarks.spherical_density
    DOTSKETCH_DATA=folder python -m benchmarks.spherical_density --reference paper_results.csv

Four tables: the error of the fitted density for (1 − z²/a²)^p in R^d and the time of the fit; mean
and mean squared error of "sorf" features relative to the formulas for orthogonal directions; the
same error for random rows of few coordinates ("narrow"); and, with data, the relative Frobenius
errors of spherical and of Maclaurin features of (1/2 + x·y/2)^p on held-out rows (all matrices at D
columns; the imaginary part kept, as the authors did), with the z-score of our mean against theirs.
The authors' "srht" is our "sorf", their "gaussian" our "independent". Prints Markdown;
asserts nothing.
"""

from __future__ import annotations

import argparse
import math
import os
import time
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import Progress

from dotsketch import MaclaurinFeatures, Polynomial, SphericalFeatures
from dotsketch.features import SphericalDesign
from dotsketch.features.spherical import kernel_density

from .published import prepared, published, reference_rows, relative_error

TABLES = ["density", "sorf", "narrow", "data"]
METHODS = {  # ours: projection, output; theirs: projection, complex
    "independent": (("independent", "real"), ("gaussian", False)),
    "sorf": (("sorf", "real"), ("srht", False)),
    "sorf, complex": (("sorf", "complex"), ("srht", True)),
}


def polynomial(degree: int, a: float = 2.0) -> Polynomial:
    return Polynomial(degree, gamma=2 / a**2, coef0=1 - 2 / a**2)


def print_table(header: list[str], rows: Iterable[list[str]]) -> None:
    print("| " + " | ".join(header) + " |")
    print("|" + " --- |" * len(header))
    for row in rows:
        print("| " + " | ".join(row) + " |", flush=True)
    print()


def densities() -> list[list[str]]:
    rows = []
    for a in (2.0, 4.0):
        for p in (3, 7, 10, 20):
            for d in (8, 16, 64, 512, 4096):
                kernel_density.cache_clear()
                start = time.perf_counter()
                density = kernel_density(polynomial(p, a), d)
                seconds = time.perf_counter() - start
                errors = [f"{density.rmse:.1e}", f"{density.max_error:.1e}"]
                size = [str(len(density.radii)), f"{seconds:.2f}"]
                rows.append([f"{a:g}", str(p), str(d), *errors, *size])
    return rows


def structured(n_draws: int) -> list[list[str]]:
    """Draws of sorf features of a generic pair, and of one along the axes."""
    rng = np.random.default_rng(0)
    rows = []
    for d in (2, 4, 8, 16, 32, 64, 256):
        kernel = polynomial(7)
        density = kernel_density(kernel, d)
        features = SphericalDesign(kernel, d, 4 * d, "real", "sorf", density=density)
        mean_of, variance_of = features.moments("real")
        axes = np.eye(d)[:2]
        generic = np.linalg.qr(rng.standard_normal((d, 2)))[0].T
        for name, (q, r) in (("generic", generic), ("axes", axes)):
            X = np.stack([q, 0.6 * q + 0.8 * r])
            dot = np.array(0.6)
            values = np.empty(n_draws)
            for i in range(n_draws):
                Z = features.apply(X, features.sample(rng))
                values[i] = Z[0] @ Z[1]
            mean, error = values.mean() - mean_of(dot), (values - mean_of(dot)) ** 2
            variance = variance_of(dot)
            columns = [f"{mean:+.4f} ± {values.std() / math.sqrt(n_draws):.4f}"]
            columns += [f"{math.sqrt(variance):.4f}", f"{error.mean() / variance:.2f}"]
            rows.append([str(d), name, *columns])
    return rows


def narrow(n_draws: int = 8) -> list[list[str]]:
    """Root mean square error of sorf features over that of the formula, random unit rows."""
    rows = []
    for d in (2, 4, 5, 8, 9, 12, 16, 24):
        rng = np.random.default_rng(d)
        X = rng.standard_normal((60, d))
        X /= np.linalg.norm(X, axis=1, keepdims=True)
        dots = (X @ X.T)[~np.eye(60, dtype=bool)]
        columns = []
        for p in (3, 7, 15):
            kernel = polynomial(p)
            density = kernel_density(kernel, 1 << (d - 1).bit_length())
            for n_components in (1024, 8192):
                features = SphericalDesign(kernel, d, n_components, "real", "sorf", density=density)
                squares = []
                for _ in range(n_draws):
                    Z = features.apply(X, features.sample(rng))
                    squares.append(np.mean(((Z @ Z.T - kernel(X)) ** 2)[~np.eye(60, dtype=bool)]))
                mean_of, variance_of = features.moments("real")
                bias = mean_of(dots) - ((1 + dots) / 2) ** p
                expected = np.mean(bias**2 + variance_of(dots))
                columns.append(f"{math.sqrt(np.mean(squares) / expected):.2f}")
        rows.append([str(d), *columns])
    return rows


def frobenius(label: str, shift: str, p: int, times: int, seeds: int, reference):
    """One line: errors of the spherical methods and of Maclaurin features at D columns."""
    data = prepared(label, shift)
    train, test, D = data.X_train, data.X_test, times * data.padded_dimension
    kernel = polynomial(p)
    K = kernel(test)
    columns = [label, shift, str(p), str(D)]

    def errors(make) -> np.ndarray:
        found = (make(seed).fit(train).transform(test) for seed in range(seeds))
        return np.array([relative_error(K, Z, keep_imaginary=True) for Z in found])

    def spherical(projection, output):
        return lambda seed: SphericalFeatures(
            kernel, projection=projection, output=output, n_components=D, random_state=seed
        )

    def maclaurin(**options):
        return lambda seed: MaclaurinFeatures(kernel, n_components=D, random_state=seed, **options)

    for ours, (projection, is_complex) in METHODS.values():
        measured = errors(spherical(*ours))
        theirs, spread = published(
            reference,
            kernel=f"(1/2+x.y/2)^{p}",
            dataset=label,
            centred=str(shift == "centred"),
            D=D,
            method="srf",
            projection=projection,
            complex=is_complex,
        )
        z = (measured.mean() - theirs) / math.hypot(spread, measured.std(ddof=1))
        columns.append(f"{measured.mean():.3f} / {theirs:.3f} ({z:+.1f})")
    columns.append(f"{errors(spherical('orthogonal', 'real')).mean():.3f}")
    columns.append(f"{errors(maclaurin()).mean():.3f}")
    columns.append(f"{errors(maclaurin(mean_split=True, coefficients='fitted')).mean():.3f}")
    return columns


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--reference", type=Path, help="the authors' results as CSV")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--draws", type=int, default=2000)
    parser.add_argument("--degrees", nargs="+", type=int, default=[3, 7])
    parser.add_argument("--sets", nargs="+", default=["Boston", "Magic", "Letter", "FashionMNIST"])
    parser.add_argument("--tables", nargs="+", default=TABLES, choices=TABLES)
    arguments = parser.parse_args()
    if "density" in arguments.tables:
        print_table(["a", "p", "d", "rmse", "largest error", "radii", "seconds"], densities())
    if "sorf" in arguments.tables:
        header = ["d", "pair", "mean − formula", "deviation, formula", "squared error / formula"]
        print_table(header, structured(arguments.draws))
    if "narrow" in arguments.tables:
        header = [f"p = {p}, D = {n}" for p in (3, 7, 15) for n in (1024, 8192)]
        print_table(["d", *header], narrow())
    if "data" not in arguments.tables or "DOTSKETCH_DATA" not in os.environ:
        return
    reference = reference_rows(arguments.reference)
    cells = [
        (label, shift, p, times)
        for label in arguments.sets
        for shift in ("raw", "centred")
        for p in arguments.degrees
        for times in (1, 5)
    ]
    header = ["data", "shift", "p", "D", *(f"{name}: ours / theirs (z)" for name in METHODS)]
    header += ["orthogonal", "Maclaurin", "Maclaurin, split and fitted"]
    progress = Progress(console=Console(stderr=True))
    with progress:
        print_table(
            header,
            (frobenius(*cell, arguments.seeds, reference) for cell in progress.track(cells)),
        )


if __name__ == "__main__":
    main()

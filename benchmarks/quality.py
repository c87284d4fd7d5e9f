"""Kernel errors of optimised Maclaurin features on the paper's data, beside the authors' results.

    DOTSKETCH_DATA=folder python benchmarks/quality.py [--reference paper_results.csv] [--seeds 10]

For every data set, kernel and number of features, the relative Frobenius error of the Gram matrix
of held-out rows. Polynomial kernels (1/2 + x·y/2)ᵖ are on rows of unit norm, of data shifted to
nonnegative ("raw") or with standardised columns ("centred"); the Gaussian kernel (median
lengthscale) is on standardised columns. With a reference, only its cells are run.

- `taylor`: the paper's method (real and complex TensorSRHT, Rademacher), the imaginary part kept
  as the authors did for polynomials, with the z-score of our mean against theirs;
- `best`: the candidate that `plan` ranks first (fitted coefficients, exact monomials, mean split,
  balanced TensorSketch) at D and at 2D real columns, beside the best of all the methods of the
  paper, real ones with D features and complex ones with D, which are 2D real numbers.

Prints a Markdown table and writes it to out/quality.md; asserts nothing.
"""

from __future__ import annotations

import argparse
import csv
import math
import os
from pathlib import Path

import numpy as np
from rich.progress import track

from dotsketch import Gaussian, MaclaurinFeatures, Polynomial, plan

DATA_SETS = {
    "FashionMNIST": "fashion_mnist",
    "Magic": "magic",
    "Letter": "letter",
    "Boston": "boston",
    "kin8nm": "kin8nm",
}
PAPER_METHODS = [("srht", False), ("srht", True), ("rademacher", False), ("rademacher", True)]


def load(name: str, folder: Path) -> np.ndarray:
    with np.load(folder / f"{name}.npz") as file:
        return np.asarray(file["X_train"], dtype=np.float64)


def split(X: np.ndarray, shift_name: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Disjoint training and test rows (at most 5000 and 1000), shifted and scaled."""
    order = np.random.default_rng(seed).permutation(len(X))
    n_test = min(1000, len(X) // 10)
    test, train = X[order[:n_test]], X[order[n_test : n_test + 5000]]
    shift = train.min(axis=0) if shift_name == "raw" else train.mean(axis=0)
    train, test = train - shift, test - shift
    if shift_name != "raw":  # "centred" columns have unit variance too, as in the authors' code
        deviation = train.std(axis=0)
        train, test = (A / np.where(deviation > 0, deviation, 1.0) for A in (train, test))
    if shift_name == "standardised":
        return train, test
    return tuple(
        A / np.maximum(np.linalg.norm(A, axis=1, keepdims=True), 1e-12) for A in (train, test)
    )


def relative_error(K: np.ndarray, Z: np.ndarray, keep_imaginary: bool) -> float:
    approximate = Z @ Z.conj().T
    approximate = approximate if keep_imaginary else approximate.real
    return float(np.linalg.norm(K - approximate) / np.linalg.norm(K))


def reference_rows(path: Path | None) -> list[dict]:
    if path is None:
        return []
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def published(rows: list[dict], **wanted: object) -> tuple[float, float]:
    """Mean and spread of one cell of the authors' results; NaN where there is none."""
    for row in rows:
        matches = all(row[key] == str(value) for key, value in wanted.items())
        if matches and row["k_rel_frob_error_mean"]:
            spread = row["k_rel_frob_error_std"]
            return float(row["k_rel_frob_error_mean"]), float(spread) if spread else math.nan
    return math.nan, math.nan


def best_published(rows: list[dict], **wanted: object) -> float:
    found = [
        float(row["k_rel_frob_error_mean"])
        for row in rows
        if row["k_rel_frob_error_mean"]
        and all(row[key] == str(value) for key, value in wanted.items())
    ]
    return min(found, default=math.nan)


def measure(kernel, train, test, seeds, **options) -> np.ndarray:
    K = kernel(test)
    errors = []
    for seed in range(seeds):
        features = MaclaurinFeatures(kernel, n_pairs_sample=1000, random_state=seed, **options)
        features.fit(train)
        # the authors' polynomial errors keep the imaginary part, their Gaussian ones do not
        keep_imaginary = isinstance(kernel, Polynomial)
        errors.append(relative_error(K, features.transform(test), keep_imaginary))
    return np.array(errors)


def cell(label: str, X: np.ndarray, shift: str, p: int, times: int, seeds: int, rows) -> str | None:
    """One line of the table; degree 0 stands for the Gaussian kernel."""
    D = times << max(X.shape[1] - 1, 0).bit_length()
    centred = {"raw": "False", "centred": "True", "standardised": ""}[shift]
    name = f"(1/2+x.y/2)^{p}" if p else "gaussian median heuristic"
    key = {"kernel": name, "dataset": label, "centred": centred, "D": D}
    theirs_best = best_published(rows, **key)
    if rows and math.isnan(theirs_best):
        return None
    train, test = split(X, shift, 0)
    kernel = Polynomial(p, gamma=0.5, coef0=0.5) if p else Gaussian().resolve(train)
    columns = [label, shift, str(p) if p else "Gaussian", str(D)]
    for projection, is_complex in PAPER_METHODS:
        errors = measure(
            kernel,
            train,
            test,
            seeds,
            sketch={"srht": "tensor_srht"}.get(projection, projection),
            output="complex" if is_complex else "real",
            n_components=D + 1,  # the authors' constant is not counted
            exact_monomials=False,
            min_degree=2,
        )
        theirs, spread = published(
            rows, **key, method="maclaurin", projection=projection, complex=is_complex
        )
        z = (errors.mean() - theirs) / math.hypot(spread, errors.std(ddof=1))
        columns.append(f"{errors.mean():.3f} / {theirs:.3f} ({z:+.1f})")
    for n_components in (D, 2 * D):  # as many real numbers as D real or complex features
        chosen = plan(kernel, train, n_components=n_components).best.candidate
        ours = measure(
            kernel,
            train,
            test,
            seeds,
            n_components=n_components,
            sketch=chosen.sketch,
            output=chosen.output,
            coefficients=chosen.coefficients,
            mean_split=chosen.mean_split,
        )
        columns.append(f"{ours.mean():.4f}")
    return "| " + " | ".join([*columns, f"{theirs_best:.4f}", str(chosen)]) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--reference", type=Path, help="the authors' results as CSV")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--sets", nargs="+", default=list(DATA_SETS), choices=list(DATA_SETS))
    parser.add_argument("--out", type=Path, default=Path("out/quality.md"))
    arguments = parser.parse_args()
    folder = Path(os.environ["DOTSKETCH_DATA"])
    rows = reference_rows(arguments.reference)
    names = [f"{name}{' complex' if c else ''}" for name, c in PAPER_METHODS]
    header = ["data", "shift", "kernel", "D", *(f"{n}: ours / theirs (z)" for n in names)]
    header += ["best, D real columns", "best, 2D real columns", "best of the paper", "chosen"]
    lines = ["| " + " | ".join(header) + " |", "|" + " --- |" * len(header)]
    cells = [
        (label, shift, p, times)
        for label in arguments.sets
        for shift, degrees in (("raw", (3, 7, 10)), ("centred", (3, 7, 10)), ("standardised", (0,)))
        for p in degrees
        for times in (1, 3, 5)
    ]
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    loaded = {label: load(DATA_SETS[label], folder) for label in arguments.sets}
    for label, shift, p, times in track(cells, description="cells"):
        line = cell(label, loaded[label], shift, p, times, arguments.seeds, rows)
        lines += [line] if line else []
        arguments.out.write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()

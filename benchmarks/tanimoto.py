"""Features of the Tanimoto kernel between molecules: error, prediction and time.

    python -m benchmarks.tanimoto --data DIR [--sets lipophilicity hiv guacamol10k] [--draws 5]

DIR has the fingerprints as CSR archives (`lipophilicity.npz`, …: data, indices, indptr, shape). All
fingerprints are binary. Features are fitted to at most 10,000 rows, and compared with the exact
kernel on 1,000 rows held out (of guacamol10k: on its first 1,000), off the diagonal, by the root
mean square over draws; `MSE` is the mean squared error over all pairs, with the diagonal as in the
publication. `large norms` compares on the rows held out with norms above the median: features
fitted to the rows below it, and features fitted to all rows.

The published construction (Tripp, Bacallado, Singh and Hernández-Lobato, Tanimoto Random Features
for Scalable Molecular Machine Learning, 2023) is written here from the paper: every term
(x·y)ʳ (|x|² + |y|²)⁻ʳ is a TensorSketch of degree r, convolved with a count sketch of 10,000
quasi-random features of the second factor.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable
from copy import copy
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.fft
import scipy.sparse
from scipy.stats import gamma
from sklearn.kernel_approximation import PolynomialCountSketch

from dotsketch import MaclaurinFeatures, NystromFeatures, Tanimoto

from .common import least_seconds

COLUMNS = {"lipophilicity": 1024, "hiv": 1024, "guacamol10k": 3162}
N_PREFACTORS = 10_000
MOST_ROWS = 10_000
OURS: dict[str, dict[str, Any]] = {
    "balanced TensorSketch": {"sketch": "balanced_tensor_sketch"},
    "… fitted": {"sketch": "balanced_tensor_sketch", "coefficients": "fitted"},
    "… mean split": {"sketch": "balanced_tensor_sketch", "mean_split": True},
    "… mean split, fitted": {
        "sketch": "balanced_tensor_sketch",
        "mean_split": True,
        "coefficients": "fitted",
    },
    "TensorSRHT, mean split, fitted": {"mean_split": True, "coefficients": "fitted"},
}


def fingerprints(folder: str, name: str) -> scipy.sparse.csr_array:
    """Binary fingerprints, one row per molecule."""
    with np.load(Path(folder) / f"{name}.npz") as file:
        parts = np.ones(len(file["data"])), file["indices"].astype(np.int32), file["indptr"]
        return scipy.sparse.csr_array(parts, shape=tuple(file["shape"]))


class Published:
    """The construction of the paper; `correction` is "none", "normalize" or "error sketch"."""

    def __init__(self, n_terms: int, correction: str):
        self.n_terms, self.correction = n_terms, correction

    def __str__(self) -> str:
        return f"published, {self.n_terms} terms, correction: {self.correction}"

    def fit(self, X: Any, n_components: int, seed: int) -> Published:
        rng = np.random.RandomState(seed)
        squares = X.multiply(X).sum(axis=1)
        self.largest = math.sqrt(squares.max())  # rows are divided by it
        least = float(squares.min()) / self.largest**2
        shares = 1 / np.arange(1, self.n_terms + 1)  # the columns of degree r are 1/r of all
        counts = np.floor(n_components * shares / shares.sum()).astype(int)
        counts[0] += n_components - counts.sum()
        self.terms = []
        for r, count in enumerate(counts.tolist(), start=1):
            shape, rate = r * least, 2 * least**2  # of the gamma distribution: those of the paper
            places = (rng.random_sample() + np.linspace(0, 1, N_PREFACTORS)) % 1.0
            powers = _count_sketch(r, count, X.shape[1], rng)
            prefactors = _count_sketch(1, count, N_PREFACTORS, rng)
            draws = gamma(a=shape, scale=1 / rate).ppf(places)
            self.terms.append((r, shape, rate, draws, powers, prefactors))
        if self.correction == "error sketch":
            n_first = 1 + int(counts[:-1].sum())
            self.errors = [_count_sketch(1, int(counts[-1]), n, rng) for n in (n_first, counts[-1])]
        return self

    def transform(self, X: Any) -> np.ndarray:
        X = X / self.largest
        squares = X.multiply(X).sum(axis=1)[:, None]
        parts = [self._term(X, squares, *term) for term in self.terms]
        if self.correction == "error sketch" and len(parts) > 1:
            first = np.hstack([np.ones((X.shape[0], 1)), *parts[:-1]])
            one, other = self.errors
            parts[-1] = _convolved(one.transform(first), other.transform(parts[-1]))
        Z = np.hstack(parts)
        if self.correction == "normalize":
            Z /= np.linalg.norm(Z, axis=1, keepdims=True)
        return Z

    @staticmethod
    def _term(
        X: Any,
        squares: np.ndarray,
        r: int,
        shape: float,
        rate: float,
        draws: np.ndarray,
        powers: PolynomialCountSketch,
        prefactors: PolynomialCountSketch,
    ) -> np.ndarray:
        # (a + b)⁻ʳ = ∫ uʳ⁻¹ e^(−u(a+b)) du / Γ(r), by importance sampling from Gamma(shape, rate)
        logs = (rate / 2 - squares) * draws + (r - shape) / 2 * np.log(draws)
        constant = (math.lgamma(shape) - math.lgamma(r) - shape * math.log(rate)) / 2
        features = np.exp(logs + constant) / math.sqrt(len(draws))
        return _convolved(powers.transform(X), prefactors.transform(features))


def _count_sketch(
    degree: int, n_components: int, dimension: int, rng: np.random.RandomState
) -> PolynomialCountSketch:
    sketch = PolynomialCountSketch(degree=degree, n_components=n_components, random_state=rng)
    return sketch.fit(np.zeros((1, dimension)))


def _convolved(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    spectrum = scipy.fft.rfft(A, axis=1) * scipy.fft.rfft(B, axis=1)
    return scipy.fft.irfft(spectrum, n=A.shape[1], axis=1)


def made(label: str, columns: int) -> MaclaurinFeatures:
    return MaclaurinFeatures(Tanimoto(), n_components=columns, random_state=0, **OURS[label])


class Errors(NamedTuple):
    relative: float  # off the diagonal
    squared: float  # mean over all pairs


def redrawn(features: Any, seed: int) -> Any:
    """A copy of fitted features with other weights."""
    other = copy(features)
    other.weights_ = features.design_.sample(np.random.default_rng(seed))
    return other


def errors(draw: Callable[[int], np.ndarray], K: np.ndarray, n_draws: int) -> Errors:
    """Root mean square over draws of the relative error, and the mean squared error."""
    distinct = ~np.eye(len(K), dtype=bool)
    relative, squared = [], []
    for seed in range(n_draws):
        Z = draw(seed)
        difference = Z @ Z.T - K
        relative.append(np.sum(difference[distinct] ** 2) / np.sum(K[distinct] ** 2))
        squared.append(np.mean(difference**2))
    return Errors(math.sqrt(np.mean(relative)), float(np.mean(squared)))


def best_published(X: Any, held: Any, K: np.ndarray, columns: int, n_draws: int) -> tuple:
    """The setting with the least error of one draw, and its errors."""
    settings = [
        Published(n_terms, correction)
        for n_terms in (1, 2, 3, 4)
        for correction in ("none", "normalize", "error sketch")
        if n_terms > 1 or correction != "error sketch"
    ]

    def draw(setting: Published) -> Callable[[int], np.ndarray]:
        return lambda seed: setting.fit(X, columns, seed).transform(held)

    best = min(settings, key=lambda setting: errors(draw(setting), K, 1).relative)
    return best, errors(draw(best), K, n_draws)


def compare(name: str, X: Any, held: Any, columns: int, n_draws: int) -> None:
    K = Tanimoto()(held)
    setting, found = best_published(X, held, K, columns, n_draws)
    _print(name, columns, str(setting), None, found)
    for label in OURS:
        features = made(label, columns).fit(X)
        measured = errors(lambda seed, f=features: redrawn(f, seed).transform(held), K, n_draws)
        _print(name, columns, label, features.expected_relative_error_, measured)
    columns = min(columns, 1024)  # more take minutes to fit
    landmarks = NystromFeatures(Tanimoto(), n_components=columns, landmarks="uniform")
    measured = errors(
        lambda seed: landmarks.set_params(random_state=seed).fit(X).transform(held), K, 2
    )
    _print(name, columns, "Nyström", None, measured)


def _print(name: str, columns: int, label: str, predicted: float | None, found: Errors) -> None:
    told = f"{'':9s}" if predicted is None else f"{predicted:9.4f}"
    print(
        f"{name:14s} {columns:7d}  {label:48s} {found.relative:8.4f} {told} {found.squared:9.2e}",
        flush=True,
    )


def far_norms(X: Any, held: Any, columns: int, n_draws: int) -> None:
    """Fitted to rows with small norms, used on rows with large ones."""
    middle = np.median(X.sum(axis=1))
    near, far = X[X.sum(axis=1) <= middle], held[held.sum(axis=1) > middle]
    K = Tanimoto()(far)
    for label, rows in (("fitted to the others", near), ("fitted to all norms", X)):
        features = made("… mean split, fitted", columns).fit(rows)
        found = errors(lambda seed, f=features: redrawn(f, seed).transform(far), K, n_draws)
        _print("large norms", columns, label, features.expected_relative_error_, found)


def times(X: Any, columns: int) -> None:
    """Microseconds per row of CSR input, the best of five."""
    rows = X[:2000]
    told: dict[str, Callable[[], Any]] = {}
    for label in OURS:
        features = made(label, columns).fit(X)
        told[label] = lambda f=features: f.transform(rows)
    for degree in (1, 2):
        sketch = PolynomialCountSketch(degree=degree, n_components=columns, random_state=0).fit(X)
        told[f"PolynomialCountSketch, degree {degree}"] = lambda s=sketch: s.transform(rows)
    few = rows[:400]  # 10,000 prefactors per row take much memory
    for n_terms in (1, 4):
        setting = Published(n_terms, "none").fit(X, columns, 0)
        told[str(setting)] = lambda s=setting: s.transform(few)
    print(f"\n{'µs per row of CSR input, ' + str(columns) + ' columns':72s}")
    for label, call in told.items():
        n = len(call())
        print(
            f"  {label:50s} {1e6 * least_seconds(call, 5, time.perf_counter) / n:10.1f}", flush=True
        )


def main() -> None:
    parser = argparse.ArgumentParser(description="Features of the Tanimoto kernel.")
    parser.add_argument("--data", required=True, help="the folder of fingerprints")
    parser.add_argument("--sets", nargs="*", default=list(COLUMNS))
    parser.add_argument("--draws", type=int, default=5)
    options = parser.parse_args()
    print(f"{'set':14s} columns  {'features':48s} {'error':>8s} predicted {'MSE':>9s}")
    for name in options.sets:
        X = fingerprints(options.data, name)
        order = np.random.default_rng(0).permutation(X.shape[0])
        if name.startswith("guacamol"):
            order = np.arange(X.shape[0])
        held, rest = X[order[:1000]], X[order[1000 : 1000 + MOST_ROWS]]
        compare(name, rest, held, COLUMNS[name], options.draws)
        if name == options.sets[0]:
            far_norms(rest, held, COLUMNS[name], options.draws)
            times(rest, COLUMNS[name])


if __name__ == "__main__":
    main()

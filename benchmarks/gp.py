"""Gaussian processes at scale: speed against the paper's formulas, memory, large data sets.

    python -m benchmarks.gp classification     one pass for all classes against one for each
    python -m benchmarks.gp gram               the sums against the bare rank-k update of BLAS
    python -m benchmarks.gp memory             up to 2 000 000 rows from a memory map
    python -m benchmarks.gp fashion            all of FashionMNIST, 5120 features
    python -m benchmarks.gp covertype          all of Covertype, raw, where the authors' runs failed
    python -m benchmarks.gp divergence         KL to the exact posterior as features grow

The last three read data sets from the folder DOTSKETCH_DATA (`divergence` needs it for regression
only). Prints Markdown tables, and writes them to out/gp_<name>.md; asserts nothing.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from scipy.linalg import blas, cho_solve, solve_triangular
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.datasets import load_digits
from sklearn.preprocessing import StandardScaler, normalize

from dotsketch import (
    ExactGPClassifier,
    ExactGPRegressor,
    FeatureGPClassifier,
    FeatureGPRegressor,
    Gaussian,
    MaclaurinFeatures,
    Polynomial,
    SufficientStatistics,
    gaussian_kl,
    mean_negative_log_likelihood,
)
from dotsketch.gp.dirichlet import DirichletLabels
from dotsketch.metrics import error_rate, expected_calibration_error

from .common import markdown_head, markdown_line


class Given(TransformerMixin, BaseEstimator):
    """Features that are known already: an input is the number of its row."""

    def __init__(self, Z):
        self.Z = Z

    def __sklearn_clone__(self):
        return self  # no copy of the features

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return self.Z[np.asarray(X[:, 0], dtype=int)]


# The settings of the paper's authors
AUTHORS = {"prior_variance": "labels", "temperature": 1.0}


def seconds(functions: list[Callable[[], object]], repeats: int = 5) -> list[float]:
    """The least processor time of several runs of each, taken in turn.

    Time of all threads: what else runs on the machine matters little.
    """
    times: list[list[float]] = [[] for _ in functions]
    for _ in range(repeats):
        for function, found in zip(functions, times, strict=True):
            start = time.process_time()
            function()
            found.append(time.process_time() - start)
    return [min(found) for found in times]


def random_features(n: int, D: int, is_complex: bool) -> np.ndarray:
    rng = np.random.default_rng(0)
    Z = rng.standard_normal((n, D)) / np.sqrt(D)
    return Z + 1j * rng.standard_normal((n, D)) / np.sqrt(D) if is_complex else Z


def per_class(Z, y, Z_test, labels, n_classes):
    """The paper's equations, class by class: B = I + s Zᴴ diag(1/σ²) Z and its Cholesky factor."""
    prior, identity = labels.prior_variance, np.eye(Z.shape[1])
    means, variances = [], []
    for c in range(n_classes):
        inside = y == c
        noise = np.where(inside, labels.inside_variance, labels.outside_variance)
        targets = np.where(inside, labels.inside, labels.outside) - labels.means[c]
        weighted = Z / noise[:, None]
        B = identity + prior * (Z.conj().T @ weighted)
        L = np.linalg.cholesky(B)
        v = prior * cho_solve((L, True), weighted.conj().T @ targets)
        half = solve_triangular(L, Z_test.conj().T, lower=True)
        means.append((Z_test @ v).real + labels.means[c])
        variances.append(prior * np.sum(np.abs(half) ** 2, axis=0))
    return np.stack(means, axis=1), np.stack(variances, axis=1)


def classification(settings: list[str]) -> list[str]:
    """Settings are "real" and "complex"; one run of each method, in processor time."""
    n, n_test, D, C, alpha = 20_000, 5_000, 1_000, 10, 0.01
    y = np.random.default_rng(1).integers(0, C, n)
    rows, rows_test = np.arange(n)[:, None], np.arange(n, n + n_test)[:, None]
    labels = DirichletLabels.of(alpha, np.bincount(y) / n)
    lines = markdown_head(
        ["features", "per class (CPU s)", "dotsketch (CPU s)", "ratio", "difference"]
    )
    for field in settings or ["real", "complex"]:
        Z = random_features(n + n_test, D, field == "complex")
        gp = FeatureGPClassifier(Given(Z), alpha=alpha, posterior="complex", **AUTHORS)
        start = time.process_time()
        mean, deviation = gp.fit(rows, y).predict_latent(rows_test)
        middle = time.process_time()
        mean_theirs, variance_theirs = per_class(Z[:n], y, Z[n:], labels, C)
        fast, slow = middle - start, time.process_time() - middle
        difference = max(
            np.abs(mean - mean_theirs).max(), np.abs(deviation**2 - variance_theirs).max()
        )
        cells = [field, f"{slow:.2f}", f"{fast:.2f}", f"{slow / fast:.1f}", f"{difference:.1e}"]
        lines.append(markdown_line(cells))
        print(lines[-1], flush=True)
    return lines


def gram() -> list[str]:
    n, D, block = 16_384, 1_000, 8_192
    headings = ["features", "bare rank-k update (GFLOP/s)", "sums in blocks (GFLOP/s)", "share"]
    lines = markdown_head(headings)
    for dtype in (np.float64, np.float32, np.complex128, np.complex64):
        is_complex = np.dtype(dtype).kind == "c"
        Z = random_features(n, D, is_complex).astype(dtype)
        wide = Z.astype(np.complex128 if is_complex else np.float64)
        update = blas.zherk if is_complex else blas.dsyrk
        total = np.zeros((D, D), dtype=wide.dtype, order="F")
        y = np.zeros(n)

        def bare(update=update, wide=wide, total=total):
            update(1.0, wide.T, beta=1.0, c=total, lower=1, overwrite_c=1)

        def ours(Z=Z, wide=wide, y=y):
            statistics = SufficientStatistics.zeros(D, 1, wide.dtype)
            for start in range(0, n, block):
                rows = slice(start, start + block)
                statistics.update(Z[rows], y[rows])

        work = n * D * D * (4 if is_complex else 1) / 1e9
        peak, reached = (work / spent for spent in seconds([bare, ours]))
        lines.append(f"| {np.dtype(dtype)} | {peak:.1f} | {reached:.1f} | {reached / peak:.0%} |")
    return lines


def memory(rows: int = 2_000_000) -> list[str]:
    lines = markdown_head(
        ["rows", "fit (s)", "CPU (s)", "CPU µs per row", "peak resident memory (MiB)"]
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "X.npy"
        X = np.lib.format.open_memmap(path, "w+", dtype=np.float32, shape=(rows, 64))
        rng = np.random.default_rng(0)
        y = np.empty(rows)
        for start in range(0, rows, 100_000):
            part = X[start : start + 100_000]
            part[:] = rng.standard_normal(part.shape, dtype=np.float32) / 8
            y[start : start + 100_000] = np.sin(4 * part[:, 0])
        np.save(path.with_name("y.npy"), y)
        del X
        for n in (rows // 8, rows // 4, rows // 2, rows):
            command = [sys.executable, "-m", "benchmarks.gp", "fit-rows", str(path), str(n)]
            output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            elapsed, used, peak = map(float, output.split())
            times = (f"{value:.1f}" for value in (elapsed, used, used / n * 1e6))
            lines.append(markdown_line([f"{n:,}", *times, f"{peak:.0f}"]))
            print(lines[-1], flush=True)
    return lines


def fit_rows(path: str, n: int) -> None:
    """One fit in a process of its own: its time and peak memory."""
    X, y = np.load(path, mmap_mode="r")[:n], np.load(Path(path).with_name("y.npy"))[:n]
    features = MaclaurinFeatures(Gaussian(lengthscale=1.0), n_components=1000, random_state=0)
    start, used = time.perf_counter(), time.process_time()
    FeatureGPRegressor(features, noise_variance=0.01, prior_variance=1.0).fit(X, y)
    elapsed, used = time.perf_counter() - start, time.process_time() - used
    print(elapsed, used, peak_memory())


def peak_memory() -> float:
    """The greatest resident memory of this process in MiB."""
    status = Path("/proc/self/status")
    if status.exists():  # ru_maxrss would count the parent, which this process is forked from
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def data(name: str) -> tuple[np.ndarray, ...]:
    """X, y and, where the split is fixed, X_test, y_test."""
    with np.load(Path(os.environ["DOTSKETCH_DATA"]) / f"{name}.npz") as file:
        names = [key for key in ("X_train", "y_train", "X_test", "y_test") if key in file]
        return tuple(np.ascontiguousarray(file[key]) for key in names)


def prepared(train: np.ndarray, test: np.ndarray, shift: str) -> tuple[np.ndarray, np.ndarray]:
    """The authors' inputs: nonnegative ("raw") or standardised ("centred") columns, unit rows."""
    if shift == "raw":
        low = train.min(axis=0)
        return normalize(train - low), normalize(test - low)
    scaler = StandardScaler().fit(train)
    return normalize(scaler.transform(train)), normalize(scaler.transform(test))


def report(gp: FeatureGPClassifier, train, y, test, y_test, n_likelihood: int) -> list[str]:
    """Fit, and the cells of SCORES; likelihood and calibration on the first `n_likelihood` rows."""
    start = time.perf_counter()
    gp.fit(train, y)
    fitted = time.perf_counter()
    error = error_rate(y_test, gp.predict(test))
    print(f"alpha {gp.alpha_:g}, fit {fitted - start:.0f} s, error {error:.4f}", flush=True)
    middle = time.perf_counter()
    p = gp.predict_proba(test[:n_likelihood])
    done = time.perf_counter()
    y_test = y_test[:n_likelihood]
    return [
        f"{gp.alpha_:g}",
        f"{fitted - start:.0f}",
        f"{(done - middle) / len(p) * 1e3:.1f}",
        f"{error:.4f}",
        f"{mean_negative_log_likelihood(y_test, p, classes=gp.classes_):.4f}",
        f"{expected_calibration_error(y_test, p, classes=gp.classes_):.4f}",
        f"{gp.jitter_:g}",
    ]


SCORES = ["alpha", "fit (s)", "ms a row", "error", "MNLL", "calibration error", "jitter"]


def fashion(settings: list[str]) -> list[str]:
    """Settings are shift/output/posterior[/alpha[/seed]]."""
    X, y, X_test, y_test = data("fashion_mnist")
    lines = markdown_head(["shift", "features", "posterior", *SCORES])
    for setting in settings or ["raw/real/real", "centred/real/real"]:
        shift, output, posterior, *rest = setting.split("/")
        alpha = float(rest[0]) if rest else "auto"
        seed = int(rest[1]) if len(rest) > 1 else 0
        train, test = prepared(X.astype(np.float32), X_test.astype(np.float32), shift)
        features = MaclaurinFeatures(
            Polynomial(7, gamma=0.5, coef0=0.5),
            n_components=5120,
            output=output,
            n_jobs=-1,
            random_state=seed,
        )
        gp = FeatureGPClassifier(
            features, posterior=posterior, alpha=alpha, verbose=True, **AUTHORS
        )
        n_likelihood = 2_000 if posterior == "complex" else len(test)
        cells = report(gp, train, y, test, y_test, n_likelihood)
        lines.append(markdown_line([shift, output, posterior, *cells]))
        print(lines[-1], flush=True)
    return lines


def covertype(settings: list[str]) -> list[str]:
    """Settings are degree/output/posterior."""
    X, y = data("covertype")
    order = np.random.default_rng(0).permutation(len(X))
    X, y = X[order].astype(np.float64), y[order]
    n_test = len(X) // 10
    train, test = prepared(X[n_test:], X[:n_test], "raw")
    lines = markdown_head(["p", "features", "posterior", *SCORES])
    fields = ("real/real", "complex/real", "complex/complex")
    for setting in settings or [f"{p}/{field}" for p in (3, 7) for field in fields]:
        degree, output, posterior = setting.split("/")
        features = MaclaurinFeatures(
            Polynomial(int(degree), gamma=0.5, coef0=0.5),
            n_components=5 * 64,
            output=output,
            random_state=0,
        )
        gp = FeatureGPClassifier(features, posterior=posterior, verbose=True, **AUTHORS)
        cells = report(gp, train, y[n_test:], test, y[:n_test], n_test)
        lines.append(markdown_line([degree, output, posterior, *cells]))
        print(lines[-1], flush=True)
    return lines


def divergence(seeds: int = 5) -> list[str]:
    """KL of latent posteriors at held-out rows, summed over rows (averaged over classes)."""
    lines = markdown_head(
        ["data", "columns", "posterior", "KL(approximate ‖ exact)", "KL(exact ‖ approximate)"]
    )
    for name, exact, train, test, y, make in divergence_cases():
        exact.fit(train, y)
        reference = latent(exact, test)
        for D in (64, 128, 256, 512, 1024):
            for posterior in ("real", "complex"):
                found = []
                for seed in range(seeds):
                    features = MaclaurinFeatures(
                        exact.kernel_, n_components=D // 2, output="complex", random_state=seed
                    )
                    gp = make(features, posterior, exact).fit(train, y)
                    approximate = latent(gp, test)
                    found.append(
                        (
                            gaussian_kl(*approximate, *reference),
                            gaussian_kl(*reference, *approximate),
                        )
                    )
                forward, backward = np.mean(found, axis=0)
                lines.append(f"| {name} | {D} | {posterior} | {forward:.4g} | {backward:.4g} |")
                print(lines[-1], flush=True)
    return lines


def latent(gp, X):
    """Mean and variance of f."""
    if hasattr(gp, "predict_latent"):
        mean, deviation = gp.predict_latent(X)
    else:
        mean, deviation = gp.predict(X, return_std=True)
    return mean, np.maximum(deviation**2, 1e-12)


def divergence_cases():
    """Name, exact process, training and test rows, targets, and how to make the approximation."""
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))
    X, y = normalize(X[order]), y[order]
    kernel = Polynomial(7, gamma=0.5, coef0=0.5)

    def classifier(features, posterior, exact):
        return FeatureGPClassifier(features, posterior=posterior, alpha=exact.alpha_, **AUTHORS)

    exact = ExactGPClassifier(kernel, alpha=0.01, **AUTHORS)
    yield "digits", exact, X[:1000], X[1000:], y[:1000], classifier
    if "DOTSKETCH_DATA" not in os.environ:
        return

    def regressor(features, posterior, exact):
        return FeatureGPRegressor(
            features,
            posterior=posterior,
            noise_variance=exact.noise_variance_,
            prior_variance=exact.prior_variance_,
            normalize_y="mean",
        )

    for name in ("concrete", "kin8nm"):
        X, y = data(name)
        order = np.random.default_rng(0).permutation(len(X))[:2000]
        X, y = StandardScaler().fit_transform(X[order]), y[order] / y.std()
        n_test = len(X) // 4
        exact = ExactGPRegressor(Gaussian(), prior_variance=1.0, normalize_y="mean")
        yield name, exact, X[n_test:], X[:n_test], y[n_test:], regressor


COMMANDS = {
    "classification": classification,
    "gram": gram,
    "memory": memory,
    "fashion": fashion,
    "covertype": covertype,
    "divergence": divergence,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command", choices=[*COMMANDS, "fit-rows"])
    parser.add_argument("arguments", nargs="*", help="which settings to run: see the functions")
    parser.add_argument("--out", type=Path, default=Path("out"))
    options = parser.parse_args()
    if options.command == "fit-rows":
        fit_rows(options.arguments[0], int(options.arguments[1]))
        return
    takes_settings = options.command in ("classification", "covertype", "fashion")
    extra = [options.arguments] if takes_settings else []
    lines = COMMANDS[options.command](*extra)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / f"gp_{options.command}.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()

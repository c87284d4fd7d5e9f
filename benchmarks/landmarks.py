"""Uniform landmarks against those of a randomly pivoted Cholesky factor, at equal columns.

    python -m benchmarks.landmarks --data DIR [--sets protein magic …] [--landmarks 1.0]
    OMP_NUM_THREADS=1 python -m benchmarks.landmarks --data DIR --part float32 [--landmarks 2.0]
    OMP_NUM_THREADS=1 python -m benchmarks.landmarks --data DIR --part setup [--columns 4096]

The kernel error of Nyström features on 1000 rows held out of at most 20,000 (off-diagonal,
relative, median of five fits) with a Gaussian kernel at 1 and 0.4 times the median distance,
columns scaled to unit variance, and the seconds of a fit and these 1000 rows. DIR is a folder of
data sets, `--landmarks` their number per column.

The second command compares rows of float32 with the same rows as float64 (D = 1024, fits to 6000
rows, at 1, 0.5 and 0.25 times the median distance): kernel errors on 1000 rows held out, and the
processor time of `transform` in microseconds per row, least of seven.

The third compares the fit alone with scikit-learn's `Nystroem`, which goes through a singular value
decomposition in double precision, at so many uniform landmarks and columns and half the median
distance: the processor seconds of both for rows of single and of double precision, medians of
three one after the other, and both errors.
"""

from __future__ import annotations

import time

import numpy as np
from sklearn.kernel_approximation import Nystroem

from dotsketch import Gaussian, NystromFeatures

from .common import data_parser, least_seconds, off_diagonal_error, scaled_rows

SETS = ("protein", "magic", "letter", "kin8nm", "drive", "covertype", "adult", "naval")


def error_and_seconds(features: NystromFeatures, X: np.ndarray) -> tuple[float, float]:
    """The error on the first 1000 rows of features fitted to the others, medians of five."""
    held, rest = X[:1000], X[1000:]
    errors, seconds = [], []
    for seed in range(5):
        start = time.perf_counter()
        Z = features.set_params(random_state=seed).fit(rest).transform(held)
        seconds.append(time.perf_counter() - start)
        errors.append(off_diagonal_error(Z, features.kernel(held)))
    return float(np.median(errors)), float(np.median(seconds))


def precision(name: str, landmarks: float) -> None:
    """Errors and times of float32 beside those of float64."""
    X = scaled_rows(name)[:7000]
    median = Gaussian().resolve(X).lengthscale
    for factor in (1.0, 0.5, 0.25):
        kernel = Gaussian(lengthscale=factor * median)
        features = NystromFeatures(kernel, n_components=1024, n_landmarks=landmarks, random_state=0)
        errors, times = [], []
        for dtype in (np.float64, np.float32):
            held, rest = X[:1000].astype(dtype), X[1000:].astype(dtype)
            Z = features.fit(rest).transform(held)
            errors.append(off_diagonal_error(Z, kernel(X[:1000])))
            seconds = least_seconds(lambda: features.transform(held), 7)  # noqa: B023 - called now
            times.append(1e6 * seconds / len(held))
        print(
            f"{name:10s} {factor:11.2f} {errors[0]:9.3g} {errors[1] / errors[0]:10.4f} "
            f"{times[0]:8.1f} {times[1]:8.1f} {times[0] / times[1]:6.2f}",
            flush=True,
        )


def setup(name: str, columns: int) -> None:
    """One set: seconds of a fit and errors, beside those of scikit-learn."""
    X = scaled_rows(name)
    kernel = Gaussian(lengthscale=0.5 * float(Gaussian().resolve(X).lengthscale))
    K = kernel(X[:1000])
    for dtype in (np.float32, np.float64):
        rows = X.astype(dtype)
        held, rest = rows[:1000], rows[1000:]
        seconds: dict[str, list[float]] = {"theirs": [], "ours": []}
        errors = {}
        for seed in range(3):
            models = {
                "theirs": Nystroem(
                    gamma=0.5 / kernel.lengthscale**2, n_components=columns, random_state=seed
                ),
                "ours": NystromFeatures(
                    kernel,
                    n_components=columns,
                    n_landmarks=1.0,
                    landmarks="uniform",
                    random_state=seed,
                ),
            }
            for label, model in models.items():
                start = time.process_time()
                model.fit(rest)
                seconds[label].append(time.process_time() - start)
                Z = np.asarray(model.transform(held), dtype=np.float64)
                errors[label] = np.linalg.norm(Z @ Z.T - K) / np.linalg.norm(K)
        theirs, ours = (float(np.median(seconds[label])) for label in ("theirs", "ours"))
        print(
            f"{name:10s} {columns:7d} {np.dtype(dtype).name:8s} {theirs:8.2f} {ours:8.2f} "
            f"{theirs / ours:6.1f}   {errors['theirs']:.3g} {errors['ours']:.3g}",
            flush=True,
        )


def main() -> None:
    parser = data_parser("Errors of two rules for landmarks.")
    parser.add_argument("--sets", nargs="*")
    parser.add_argument("--part", choices=("rules", "float32", "setup"), default="rules")
    parser.add_argument("--landmarks", type=float, default=1.0, help="landmarks per column")
    parser.add_argument("--columns", type=int, default=4096, help="of the set-up")
    options = parser.parse_args()
    if options.part == "float32":
        print("set        lengthscale   float64  error of 32  µs: 64       32  ratio")
        for name in options.sets or SETS[:3]:
            precision(name, options.landmarks)
        return
    if options.part == "setup":
        print("set        columns rows     scikit-learn s ours s  ratio   errors", flush=True)
        for name in options.sets or SETS[:1]:
            setup(name, options.columns)
        return
    print(f"{'set':10s} lengthscale columns   uniform  pivoted  ratio   seconds")
    for name in options.sets or SETS:
        X = scaled_rows(name)
        median = Gaussian().resolve(X).lengthscale
        for factor in (1.0, 0.4):
            for columns in (64, 256):
                kernel = Gaussian(lengthscale=factor * median)
                sizes = {"n_components": columns, "n_landmarks": options.landmarks}
                (uniform, fast), (pivoted, slow) = (
                    error_and_seconds(NystromFeatures(kernel, landmarks=rule, **sizes), X)
                    for rule in ("uniform", "rpcholesky")
                )
                print(
                    f"{name:10s} {factor:11.1f} {columns:7d} {uniform:9.2g} {pivoted:8.2g} "
                    f"{uniform / pivoted:6.2f}   {fast:.2f} {slow:.2f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()

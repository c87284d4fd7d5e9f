"""How near features are to the best possible with D columns.

    python -m benchmarks.limit --data DIR [--sets …] [--columns 64 256 1024] [--part errors]
                               [--variants "4 D" …] [--draws 5]

Parts:

- errors: kernel error on 1000 rows held out (off-diagonal, relative, median of five draws) over
  that of the limit, the eigenvectors of all training rows; Gaussian kernel at 1 and 0.4 times the
  median distance, 4000 training rows, columns scaled to unit variance
- estimate: what `plan` says of the limit from 1000 of 4000 rows, over the value of all 4000
- time: the fit at 1024 columns of 4096 landmarks on 20,000 rows over a Cholesky factor of that size
  plus the kernel's values and their product; transform over its two products of matrices; the
  set-up of 4096 plain landmarks over a singular value decomposition of their kernel matrix
- posterior: KL(approximate ‖ exact) at 256 columns, by landmarks per column

One thread; nothing is asserted.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import cholesky, eigh, svd

from dotsketch import ExactGPRegressor, FeatureGPRegressor, Gaussian, NystromFeatures, gaussian_kl
from dotsketch.features import Study
from dotsketch.planning import best_possible

from .common import data_parser, least_seconds, off_diagonal_error, scaled_rows
from .corrections import NOISE, split

SETS = ("protein", "magic", "letter", "kin8nm", "drive")
VARIANTS: dict[str, dict[str, Any]] = {
    "D": {"n_landmarks": 1.0},
    "2 D": {"n_landmarks": 2.0},
    "4 D": {"n_landmarks": 4.0},
    "2 D, uniform": {"n_landmarks": 2.0, "landmarks": "uniform"},
    "4 D, uniform": {"n_landmarks": 4.0, "landmarks": "uniform"},
}


def kernels(X: np.ndarray) -> dict[float, Gaussian]:
    median = Gaussian().resolve(X).lengthscale
    return {factor: Gaussian(lengthscale=factor * median) for factor in (1.0, 0.4)}


def errors(sets: list[str], columns: list[int], variants: list[str], n_draws: int) -> None:
    print(f"{'set':8s} scale     D     limit" + "".join(f"{name:>17s}" for name in variants))
    ratios: dict[str, list[float]] = {name: [] for name in variants}
    for name in sets:
        X = scaled_rows(name)[:5000]
        held, rows = X[:1000], X[1000:]
        for factor, kernel in kernels(rows).items():
            w, V = eigh(kernel(rows), driver="evd")
            for D in columns:
                Z = kernel(held, rows) @ (V[:, -D:] / np.sqrt(w[-D:]))
                limit = off_diagonal_error(Z, kernel(held))
                texts = []
                for variant in variants:
                    options = VARIANTS[variant]
                    features = NystromFeatures(kernel, n_components=D, **options)
                    has_all_rows = options["n_landmarks"] * D >= len(rows)  # in every draw
                    seeds = range(1 if has_all_rows else n_draws)
                    draws = (features.set_params(random_state=s).fit(rows) for s in seeds)
                    found = [off_diagonal_error(one.transform(held), kernel(held)) for one in draws]
                    ratios[variant].append(float(np.median(found)) / limit)
                    texts.append(f"{ratios[variant][-1]:17.2f}")
                print(f"{name:8s} {factor:5.1f} {D:5d} {limit:9.2e}" + "".join(texts), flush=True)
    for row, reduce in (("median", np.median), ("largest", np.max)):
        print(f"{row:31s}" + "".join(f"{reduce(values):17.2f}" for values in ratios.values()))


def estimate(sets: list[str]) -> None:
    print("estimate of the limit from 1000 rows over the value of 4000 (lowest, highest)")
    for name in sets:
        X = scaled_rows(name)[:4000]
        for factor, kernel in kernels(X).items():
            K = kernel(X)
            w, V = eigh(K, driver="evd")
            texts = []
            for D in (31, 62, 125, 250):
                R = K - (V[:, -D:] * w[-D:]) @ V[:, -D:].T
                np.fill_diagonal(R, 0)
                size = np.sqrt(np.sum(K**2) - np.sum(np.diagonal(K) ** 2))
                exact = np.linalg.norm(R) / size
                found = best_possible(Study(kernel, X, n_pairs_sample=1000), D)
                assert found is not None
                bracket = f"({found.lowest / exact:.2f}, {found.highest / exact:.2f})"
                texts.append(f"{found.relative_error / exact:.2f} {bracket}")
            print(f"{name:8s} {factor:3.1f}  " + "   ".join(texts), flush=True)


def times() -> None:
    X = np.random.default_rng(0).standard_normal((20_000, 9))
    kernel = Gaussian(lengthscale=3.0)
    B = X[:4096]
    K = kernel(B) + 1e-8 * np.eye(len(B))
    factor = least_seconds(lambda: cholesky(K, lower=True))
    values = least_seconds(lambda: (kernel(B), kernel(B, X)))
    KX = kernel(B, X)
    product = least_seconds(lambda: KX @ KX.T)
    features = NystromFeatures(kernel, n_components=1024, n_landmarks=4096, random_state=0)
    fit = least_seconds(lambda: features.fit(X))
    print(f"D = 1024, m = 4096, 20,000 rows: fit {fit:.1f} s; Cholesky factor {factor:.1f} s,")
    print(f"values of the kernel {values:.1f} s, their product {product:.1f} s: fit takes")
    print(f"{fit / (factor + values + product):.1f} times the three")
    for dtype in (np.float64, np.float32):
        transform_times(features, X[:4000].astype(dtype))
    plain = NystromFeatures(kernel, n_components=4096, n_landmarks=1.0, random_state=0)
    ours, theirs = least_seconds(lambda: plain.fit(X)), least_seconds(lambda: svd(K))
    print(f"4096 plain landmarks: fit {ours:.1f} s, singular values {theirs:.1f} s")


def transform_times(features: NystromFeatures, X: np.ndarray) -> None:
    B, W = (A.astype(X.dtype) for A in (features.components_, features.normalization_))
    K = features.kernel_(X, B)
    products = least_seconds(lambda: (X @ B.T, K @ W), 3)
    transform = least_seconds(lambda: features.transform(X), 3)
    print(f"transform, {X.dtype}: {transform / len(X) * 1e6:.0f} µs per row, ", end="")
    print(f"{transform / products:.2f} times its two products of matrices")


def posterior(sets: list[str], n_draws: int) -> None:
    print("KL to the exact posterior, D = 256" + "".join(f"{name:>17s}" for name in VARIANTS))
    for name in sets:
        X, y, test, _ = split(name)
        kernel = Gaussian(lengthscale=0.6 * Gaussian().resolve(X).lengthscale)
        given = {"noise_variance": NOISE, "prior_variance": 1.0}
        exact = ExactGPRegressor(kernel, **given).fit(X, y)
        mean, std = exact.predict(test, return_std=True, include_noise=True)
        texts = []
        for options in VARIANTS.values():
            found = []
            for seed in range(n_draws):
                features = NystromFeatures(kernel, n_components=256, random_state=seed, **options)
                gp = FeatureGPRegressor(features, **given).fit(X, y)
                m, s = gp.predict(test, return_std=True, include_noise=True)
                found.append(gaussian_kl(m, s**2, mean, std**2) / len(test))
            texts.append(f"{np.median(found):17.4f}")
        print(f"{name:34s}" + "".join(texts), flush=True)


def main() -> None:
    parser = data_parser("Nyström features and the best possible.")
    parser.add_argument("--sets", nargs="*", default=SETS)
    parser.add_argument("--columns", nargs="*", type=int, default=(64, 256, 1024))
    parser.add_argument("--variants", nargs="*", default=list(VARIANTS), choices=list(VARIANTS))
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--part", choices=("errors", "estimate", "time", "posterior"))
    options = parser.parse_args()
    if options.part in (None, "errors"):
        errors(options.sets, options.columns, options.variants, options.draws)
    if options.part in (None, "estimate"):
        estimate(options.sets)
    if options.part in (None, "time"):
        times()
    if options.part in (None, "posterior"):
        posterior(["kin8nm", "protein", "concrete"], options.draws)


if __name__ == "__main__":
    main()

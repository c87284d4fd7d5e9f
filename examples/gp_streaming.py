"""
A Gaussian process on more rows than fit in memory
==================================================

A Gaussian process on more rows than fit in memory, and a fit that can be killed.

200 000 rows are written to a file and read as a memory map, then given as a generator of batches.
Both reduce to the same sums, bit by bit. A checkpoint file makes the fit go on where it stopped.
"""

import tempfile
import time
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from dotsketch import FeatureGPRegressor, PolynomialSketch, SufficientStatistics

ROWS, DIMENSION = 200_000, 16
features = PolynomialSketch(3, coef0=1.0, gamma=0.1, n_components=300, random_state=0)


def batches(X, y, size):
    for start in range(0, len(X), size):
        yield X[start : start + size], y[start : start + size]


with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "X.npy"
    rng = np.random.default_rng(0)
    X = np.lib.format.open_memmap(path, "w+", dtype=np.float32, shape=(ROWS, DIMENSION))
    X[:] = rng.standard_normal((ROWS, DIMENSION))
    y = X[:, 0] * X[:, 1] + 0.3 * rng.standard_normal(ROWS)
    X.flush()

    # 1. A memory map: never whole in memory.
    X = np.load(path, mmap_mode="r")
    start = time.perf_counter()
    gp = FeatureGPRegressor(features, verbose=True).fit(X, y)
    print(f"memory map: {time.perf_counter() - start:.1f} s, noise {gp.noise_variance_:.3f}")

    # 2. A generator of batches of any size (of a data base, of Parquet files, …).
    streamed = FeatureGPRegressor(features).fit(batches(X, y, 30_000))
    same = np.allclose(streamed.statistics_.gram(), gp.statistics_.gram())
    print("the generator gives the same sums:", same)

    # 3. Sums of parts merge: of machines, of days.
    Z = gp.features_.transform(X[:1000])
    parts = SufficientStatistics.of(Z[:400], y[:400]) + SufficientStatistics.of(
        Z[400:], y[400:1000]
    )
    print("rows after a merge:", parts.n)

    # 4. With a checkpoint, the same call after a crash goes on where the last one stopped.
    sums = Path(folder) / "sums.npz"
    try:
        FeatureGPRegressor(features).fit(
            (batch if k < 3 else 1 / 0 for k, batch in enumerate(batches(X, y, 20_000))),
            checkpoint=sums,
        )
    except ZeroDivisionError:
        print("a crash in the fourth batch …")
    start = time.perf_counter()
    resumed = FeatureGPRegressor(features).fit(batches(X, y, 20_000), checkpoint=sums)
    whole = FeatureGPRegressor(features).fit(batches(X, y, 20_000))
    equal = np.array_equal(resumed.statistics_.gram(), whole.statistics_.gram())
    print("… and the resumed fit has the bits of an uninterrupted one:", equal)

# What was learnt: y = x₁ x₂, here against x₁ for three values of x₂, with 95 % intervals of f
grid = np.zeros((100, DIMENSION), dtype=np.float32)
grid[:, 0] = np.linspace(-3, 3, 100)
for second in (-1, 0, 1):
    grid[:, 1] = second
    mean, std = gp.predict(grid, return_std=True)
    plt.fill_between(grid[:, 0], mean - 1.96 * std, mean + 1.96 * std, alpha=0.3)
    plt.plot(grid[:, 0], mean, label=f"x₂ = {second}")
plt.xlabel("x₁")
plt.legend()
plt.show()

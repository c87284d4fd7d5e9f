"""
A Gaussian process with its band
================================

Fit a noisy function, and draw the mean with its 95 % interval.

The default model searches a kernel for the data. Between the data the band is as wide as the noise;
in the gap, and outside, it widens: the model says what it does not know.
"""

import matplotlib.pyplot as plt
import numpy as np

from dotsketch import FeatureGPRegressor

NOISE = 0.15
rng = np.random.default_rng(0)
X = rng.uniform(-3, 3, 160)
X = X[np.abs(X - 0.8) > 0.7][:, None]  # a gap
y = np.sin(2 * X[:, 0]) + 0.3 * X[:, 0] + NOISE * rng.standard_normal(len(X))

model = FeatureGPRegressor().fit(X, y)
grid = np.linspace(-4, 4, 300)[:, None]
mean, std = model.predict(grid, return_std=True, include_noise=True)

figure, axes = plt.subplots(figsize=(7, 3.5), layout="constrained")
band = (mean - 1.96 * std, mean + 1.96 * std)
axes.fill_between(grid[:, 0], *band, color="#c9d8e6", label="95 % interval")
axes.plot(grid, mean, color="#2563a8", label="mean")
axes.plot(X, y, ".", color="black", markersize=4, label="data")
axes.set(xlabel="x", ylabel="y")
axes.legend(frameon=False, ncols=3)

inside = np.mean(np.abs(y - model.predict(X)) < 1.96 * NOISE)
print(f"kernel: {model.kernel_}")
print(f"{inside:.0%} of the data within 1.96 noise deviations of the mean")
print(f"standard deviation at 0 (data): {std[150]:.2f}, at 4 (none): {std[-1]:.2f}")

"""
Recipes
=======

Eight common tasks in about fifteen lines each, with a figure.

Each block stands alone after the imports: copy the one that you need.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from scipy.sparse import csr_array
from sklearn.compose import make_column_transformer
from sklearn.datasets import make_moons
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from dotsketch import (
    ExactGPRegressor,
    FeatureGPClassifier,
    FeatureGPRegressor,
    Gaussian,
    MaclaurinFeatures,
    Tanimoto,
)

# %%
# A time series with a period
# ---------------------------
#
# Sine and cosine of the phase as two more inputs make a kernel of the distance periodic. The sum of
# a kernel of time and of one of both follows a trend with a season.

rng = np.random.default_rng(0)
months = np.arange(180.0)
y = 0.01 * months + np.sin(2 * np.pi * months / 12) + 0.2 * rng.standard_normal(180)


def with_phase(t, period=12.0):
    angle = 2 * np.pi * t / period
    return np.column_stack([t / 60, np.cos(angle), np.sin(angle)])


X = with_phase(months)
model = FeatureGPRegressor(Gaussian(lengthscale=[2.0, 1.0, 1.0]), optimize=True)
model.fit(X[:144], y[:144])
mean, std = model.predict(X, return_std=True, include_noise=True)

figure, axes = plt.subplots(figsize=(7, 2.6), layout="constrained")
axes.fill_between(months, mean - 1.96 * std, mean + 1.96 * std, color="#c9d8e6")
axes.plot(months, mean, color="#2563a8")
axes.plot(months, y, ".", color="black", markersize=3)
axes.axvline(144, color="gray", lw=0.8)
axes.set(xlabel="month", ylabel="y")
print(f"time series: error of the last three years {np.std(mean[144:] - y[144:]):.2f}")

# %%
# Values on a map
# ---------------
#
# The default: a Matérn kernel with a lengthscale for each coordinate. The map of the standard
# deviation says where to measure next.

rng = np.random.default_rng(0)
places = rng.random((400, 2)) ** [1.0, 2.0]  # few in the north
y = np.sin(6 * places[:, 0]) * np.cos(4 * places[:, 1]) + 0.1 * rng.standard_normal(400)
model = FeatureGPRegressor().fit(places, y)
grid = np.stack(np.meshgrid(np.linspace(0, 1, 60), np.linspace(0, 1, 60)), axis=-1)
mean, std = model.predict(grid.reshape(-1, 2), return_std=True)

figure, panels = plt.subplots(1, 2, figsize=(7, 3), sharey=True, layout="constrained")
for axes, values, name in zip(panels, (mean, std), ("mean", "deviation"), strict=True):
    image = axes.contourf(grid[..., 0], grid[..., 1], values.reshape(60, 60), levels=15)
    axes.plot(*places.T, ".", color="white", markersize=1)
    axes.set_title(name, fontsize=10)
    figure.colorbar(image, ax=axes)
print(f"map: noise of variance {model.noise_variance_ * y.var():.3f}, made with 0.01")

# %%
# A table of numbers and categories
# ---------------------------------
#
# scikit-learn's transformer of columns turns categories into indicators. The command line does this
# for files, with dates and missing values.

rng = np.random.default_rng(0)
table = pd.DataFrame(
    {
        "area": rng.uniform(30, 200, 500),
        "rooms": rng.integers(1, 7, 500),
        "district": rng.choice(["harbour", "old town", "hills"], 500),
    }
)
worth = table["district"].map({"harbour": 3.0, "old town": 5.0, "hills": 4.0})
price = worth * table["area"] + 20 * table["rooms"] + 10 * rng.standard_normal(500)
columns = make_column_transformer(
    (StandardScaler(), ["area", "rooms"]), (OneHotEncoder(sparse_output=False), ["district"])
)
model = make_pipeline(columns, FeatureGPRegressor()).fit(table[:400], price[:400])
mean, std = model.predict(table[400:], return_std=True, include_noise=True)

figure, axes = plt.subplots(figsize=(3.5, 3.2), layout="constrained")
axes.errorbar(price[400:], mean, 1.96 * std, fmt=".", elinewidth=0.5, color="#2563a8")
axes.plot([100, 1100], [100, 1100], color="gray", lw=0.8)
axes.set(xlabel="price", ylabel="predicted, with 95 % interval")
print(f"table: R² {model.score(table[400:], price[400:]):.3f} on rows held out")

# %%
# Noise that is known for every row
# ---------------------------------
#
# Measurements with error bars: give their variances to ``fit``. With ``normalize_y="mean"`` they
# are in the units of y.

rng = np.random.default_rng(0)
X = np.sort(rng.uniform(0, 10, 120))[:, None]
errors = 0.05 + 0.6 * (X[:, 0] > 5) * rng.random(120)
y = np.sin(X[:, 0]) + errors * rng.standard_normal(120)
model = FeatureGPRegressor(Gaussian(lengthscale=1.0), normalize_y="mean")
model.fit(X, y, noise_variance=errors**2)
mean, std = model.predict(X, return_std=True)

figure, axes = plt.subplots(figsize=(7, 2.6), layout="constrained")
axes.fill_between(X[:, 0], mean - 1.96 * std, mean + 1.96 * std, color="#c9d8e6")
axes.errorbar(X[:, 0], y, errors, fmt=".", color="black", markersize=3, elinewidth=0.5)
axes.plot(X[:, 0], mean, color="#2563a8")
print(f"noise by row: deviation of f {std[X[:, 0] < 5].mean():.3f}", end=" and ")
print(f"{std[X[:, 0] > 5].mean():.3f}")

# %%
# Several outputs
# ---------------
#
# y of two columns: one kernel and one set of features, a noise variance for each output.

rng = np.random.default_rng(0)
X = rng.uniform(0, 6, (300, 1))
signal = np.column_stack([np.sin(X[:, 0]), np.cos(X[:, 0])])
y = signal + [0.05, 0.4] * rng.standard_normal((300, 2))
model = FeatureGPRegressor().fit(X, y)
grid = np.linspace(0, 6, 200)[:, None]
mean, std = model.predict(grid, return_std=True, include_noise=True)

figure, axes = plt.subplots(figsize=(7, 2.6), layout="constrained")
for k, colour in enumerate(("#2563a8", "#c2410c")):
    low, high = mean[:, k] - 1.96 * std[:, k], mean[:, k] + 1.96 * std[:, k]
    axes.fill_between(grid[:, 0], low, high, color=colour, alpha=0.2)
    axes.plot(X[:, 0], y[:, k], ".", color=colour, markersize=3)
    axes.plot(grid, mean[:, k], color=colour)
print("outputs: noise", np.sqrt(model.noise_variance_ * y.var(axis=0)).round(2), "of 0.05, 0.4")

# %%
# Classes
# -------
#
# Probabilities that go back to one half away from the data.

X, labels = make_moons(300, noise=0.2, random_state=0)
model = FeatureGPClassifier().fit(X, labels)
grid = np.stack(np.meshgrid(np.linspace(-4, 5, 80), np.linspace(-4, 4, 80)), axis=-1)
probability = model.predict_proba(grid.reshape(-1, 2))[:, 1].reshape(80, 80)

figure, axes = plt.subplots(figsize=(5, 3.4), layout="constrained")
image = axes.contourf(grid[..., 0], grid[..., 1], probability, levels=np.linspace(0, 1, 11))
axes.scatter(*X.T, c=labels, s=6, edgecolors="white", linewidths=0.3)
figure.colorbar(image, label="probability of class 1")
print(f"classes: probability at (−4, −4): {probability[0, 0]:.2f}")

# %%
# Bayesian optimisation
# ---------------------
#
# Where to evaluate an expensive function next: at the greatest value of a function drawn from the
# posterior (Thompson sampling). :doc:`thompson_sampling` has two inputs, batches and gradients.


def expensive(X):
    return np.sin(3 * X[:, 0]) + X[:, 0] - 0.3 * X[:, 0] ** 2


grid = np.linspace(0, 5, 500)[:, None]
X = np.array([[0.2], [4.8]])
for step in range(10):
    model = ExactGPRegressor(Gaussian(lengthscale=0.7), noise_variance=1e-4)
    draw = model.fit(X, expensive(X)).sample_y(grid, random_state=step)
    X = np.concatenate([X, grid[[np.argmax(draw)]]])
mean, std = model.predict(grid, return_std=True)

figure, axes = plt.subplots(figsize=(7, 2.6), layout="constrained")
axes.fill_between(grid[:, 0], mean - 1.96 * std, mean + 1.96 * std, color="#c9d8e6")
axes.plot(grid, expensive(grid), "--", color="gray")
axes.plot(grid, mean, color="#2563a8")
axes.plot(X[:, 0], expensive(X), "o", color="black", markersize=4)
print(f"optimisation: {expensive(X).max():.3f} after {len(X)} values", end=", ")
print(f"the maximum is {expensive(grid).max():.3f}")

# %%
# Molecules
# ---------
#
# The Tanimoto kernel between sparse fingerprints. :doc:`molecules` reads SMILES.

rng = np.random.default_rng(0)
fingerprints = csr_array((rng.random((4_000, 256)) < 0.1) * 1.0)
y = fingerprints @ rng.standard_normal(256) + 0.3 * rng.standard_normal(4_000)
features = MaclaurinFeatures(Tanimoto(), mean_split=True, n_components=400, random_state=0)
model = FeatureGPRegressor(features).fit(fingerprints[:3500], y[:3500])
mean, std = model.predict(fingerprints[3500:], return_std=True, include_noise=True)

figure, axes = plt.subplots(figsize=(3.5, 3.2), layout="constrained")
axes.errorbar(y[3500:], mean, 1.96 * std, fmt=".", elinewidth=0.3, markersize=3, color="#2563a8")
axes.axline((0, 0), slope=1, color="gray", lw=0.8)
axes.set(xlabel="measured", ylabel="predicted, with 95 % interval")
inside = np.mean(np.abs(mean - y[3500:]) < 1.96 * std)
print(f"molecules: {inside:.0%} of new values in their 95 % interval")

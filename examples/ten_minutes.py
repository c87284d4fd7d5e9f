"""
Gaussian processes in ten minutes
=================================

What a Gaussian process is, what it tells you, and how to fit one to many rows.

A Gaussian process is a distribution over functions. Before any data it says how functions look:
how fast they vary, how large they are. Data select the functions that agree with them. What is
left is the prediction, with its uncertainty.
"""

import matplotlib.pyplot as plt
import numpy as np

from dotsketch import ExactGPRegressor, FeatureGPRegressor, Gaussian, Matern, plan

rng = np.random.default_rng(0)
grid = np.linspace(-4, 4, 300)[:, None]

# %%
# A kernel says how functions look
# --------------------------------
#
# The kernel k(x, x') is the covariance of f(x) and f(x'). Functions drawn with it are smooth for
# the Gaussian kernel, and rough for a Matérn kernel with nu = 1/2. The lengthscale is the distance
# over which they change.

KERNELS = {
    "Gaussian, lengthscale 1": Gaussian(lengthscale=1.0),
    "Gaussian, lengthscale 0.3": Gaussian(lengthscale=0.3),
    "Matérn, nu = 1/2": Matern(0.5, lengthscale=1.0),
}
figure, panels = plt.subplots(1, 3, figsize=(9, 2.4), sharey=True, layout="constrained")
for axes, (name, kernel) in zip(panels, KERNELS.items(), strict=True):
    covariance = kernel(grid) + 1e-9 * np.eye(len(grid))
    axes.plot(grid, np.linalg.cholesky(covariance) @ rng.standard_normal((len(grid), 3)))
    axes.set_title(name, fontsize=10)

# %%
# Data select functions
# ---------------------
#
# Eight noisy values of a function. The posterior mean is the prediction; functions drawn from the
# posterior agree with the data and differ where there are none.


def truth(X):
    return np.sin(2 * X[:, 0]) + 0.3 * X[:, 0]


X = np.array([-3.0, -2.4, -1.5, -0.9, -0.2, 1.4, 2.0, 2.9])[:, None]
y = truth(X) + 0.1 * rng.standard_normal(len(X))
exact = ExactGPRegressor(Gaussian(lengthscale=1.0), noise_variance=0.01).fit(X, y)
mean, std = exact.predict(grid, return_std=True)


def draw(axes, grid, mean, std, X, y):
    band = (mean - 1.96 * std, mean + 1.96 * std)
    axes.fill_between(grid[:, 0], *band, color="#c9d8e6", label="95 % interval")
    axes.plot(grid, mean, color="#2563a8", label="mean")
    axes.plot(X[:, 0], y, ".", color="black", markersize=4, label="data")


figure, axes = plt.subplots(figsize=(7, 3), layout="constrained")
draw(axes, grid, mean, std, X, y)
axes.plot(grid, exact.sample_y(grid, 4, random_state=0), color="#2563a8", lw=0.6, alpha=0.7)
axes.legend(frameon=False, ncols=3)
print(f"deviation at −2.4 (data) {exact.predict([[-2.4]], return_std=True)[1][0]:.2f}", end=", ")
print(f"at 0.6 (a gap) {exact.predict([[0.6]], return_std=True)[1][0]:.2f}")

# %%
# The evidence chooses the kernel
# -------------------------------
#
# The marginal likelihood (evidence) is the density of the data under the kernel, with all functions
# averaged out. It is greatest for a lengthscale that is neither too short, where anything could
# happen, nor too long, where these data could not.

X = rng.uniform(-3, 3, (60, 1))
y = truth(X) + 0.15 * rng.standard_normal(len(X))
lengthscales = np.geomspace(0.05, 10, 30)
evidence = [
    ExactGPRegressor(Gaussian(lengthscale=scale)).fit(X, y).log_marginal_likelihood()
    for scale in lengthscales
]
figure, axes = plt.subplots(figsize=(5, 2.6), layout="constrained")
axes.semilogx(lengthscales, evidence)
axes.set(xlabel="lengthscale", ylabel="log evidence", ylim=(max(evidence) - 80, max(evidence) + 5))
print(f"the best of these lengthscales: {lengthscales[np.argmax(evidence)]:.2f}")

# %%
# Many rows: features
# -------------------
#
# Exact Gaussian processes take n³ operations for n rows. Features z(x) with z(x)·z(x') ≈ k(x, x')
# turn them into a linear model: the time is linear in n. ``plan`` predicts the error of features
# before any is computed.

X = rng.uniform(-3, 3, (20_000, 1))
y = truth(X) + 0.15 * rng.standard_normal(len(X))
figure, axes = plt.subplots(figsize=(5, 2.6), layout="constrained")
columns = (8, 16, 32, 64)
for family in ("fourier", "maclaurin", "nystrom"):
    errors = [
        plan(Gaussian(lengthscale=1.0), X, n_components=D, candidates=family)[0].relative_error
        for D in columns
    ]
    axes.loglog(columns, np.maximum(errors, 1e-8), "o-", label=family)
axes.set(xlabel="columns", ylabel="predicted error of the kernel")
axes.legend(frameon=False)

# %%
# One call
# --------
#
# ``FeatureGPRegressor()`` does all of this: it searches the kernel by the evidence, makes the
# features and fits in one pass over the rows. ``include_noise=True`` gives the interval of new
# values, rather than of the function.

model = FeatureGPRegressor(256).fit(X, y)
mean, std = model.predict(grid, return_std=True, include_noise=True)
figure, axes = plt.subplots(figsize=(7, 3), layout="constrained")
draw(axes, grid, mean, std, X[::100], y[::100])
axes.legend(frameon=False, ncols=3)
X_new = rng.uniform(-3, 3, (2_000, 1))
y_new = truth(X_new) + 0.15 * rng.standard_normal(len(X_new))
low, high = model.predict_quantiles(X_new, [0.025, 0.975]).T
print(f"{len(X)} rows, kernel: {model.kernel_}")
print(f"new values in their 95 % interval: {np.mean((low < y_new) & (y_new < high)):.1%}")

# %%
# Is it calibrated?
# -----------------
#
# Of the intervals of every level, that share should hold the new values: the points should lie on
# the diagonal.

levels = np.linspace(0.05, 0.95, 19)
below = model.predict_quantiles(X_new, (1 - levels) / 2)
above = model.predict_quantiles(X_new, (1 + levels) / 2)
held = np.mean((below < y_new[:, None]) & (y_new[:, None] < above), axis=0)
figure, axes = plt.subplots(figsize=(3, 3), layout="constrained")
axes.plot([0, 1], [0, 1], color="gray", lw=0.8)
axes.plot(levels, held, "o", markersize=3)
axes.set(xlabel="level of the interval", ylabel="share of values in it")

"""
Bayesian optimisation
=====================

Maximise a function of which every value is expensive and noisy: draws, and expected improvement.

Every round draws functions from the posterior of what is known so far, and asks for values where
these functions are greatest. A function drawn by `sample_functions` is one object that gives the
same values at every call, so that it can be evaluated on many candidates at once, or followed
uphill by gradients. Two inputs; the best of 120 values is close to the maximum, and better than
the best of as many values at random places. The second half maximises the expected improvement,
whose gradient PyTorch has from ``predict``.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch

from dotsketch import FeatureGPRegressor, FourierFeatures, Gaussian

ROUNDS, BATCH = 10, 10
NOISE = 0.05


def target(X):
    """Two hills: the higher one, of height 1, at (0.7, 0.2)."""
    near = np.sum((X - [0.7, 0.2]) ** 2, axis=1)
    far = np.sum((X - [0.2, 0.7]) ** 2, axis=1)
    return np.exp(-near / 0.02) + 0.7 * np.exp(-far / 0.05)


rng = np.random.default_rng(0)
X = rng.random((20, 2))
y = target(X) + NOISE * rng.standard_normal(len(X))
features = FourierFeatures(Gaussian(lengthscale=0.15), n_components=300, random_state=0)

print("round  values  best so far")
for step in range(ROUNDS):
    gp = FeatureGPRegressor(features).fit(X, y)
    functions = gp.sample_functions(BATCH, random_state=step)
    candidates = rng.random((2000, 2))
    places = candidates[np.argmax(functions(candidates), axis=0)]  # one for each function
    X = np.concatenate([X, places])
    y = np.concatenate([y, target(places) + NOISE * rng.standard_normal(BATCH)])
    print(f"{step + 1:5d} {len(X):7d}   {target(X).max():10.3f}")

random_best = np.mean([target(rng.random((len(X), 2))).max() for _ in range(200)])
print(f"best of {len(X)} random places: {random_best:.3f} (mean of 200 repetitions)")
print(f"found {X[np.argmax(target(X))].round(2)}; the maximum is at [0.7 0.2]")

figure, axes = plt.subplots(figsize=(4.5, 3.6), layout="constrained")
grid = np.stack(np.meshgrid(np.linspace(0, 1, 80), np.linspace(0, 1, 80)), axis=-1)
axes.contourf(grid[..., 0], grid[..., 1], target(grid.reshape(-1, 2)).reshape(80, 80), levels=12)
image = axes.scatter(*X.T, c=np.arange(len(X)), cmap="Reds", s=12)
figure.colorbar(image, label="number of the value")

# %%
# Expected improvement
# --------------------
#
# E max(f(x) − best, 0) under the posterior, maximised by gradient steps from many starts at once:
# rows of torch give means and deviations of torch, with gradients.

X = rng.random((20, 2))
y = target(X) + NOISE * rng.standard_normal(len(X))
normal = torch.distributions.Normal(0.0, 1.0)


def expected_improvement(gp, rows, best):
    mean, std = gp.predict(rows, return_std=True)
    z = (mean - best) / std
    return std * (z * normal.cdf(z) + normal.log_prob(z).exp())


for _ in range(3 * ROUNDS):
    gp = FeatureGPRegressor(features).fit(X, y)
    best = float(gp.predict(X).max())  # of the mean: single values are noisy
    rows = torch.tensor(rng.random((50, 2)), requires_grad=True)
    optimiser = torch.optim.Adam([rows], lr=0.02)
    for _ in range(20):
        optimiser.zero_grad()
        (-expected_improvement(gp, rows, best).sum()).backward()
        optimiser.step()
        with torch.no_grad():
            rows.clamp_(0, 1)
    with torch.no_grad():
        place = rows[expected_improvement(gp, rows, best).argmax()].numpy()[None]
    X = np.concatenate([X, place])
    y = np.concatenate([y, target(place) + NOISE * rng.standard_normal(1)])
print(f"expected improvement: {target(X).max():.3f} after {len(X)} values")

figure, axes = plt.subplots(figsize=(4.5, 3.6), layout="constrained")
with torch.no_grad():
    surface = expected_improvement(gp, torch.tensor(grid.reshape(-1, 2)), best).reshape(80, 80)
image = axes.contourf(grid[..., 0], grid[..., 1], surface, levels=12)
axes.plot(*X.T, ".", color="white")
axes.plot(*X[-1], "o", color="#c2410c")
figure.colorbar(image, label="expected improvement")

"""
Thompson sampling
=================

Maximise a function of which every value is expensive and noisy.

Every round draws functions from the posterior of what is known so far, and asks for values where
these functions are greatest. A function drawn by `sample_functions` is one object that gives the
same values at every call, so that it can be evaluated on many candidates at once, or followed
uphill by gradients. Two inputs; the best of 120 values is close to the maximum, and better than
the best of as many values at random places.
"""

import numpy as np

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

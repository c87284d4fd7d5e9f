"""Every feature map and every Gaussian process there is, found by the registry, with small data.

A new family is found in `FAMILIES`, a new Gaussian process among the public names: it inherits the
laws of the files `test_estimators_*.py`.
"""

import inspect

import numpy as np
from sklearn.base import is_classifier
from sklearn.preprocessing import normalize

import dotsketch
from dotsketch import AutoFeatures, Exponential, Gaussian, Polynomial, PolynomialSketch
from dotsketch.features import FAMILIES, Study
from dotsketch.planning import variants

N_ROWS, N_TEST, COLUMNS = 80, 12, 20
rng = np.random.default_rng(0)
# Rows of unit norm, which every family takes; some zeros, so that sparse rows are not full
X = rng.random((N_ROWS + N_TEST, 5))
X = normalize(np.where(rng.random(X.shape) < 0.3, 0.0, X))
X, X_TEST = X[:N_ROWS], X[N_ROWS:]
y = np.sin(4 * X[:, 0]) + X[:, 1] ** 2 + 0.1 * rng.standard_normal(N_ROWS)
LABELS = (X[:, 0] > X[:, 1]).astype(int) + (X[:, 2] > 0.4)
KERNELS = (Gaussian(lengthscale=1.0), Polynomial(3, coef0=1.0), Exponential())


def feature_maps():
    """One unfitted estimator of every family, for the first kernel that it supports."""
    found = {}
    for kernel in KERNELS:
        for candidate in variants(Study(kernel, X)):
            if candidate.family not in found:
                shared = {"random_state": 0}
                found[candidate.family] = candidate.for_kernel(kernel, COLUMNS, **shared)
    assert set(found) == set(FAMILIES), "a family supports none of the kernels of these tests"
    found["auto"] = AutoFeatures(KERNELS[0], n_components=COLUMNS, random_state=0)
    return found


def gaussian_processes():
    """Every public class with `predict`: on features (for fixed variances), or exact."""
    found = {}
    features = PolynomialSketch(3, coef0=1.0, n_components=COLUMNS, random_state=0)
    for name in dotsketch.__all__:
        cls = getattr(dotsketch, name)
        if not inspect.isclass(cls) or not hasattr(cls, "predict"):
            continue
        first = next(iter(inspect.signature(cls).parameters))
        found[name] = cls(features if first == "features" else KERNELS[0])
    assert len(found) >= 4
    return found


FEATURE_MAPS = feature_maps()
GAUSSIAN_PROCESSES = gaussian_processes()
ON_FEATURES = {n: gp for n, gp in GAUSSIAN_PROCESSES.items() if hasattr(gp, "features")}


def target_of(gp):
    return LABELS if is_classifier(gp) else y


def fixed(gp):
    """The Gaussian process with its variances given: laws do not depend on a choice."""
    values = {"alpha": 0.01, "noise_variance": 0.1, "prior_variance": 2.0}
    return gp.set_params(**{name: v for name, v in values.items() if name in gp.get_params()})


def predictions(gp, rows=X_TEST):
    """What a user sees: means and standard deviations, or probabilities."""
    if is_classifier(gp):
        return gp.predict_proba(rows)
    return np.stack(gp.predict(rows, return_std=True))

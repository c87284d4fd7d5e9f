"""Every feature map and every Gaussian process there is, found by the registry, with small data.

A new family is found in `FAMILIES`, a new Gaussian process among the public names: it inherits the
laws of the files `test_estimators_*.py`. `configurations` adds other options of families.
"""

import inspect

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.frozen import FrozenEstimator
from sklearn.preprocessing import normalize

import dotsketch
from benchmarks.fuzz_subjects import default_kernels
from dotsketch import (
    AutoFeatures,
    ExactGPRegressor,
    Exponential,
    FeatureGPClassifier,
    FeatureGPRegressor,
    FourierFeatures,
    Gaussian,
    MaclaurinFeatures,
    Matern,
    NystromFeatures,
    Polynomial,
    PolynomialSketch,
    PositiveFeatures,
    SphericalFeatures,
    Tanimoto,
)
from dotsketch.features import FAMILIES, Study
from dotsketch.gp import ConjugateGradients
from dotsketch.planning import variants
from dotsketch.projections import PROJECTIONS
from dotsketch.sketches import SKETCHES

N_ROWS, N_TEST, COLUMNS = 80, 12, 20
rng = np.random.default_rng(0)
# Rows of unit norm, which every family takes; some zeros, so that sparse rows are not full
X = rng.random((N_ROWS + N_TEST, 5))
X = normalize(np.where(rng.random(X.shape) < 0.3, 0.0, X))
X, X_TEST = X[:N_ROWS], X[N_ROWS:]
y = np.sin(4 * X[:, 0]) + X[:, 1] ** 2 + 0.1 * rng.standard_normal(N_ROWS)
LABELS = (X[:, 0] > X[:, 1]).astype(int) + (X[:, 2] > 0.4)
KERNELS = (Gaussian(lengthscale=1.0), Polynomial(3, coef0=1.0), Exponential(), *default_kernels())


def feature_maps():
    """One unfitted estimator of every family, for the first kernel that it supports."""
    families = {}
    for kernel in KERNELS:
        if families.keys() == FAMILIES.keys():
            break
        for candidate in variants(Study(kernel, X)):
            if candidate.family not in families:
                shared = {"random_state": 0}
                families[candidate.family] = candidate.for_kernel(kernel, COLUMNS, **shared)
    missing = sorted(FAMILIES.keys() - families.keys())
    assert not missing, f"the variants of {missing} support none of KERNELS: add a kernel there"
    families["auto"] = AutoFeatures(KERNELS[0], n_components=COLUMNS, random_state=0)
    return families


def configurations():
    """Families with all of their sketches, projections and outputs, and some options."""
    on_sphere = Polynomial(3, gamma=0.5, coef0=0.5)
    per_column = Gaussian(lengthscale=np.arange(1.0, 6.0), variance=2.0)
    for output in ("real", "complex", "complex_to_real"):
        shared = {"output": output, "random_state": 0}
        columns = {"n_components": 5 if output == "real" else 6, **shared}
        for sketch in SKETCHES:
            yield PolynomialSketch(3, gamma=0.7, coef0=0.5, sketch=sketch, **columns)
        waves = {"n_components": 9 if output == "real" else 8, **shared}
        for projection in PROJECTIONS:
            yield FourierFeatures(per_column, projection=projection, **waves)
            yield SphericalFeatures(on_sphere, projection=projection, **waves)
        for mean_split in (False, True):
            kernel = Exponential() if mean_split else Gaussian()
            yield MaclaurinFeatures(kernel, mean_split=mean_split, n_components=20, **shared)
    yield PolynomialSketch(3, coef0=0.5, compact=2, n_components=6, random_state=0)
    shared = {"n_components": 24, "random_state": 0}
    for sketch in ("gaussian", "balanced_tensor_sketch"):
        yield MaclaurinFeatures(Polynomial(4), sketch=sketch, coefficients="fitted", **shared)
    yield MaclaurinFeatures(Gaussian(), allocation="random", **shared)
    for mean_split in (False, True):
        yield MaclaurinFeatures(Tanimoto(), mean_split=mean_split, **shared)
    for kernel in (Exponential(), Gaussian()):
        for hyperbolic in (False, True):
            yield PositiveFeatures(kernel, hyperbolic=hyperbolic, n_components=8, random_state=0)
    for kernel in (Gaussian(), Matern(), Polynomial(2), Tanimoto()):
        for factor in (1.0, 2.0):
            yield NystromFeatures(kernel, n_components=5, n_landmarks=factor, random_state=0)


def gaussian_processes():
    """Every public class with `predict`: on features (for fixed variances), or exact."""
    processes = {}
    features = PolynomialSketch(3, coef0=1.0, n_components=COLUMNS, random_state=0)
    for name in dotsketch.__all__:
        cls = getattr(dotsketch, name)
        if not inspect.isclass(cls) or not hasattr(cls, "predict"):
            continue
        first = next(iter(inspect.signature(cls).parameters))
        processes[name] = cls(features if first == "features" else KERNELS[0])
    assert len(processes) >= 4
    return processes


def with_options():
    """Every Gaussian process, and those without arguments or with another way to be fitted."""
    sketch = PolynomialSketch(3, coef0=1.0, n_components=COLUMNS, random_state=0)
    waves = FourierFeatures(Gaussian(lengthscale=1.0), n_components=COLUMNS, random_state=0)
    pairs = PolynomialSketch(2, coef0=1.0, n_components=8, output="complex", random_state=0)
    return {
        **gaussian_processes(),
        "default": FeatureGPRegressor(),
        "default, exact": ExactGPRegressor(),
        "default, classes": FeatureGPClassifier(),
        "searched": FeatureGPRegressor(waves, optimize=True),
        "cg": FeatureGPRegressor(sketch, solver=ConjugateGradients(rank=4, n_samples=3)),
        "complex": FeatureGPRegressor(pairs, posterior="complex"),
        "warped": FeatureGPRegressor(waves, target_transform="auto", trend="linear"),
    }


FEATURE_MAPS = feature_maps()
CONFIGURATIONS = list(configurations())
# Families that are not among them, as plans propose them
LISTED = {"auto", *(features.family for features in CONFIGURATIONS)}
OTHERS = [features for name, features in FEATURE_MAPS.items() if name not in LISTED]
CONFIGURATIONS += OTHERS
GAUSSIAN_PROCESSES = gaussian_processes()
WITH_OPTIONS = with_options()
ON_FEATURES = {n: gp for n, gp in GAUSSIAN_PROCESSES.items() if hasattr(gp, "features")}
ADDITIVE = {name: gp for name, gp in ON_FEATURES.items() if hasattr(gp, "merge")}
REGRESSORS = {n: gp for n, gp in GAUSSIAN_PROCESSES.items() if not is_classifier(gp)}
CLASSIFIERS = {n: gp for n, gp in GAUSSIAN_PROCESSES.items() if is_classifier(gp)}


def target_of(gp):
    return LABELS if is_classifier(gp) else y


def fixed(gp):
    """The Gaussian process with its variances given: laws do not depend on a choice."""
    values = {"alpha": 0.01, "noise_variance": 0.1, "prior_variance": 2.0}
    return gp.set_params(**{name: v for name, v in values.items() if name in gp.get_params()})


def frozen(gp):
    """With features that are fitted once, as additions and merges need."""
    return fixed(clone(gp).set_params(features=FrozenEstimator(clone(gp.features).fit(X))))


def predictions(gp, rows=X_TEST):
    """What a user sees: means and standard deviations, or probabilities."""
    if is_classifier(gp):
        return gp.predict_proba(rows)
    return np.stack(gp.predict(rows, return_std=True))

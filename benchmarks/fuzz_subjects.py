"""Small fitted models that hold, together, every class that a model file may hold."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
from sklearn import frozen, pipeline, preprocessing

import dotsketch
from attacks.forging import Encoder, known_classes
from dotsketch import kernels
from dotsketch.gp import ConjugateGradients
from dotsketch.kernels import DistanceKernel, DotProductKernel, ExpandedKernel, Kernel
from dotsketch.planning import BestPossible
from dotsketch.sketches import SKETCHES, MonomialSketch
from dotsketch.tables import TableEncoder

X = np.random.default_rng(1).random((24, 5))
Y = X.sum(axis=1)
LABELS = np.arange(len(X)) % 3
WORDS = np.array(["red", "green", "blue"], dtype=object)[LABELS]
GAPS = np.where(X < 0.1, np.nan, X)

Subject = tuple[Any, np.ndarray]  # an estimator, and rows to use it on


def subjects() -> list[Subject]:
    """The models, each with rows for `transform` or `predict`."""
    return [*own_subjects(), *process_subjects(), *scikit_learn_subjects()]


def by_class(found: list[Subject]) -> dict[str, list[Subject]]:
    """The models that hold an object of a class, for every class in them."""
    result: dict[str, list[Subject]] = {}
    for subject in found:
        encoder = Encoder(known_classes())
        encoder.encode(subject[0], "model")
        for name in encoder.names:
            result.setdefault(name, []).append(subject)
    return result


def default_kernels() -> list[Kernel]:
    """Every kernel of `dotsketch.kernels` whose parameters all have defaults."""
    bases = (Kernel, ExpandedKernel, DotProductKernel, DistanceKernel)
    kinds = [getattr(kernels, name) for name in kernels.__all__]
    kinds = [k for k in kinds if inspect.isclass(k) and issubclass(k, Kernel) and k not in bases]
    return [
        kind()
        for kind in kinds
        if all(p.default is not p.empty for p in inspect.signature(kind).parameters.values())
    ]


def own_subjects() -> list[Subject]:
    gaussian, options = dotsketch.Gaussian(), {"random_state": 0}
    sphere = dotsketch.Polynomial(3, gamma=1.0, coef0=0.5)
    maps: list[Any] = [
        dotsketch.PolynomialSketch(3, sketch=name, n_components=8, output=output, **options)
        for name in SKETCHES
        for output in ("real", "complex")
    ]
    maps += [
        dotsketch.PolynomialSketch(2, n_components=8, compact=16, **options),
        dotsketch.PolynomialSketch(
            3, sketch="rademacher", n_components=8, output="complex", weights="circle", **options
        ),
        dotsketch.MaclaurinFeatures(gaussian, n_components=16, **options),
        dotsketch.MaclaurinFeatures(
            dotsketch.Exponential(), n_components=32, mean_split=True, **options
        ),
        dotsketch.MaclaurinFeatures(dotsketch.Maclaurin([1, 1, 0.5]), n_components=16, **options),
        dotsketch.MaclaurinFeatures(dotsketch.Tanimoto(), n_components=16, **options),
        dotsketch.MaclaurinFeatures(
            dotsketch.Polynomial(2) + dotsketch.Polynomial(1), n_components=16, **options
        ),
        dotsketch.MaclaurinFeatures(
            dotsketch.Exponential() * dotsketch.Polynomial(1), n_components=16, **options
        ),
        dotsketch.NystromFeatures(gaussian + dotsketch.Matern(), n_components=6, **options),
        dotsketch.NystromFeatures(gaussian * dotsketch.Matern(), n_components=6, **options),
        *(dotsketch.NystromFeatures(k, n_components=6, **options) for k in default_kernels()),
        dotsketch.NystromFeatures(dotsketch.Periodic().on([1]), n_components=6, **options),
        dotsketch.FourierFeatures(dotsketch.RationalQuadratic(), n_components=8, **options),
        dotsketch.MaclaurinFeatures(dotsketch.Linear(), n_components=5, **options),
        dotsketch.NystromFeatures(dotsketch.Matern(), n_components=6, landmarks=X[:6]),
        dotsketch.FourierFeatures(gaussian, n_components=9, **options),
        dotsketch.FourierFeatures(gaussian, n_components=8, projection="sorf", **options),
        dotsketch.PositiveFeatures(gaussian, n_components=8, **options),
        dotsketch.SphericalFeatures(sphere, n_components=8, normalize=True, **options),
        dotsketch.AutoFeatures(gaussian, n_components=12, **options),
    ]
    plain = [  # what plans hold that are timed, or made on more rows
        MonomialSketch.of(2, 3, "real", False),
        BestPossible(
            n_components=8,
            relative_error=0.1,
            standard_error=0.01,
            lowest=0.08,
            highest=0.2,
            n_rows=24,
        ),
    ]
    return [*((m.fit(X, Y), X) for m in maps), (plain, X)]


def process_subjects() -> list[Subject]:
    """Gaussian processes of every kind."""
    gaussian, options = dotsketch.Gaussian(), {"random_state": 0}
    features = dotsketch.MaclaurinFeatures(gaussian, n_components=8, **options)
    process = dotsketch.FeatureGPRegressor(features, optimize=False).fit(X, Y)
    models = [
        process,
        process.sample_functions(3, random_state=0),
        dotsketch.FeatureGPRegressor(features, solver=ConjugateGradients(rank=2)).fit(X, Y),
        dotsketch.FeatureGPRegressor(features, optimize=True).fit(X, Y),
        dotsketch.FeatureGPClassifier(features, **options).fit(X, LABELS),
        dotsketch.DirichletGPClassifier(features).fit(X, LABELS),
        dotsketch.ExactGPRegressor(gaussian).fit(X, Y),
        dotsketch.ExactGPClassifier(gaussian, **options).fit(X, LABELS),
        varying_process(features),
    ]
    return [(model, X) for model in models]


def varying_process(features: Any) -> Any:
    """A process with noise that depends on x, a warp and a trend."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((120, 5))
    y = np.exp(X[:, 0] + 0.3 * np.exp(X[:, 0]) * rng.standard_normal(120))
    power = preprocessing.PowerTransformer(standardize=False)
    options = {"noise_variance": "varying", "target_transform": power, "trend": "linear"}
    return dotsketch.FeatureGPRegressor(features, **options).fit(X, y)


def scikit_learn_subjects() -> list[Subject]:
    import pandas

    p = preprocessing
    days = pandas.date_range("2024-02-01", periods=len(X))
    gaps = pandas.DataFrame({"a": X[:, 0], "b": GAPS[:, 1], "c": WORDS, "day": days})
    waves = dotsketch.FourierFeatures(dotsketch.Gaussian(), n_components=8, random_state=0)
    return [
        (p.StandardScaler().fit(X), X),
        (frozen.FrozenEstimator(p.StandardScaler().fit(X)), X),
        (pipeline.make_union(p.StandardScaler(), waves).fit(X), X),
        (pipeline.make_pipeline(p.StandardScaler(), waves).fit(X), X),
        (TableEncoder().fit(gaps), gaps),
    ]

"""Arguments that mean nothing are refused in words: what was given, and what to do."""

import numpy as np
import pytest

from dotsketch import (
    AutoFeatures,
    DirichletGPClassifier,
    ExactGPClassifier,
    ExactGPRegressor,
    FeatureGPClassifier,
    FeatureGPRegressor,
    FourierFeatures,
    Gaussian,
    NystromFeatures,
)

X = np.random.default_rng(0).standard_normal((40, 3))
MODELS = [FeatureGPRegressor, ExactGPRegressor, FeatureGPClassifier, DirichletGPClassifier]
CLASSIFIERS = [FeatureGPClassifier, DirichletGPClassifier, ExactGPClassifier]


@pytest.mark.parametrize("n_jobs", ["2", 1.5, 0])
@pytest.mark.parametrize("features", [FourierFeatures, NystromFeatures, AutoFeatures])
def test_numbers_of_threads(features, n_jobs):
    with pytest.raises(ValueError, match="n_jobs must be None or an integer other than 0; got"):
        features(Gaussian(), n_components=8, n_jobs=n_jobs).fit(X).transform(X)


@pytest.mark.parametrize("model", [FeatureGPRegressor, ExactGPRegressor])
def test_numbers_of_samples(model):
    with pytest.raises(ValueError, match="n_samples must be a positive integer; got 'a'"):
        model(Gaussian()).fit(X, X[:, 0]).sample_y(X, n_samples="a")


@pytest.mark.parametrize("model", MODELS)
def test_weights_whose_squares_vanish(model):
    with pytest.raises(ValueError, match=r"sample_weight must be .* not below 1e-154"):
        model(Gaussian()).fit(X, X[:, 0] > 0, sample_weight=np.full(40, 1e-300))


@pytest.mark.parametrize("model", CLASSIFIERS)
def test_labels_that_are_none(model):
    with pytest.raises(ValueError, match="labels that are None: remove these rows"):
        model(Gaussian()).fit(X, np.array(["a", None] * 20, dtype=object))


@pytest.mark.parametrize("model", CLASSIFIERS[:2])
def test_a_stream_of_numbers_and_then_texts(model):
    def batches():
        yield X[:20], np.array([0, 1] * 10)
        yield X[20:], np.array(["neg", "pos"] * 10)

    with pytest.raises(ValueError, match="must not mix strings and numbers"):
        model(Gaussian()).fit(batches)


def test_landmarks_with_gaps():
    landmarks = X[:5].copy()
    landmarks[0, 0] = np.nan
    with pytest.raises(ValueError, match="landmarks contains NaN"):
        NystromFeatures(Gaussian(), n_components=5, landmarks=landmarks).fit(X)


def test_a_trained_lengthscale_with_numpy_rows():
    torch = pytest.importorskip("torch")
    kernel = Gaussian(lengthscale=torch.tensor(1.0, requires_grad=True))
    for call in (lambda: kernel(X), lambda: FourierFeatures(kernel).fit(X).transform(X)):
        with pytest.raises(TypeError, match="give rows of torch, or the parameter without"):
            call()

"""Processes fitted to parts of the rows, on many machines say, merge to the fit to all of them."""

import pickle

import numpy as np
import pytest
from sklearn.frozen import FrozenEstimator

from dotsketch import DirichletGPClassifier, FeatureGPRegressor, Gaussian, NystromFeatures
from gp.data import class_data, gaussian_features, polynomial_features, regression_data

X, y = regression_data()


def frozen(X, output="real"):
    return FrozenEstimator(gaussian_features(output).fit(X))


@pytest.mark.parametrize("outputs", [1, 2])
@pytest.mark.parametrize("normalize_y", ["mean", "standard", None])
@pytest.mark.parametrize(("output", "posterior"), [("real", "real"), ("complex", "complex")])
def test_regressors_of_parts(outputs, normalize_y, output, posterior):
    """The parts have different means, and so different offsets."""
    X, y = regression_data(outputs=outputs)
    order = np.argsort(y if outputs == 1 else y[:, 0])
    X, y = X[order], y[order]
    gp = FeatureGPRegressor(frozen(X, output), posterior=posterior, normalize_y=normalize_y)
    parts = [
        FeatureGPRegressor(**gp.get_params(deep=False)).fit(X[rows], y[rows])
        for rows in (slice(20), slice(20, 35), slice(35, None))
    ]
    merged, whole = parts[0].merge(parts[1]).merge(parts[2]), gp.fit(X, y)
    assert merged.noise_variance_ == pytest.approx(whole.noise_variance_, rel=1e-4)
    for found, expected in zip(
        merged.predict(X, return_std=True), whole.predict(X, return_std=True), strict=True
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-3)
    merged.set_params(noise_variance=0.1).refit()
    whole.set_params(noise_variance=0.1).refit()
    np.testing.assert_allclose(merged.predict(X), whole.predict(X), rtol=1e-9)
    assert merged.log_marginal_likelihood() == pytest.approx(whole.log_marginal_likelihood())


def test_noise_by_row_merges():
    noise = np.linspace(0.1, 1, len(y))

    def fit(rows):
        return FeatureGPRegressor(frozen(X)).fit(X[rows], y[rows], noise_variance=noise[rows])

    merged = fit(slice(25)).merge(fit(slice(25, None)))
    np.testing.assert_allclose(merged.predict(X), fit(slice(None)).predict(X), rtol=1e-9)
    with pytest.raises(ValueError, match="by row or not"):
        merged.merge(FeatureGPRegressor(frozen(X)).fit(X, y))


def test_classifiers_of_parts():
    """A class may be missing in a part."""
    X, y = class_data()
    names = np.array(["ant", "bee", "cat"])[y]

    def fit(rows):
        gp = DirichletGPClassifier(frozen(X), alpha=0.1, prior_variance="labels")
        return gp.fit(X[rows], names[rows])

    merged, whole = fit(y < 2).merge(fit(y > 0)), fit(np.r_[: len(y), np.flatnonzero(y == 1)])
    np.testing.assert_array_equal(merged.classes_, ["ant", "bee", "cat"])
    np.testing.assert_allclose(merged.predict_proba(X), whole.predict_proba(X), rtol=1e-9)
    assert merged.refit("auto").alpha_ == 0.1


def test_classes_that_were_named_stay():
    X, y = class_data()
    named = DirichletGPClassifier(frozen(X)).fit(X[y < 2], y[y < 2], classes=[0, 1])
    with pytest.raises(ValueError, match="not among the classes"):
        named.merge(DirichletGPClassifier(frozen(X)).fit(X, y))
    assert len(named.class_sums_.by_label) == 2


def test_only_the_same_features_merge():
    gp = FeatureGPRegressor(gaussian_features()).fit(X[:30], y[:30])
    for features, rows in (
        (gaussian_features(), X[30:]),  # another mean of the rows, another map
        (polynomial_features(n_components=30), X[30:]),
        (gaussian_features(n_components=31), X[:30]),
        (gaussian_features(), X[:30, :2]),
    ):
        with pytest.raises(ValueError, match="different features"):
            gp.merge(FeatureGPRegressor(features).fit(rows, y[:30]))
    with pytest.raises(TypeError, match="Only a FeatureGPRegressor"):
        gp.merge(gp.statistics_)
    with pytest.raises(ValueError, match=r"1 outputs and 30 features .* 2 outputs"):
        gp.merge(FeatureGPRegressor(gaussian_features()).fit(X[:30], np.c_[y, y][:30]))
    assert gp.statistics_.n == 30


def test_features_with_other_landmarks_do_not_merge():
    """Features that agree on any probe of rows are different if their landmarks are."""
    near, far, kernel = X.copy(), np.vstack([X, X + 1e3]), Gaussian(lengthscale=0.5)
    near[0, 0] += 1e-9
    nearly = [NystromFeatures(kernel, n_components=5, landmarks=rows[:5]) for rows in (X, near)]
    drawn = [NystromFeatures(kernel, n_components=9, random_state=seed) for seed in (0, 1)]
    for pair, rows in ((nearly, X), (drawn, far)):  # far rows have landmarks that X does not see
        one, other = (
            FeatureGPRegressor(FrozenEstimator(features.fit(rows)), noise_variance=0.1).fit(X, y)
            for features in pair
        )
        with pytest.raises(ValueError, match="different features"):
            one.merge(other)
        copy = pickle.loads(pickle.dumps(one))
        assert one.merge(copy).statistics_.n == 120

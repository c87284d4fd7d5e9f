"""Gaussian processes that are given no features: the recipe for the rows."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_diabetes, load_wine
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from dotsketch import (
    ExactGPRegressor,
    FeatureGPClassifier,
    FeatureGPRegressor,
    Gaussian,
    Matern,
    NystromFeatures,
    load,
    save,
)


def rows(n=300, seed=0):
    """Columns of very different scales, all of which matter."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3))
    y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * rng.standard_normal(n)
    return X * [1.0, 1e3, 1e-3] + [0.0, 1e4, 0.0], y


def test_features_need_not_be_given():
    X, y = load_diabetes(return_X_y=True)
    assert np.mean(cross_val_score(FeatureGPRegressor(), X, y, cv=3)) > 0.48
    X, y = load_wine(return_X_y=True)  # unscaled: a kernel of the raw columns is right for 70 %
    assert np.mean(cross_val_score(FeatureGPClassifier(), X, y, cv=3)) > 0.95


def test_few_rows_are_all_landmarks_so_that_the_process_is_exact():
    X, y = rows()
    gp = FeatureGPRegressor(noise_variance=0.01, prior_variance=1.0).fit(X, y)
    assert gp.n_columns_ == len(X)
    exact = ExactGPRegressor(Matern(), noise_variance=0.01, prior_variance=1.0)
    exact = make_pipeline(StandardScaler(), exact).fit(X, y)
    test, _ = rows(50, seed=1)
    for found, expected in zip(
        gp.predict(test, return_std=True), exact.predict(test, return_std=True), strict=True
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_the_recipe_is_what_its_docstring_says(monkeypatch):
    X, y = rows(500)
    monkeypatch.setattr("dotsketch.gp.recipe.MOST_COLUMNS", 200)
    features = NystromFeatures(Matern(), n_components=200, random_state=0)
    given = FeatureGPRegressor(make_pipeline(StandardScaler(), features)).fit(X, y)
    np.testing.assert_array_equal(FeatureGPRegressor().fit(X, y).predict(X), given.predict(X))


def test_a_search_chooses_the_kernel_of_the_recipe():
    X, y = rows()
    gp = FeatureGPRegressor(optimize=True).fit(X, y)
    assert gp.features == "auto"
    assert gp.search_ is not None
    relevances = gp.relevances_
    assert np.argmin(relevances) == 2  # y does not depend on the third column
    test, targets = rows(200, seed=1)
    assert gp.score(test, targets) > FeatureGPRegressor().fit(X, y).score(test, targets)


def test_sparse_rows_stay_sparse():
    X = sp.random(80, 2000, 0.005, format="csr", random_state=0)
    y = np.asarray(X[:, :50].sum(axis=1)).ravel()
    features = FeatureGPRegressor().fit(X, y).features_
    assert not isinstance(features, Pipeline)
    assert sp.issparse(features.components_)


def test_columns_are_no_more_than_rows_that_count():
    X, y = rows()
    weights = np.zeros(len(X))
    weights[:120] = 2.0
    gp = FeatureGPRegressor().fit(X, y, sample_weight=weights)
    assert gp.n_columns_ == 120
    with pytest.warns(UserWarning, match="50 rows of the first call"):
        first = FeatureGPRegressor().partial_fit(X[:50], y[:50])
    assert first.n_columns_ == 50
    assert first.partial_fit(X[50:], y[50:]).n_columns_ == 50


def test_streams():
    X, y = rows()
    gp = FeatureGPRegressor().fit((X[i : i + 100], y[i : i + 100]) for i in range(0, 300, 100))
    np.testing.assert_allclose(gp.predict(X), FeatureGPRegressor().fit(X, y).predict(X), rtol=1e-6)


def test_model_files_keep_the_recipe(tmp_path):
    X, y = rows()
    gp = FeatureGPClassifier().fit(X, y > 0)
    save(gp, tmp_path / "model.dsk")
    loaded = load(tmp_path / "model.dsk")
    assert loaded.features == "auto"
    np.testing.assert_array_equal(loaded.predict_proba(X), gp.predict_proba(X))


@pytest.mark.parametrize("features", [None, "nystrom", Gaussian()])
def test_other_features_are_refused(features):
    X, y = rows(20)
    with pytest.raises(TypeError, match='"auto" or a transformer'):
        FeatureGPRegressor(features).fit(X, y)

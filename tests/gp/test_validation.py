"""Rows are validated once, by whom the user calls; what is wrong is still refused."""

import numpy as np
import pytest
import sklearn.utils.validation
from sklearn.frozen import FrozenEstimator

from dotsketch import (
    AutoFeatures,
    FeatureGPRegressor,
    FourierFeatures,
    Gaussian,
    MaclaurinFeatures,
    NystromFeatures,
)
from gp.data import regression_data

X, y = regression_data()
KERNEL = Gaussian(lengthscale=2.0)
FEATURES = [
    FourierFeatures(KERNEL, n_components=10, random_state=0),
    MaclaurinFeatures(KERNEL, n_components=10, random_state=0),
    NystromFeatures(KERNEL, n_components=10, random_state=0),
    AutoFeatures(KERNEL, n_components=10, random_state=0),
]


@pytest.fixture
def scans(monkeypatch):
    """The shapes of the arrays that scikit-learn looks through for NaN and infinity."""
    found = []
    original = sklearn.utils.validation._assert_all_finite

    def counting(values, **options):
        found.append(values.shape)
        original(values, **options)

    monkeypatch.setattr(sklearn.utils.validation, "_assert_all_finite", counting)
    return found


@pytest.mark.parametrize("features", FEATURES, ids=lambda f: type(f).__name__)
def test_predict_looks_through_the_rows_once(features, scans):
    gp = FeatureGPRegressor(features, noise_variance=0.1).fit(X, y)
    scans.clear()
    expected = gp.predict(X[:7])
    assert scans == []  # a plain array needs none of scikit-learn's checks
    np.testing.assert_array_equal(gp.predict(X[:7].tolist()), expected)
    assert scans == [(7, 3)]
    scans.clear()
    gp.features_.transform(X[:7].tolist())
    assert scans == [(7, 3)]


def test_frozen_features_of_another_width_are_refused():
    features = FrozenEstimator(FourierFeatures(KERNEL, n_components=10).fit(X[:, :2]))
    with pytest.raises(ValueError, match="X has 3 features, but FourierFeatures is expecting 2"):
        FeatureGPRegressor(features).fit(X, y)

"""Hopeless scales give finite results and a report, never NaN and never a LinAlgError."""

import numpy as np
import pytest

from dotsketch import DirichletGPClassifier, FeatureGPRegressor, PolynomialSketch
from gp.data import class_data, regression_data


def huge_features(output="real"):
    """Values of order 1e10 that depend on few coordinates: the sums have a condition of 1e30."""
    return PolynomialSketch(
        2, gamma=1e10, coef0=1.0, n_components=40, output=output, random_state=0
    )


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # a noise that is chosen may be enough
@pytest.mark.parametrize("noise_variance", ["auto", 1e-8])
@pytest.mark.parametrize(("output", "posterior"), [("real", "real"), ("complex", "complex")])
def test_regression_stays_finite(output, posterior, noise_variance):
    X, y = regression_data()
    features, options = huge_features(output), {"posterior": posterior}
    gp = FeatureGPRegressor(features, noise_variance=noise_variance, **options)
    if noise_variance == "auto":
        gp.fit(X, y)
    else:
        with pytest.warns(RuntimeWarning, match="not positive definite to rounding"):
            gp.fit(X, y)
        assert 0 < gp.posterior_.jitter < 1e-3
    for values in gp.predict(X, return_std=True):
        assert np.all(np.isfinite(values))
    assert np.isfinite(gp.log_marginal_likelihood())


def test_classification_stays_finite():
    X, y = class_data()
    gp = DirichletGPClassifier(huge_features(), alpha=1e-5)
    with pytest.warns(RuntimeWarning, match="was added"):
        gp.fit(X, y)
    assert gp.posterior_.jitter > 0
    p = gp.predict_proba(X)
    np.testing.assert_allclose(p.sum(axis=1), 1)
    assert np.mean(gp.predict(X) == y) > 0.5


def test_overflow_is_named():
    X, y = regression_data()
    with pytest.raises(ValueError, match=r"overflow|scale"):
        FeatureGPRegressor(
            PolynomialSketch(2, gamma=1e200, n_components=40, random_state=0), noise_variance=1.0
        ).fit(X, y)

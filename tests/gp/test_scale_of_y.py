"""With the defaults, the units of y do not matter: predictions follow y → a y + b."""

import numpy as np
import pytest

from dotsketch import ExactGPRegressor, FeatureGPRegressor, Gaussian
from gp.data import gaussian_features, regression_data

MODELS = {
    "features": lambda: FeatureGPRegressor(gaussian_features()),
    "exact": lambda: ExactGPRegressor(Gaussian(lengthscale=1.5)),
}


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("scale", [1e-6, 1e-3, 1e3, 1e6, -1.0])
@pytest.mark.parametrize("shift", [0.0, 7.0])
def test_predictions_follow_the_units(model, scale, shift):
    X, y = regression_data()
    first, second = MODELS[model]().fit(X, y), MODELS[model]().fit(X, scale * (y + shift))
    mean, std = first.predict(X, return_std=True)
    other, other_std = second.predict(X, return_std=True)
    # the search for the variances ends within 1e-6 of the logarithm of the best
    np.testing.assert_allclose(other, scale * (mean + shift), rtol=1e-5)
    np.testing.assert_allclose(other_std, abs(scale) * std, rtol=1e-4)
    for name in ("noise_variance_", "prior_variance_"):
        in_units = [getattr(gp, name) * gp.outputs_.scales[0] ** 2 for gp in (first, second)]
        assert in_units[1] == pytest.approx(scale**2 * in_units[0], rel=1e-4)
    assert first.score(X, y) > 0.9


@pytest.mark.parametrize("model", MODELS)
def test_outputs_of_different_units(model):
    X, y = regression_data(outputs=2)
    scales = np.array([1e-6, 1e6])
    first, second = MODELS[model]().fit(X, y), MODELS[model]().fit(X, scales * y)
    mean, std = first.predict(X, return_std=True)
    other, other_std = second.predict(X, return_std=True)
    np.testing.assert_allclose(other, scales * mean, rtol=1e-5)
    np.testing.assert_allclose(other_std, scales * std, rtol=1e-4)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("n", [1, 20])
@pytest.mark.parametrize("value", [0.0, 3.1])  # 20 times 3.1 has a deviation of rounding
def test_constant_targets(model, n, value):
    X, _ = regression_data()
    gp = MODELS[model]().fit(X[:n], np.full(n, value))
    mean, std = gp.predict(X, return_std=True)
    np.testing.assert_allclose(mean, value, atol=1e-12)
    assert gp.outputs_.scales[0] == 1
    assert (gp.noise_variance_, gp.prior_variance_) == (1, 1)
    assert np.all(np.isfinite(std))
    assert np.all(std > 0.01)

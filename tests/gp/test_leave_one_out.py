"""Leave-one-out predictions from one factor equal those of n fits that lack a row each."""

import numpy as np
import pytest
from sklearn.frozen import FrozenEstimator

from dotsketch import (
    ExactGPRegressor,
    FeatureGPRegressor,
    FourierFeatures,
    Gaussian,
    MaclaurinFeatures,
)


def processes(X):
    """On features of every kind and exact, of given variances."""
    kernel = Gaussian(lengthscale=1.5)
    fixed = {"noise_variance": 0.02, "prior_variance": 1.3, "normalize_y": None}
    for output, posterior in (("real", "real"), ("complex", "real"), ("complex", "complex")):
        features = MaclaurinFeatures(kernel, n_components=12, output=output, random_state=0)
        frozen = FrozenEstimator(features.fit(X))
        for correction in (None, "posterior"):
            options = {"posterior": posterior, "variance_correction": correction, **fixed}
            yield FeatureGPRegressor(frozen, **options)
    yield ExactGPRegressor(kernel, **fixed)


@pytest.mark.parametrize("by_row", [False, True])
@pytest.mark.parametrize("number", range(7))
def test_fits_without_a_row(rng, by_row, number):
    X = rng.standard_normal((15, 2))
    Y = np.stack([np.sin(X[:, 0]), X[:, 1]], axis=1) + 0.1 * rng.standard_normal((15, 2))
    gp = list(processes(X))[number]
    noise = rng.uniform(0.01, 0.1, 15) if by_row else None
    mean, deviation = gp.fit(X, Y, noise_variance=noise).leave_one_out(X, Y, noise_variance=noise)
    for row in range(15):
        rest = np.arange(15) != row
        other = gp.fit(X[rest], Y[rest], noise_variance=None if noise is None else noise[rest])
        expected, std = other.predict(X[[row]], return_std=True)
        variance = std[0] ** 2 + (0.02 if noise is None else noise[row])
        np.testing.assert_allclose(mean[row], expected[0], rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(deviation[row], np.sqrt(variance), rtol=1e-8)


def test_some_rows_in_units_of_y(rng):
    """Of some training rows, of one output, after y was normalised."""
    X = rng.standard_normal((200, 2))
    y = 1e6 + 50 * X[:, 0] + rng.standard_normal(200)
    features = FourierFeatures(Gaussian(lengthscale=3.0), n_components=30, random_state=0)
    gp = FeatureGPRegressor(features).fit(X, y)
    mean, deviation = gp.leave_one_out(X[:50], y[:50])
    assert mean.shape == deviation.shape == (50,)
    whole, std = gp.leave_one_out(X, y)
    np.testing.assert_allclose(mean, whole[:50], rtol=1e-12)
    errors = y - whole
    assert 0.8 < np.sqrt(np.mean(errors**2)) < 1.5  # the noise that was put in has variance one
    assert np.mean(np.abs(errors) < 1.96 * std) > 0.9
    fitted = y - gp.predict(X)
    assert np.mean(fitted**2) < np.mean(errors**2)  # rows that are left out are harder


def test_estimated_variances_are_not_enough(rng):
    X = rng.standard_normal((60, 2))
    features = FourierFeatures(Gaussian(lengthscale=3.0), n_components=20, random_state=0)
    gp = FeatureGPRegressor(features, solver="cg").fit(X, X[:, 0])
    with pytest.raises(ValueError, match='use solver="cholesky"'):
        gp.leave_one_out(X, X[:, 0])


def test_rows_in_single_precision(rng):
    """A row that has a feature nearly to itself leaves little of its noise: 1 − v/σ² ≈ 10⁻⁵."""
    X = rng.uniform(-2, 2, (30, 1)).astype(np.float32)
    features = FourierFeatures(Gaussian(lengthscale=0.2), n_components=40, random_state=0)
    gp = FeatureGPRegressor(features, noise_variance=1e-7, prior_variance=1.0)
    gp.fit(X, np.sin(X[:, 0]))
    Z = gp.columns_(X).astype(np.float64)
    rest = 1 - gp.posterior_.variance(Z) / gp.noise_variance_
    expected = (np.sqrt(gp.noise_variance_ / rest) * gp.outputs_.scales)[:, 0]
    assert rest.min() < 1e-4
    np.testing.assert_allclose(gp.leave_one_out(X, np.sin(X[:, 0]))[1], expected, rtol=1e-8)


@pytest.mark.parametrize("make", [ExactGPRegressor, FeatureGPRegressor])
def test_rows_left_out_of_data_without_noise(make, rng):
    """1 − v/σ² would be a difference of rounded numbers: a fit without the row agrees."""
    X = rng.uniform(-2, 2, (25, 2))
    y = np.sin(X[:, 0]) + X[:, 1]
    kernel = Gaussian(lengthscale=1.5)
    gp = make(kernel, noise_variance=1e-10, prior_variance=1.0).fit(X, y)
    mean, std = gp.leave_one_out(X, y)
    for row in (0, 7, 24):
        rest = np.delete(np.arange(25), row)
        other = ExactGPRegressor(kernel, noise_variance=1e-10, prior_variance=1.0, normalize_y=None)
        scaled = (y - y.mean()) / y.std()
        other.fit(X[rest], scaled[rest])
        expected, deviation = other.predict(X[[row]], return_std=True, include_noise=True)
        assert std[row] == pytest.approx(deviation[0] * y.std(), rel=0.02)
        assert abs(mean[row] - expected[0] * y.std() - y.mean()) < 0.1 * std[row] + 1e-9

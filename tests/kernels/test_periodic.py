"""The periodic kernel: values, gradients to the rows, and a monthly series."""

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ExpSineSquared, WhiteKernel

from dotsketch import ExactGPRegressor, FeatureGPRegressor, Gaussian, Periodic
from dotsketch.metrics import mean_negative_log_likelihood


def test_one_input_is_scikit_learns_and_several_are_a_product(X, library):
    ours = Periodic(1.7, lengthscale=0.8, variance=2.0)
    theirs = 2.0 * ExpSineSquared(length_scale=0.8, periodicity=1.7)
    K = library.numpy(ours(library.asarray(X), library.asarray(X[:3])))
    expected = np.prod([theirs(X[:, [k]], X[:3, [k]]) / 2 for k in range(5)], axis=0) * 2
    np.testing.assert_allclose(K, expected, rtol=1e-10)
    np.testing.assert_allclose(ours(X + 3.4, X[:3]), expected, rtol=1e-10)  # two periods on
    np.testing.assert_allclose(ours.diag(X), 2.0)
    periods, lengthscales = np.arange(1.0, 6.0), np.arange(2.0, 7.0)
    several = Periodic(periods, lengthscale=lengthscales)(X)
    parts = [
        Periodic(p, lengthscale=s)(X[:, [k]])
        for k, (p, s) in enumerate(zip(periods, lengthscales, strict=True))
    ]
    np.testing.assert_allclose(several, np.prod(parts, axis=0), rtol=1e-10)


def test_parameters_without_meaning_are_refused(X):
    with pytest.raises(ValueError, match="period must be a positive number; got 0"):
        Periodic(0)
    with pytest.raises(ValueError, match="lengthscale must be a positive number"):
        Periodic(lengthscale=-1.0)
    with pytest.raises(ValueError, match="period has 2 values for 5 features"):
        Periodic([1.0, 2.0])(X)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # of the peer
@pytest.mark.parametrize("model", [ExactGPRegressor, FeatureGPRegressor])
def test_a_monthly_series(model):
    """Trend, yearly period and noise: the last three years as well as scikit-learn's search."""
    differences = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        year = np.arange(480) / 12
        y = 340 + 1.2 * year + 0.012 * year**2 + 0.3 * rng.standard_normal(480)
        y += (3 + 0.02 * year) * np.sin(2 * np.pi * year + 0.4) + 0.8 * np.cos(4 * np.pi * year)
        X, y = 1980 + year[:, None], y - y[:-36].mean()
        theirs = 50**2 * RBF(50.0) + 2**2 * RBF(100.0) * ExpSineSquared(
            1.0, 1.0, periodicity_bounds="fixed"
        )
        exact = GaussianProcessRegressor(theirs + WhiteKernel(0.1)).fit(X[:-36], y[:-36])
        kernel = Gaussian() + Periodic(period=1.0) * Gaussian()
        gp = model(kernel, optimize=True).fit(X[:-36], y[:-36])
        losses = [
            mean_negative_log_likelihood(y[-36:], mean, std**2)
            for mean, std in (
                gp.predict(X[-36:], return_std=True, include_noise=True),
                exact.predict(X[-36:], return_std=True),
            )
        ]
        differences.append(losses[0] - losses[1])
    assert np.mean(differences) < 0.05

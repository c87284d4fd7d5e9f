"""ExactGPRegressor against scikit-learn's GaussianProcessRegressor, to 1e-8."""

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct

from dotsketch import (
    ExactGPRegressor,
    FeatureGPRegressor,
    Gaussian,
    MaclaurinFeatures,
    Polynomial,
    gaussian_kl,
)
from gp.data import regression_data

X, y = regression_data()

KERNELS = [
    (Gaussian(lengthscale=1.3, variance=2.0), ConstantKernel(2.0, "fixed") * RBF(1.3, "fixed")),
    (Polynomial(2, coef0=0.25), DotProduct(0.5, "fixed") ** 2),
]


@pytest.mark.parametrize(("ours", "theirs"), KERNELS)
@pytest.mark.parametrize("outputs", [1, 2])
@pytest.mark.parametrize("by_row", [False, True])
@pytest.mark.parametrize("normalize_y", [None, "standard"])
def test_agrees_with_scikit_learn(ours, theirs, outputs, by_row, normalize_y):
    X, y = regression_data(outputs=outputs)
    noise = np.linspace(0.01, 0.1, len(y)) if by_row else 0.02
    gp = ExactGPRegressor(ours, noise_variance=0.02, prior_variance=1.0, normalize_y=normalize_y)
    gp.fit(X, y, noise_variance=noise if by_row else None)
    is_normal = normalize_y is not None
    reference = GaussianProcessRegressor(theirs, alpha=noise, normalize_y=is_normal).fit(X, y)
    test = X[:9] * 1.1
    mean, std = gp.predict(test, return_std=True)
    expected, expected_std = reference.predict(test, return_std=True)
    np.testing.assert_allclose(mean, expected, atol=1e-8)
    np.testing.assert_allclose(std, expected_std, atol=1e-8)
    np.testing.assert_allclose(
        gp.predict(test, return_cov=True)[1], reference.predict(test, return_cov=True)[1], atol=1e-8
    )
    units = len(X) * np.log(y.std(axis=0)).sum() if is_normal else 0.0
    assert gp.log_marginal_likelihood() == pytest.approx(
        reference.log_marginal_likelihood_value_ - units, abs=1e-8
    )


def test_optimize_beats_scikit_learn():
    """The same marginal likelihood as a gradient search with a constant and a white kernel."""
    from sklearn.gaussian_process.kernels import WhiteKernel

    X, y = regression_data()
    y = y - y.mean()
    gp = ExactGPRegressor(Gaussian(), normalize_y=None).set_params(optimize=True).fit(X, y)
    kernel = ConstantKernel(1.0) * RBF(1.0) + WhiteKernel(0.1)
    reference = GaussianProcessRegressor(kernel, alpha=0.0).fit(X, y)
    assert gp.log_marginal_likelihood() > reference.log_marginal_likelihood_value_ - 0.01


def test_samples(rng):
    gp = ExactGPRegressor(KERNELS[0][0], noise_variance=0.1).fit(X, y)
    draws = gp.sample_y(X[:4] * 1.5, 4000, random_state=0)
    mean, std = gp.predict(X[:4] * 1.5, return_std=True)
    assert draws.shape == (4, 4000)
    assert np.all(np.abs(draws.mean(axis=1) - mean) < 6 * std / np.sqrt(4000))
    assert np.all(np.abs(draws.var(axis=1) - std**2) < 6 * std**2 * np.sqrt(2 / 4000))


def test_singular_kernel_is_handled():
    """A linear kernel on many equal rows with hardly any noise."""
    X, y = np.ones((30, 2)), np.ones(30)
    with pytest.warns(RuntimeWarning, match="was added"):
        gp = ExactGPRegressor(Polynomial(1), noise_variance=1e-18, normalize_y=None).fit(X, y)
    np.testing.assert_allclose(gp.predict(X), 1.0, rtol=1e-6)


def test_divergence_of_feature_posteriors_falls():
    X, y = regression_data(150)
    exact = ExactGPRegressor(Gaussian(lengthscale=2.0)).fit(X[40:], y[40:])
    mean, std = exact.predict(X[:40], return_std=True)
    for posterior in ("real", "complex"):
        values = []
        for D in (10, 40, 160):
            features = MaclaurinFeatures(
                exact.kernel_, n_components=D, output="complex", random_state=0
            )
            gp = FeatureGPRegressor(
                features, noise_variance=exact.noise_variance_, posterior=posterior
            ).fit(X[40:], y[40:])
            m, s = gp.predict(X[:40], return_std=True)
            values.append(gaussian_kl(m, s**2, mean, std**2))
        assert values[0] > values[1] > values[2]


@pytest.mark.parametrize("variance", ["auto", 0.1])
def test_the_kernel_is_evaluated_once_on_the_training_rows(variance):
    """The spectrum for the variances and the posterior are of one Gram matrix."""
    kernel = CountingKernel(lengthscale=1.0)
    CountingKernel.calls = 0
    ExactGPRegressor(kernel, noise_variance=variance, prior_variance=variance).fit(X, y)
    assert CountingKernel.calls == 1


class CountingKernel(Gaussian):
    calls = 0

    def __call__(self, X, Y=None):
        CountingKernel.calls += 1
        return super().__call__(X, Y)

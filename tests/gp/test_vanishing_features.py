"""Features that are zero, or nearly, leave no standard deviation of 0."""

import numpy as np
import pytest
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dotsketch import (
    FeatureGPClassifier,
    FeatureGPRegressor,
    Gaussian,
    MaclaurinFeatures,
    NystromFeatures,
    load,
    save,
)
from gp.data import class_data, gaussian_features, polynomial_features, regression_data

# the features warn of such a lengthscale too
pytestmark = pytest.mark.filterwarnings("ignore:.*is nearly zero between all pairs:UserWarning")


def maclaurin(lengthscale, **options):
    return MaclaurinFeatures(
        Gaussian(lengthscale=lengthscale), n_components=30, random_state=0, **options
    )


CASES = {
    "short": lambda: (maclaurin(1e-10), *regression_data()),
    "complex": lambda: (maclaurin(1e-10, output="complex"), *regression_data()),
    "outputs": lambda: (maclaurin(1e-10), *regression_data(outputs=2)),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("posterior", ["real", "complex"])
def test_features_that_vanish(case, posterior):
    """All that is known is that y has its mean and its deviation, of 60 rows."""
    features, X, y = CASES[case]()
    gp = FeatureGPRegressor(features, posterior=posterior)
    with pytest.warns(UserWarning, match=r"carry .* lengthscale far too short .* extreme size"):
        gp.fit(X, y)
    mean, std = gp.predict(X[1:], return_std=True)
    np.testing.assert_allclose(mean - y.mean(axis=0), 0, atol=1e-9)
    np.testing.assert_allclose(std, np.broadcast_to(y.std(axis=0), std.shape))
    covariance = gp.predict(X[1:4], return_cov=True)[1]
    np.testing.assert_allclose(covariance[1, 1], y.var(axis=0))
    assert np.all(np.std(gp.sample_y(X[1:4], 200), axis=-1) > 0.5 * np.min(y.std(axis=0)))


@pytest.mark.filterwarnings("ignore::UserWarning")  # of features that vanish
@pytest.mark.parametrize("make", [maclaurin, lambda s: NystromFeatures(Gaussian(lengthscale=s))])
def test_one_extreme_value(make):
    X, y = regression_data()
    X[0, 0] = 1e6
    gp = FeatureGPRegressor(make(1.5).set_params(n_components=20, random_state=0)).fit(X, y)
    assert np.all(gp.predict(np.r_[X, 1e3 * X], return_std=True)[1] > 0.01)


@pytest.mark.parametrize("make", [maclaurin, lambda s: NystromFeatures(Gaussian(lengthscale=s))])
def test_rows_without_features_have_the_prior_variance(make, tmp_path):
    X, y = regression_data()
    features = make(1.5).set_params(n_components=20, random_state=0)
    gp = FeatureGPRegressor(features, normalize_y="mean", prior_variance=2.0).fit(X, y)
    far = np.r_[X[:3], np.full((2, 3), 1e3)]
    assert not gp.features_.transform(far[3:]).any()
    mean, std = gp.predict(far, return_std=True)
    np.testing.assert_allclose(std[:3], gp.predict(X[:3], return_std=True)[1], rtol=1e-6)
    np.testing.assert_allclose(mean[3:], y.mean())
    np.testing.assert_allclose(std[3:], np.sqrt(2))
    save(gp, tmp_path / "gp")
    np.testing.assert_array_equal(load(tmp_path / "gp").predict(far, return_std=True)[1], std)


def test_small_features_do_not_blow_the_prior_variance_up():
    """A kernel of 1e-12 in the place of 1: without a cap s would be 1e12 times larger."""
    X, y = regression_data()

    class Small(TransformerMixin, BaseEstimator):
        def fit(self, X, y=None):
            self.inner_ = gaussian_features().fit(X)
            self.kernel_ = self.inner_.kernel_
            return self

        def transform(self, X):
            return 1e-6 * self.inner_.transform(X)

    gp = FeatureGPRegressor(Small(), noise_variance="constant")
    with pytest.warns(UserWarning, match=r"carry \de-1[23] of the prior variance"):
        gp.fit(X, y)
    assert gp.prior_variance_ == pytest.approx(1)
    assert gp.noise_variance_ == pytest.approx(1, rel=0.01)  # which the fit could not lower
    for far in (X, 1e3 * X):
        std = gp.predict(far, return_std=True)[1]
        assert np.all(std <= 1.01 * y.std())
        assert np.all(std > 0)


def test_classes():
    X, y = class_data()
    with pytest.warns(UserWarning, match="carry 0 of the prior variance"):
        gp = FeatureGPClassifier(maclaurin(1e-10)).fit(X, y)
    assert np.all(gp.predict_latent(X)[1] > 0)
    gp = FeatureGPClassifier(gaussian_features()).fit(X, y)
    far = gp.predict_latent(np.full((1, 3), 1e3))[1]
    np.testing.assert_allclose(far**2, np.broadcast_to(gp.prior_variance_, far.shape))


def test_features_without_a_kernel_stay_as_they_are():
    """A polynomial sketch of a zero row is zero where its kernel is: f(0) = 0 is known."""
    X, y = regression_data()
    features = polynomial_features().set_params(coef0=0.0)
    gp = FeatureGPRegressor(features, normalize_y=None).fit(X, y)
    mean, std = gp.predict(np.zeros((1, 3)), return_std=True)
    assert (mean[0], std[0]) == (0, 0)


@pytest.mark.parametrize("correction", ["auto", "posterior"])
@pytest.mark.parametrize("is_frozen", [False, True])
def test_variances_of_a_pipeline_are_those_of_its_last_step(rng, correction, is_frozen):
    """Also far from all landmarks, where the features are zero."""
    X, scaler = 3 * rng.standard_normal((60, 2)), StandardScaler()
    y = np.sin(X[:, 0])
    features = NystromFeatures(Gaussian(lengthscale=1.0), n_components=10, random_state=0)
    pipeline = make_pipeline(scaler, features)
    if is_frozen:
        pipeline = FrozenEstimator(pipeline.fit(X))
    behind = FeatureGPRegressor(pipeline, variance_correction=correction).fit(X, y)
    S = scaler.fit_transform(X)
    gp = FeatureGPRegressor(features, variance_correction=correction).fit(S, y)
    far = np.array([[500.0, 500.0]])
    for rows in (X, far):
        mean, std = behind.predict(rows, return_std=True)
        expected, expected_std = gp.predict(scaler.transform(rows), return_std=True)
        np.testing.assert_allclose(mean, expected, atol=1e-9)
        np.testing.assert_allclose(std, expected_std, rtol=1e-6)
    assert std[0] > 0.1

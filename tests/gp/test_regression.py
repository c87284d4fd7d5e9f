"""FeatureGPRegressor against the n-dimensional formulas and scikit-learn."""

import numpy as np
import pytest
from sklearn.frozen import FrozenEstimator
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import DotProduct
from sklearn.kernel_approximation import Nystroem
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dotsketch import AutoFeatures, FeatureGPRegressor, Gaussian, MaclaurinFeatures, NystromFeatures
from gp.data import condition, gaussian_features, polynomial_features, regression_data
from rounding import assert_same_to_rounding

X, y = regression_data()

LINEAR = DotProduct(sigma_0=0.0, sigma_0_bounds="fixed")
FIXED = {"noise_variance": 0.1, "prior_variance": 1.0}
IN_UNITS_OF_Y = {**FIXED, "normalize_y": "mean"}


def std(gp, rows, **options):
    return gp.predict(rows, return_std=True, **options)[1]


@pytest.mark.parametrize("normalize_y", ["mean", "standard", None])
@pytest.mark.parametrize("outputs", [1, 2])
def test_agrees_with_scikit_learn_on_the_features(normalize_y, outputs):
    X, y = regression_data(outputs=outputs)
    gp = FeatureGPRegressor(
        polynomial_features(), noise_variance=0.05, prior_variance=1.0, normalize_y=normalize_y
    )
    gp.fit(X, y)
    Z, Z_test = gp.features_.transform(X), gp.features_.transform(X[:9] * 1.2)
    shift = y.mean(axis=0) if normalize_y == "mean" else 0.0
    reference = GaussianProcessRegressor(
        LINEAR, alpha=0.05, normalize_y=normalize_y == "standard"
    ).fit(Z, y - shift)
    mean, deviation = gp.predict(X[:9] * 1.2, return_std=True)
    expected, expected_std = reference.predict(Z_test, return_std=True)
    np.testing.assert_allclose(mean, expected + shift, atol=1e-8)
    np.testing.assert_allclose(deviation, expected_std, atol=1e-8)
    mean, covariance = gp.predict(X[:9] * 1.2, return_cov=True)
    np.testing.assert_allclose(covariance, reference.predict(Z_test, return_cov=True)[1], atol=1e-8)
    units = len(X) * np.log(y.std(axis=0)).sum() if normalize_y == "standard" else 0.0
    assert gp.log_marginal_likelihood() == pytest.approx(
        reference.log_marginal_likelihood_value_ - units
    )
    assert mean.shape == y[:9].shape


@pytest.mark.parametrize("posterior", ["real", "complex"])
def test_complex_features(posterior):
    """ "real" is the process with kernel Re k̂; "complex" the real part of the complex one."""
    test = X[:7] * 1.1
    features = polynomial_features("complex")
    gp = FeatureGPRegressor(features, posterior=posterior, **IN_UNITS_OF_Y).fit(X, y)
    mean, deviation = gp.predict(test, return_std=True)
    Z, W = gp.features_.transform(X), gp.features_.transform(test)
    K, cross, diagonal = Z @ Z.conj().T, W @ Z.conj().T, np.sum(np.abs(W) ** 2, axis=1)
    if posterior == "real":
        K, cross = K.real, cross.real
    C = K + 0.1 * np.eye(len(K))
    np.testing.assert_allclose(
        mean, (cross @ np.linalg.solve(C, y - y.mean())).real + y.mean(), rtol=1e-9
    )
    explained = np.sum(cross * np.linalg.solve(C, cross.conj().T).T, axis=1).real
    np.testing.assert_allclose(deviation**2, diagonal - explained, atol=1e-9)


def test_noise_by_row_is_a_weighted_regression():
    noise = np.random.default_rng(1).uniform(0.05, 1, len(y))
    gp = FeatureGPRegressor(polynomial_features(), prior_variance=1.0, normalize_y=None)
    gp.fit(X, y, noise_variance=noise)
    Z = gp.features_.transform(X)
    expected = Z @ Z.T @ np.linalg.solve(Z @ Z.T + np.diag(noise), y)
    np.testing.assert_allclose(gp.predict(X), expected, rtol=1e-9)
    reference = GaussianProcessRegressor(LINEAR, alpha=noise).fit(Z, y)
    assert gp.log_marginal_likelihood() == pytest.approx(reference.log_marginal_likelihood_value_)
    assert gp.noise_variance_ is None
    with pytest.raises(ValueError, match="given by row"):
        gp.predict(X, return_std=True, include_noise=True)
    latent, observed = std(gp, X), std(gp, X, include_noise=True, noise_variance=noise)
    np.testing.assert_allclose(observed**2 - latent**2, noise)
    low, high = gp.predict_quantiles(X, [0.1, 0.9], noise_variance=noise).T
    np.testing.assert_allclose(high - low, 2 * 1.2815515655446004 * observed)
    equal = FeatureGPRegressor(polynomial_features()).fit(X, y, noise_variance=np.full(60, 0.3))
    scalar = FeatureGPRegressor(polynomial_features(), noise_variance=0.3).fit(X, y)
    np.testing.assert_allclose(equal.predict(X), scalar.predict(X), rtol=1e-9)


def test_refit_takes_new_variances_without_rows():
    gp = FeatureGPRegressor(polynomial_features(), noise_variance=0.1).fit(X, y)
    fresh = FeatureGPRegressor(polynomial_features(), noise_variance=2.0).fit(X, y)
    gp.set_params(noise_variance=2.0).refit()
    assert_same_to_rounding(gp.predict(X), fresh.predict(X), condition=condition(fresh))


def test_optimize_behind_another_step():
    """The median is that of the rows that the kernel sees."""
    scaled = StandardScaler().fit_transform(X)
    features = MaclaurinFeatures(Gaussian(), n_components=20, random_state=0)
    direct = FeatureGPRegressor(features).set_params(optimize=True).fit(scaled, y)
    behind = FeatureGPRegressor(make_pipeline(StandardScaler(), features))
    behind.set_params(optimize=True).fit(1e4 * X, y)
    lengthscales = behind.features_[-1].kernel_.lengthscale
    np.testing.assert_allclose(lengthscales, direct.features_.kernel_.lengthscale, rtol=1e-6)


def test_a_correction_adds_what_features_lack():
    """Also of frozen features and those that AutoFeatures chose: the expectation of Maclaurin's."""
    inner, far = gaussian_features().fit(X), np.full((1, 3), 30.0)
    auto = AutoFeatures(
        Gaussian(lengthscale=1.5), n_components=30, candidates=["maclaurin"], random_state=0
    )
    for features in (gaussian_features(), FrozenEstimator(inner), auto):
        gp = FeatureGPRegressor(features, variance_correction=None, **IN_UNITS_OF_Y).fit(X, y)
        plain = std(gp, X)
        assert std(gp, far) < 1e-6  # the kernel of the features vanishes
        gp.set_params(variance_correction="posterior")
        maclaurin = inner if features is not auto else gp.features_.features_
        deficit = np.maximum(1 - maclaurin.expected_diagonal(X, None), 0)
        np.testing.assert_allclose(std(gp, X) ** 2 - plain**2, deficit, atol=1e-12)
        assert std(gp, far) == pytest.approx(1.0)
        assert gp.predict(far, return_cov=True)[1][0, 0] == pytest.approx(1.0)


def test_expected_diagonal_is_the_truncated_series():
    """Of the Gaussian kernel: e^{−u} Σ_{n ≤ p} uⁿ/n!, as in Section 5.6; k(x, x) = 1."""
    X = np.array([[0.0], [0.5], [1.0], [3.0]])
    features = MaclaurinFeatures(
        Gaussian(lengthscale=1.0), n_components=4, max_degree=3, random_state=0
    ).fit(X - X.mean())
    u = (X[:, 0] - X.mean() - features.design_.expansion.centre) ** 2
    series = np.exp(-u) * (1 + u + u**2 / 2 + u**3 / 6)
    np.testing.assert_allclose(features.expected_diagonal(X - X.mean(), None), series)


def test_noise_is_included_on_request():
    gp = FeatureGPRegressor(polynomial_features(), noise_variance=0.2).fit(X, y)
    noise = 0.2 * y.var()  # given in the units of y as it is normalised
    observed = std(gp, X, include_noise=True)
    np.testing.assert_allclose(observed**2 - std(gp, X) ** 2, noise)


def test_any_transformer_serves():
    features = make_pipeline(StandardScaler(), Nystroem(n_components=20, random_state=0))
    assert FeatureGPRegressor(features).fit(X, y).score(X, y) > 0.9


def test_a_large_mean_costs_no_digits():
    gp, moved = (
        FeatureGPRegressor(polynomial_features()).fit(X, targets) for targets in (y, y + 1e8)
    )
    assert moved.noise_variance_ == pytest.approx(gp.noise_variance_, rel=1e-5)
    np.testing.assert_allclose(moved.predict(X) - 1e8, gp.predict(X), atol=1e-5)


def nystrom(lengthscale=2.0):
    return NystromFeatures(Gaussian(lengthscale=lengthscale), n_components=20, random_state=0)


def test_automatic_correction_adds_what_nystrom_features_lack():
    """With given noise it is "posterior"; a chosen noise gives the average of it away."""
    given, plain, posterior = (
        FeatureGPRegressor(nystrom(), variance_correction=c, **FIXED).fit(X, y)
        for c in ("auto", None, "posterior")
    )
    far = np.array([[30.0, 0.0, 0.0]])
    assert std(given, far) > 0.9 * y.std()
    rows = np.vstack([X, far])
    np.testing.assert_array_equal(std(given, rows), std(posterior, rows))
    assert given.noise_variance_ == plain.noise_variance_ == 0.1
    chosen = FeatureGPRegressor(nystrom()).fit(X, y)
    none = FeatureGPRegressor(nystrom(), variance_correction=None).fit(X, y)
    assert chosen.noise_variance_ == none.noise_variance_
    np.testing.assert_array_equal(chosen.predict(X), none.predict(X))
    # the noise that was chosen holds what the training rows lack on average
    lacks = 1 - np.sum(chosen.features_.transform(X) ** 2, axis=1)
    usual = np.mean(lacks)
    added = chosen.prior_variance_ * np.clip((lacks - usual) / (1 - usual), 0, 1)
    squares = [(std(gp, X) / y.std()) ** 2 for gp in (chosen, none)]
    np.testing.assert_allclose(squares[0], squares[1] + added, rtol=1e-9, atol=1e-12)
    assert 0 < np.mean(added > 0) < 1
    # far from all landmarks it is the whole prior variance
    lacking = std(chosen, np.full((1, 3), 50.0))
    np.testing.assert_allclose(lacking, np.sqrt(chosen.prior_variance_) * y.std())
    refitted = chosen.set_params(variance_correction=None).refit()
    np.testing.assert_array_equal(*(std(gp, X) for gp in (refitted, none)))
    given_later = none.set_params(variance_correction="auto", noise_variance=0.1).refit()
    assert std(given_later, far) > 0.5 * y.std()

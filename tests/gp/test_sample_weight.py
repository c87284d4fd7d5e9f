"""A weight says how often a row counts: the sums of three copies are those of a weight of three."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.frozen import FrozenEstimator

from dotsketch import (
    DirichletGPClassifier,
    ExactGPClassifier,
    ExactGPRegressor,
    FeatureGPClassifier,
    FeatureGPRegressor,
    Gaussian,
    SufficientStatistics,
)
from gp.data import class_data, gaussian_features, regression_data

KERNEL = Gaussian(lengthscale=1.5)


def cases(X):
    frozen = FrozenEstimator(gaussian_features().fit(X))
    return {
        "regressor": FeatureGPRegressor(frozen),
        "regressor, given": FeatureGPRegressor(frozen, noise_variance=0.1, prior_variance=2.0),
        "exact": ExactGPRegressor(KERNEL),
        "softmax": FeatureGPClassifier(frozen, prior_variance=2.0),
        "dirichlet": DirichletGPClassifier(frozen, alpha=0.01, prior_variance=2.0),
        "exact classes": ExactGPClassifier(KERNEL, alpha=0.01, prior_variance=2.0),
    }


@pytest.mark.parametrize("name", cases(np.ones((3, 3))))
@pytest.mark.parametrize("sparse", [False, True])
def test_weights_are_copies(name, sparse):
    X, y = regression_data()
    if "softmax" in name or "d" in name[:1] or "classes" in name:
        X, y = class_data(n=60)
    gp = cases(X)[name]
    weights = np.random.default_rng(0).integers(0, 4, 60)
    copies = np.repeat(np.arange(60), weights)
    rows = csr_array(X) if sparse else X
    gp.fit(rows, y, sample_weight=weights)
    predict = gp.predict_proba if hasattr(gp, "predict_proba") else gp.predict
    weighted = predict(rows)
    gp.fit(rows[copies], y[copies])
    # variances that are chosen agree to the tolerance of their search
    np.testing.assert_allclose(weighted, predict(rows), rtol=2e-4, atol=1e-5)


def test_likelihoods_of_copies():
    X, y = regression_data()
    weights = np.random.default_rng(0).integers(1, 4, 60)
    copies = np.repeat(np.arange(60), weights)
    for gp in (
        FeatureGPRegressor(
            FrozenEstimator(gaussian_features().fit(X)), noise_variance=0.1, prior_variance=1.0
        ),
        ExactGPRegressor(KERNEL, noise_variance=0.1, prior_variance=1.0),
    ):
        weighted = gp.fit(X, y, sample_weight=weights).log_marginal_likelihood()
        assert weighted == pytest.approx(gp.fit(X[copies], y[copies]).log_marginal_likelihood())


def test_sums_of_counts():
    X, y = regression_data()
    Z, counts = X, np.random.default_rng(0).integers(1, 4, 60)
    copies = np.repeat(np.arange(60), counts)
    weighted = SufficientStatistics.of(Z, y, None, counts)
    for name, value in SufficientStatistics.of(Z[copies], y[copies]).arrays().items():
        np.testing.assert_allclose(weighted.arrays()[name], value, rtol=1e-10, err_msg=name)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.zeros(60), "weight is not zero"),
        (-np.ones(60), "sample_weight"),
        (np.full(60, np.nan), "sample_weight"),
        (np.ones(59), "inconsistent|sample_weight"),
    ],
)
@pytest.mark.parametrize("name", cases(np.ones((3, 3))))
def test_wrong_weights(name, weights, message):
    X, y = class_data(n=60)
    with pytest.raises(ValueError, match=message):
        cases(X)[name].fit(X, y, sample_weight=weights)

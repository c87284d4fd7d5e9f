"""All Gaussian processes are scikit-learn estimators."""

from sklearn.utils.estimator_checks import parametrize_with_checks

from dotsketch import (
    ExactGPClassifier,
    ExactGPRegressor,
    FeatureGPClassifier,
    FeatureGPRegressor,
    Gaussian,
    MaclaurinFeatures,
)

FEATURES = MaclaurinFeatures(Gaussian(), n_components=20, n_pairs_sample=100, random_state=0)


@parametrize_with_checks(
    [
        FeatureGPRegressor(FEATURES),
        FeatureGPClassifier(FEATURES, alpha=0.01, n_samples=100),
        ExactGPRegressor(Gaussian()),
        ExactGPClassifier(Gaussian(), alpha=0.01, n_samples=100),
    ]
)
def test_scikit_learn_contract(estimator, check):
    check(estimator)

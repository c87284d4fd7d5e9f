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
from dotsketch.gp import ImputedGPRegressor

FEATURES = MaclaurinFeatures(Gaussian(), n_components=20, n_pairs_sample=100, random_state=0)


def checks_of_partial_fit(estimator):
    """Conjugate gradients read all rows many times: `partial_fit` raises."""
    if estimator.get_params().get("solver") != "cg":
        return {}
    names = (
        "fit_score_takes_y",
        "n_features_in_after_fitting",
        "estimators_partial_fit_n_features",
    )
    return {f"check_{name}": 'partial_fit raises with solver="cg"' for name in names}


@parametrize_with_checks(
    [
        FeatureGPRegressor(FEATURES),
        FeatureGPRegressor(FEATURES, solver="cg"),
        FeatureGPClassifier(FEATURES, alpha=0.01, n_samples=100),
        FeatureGPClassifier(FEATURES, alpha=0.01, n_samples=100, solver="cg"),
        ExactGPRegressor(Gaussian()),
        ImputedGPRegressor(FeatureGPRegressor(FEATURES)),
        ExactGPClassifier(Gaussian(), alpha=0.01, n_samples=100),
    ],
    expected_failed_checks=checks_of_partial_fit,
)
def test_scikit_learn_contract(estimator, check):
    check(estimator)

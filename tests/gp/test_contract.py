"""All Gaussian processes are scikit-learn estimators."""

from sklearn.utils.estimator_checks import parametrize_with_checks

from dotsketch import (
    DirichletGPClassifier,
    ExactGPClassifier,
    ExactGPRegressor,
    FeatureGPClassifier,
    FeatureGPRegressor,
    Gaussian,
    MaclaurinFeatures,
)

FEATURES = MaclaurinFeatures(Gaussian(), n_components=20, random_state=0)


def failures(estimator):
    """What cannot hold, and why."""
    parameters = estimator.get_params()
    kinds = ("dense", "sparse")
    why = "landmarks, medians, folds and the search see rows, not their weights"
    expected = {f"check_sample_weight_equivalence_on_{kind}_data": why for kind in kinds}
    if parameters.get("solver") != "cg":
        return expected
    names = (
        "fit_score_takes_y",
        "n_features_in_after_fitting",
        "estimators_partial_fit_n_features",
    )
    return expected | {f"check_{name}": "partial_fit raises with solver='cg'" for name in names}


@parametrize_with_checks(
    [
        FeatureGPRegressor(),
        FeatureGPClassifier(),
        FeatureGPRegressor(FEATURES),
        FeatureGPRegressor(FEATURES, solver="cg"),
        DirichletGPClassifier(FEATURES, alpha=0.01),
        FeatureGPClassifier(FEATURES),
        ExactGPRegressor(Gaussian()),
        ExactGPClassifier(Gaussian(), alpha=0.01),
    ],
    expected_failed_checks=failures,
)
def test_scikit_learn_contract(estimator, check):
    check(estimator)

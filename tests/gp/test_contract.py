"""All Gaussian processes are scikit-learn estimators."""

import pytest
from sklearn.utils.estimator_checks import (
    check_sample_weight_equivalence_on_dense_data,
    check_sample_weight_equivalence_on_sparse_data,
    parametrize_with_checks,
)

from dotsketch import (
    ExactGPClassifier,
    ExactGPRegressor,
    FeatureGPClassifier,
    FeatureGPRegressor,
    FourierFeatures,
    Gaussian,
    MaclaurinFeatures,
)
from dotsketch.gp import ImputedGPRegressor

FEATURES = MaclaurinFeatures(Gaussian(), n_components=20, n_pairs_sample=100, random_state=0)


def failures(estimator):
    """What cannot hold, and why."""
    kinds = ("dense", "sparse")
    found = {
        f"check_sample_weight_equivalence_on_{kind}_data": "features are fitted to the rows"
        for kind in kinds
    }
    sums_only = {"solver": "cg", "likelihood": "softmax"}
    given = [f'{n}="{v}"' for n, v in sums_only.items() if estimator.get_params().get(n) == v]
    if not given:
        return found
    names = (
        "fit_score_takes_y",
        "n_features_in_after_fitting",
        "estimators_partial_fit_n_features",
    )
    return found | {f"check_{name}": f"partial_fit raises with {given[0]}" for name in names}


@parametrize_with_checks(
    [
        FeatureGPRegressor(FEATURES),
        FeatureGPRegressor(FEATURES, solver="cg"),
        FeatureGPClassifier(FEATURES, alpha=0.01, n_samples=100),
        FeatureGPClassifier(FEATURES, alpha=0.01, n_samples=100, solver="cg"),
        FeatureGPClassifier(FEATURES, likelihood="softmax", n_samples=100),
        ExactGPRegressor(Gaussian()),
        ImputedGPRegressor(FeatureGPRegressor(FEATURES)),
        ExactGPClassifier(Gaussian(), alpha=0.01, n_samples=100),
    ],
    expected_failed_checks=failures,
)
def test_scikit_learn_contract(estimator, check):
    check(estimator)


FIXED = FourierFeatures(Gaussian(lengthscale=1.5), n_components=20, random_state=0)
GIVEN = {"alpha": 0.01, "prior_variance": "labels", "temperature": 1.0, "n_samples": 100}


@pytest.mark.parametrize(
    "check",
    [check_sample_weight_equivalence_on_dense_data, check_sample_weight_equivalence_on_sparse_data],
)
@pytest.mark.parametrize(
    "gp",
    [
        FeatureGPRegressor(FIXED, noise_variance=0.1),  # more columns than rows: it would be 0
        FeatureGPClassifier(FIXED, **GIVEN),
        FeatureGPClassifier(FIXED, likelihood="softmax", prior_variance=2.0, n_samples=100),
        ExactGPRegressor(Gaussian(lengthscale=1.5)),
        ExactGPClassifier(Gaussian(lengthscale=1.5), **GIVEN),
    ],
    ids=lambda gp: type(gp).__name__,
)
def test_scikit_learn_weights(gp, check):
    """With features, or a kernel, that do not depend on the rows, and no rows held out."""
    check(type(gp).__name__, gp)

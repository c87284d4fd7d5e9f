"""Small changes of the code of this room that other tests would not notice."""

import numpy as np
import pytest
from sklearn.frozen import FrozenEstimator

from dotsketch import FeatureGPRegressor, FourierFeatures, Gaussian, NystromFeatures
from dotsketch.gp import ConjugateGradients
from gp.data import regression_data


def test_features_with_nearly_the_same_landmarks_do_not_merge():
    X, y = regression_data()
    near, kernel = X.copy(), Gaussian(lengthscale=1.0)
    near[0, 0] += 1e-9
    one, other = (
        FeatureGPRegressor(
            FrozenEstimator(NystromFeatures(kernel, n_components=5, landmarks=rows[:5]).fit(X)),
            noise_variance=0.1,
        ).fit(X, y)
        for rows in (X, near)
    )
    with pytest.raises(ValueError, match="different features"):
        one.merge(other)


def test_draws_end_at_a_residual_of_a_hundredth(tmp_path):
    """Variances come from draws: beyond that they are wrong by more than their standard error."""
    X, y = regression_data(n=300)
    features = FourierFeatures(Gaussian(lengthscale=0.7), n_components=200, random_state=0)
    for tolerance in (0.3, 1e-3):  # means that end before and after the draws
        path = tmp_path / f"{tolerance}.npz"
        solver = ConjugateGradients(tolerance=tolerance, rank=1)
        gp = FeatureGPRegressor(features, solver=solver, noise_variance=0.01, prior_variance=1.0)
        gp.fit(X, y, checkpoint=path)
        with np.load(path) as state:
            assert state["norms"][:, 1:].max() <= max(tolerance, 0.01)

"""What a model is without any arguments, with a number of columns, or with a kernel."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.datasets import load_digits

from dotsketch import (
    ExactGPClassifier,
    ExactGPRegressor,
    FeatureGPClassifier,
    FeatureGPRegressor,
    Gaussian,
    Matern,
    NystromFeatures,
)
from gp.data import regression_data

X, y = regression_data(n=150)


def test_few_rows_are_all_landmarks_so_that_the_process_is_exact():
    gp = FeatureGPRegressor().fit(X, y)
    assert isinstance(gp.features_, NystromFeatures)
    assert gp.columns_.n_columns == 150
    variances = {"noise_variance": gp.noise_variance_, "prior_variance": gp.prior_variance_}
    exact = ExactGPRegressor(gp.kernel_, **variances).fit(X, y)
    test = np.vstack([X[:20] * 1.1, 50 + X[:1]])
    for ours, theirs in zip(
        gp.predict(test, return_std=True), exact.predict(test, return_std=True), strict=True
    ):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


def test_a_number_of_columns_or_a_kernel():
    few = FeatureGPRegressor(40).fit(X, y)
    assert few.columns_.n_columns == 40
    assert few.search_ is not None
    kernel = FeatureGPRegressor(Gaussian(lengthscale=2.0)).fit(X, y)
    assert kernel.kernel_ == Gaussian(lengthscale=2.0)
    assert kernel.search_ is None
    searched = FeatureGPRegressor(Gaussian(), optimize=True).fit(X, y)
    assert isinstance(searched.kernel_, Gaussian)
    assert searched.search_ is not None


def test_the_kernel_without_a_search_is_a_median_of_scaled_inputs():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 3)) * [1.0, 100.0, 1e-3] + 7
    kernel = FeatureGPRegressor(50, optimize=False).fit(X, X[:, 0]).kernel_
    assert isinstance(kernel, Matern)
    scaled = kernel.lengthscale / X.std(axis=0)
    np.testing.assert_allclose(scaled, scaled[0])
    assert scaled[0] == pytest.approx(2.17, rel=0.05)  # √(2 · 2.366), of χ²₃


def test_sparse_rows_stay_sparse():
    X, y = load_digits(return_X_y=True)
    rows = csr_array(X[:200])
    gp = FeatureGPClassifier(50, optimize=False).fit(rows, y[:200])
    assert gp.score(rows, y[:200]) > 0.9
    dense = FeatureGPClassifier(Matern(1.5), prior_variance=gp.prior_variance_).fit(
        X[:200], y[:200]
    )
    assert dense.score(X[:200], y[:200]) > 0.9


@pytest.mark.parametrize("is_exact", [False, True])
def test_gradients_to_rows(is_exact):
    """Mean, standard deviation, probabilities and functions are differentiable in torch and JAX."""
    torch = pytest.importorskip("torch")
    X, y = regression_data()
    gp = (ExactGPRegressor() if is_exact else FeatureGPRegressor()).fit(X, y)
    rows = torch.tensor(X[:3] * 1.2, requires_grad=True)

    def both(rows):
        mean, std = gp.predict(rows, return_std=True, include_noise=True)
        return torch.stack([mean, std])

    assert torch.autograd.gradcheck(both, rows, atol=1e-4)
    np.testing.assert_allclose(both(rows).detach()[0], gp.predict(X[:3] * 1.2), rtol=1e-8)
    classes = (ExactGPClassifier() if is_exact else FeatureGPClassifier()).fit(X, y > 5)
    assert torch.autograd.gradcheck(classes.predict_proba, rows, atol=1e-4)
    if not is_exact:
        f = gp.sample_functions(2, random_state=0)
        assert torch.autograd.gradcheck(f, rows, atol=1e-4)
    jax = pytest.importorskip("jax")

    def value(x):
        mean, std = gp.predict(x, return_std=True)
        return (mean + std)[0]

    [expected] = torch.autograd.grad(value(rows[:1]), rows)
    found = jax.grad(value)(jax.numpy.asarray(X[:1] * 1.2, dtype=np.float32))
    np.testing.assert_allclose(found[0], expected[0], rtol=0.05, atol=1e-3)


def test_gradients_that_would_be_lost_are_refused():
    torch = pytest.importorskip("torch")
    from sklearn.gaussian_process.kernels import RBF
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    features = make_pipeline(StandardScaler(), NystromFeatures(Gaussian(), n_components=20))
    for gp in (FeatureGPRegressor(features), ExactGPRegressor(RBF())):
        with pytest.raises(ValueError, match="gradients"):
            gp.fit(X, y).predict(torch.tensor(X, requires_grad=True))


def test_outputs_have_their_own_noise():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (600, 2))
    truth = np.sin(X)
    y = truth + [0.6, 0.05] * rng.standard_normal((600, 2))
    gp = FeatureGPRegressor(100).fit(X[:400], y[:400])
    assert gp.noise_variance_.shape == (2,)
    low, _, high = np.moveaxis(gp.predict_quantiles(X[400:]), 2, 0)
    coverage = np.mean((low < y[400:]) & (y[400:] < high), axis=0)
    assert np.all(np.abs(coverage - 0.95) < 0.04)

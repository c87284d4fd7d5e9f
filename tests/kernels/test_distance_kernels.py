"""Kernels of the distance: values, gradients, and the features and processes that take them."""

import numpy as np
import pytest
import scipy.sparse
from sklearn.gaussian_process.kernels import Matern as TheirMatern
from sklearn.gaussian_process.kernels import RationalQuadratic as TheirRationalQuadratic

from dotsketch import FourierFeatures, Gaussian, Matern, RationalQuadratic

LENGTHSCALES = np.array([0.5, 1.0, 2.0, 3.0])
every_smoothness = pytest.mark.parametrize("nu", [0.5, 1.5, 2.5])


@pytest.fixture
def X():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 4))
    X[5] = X[4]
    X[7] = X[6] + 1e-9  # a distance that products of rows lose
    return X


@every_smoothness
@pytest.mark.parametrize("lengthscale", [0.7, LENGTHSCALES], ids=["one", "several"])
def test_matern_is_that_of_scikit_learn(X, nu, lengthscale):
    ours, theirs = Matern(nu, lengthscale=lengthscale), TheirMatern(lengthscale, nu=nu)
    np.testing.assert_allclose(ours(X), theirs(X), rtol=0, atol=1e-14)
    np.testing.assert_allclose(ours(X, X[4:9] + 1e-10), theirs(X, X[4:9] + 1e-10), atol=1e-14)
    assert np.array_equal(ours.diag(X), np.ones(60))


@pytest.mark.parametrize("alpha", [0.3, 1.0, 20.0])
def test_rational_quadratic_is_that_of_scikit_learn_and_a_gamma_mixture(X, alpha):
    kernel = RationalQuadratic(alpha, lengthscale=0.7)
    theirs = TheirRationalQuadratic(length_scale=0.7, alpha=alpha)
    np.testing.assert_allclose(kernel(X), theirs(X), atol=1e-12)
    squares = kernel.frequency_factors(200_000, np.random.default_rng(0)) ** 2
    k = np.exp(-squares[:, None] * np.array([0.1, 1.0, 5.0]))
    expected = kernel.profile_of_halves(np.array([0.1, 1.0, 5.0]))
    assert np.all(np.abs(k.mean(axis=0) - expected) < 6 * k.std(axis=0) / np.sqrt(len(k)))
    np.testing.assert_allclose(
        RationalQuadratic(1e8, lengthscale=2.0)(X), Gaussian(lengthscale=2.0)(X), atol=1e-7
    )


def test_a_bias_that_is_not_known_is_not_zero(X):
    features = FourierFeatures(Matern(), projection="sorf", n_components=8, random_state=0)
    with pytest.raises(NotImplementedError, match="no closed form for Matern"):
        features.fit(X).bias(X)
    assert not features.set_params(norms="random").fit(X).bias(X).any()


@pytest.mark.parametrize(
    "kernel", [Gaussian(lengthscale=1.5), Matern(0.5, lengthscale=2.0)], ids=str
)
@pytest.mark.parametrize("kind", ["numpy", "csr", "torch", "jax"])
def test_a_sentinel_in_float32_costs_no_digits(kernel, kind):
    """|x|² + |y|² − 2 x·y of rows with −9999 in an input: float64 where the roundings say so."""
    X = np.random.default_rng(0).standard_normal((60, 4)).astype(np.float32)
    X[::7, 2] = -9999.0
    expected = kernel(X.astype(np.float64))
    rows = X
    if kind == "csr":
        rows = scipy.sparse.csr_array(X)
    elif kind == "torch":
        rows = pytest.importorskip("torch").asarray(X)
    elif kind == "jax":
        jax = pytest.importorskip("jax")
        if not jax.config.jax_enable_x64:
            pytest.skip("JAX has no float64 here")
        rows = jax.numpy.asarray(X)
    K = kernel(rows)
    assert str(K.dtype).endswith("float32")
    np.testing.assert_allclose(np.asarray(K), expected, atol=1e-5)


def test_the_median_distance_does_not_alias_with_periodic_rows():
    """24 · 999 + 1 hourly rows: evenly spaced ones are all of one hour."""
    hour = np.arange(24 * 999 + 1) % 24
    X = np.column_stack([np.cos(2 * np.pi * hour / 24), np.sin(2 * np.pi * hour / 24)])
    assert 1.2 < Gaussian().resolve(X).lengthscale < 1.6

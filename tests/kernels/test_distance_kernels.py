"""Kernels of the distance: values, gradients, and the features and processes that take them."""

import numpy as np
import pytest
import scipy.sparse
from scipy.optimize import approx_fprime
from sklearn.base import clone
from sklearn.gaussian_process.kernels import Matern as TheirMatern
from sklearn.gaussian_process.kernels import RationalQuadratic as TheirRationalQuadratic

from dotsketch import (
    AutoFeatures,
    ExactGPRegressor,
    FourierFeatures,
    Gaussian,
    MaclaurinFeatures,
    Matern,
    NystromFeatures,
    RationalQuadratic,
    SphericalFeatures,
    load,
    plan,
    required_components,
    save,
)
from dotsketch.kernels import DistanceKernel


class Cauchy(DistanceKernel):
    """A kernel of a user: the profile, and its slope for a search."""

    def profile_of_halves(self, halves):
        return 1 / (1 + halves)

    def slope_of_halves(self, halves):
        return -1 / (1 + halves) ** 2


LENGTHSCALES = np.array([0.5, 1.0, 2.0, 3.0])
every_distance_kernel = pytest.mark.parametrize(
    "kernel",
    [
        Gaussian(lengthscale=LENGTHSCALES, variance=1.3),
        Gaussian(lengthscale=1.4, variance=0.3),
        Matern(0.5, lengthscale=LENGTHSCALES),
        Matern(1.5, lengthscale=LENGTHSCALES, variance=2.0),
        Matern(2.5, lengthscale=1.3),
        RationalQuadratic(0.5, lengthscale=1.3, variance=2.0),
        Cauchy(lengthscale=LENGTHSCALES),
    ],
    ids=repr,
)
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


@every_smoothness
def test_matern_on_every_library(X, nu, library):
    """Portable code has distances from products: near rows are as good as their roots."""
    kernel = Matern(nu, lengthscale=2.0, variance=1.5)
    found = library.numpy(kernel(library.asarray(X), library.asarray(X[:5])))
    np.testing.assert_allclose(found, kernel(X, X[:5]), atol=1e-6)


@every_distance_kernel
def test_gradients_with_respect_to_parameters(X, kernel):
    """Σ M_ij K_ij, for a symmetric M, against differences; some rows are equal, or nearly."""
    M = np.random.default_rng(1).standard_normal((60, 60))
    M = M + M.T
    K, pullback = kernel.with_pullback(X)
    np.testing.assert_allclose(K, kernel(X), atol=1e-14)
    expected = approx_fprime(
        kernel.logarithms, lambda t: np.vdot(M, kernel.with_logarithms(t)(X)), 1e-6
    )
    np.testing.assert_allclose(pullback(M), expected, atol=3e-6 * np.abs(expected).max())


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


@pytest.mark.parametrize("output", ["real", "complex"])
def test_errors_of_rational_quadratic_features_are_predicted(output):
    """Within 5 % of the mean over 20 draws."""
    rows = np.random.default_rng(0).standard_normal((300, 12))
    features = FourierFeatures(
        RationalQuadratic(1.5), n_components=200, output=output, projection="independent"
    )
    errors = []
    for seed in range(20):
        Z = clone(features).set_params(random_state=seed).fit(rows).transform(rows)
        K = RationalQuadratic(1.5).resolve(rows)(rows)
        pairs = ~np.eye(300, dtype=bool)
        errors.append(np.sum(np.abs(Z @ Z.conj().T - K)[pairs] ** 2) / np.sum(K[pairs] ** 2))
    predicted = plan(RationalQuadratic(1.5), rows, n_components=200, candidates=[features])
    if output == "real":
        assert predicted.best.relative_error == pytest.approx(np.sqrt(np.mean(errors)), rel=0.05)
    assert features.fit(rows).expected_error_on(rows).relative_error == pytest.approx(
        np.sqrt(np.mean(errors)), rel=0.05
    )


@every_smoothness
@pytest.mark.parametrize("projection", ["independent", "orthogonal", "sorf"])
def test_fourier_features_of_matern_kernels(nu, projection):
    """The mean of k̂ over draws is k, and its variance the closed form where there is one."""
    rows = np.random.default_rng(3).standard_normal((6, 16)) / 2
    kernel = Matern(nu, lengthscale=2.0, variance=1.5)
    draws = []
    options = {"projection": projection, "norms": "random", "n_components": 64}
    for seed in range(150):
        features = FourierFeatures(kernel, random_state=seed, **options).fit(rows)
        Z = features.transform(rows)
        draws.append(Z @ Z.T)
    spread = np.std(draws, axis=0) / np.sqrt(150)
    # "sorf" is only nearly isotropic in 16 dimensions: a bias of the order of 0.01
    slack = 0.02 if projection == "sorf" else 1e-12
    assert np.all(np.abs(np.mean(draws, axis=0) - kernel(rows)) < 5 * spread + slack)
    if projection == "independent":
        chosen = np.triu_indices(6, 1)
        ratio = np.var(draws, axis=0)[chosen].sum() / features.variance(rows)[chosen].sum()
        assert 0.65 < ratio < 1.35  # 15 correlated cells of 150 draws: deviation about 0.08


def test_a_bias_that_is_not_known_is_not_zero(X):
    features = FourierFeatures(Matern(), projection="sorf", n_components=8, random_state=0)
    with pytest.raises(NotImplementedError, match="no closed form for Matern"):
        features.fit(X).bias(X)
    assert not features.set_params(norms="random").fit(X).bias(X).any()


def test_features_that_need_a_series_refuse_matern_kernels(X):
    for features in (MaclaurinFeatures, SphericalFeatures):
        with pytest.raises(TypeError, match=r"dot product kernels.* got Matern"):
            features(Matern(), n_components=10).fit(X)
    with pytest.raises(ValueError, match=r"nu must be 0\.5, 1\.5 or 2\.5; got 2\."):
        Matern(2)


def test_plans_and_models_of_matern_kernels(X, tmp_path):
    kernel = Matern(1.5, lengthscale=LENGTHSCALES)
    families = {row.candidate.family for row in plan(kernel, X, n_components=16)}
    assert families == {"fourier", "nystrom"}
    auto = AutoFeatures(kernel, n_components=16, random_state=0).fit(X)
    save(auto.features_, tmp_path / "features")
    again = load(tmp_path / "features")
    assert again.kernel_ == kernel
    assert np.array_equal(again.transform(X), auto.features_.transform(X))
    features = NystromFeatures(kernel, n_components=60, random_state=0).fit(X)
    Z = features.transform(X)
    np.testing.assert_allclose(Z @ Z.T, kernel(X), atol=1e-6)
    gp = ExactGPRegressor(kernel, noise_variance=1e-3).fit(X, X[:, 0])
    np.testing.assert_allclose(gp.predict(X), X[:, 0], atol=0.1)


def test_planning_says_what_matern_kernels_and_given_landmarks_cannot_do(X):
    with pytest.raises(TypeError, match=r"use AutoFeatures\(kernel, tolerance=\.\.\.\).*Matern"):
        required_components(Matern(), X, tolerance=0.1)
    given = NystromFeatures(Matern(), landmarks=X[:5])
    assert plan(Matern(), X, n_components=5, candidates=[given]).best.source == "measured"


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

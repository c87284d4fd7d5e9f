"""Sums, products and multiples of kernels: values, series, parameters, features, model files."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.base import clone

import dotsketch
from dotsketch import (
    ArcCosine,
    AutoFeatures,
    ExactGPRegressor,
    Exponential,
    FeatureGPRegressor,
    Gaussian,
    Linear,
    Maclaurin,
    MaclaurinFeatures,
    Matern,
    NystromFeatures,
    Periodic,
    Polynomial,
    RationalQuadratic,
    SphericalFeatures,
    load,
    plan,
    save,
)
from dotsketch.kernels import DotProductKernel, DotProductProduct, DotProductSum, Product, Sum
from draws import redrawn

LENGTHSCALES = [0.5, 1.0, 2.0, 1.0, 3.0]
WITH_SERIES = [
    Polynomial(2) + Exponential(lengthscale=1.3),
    Polynomial(3, gamma=0.4, variance=0.3) + Exponential(lengthscale=0.9, variance=2.0),
    Polynomial(2, gamma=0.5) * Polynomial(1, gamma=2.0, coef0=0.3),
    Maclaurin([1.0, 0, 2.0]) * Exponential(lengthscale=2.0),
    Gaussian(lengthscale=1.5) * Gaussian(lengthscale=2.5, variance=2.0),
    Gaussian(lengthscale=2.0) * Polynomial(2, gamma=0.3),
    Gaussian(lengthscale=2.0) + 0.5 * Gaussian(lengthscale=2.0) * Polynomial(1),
    Gaussian(lengthscale=LENGTHSCALES) * Exponential(lengthscale=3 * np.array(LENGTHSCALES)),
    ArcCosine(0) + ArcCosine(1) * ArcCosine(1),
    3.0 * (Polynomial(1) + Polynomial(2)) * Polynomial(1, coef0=0.0),
]
WITHOUT = [
    Gaussian(lengthscale=1.5) + Exponential(),
    Gaussian(lengthscale=1.5) + Gaussian(lengthscale=2.0),
    Gaussian(lengthscale=1.5) + Matern(lengthscale=2.0),
    Matern(0.5, lengthscale=2.0) * Polynomial(2),
    ArcCosine(1) * Exponential(),
    Gaussian(lengthscale=LENGTHSCALES) * Exponential(),
    Periodic(2.0) * Gaussian(lengthscale=2.0) + RationalQuadratic(0.5, lengthscale=[1.0] * 5),
    (2.0 * (Matern(lengthscale=1.5) + Linear()).on([3, 0])) * Periodic(2.0).on(4),
    (Gaussian(lengthscale=1.5) + Exponential()) * Polynomial(2),
]


def values(kernel, X, Y):
    """By the definition, from the kernels that it is made of."""
    if isinstance(kernel, Sum):
        return values(kernel.left, X, Y) + values(kernel.right, X, Y)
    if isinstance(kernel, Product):
        return values(kernel.left, X, Y) * values(kernel.right, X, Y)
    return kernel(X, Y)


@pytest.fixture
def Y(rng):
    return rng.standard_normal((3, 5)) / 3


@pytest.mark.parametrize("kernel", WITH_SERIES + WITHOUT, ids=repr)
def test_values_are_those_of_the_parts(kernel, X, Y, library):
    K = library.numpy(kernel(library.asarray(X), library.asarray(Y)))
    np.testing.assert_allclose(K, values(kernel, X, Y), rtol=1e-12)
    diagonal = library.numpy(kernel.diag(library.asarray(X)))
    np.testing.assert_allclose(diagonal, np.diag(kernel(X)), rtol=1e-7)


@pytest.mark.parametrize("kernel", WITH_SERIES, ids=repr)
def test_the_series_is_that_of_the_kernel(kernel, X, Y):
    """k(x, y) = w(x) w(y) Σ a_n ⟨s(x), s(y)⟩ⁿ, and the closed form of its sum."""
    assert isinstance(kernel, DotProductKernel)
    t = kernel.scale(X) @ kernel.scale(Y).T
    a = kernel.coefficients(60 if kernel.metric[0] == "rows" else 2000)
    assert np.all(a >= 0)
    weights = kernel.weight(X)[:, None] * kernel.weight(Y)[None, :]
    expected = values(kernel, X, Y)
    np.testing.assert_allclose(weights * np.polyval(a[::-1], t), expected, rtol=1e-4)
    np.testing.assert_allclose(weights * kernel.profile(t), expected, rtol=1e-10)
    np.testing.assert_allclose(kernel.value(t, np.log(weights)), expected, rtol=1e-10)
    if kernel.last_degree is not None:
        assert a[kernel.last_degree] > 0 == a[kernel.last_degree + 1 :].sum()


@pytest.mark.parametrize("kernel", WITHOUT, ids=repr)
def test_others_have_none_and_say_what_to_do(kernel, X):
    assert not isinstance(kernel, DotProductKernel)
    with pytest.raises(TypeError, match=r"NystromFeatures, or the features of each part"):
        MaclaurinFeatures(kernel).fit(X)


def test_products_of_gaussians_with_large_norms_stay_in_range():
    kernel = Gaussian(lengthscale=1.0) * Gaussian(lengthscale=2.0)
    S = kernel.scale(100 * np.eye(2))
    log_weights = kernel.log_weight(S)
    assert kernel.value(np.sum(S * S, axis=1), 2 * log_weights) == pytest.approx(1.0)


def test_multiples_change_the_variance():
    assert 2.0 * Polynomial(2, variance=3.0) == Polynomial(2, variance=6.0)
    assert Gaussian() * 0.5 == Gaussian(variance=0.5)
    assert 2 * (Polynomial(2) + Exponential()) == 2 * Polynomial(2) + 2 * Exponential()
    assert 2 * (Polynomial(2) * Exponential()) == (2 * Polynomial(2)) * Exponential()
    for factor in (0.0, -1.0, np.nan):
        with pytest.raises(ValueError, match="the factor of a kernel must be a positive number"):
            factor * Gaussian()
    for other in ("2", None, [1.0, 2.0]):
        with pytest.raises((TypeError, ValueError)):
            Gaussian() * other
        with pytest.raises(TypeError):
            Gaussian() + other


@pytest.mark.parametrize("kernel", WITH_SERIES + WITHOUT, ids=repr)
def test_repr_clone_pickle_equality_and_files(kernel, tmp_path):
    names = vars(dotsketch) | {"array": np.array}
    save(kernel, tmp_path / "kernel.dsk")
    copies = [clone(kernel), pickle.loads(pickle.dumps(kernel)), load(tmp_path / "kernel.dsk")]
    for copy in [*copies, eval(repr(kernel), {}, names)]:
        assert copy == kernel
        assert hash(copy) == hash(kernel)
        assert type(copy) is type(kernel)
    assert kernel != kernel * Polynomial(1)


def test_parameters_of_the_parts_are_reached_by_name():
    kernel = Polynomial(2) + Exponential()
    assert kernel.get_params()["left__degree"] == 2
    kernel.set_params(left__degree=3, right__lengthscale=2.0)
    assert kernel == Polynomial(3) + Exponential(lengthscale=2.0)
    with pytest.raises(ValueError, match="lengthscale must be a positive number"):
        kernel.set_params(right__lengthscale=-1.0)
    with pytest.raises(TypeError, match="right must be a kernel"):
        kernel.set_params(right=2.0)
    features = MaclaurinFeatures(Polynomial(2) + Exponential()).set_params(kernel__left__degree=4)
    assert features.kernel.left.degree == 4


def test_a_lengthscale_from_data_is_set_in_every_part(X):
    kernel = Gaussian() + 2.0 * Gaussian()
    assert isinstance(kernel, DotProductSum)
    resolved = kernel.resolve(X)
    assert resolved == Gaussian().resolve(X) + 2.0 * Gaussian().resolve(X)
    assert resolved.resolve(X) is resolved
    assert isinstance(Gaussian() * Gaussian(lengthscale=2.0), DotProductProduct)
    assert not isinstance(Gaussian() + Gaussian(lengthscale=2.0), DotProductSum)


def test_weights_that_differ_are_refused():
    with pytest.raises(ValueError, match="different weights"):
        DotProductSum(Gaussian(lengthscale=1.0), Exponential())
    kernel = Gaussian(lengthscale=[1.0, 2.0]) * Gaussian(lengthscale=[2.0, 4.0])
    kernel.set_params(right__lengthscale=[1.0, 1.0])
    with pytest.raises(ValueError, match="see different dot products"):
        kernel.series(3)


# -- features, plans and Gaussian processes ------------------------------------------------------


@pytest.mark.parametrize("kernel", WITH_SERIES, ids=repr)
def test_features_have_the_error_that_is_predicted(kernel, X):
    """Mean over draws of the squared error, with its own standard error (z = 6)."""
    X = X / 2
    features = MaclaurinFeatures(kernel, n_components=30, max_degree=6, allocation="sketched")
    features.set_params(random_state=0).fit(X)
    pairs = ~np.eye(len(X), dtype=bool)
    K = kernel(X)
    errors = []
    for seed in range(200):
        Z = redrawn(features, seed).transform(X)
        errors.append(np.mean((Z @ Z.T - K)[pairs] ** 2))
    standard_error = np.std(errors) / np.sqrt(len(errors))
    assert abs(np.mean(errors) - features.expected_squared_error_) < 6 * standard_error


def test_a_sum_of_polynomials_is_exact_in_its_monomials(X):
    kernel = Polynomial(1, gamma=0.5) + Polynomial(2, gamma=2.0)
    Z = MaclaurinFeatures(kernel, n_components=1 + 5 + 15).fit_transform(X)
    np.testing.assert_allclose(Z @ Z.T, kernel(X), rtol=1e-10)


@pytest.mark.parametrize("kernel", [WITH_SERIES[0], WITHOUT[2]], ids=repr)
def test_plans_nystrom_features_and_gaussian_processes(kernel, rng, tmp_path):
    X = rng.standard_normal((60, 3))
    y = X[:, 0] + np.sin(2 * X[:, 1])
    table = plan(kernel, X, n_components=20)
    assert {"nystrom"} <= {row.family for row in table}
    assert any(row.family == "maclaurin" for row in table) == isinstance(kernel, DotProductKernel)
    Z = NystromFeatures(kernel, n_components=60, random_state=0).fit_transform(X)
    np.testing.assert_allclose(Z @ Z.T, kernel(X), atol=1e-6 * np.max(kernel(X)))
    auto = AutoFeatures(kernel, n_components=20, random_state=0).fit(X)
    model = FeatureGPRegressor(auto.features_).fit(X, y)
    save(model, tmp_path / "model.dsk")
    np.testing.assert_array_equal(load(tmp_path / "model.dsk").predict(X), model.predict(X))
    exact = ExactGPRegressor(kernel).fit(X, y)
    assert np.mean((exact.predict(X) - y) ** 2) < 0.1 * np.var(y)


def test_a_search_finds_a_lengthscale_inside_of_a_sum(rng):
    X = rng.standard_normal((60, 2))
    y = np.sin(4 * X[:, 0])
    kernel = Polynomial(1) + Gaussian()
    for model in (
        ExactGPRegressor(kernel),
        FeatureGPRegressor(NystromFeatures(kernel, n_components=50, random_state=0)),
    ):
        kernel_ = model.set_params(optimize=True).fit(X, y).kernel_
        assert kernel_.right.lengthscale[0] < 0.8 < kernel_.right.lengthscale[1]


def test_gradients_of_a_sum(X):
    torch = pytest.importorskip("torch")
    lengthscale = torch.tensor(1.5, dtype=torch.float64, requires_grad=True)
    kernel = Polynomial(2) + Exponential(lengthscale=lengthscale)
    (slope,) = torch.autograd.grad(kernel(torch.asarray(X)).sum(), lengthscale)
    up, down = ((Polynomial(2) + Exponential(lengthscale=1.5 + h))(X).sum() for h in (1e-5, -1e-5))
    assert float(slope) == pytest.approx((up - down) / 2e-5, rel=1e-6)
    with pytest.raises(TypeError, match="right__lengthscale is a constant of the series"):
        MaclaurinFeatures(kernel).fit(X)


def test_spherical_features_of_a_sum():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 16))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    kernel = Polynomial(3, gamma=0.5, coef0=0.5) + Polynomial(5, gamma=0.5, coef0=0.5)
    Z = SphericalFeatures(kernel, n_components=4096, random_state=0).fit_transform(X)
    assert np.linalg.norm(Z @ Z.T - kernel(X)) < 0.1 * np.linalg.norm(kernel(X))

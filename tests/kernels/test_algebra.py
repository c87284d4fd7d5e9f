"""Sums, products and multiples of kernels: values, series, parameters, features, model files."""

from __future__ import annotations

import numpy as np
import pytest

from dotsketch import (
    ArcCosine,
    Exponential,
    Gaussian,
    Linear,
    Maclaurin,
    MaclaurinFeatures,
    Matern,
    Periodic,
    Polynomial,
    RationalQuadratic,
)
from dotsketch.kernels import DotProductKernel, DotProductProduct, DotProductSum, Product, Sum

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


def test_a_sum_of_polynomials_is_exact_in_its_monomials(X):
    kernel = Polynomial(1, gamma=0.5) + Polynomial(2, gamma=2.0)
    Z = MaclaurinFeatures(kernel, n_components=1 + 5 + 15).fit_transform(X)
    np.testing.assert_allclose(Z @ Z.T, kernel(X), rtol=1e-10)

"""PositiveFeatures: positive, unbiased, with the variance that the formulas tell."""

import numpy as np
import pytest

from dotsketch import Exponential, Gaussian, PositiveFeatures
from dotsketch.features import PositiveDesign
from dotsketch.projections import PROJECTIONS

every_projection = pytest.mark.parametrize("projection", PROJECTIONS)
every_kernel = pytest.mark.parametrize(
    "kernel", [Exponential(lengthscale=1.2, variance=1.7), Gaussian(lengthscale=0.8)], ids=str
)
both = pytest.mark.parametrize("hyperbolic", [False, True])


def design(D, d, projection="orthogonal", hyperbolic=False):
    return PositiveDesign(Exponential(), d, D, projection=projection, hyperbolic=hyperbolic)


def moment(log_moment, weights):
    """E[k̂²] of independent frequencies from Gaussian moments, by brute force over pairs."""
    total = 0.0
    for i, a in enumerate(weights):
        for j, b in enumerate(weights):
            total += a * b * log_moment(i == j)
    return total


@pytest.mark.parametrize("s", [0.1, 1.0, 4.0])
def test_variance_from_gaussian_moments(s):
    """E exp(2ωᵀv) = e^(2s), E cosh²(ωᵀv) = (e^(2s) + 1)/2 with |v|² = s, (E exp)² = e^s."""
    share = np.full(5, 1 / 5)
    plain = moment(lambda same: np.exp(2 * s) if same else np.exp(s), share)
    assert np.isclose(design(5, 3, "independent").relative_variance(s), plain / np.exp(s) - 1)
    paired = moment(lambda same: (np.exp(2 * s) + 1) / 2 if same else np.exp(s), share)
    assert np.isclose(
        design(10, 3, "independent", True).relative_variance(s), paired / np.exp(s) - 1
    )


@pytest.mark.parametrize("d", [2, 5, 64])
def test_orthogonal_and_hyperbolic_have_less_variance(d):
    s = np.array([0.01, 0.3, 2.0, 10.0])
    independent = design(4 * d, d, "independent").relative_variance(s)
    assert np.all(design(4 * d, d).relative_variance(s) < independent)
    hyperbolic = design(4 * d, d, "independent", True).relative_variance(s)
    assert np.all(hyperbolic < independent)
    assert np.all(design(4 * d, d, "orthogonal", True).relative_variance(s) < hyperbolic)
    assert np.all(design(4 * d, d, "orthogonal", True).relative_variance(s) > 0)


@every_kernel
def test_estimator_variance_is_that_of_the_map(kernel, X, rng):
    Y = rng.standard_normal((3, 5)) / 3
    model = PositiveFeatures(kernel, n_components=8, random_state=0).fit(X)
    centre = X.mean(axis=0) if kernel.shift_invariant else 0
    if kernel.shift_invariant:
        np.testing.assert_allclose(model.design_.centre, centre)
    else:
        assert model.design_.centre is None
    S, T = (X - centre) / kernel.lengthscale, (Y - centre) / kernel.lengthscale
    squared_sum = ((S[:, None] + T[None]) ** 2).sum(axis=2)
    expected = kernel(X, Y) ** 2 * model.design_.relative_variance(squared_sum)
    np.testing.assert_allclose(model.variance(X, Y), expected, rtol=1e-9)
    assert np.all(model.variance(1e3 * X, 1e3 * X) == np.inf)


@both
@every_projection
@every_kernel
def test_features_are_exponentials(kernel, projection, hyperbolic, X):
    model = PositiveFeatures(
        kernel, projection=projection, hyperbolic=hyperbolic, n_components=6, random_state=0
    )
    Z = model.fit_transform(X)
    centre = X.mean(axis=0) if kernel.shift_invariant else 0 * X[0]
    S = (X - centre) / kernel.lengthscale
    P = model.design_.frequencies.apply(S, model.weights_)
    P = np.hstack([P, -P]) if hyperbolic else P
    squares = (S**2).sum(axis=1, keepdims=True)
    weight = squares / 2 if isinstance(kernel, Exponential) else squares
    expected = np.sqrt(kernel.variance / 6) * np.exp(P - weight)
    assert np.all(Z > 0)
    np.testing.assert_allclose(Z, expected)
    zero = model.transform(0 * X[:1] + centre)  # k̂(0, 0) = k(0, 0), exactly
    np.testing.assert_allclose(zero, np.sqrt(kernel.variance / 6))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_out_of_range_is_said(dtype):
    X = np.ones((2, 1), dtype=dtype)
    model = PositiveFeatures(Exponential(), projection="orthogonal", n_components=9)
    model.set_params(random_state=0).fit(X)
    largest = np.max(np.abs(model.weights_.matrix))
    far = dtype(1e2 if dtype == np.float32 else 1e3) * X
    with pytest.warns(UserWarning, match=r"All features of some rows .*zero.*or float64"):
        assert np.all(model.transform(far) == 0)
    model.weights_ = type(model.weights_)(model.weights_.matrix * 1e3 / largest)
    with pytest.raises(ValueError, match=r"features overflow float.*or float64"):
        model.transform(20 * X)

"""MaclaurinFeatures: the features have the error that was predicted, on every path."""

from __future__ import annotations

import numpy as np
import pytest

from dotsketch import ArcCosine, Exponential, Gaussian, Maclaurin, MaclaurinFeatures, Polynomial

KERNELS = [
    Polynomial(3, gamma=0.5, coef0=0.5),
    Exponential(lengthscale=1.1),
    Gaussian(),
    Maclaurin([0.5, 0, 1.0, 0.25]),
    ArcCosine(0),
    ArcCosine(1),
]
OPTIONS = [
    {},
    {"output": "complex"},
    {"output": "complex_to_real"},
    {"sketch": "balanced_tensor_sketch", "coefficients": "fitted"},
    {"sketch": "rademacher", "output": "complex_to_real", "allocation": "sketched"},
    {"mean_split": True},
    {"mean_split": True, "output": "complex_to_real", "coefficients": "fitted"},
    {"allocation": "random", "sketch": "tensor_sketch", "max_degree": 3},
]


@pytest.fixture(scope="module")
def X():
    rng = np.random.default_rng(1)
    return np.abs(rng.standard_normal((40, 6))) / 2


def gram(Z):
    return (Z @ Z.conj().T).real if np.iscomplexobj(Z) else Z @ Z.T


@pytest.mark.filterwarnings("ignore:(?s).*nearly zero:UserWarning")  # of large norms: on purpose
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("squared_norm", [0.0, 1e-8, 52.0, 1e4, 1e8])
def test_gaussian_features_are_finite_at_any_norm(squared_norm, dtype):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 5))
    X = X / np.linalg.norm(X, axis=1, keepdims=True) * np.sqrt(squared_norm)
    X[0] = 0
    kernel = Gaussian(lengthscale=1.0)
    for options in ({}, {"mean_split": True}):
        features = MaclaurinFeatures(kernel, n_components=64, random_state=0, **options)
        Z = features.fit_transform(X.astype(dtype))
        assert Z.dtype == dtype
        assert np.all(np.isfinite(Z))
        assert np.isfinite(features.expected_relative_error_)
        assert np.all(np.sum(Z.astype(float) ** 2, axis=1) < 10)


def test_gaussian_features_do_not_see_a_shift():
    X = np.random.default_rng(0).standard_normal((50, 4))
    first, second = (
        MaclaurinFeatures(Gaussian(lengthscale=2.0), n_components=64, random_state=0).fit(A)
        for A in (X, X + 100)
    )
    np.testing.assert_allclose(first.transform(X), second.transform(X + 100), atol=1e-9)


def test_unused_columns_are_zero(X):
    features = MaclaurinFeatures(Polynomial(2), n_components=40).fit(X)
    assert features.allocation_.unused == 40 - 28
    assert np.all(features.transform(X)[:, 28:] == 0)


def test_what_a_mean_split_leaves_out_is_predicted():
    """The second eigenfunction is cut off, so the error is small, but not zero."""
    X = 1 + 1e-3 * np.random.default_rng(1).standard_normal((30, 2))
    kernel = Polynomial(2)
    features = MaclaurinFeatures(kernel, n_components=40, mean_split=True, random_state=0).fit(X)
    assert features.allocation_.variance == 0
    Z = features.transform(X)
    squares = (Z @ Z.T - kernel(X))[~np.eye(30, dtype=bool)] ** 2
    assert features.expected_squared_error_ == pytest.approx(squares.mean(), rel=1e-4)


@pytest.mark.parametrize("mean_split", [False, True])
def test_gradients_at_zero_rows_and_along_the_mean(mean_split, X):
    jax, torch = pytest.importorskip("jax"), pytest.importorskip("torch")
    features = MaclaurinFeatures(
        Polynomial(3), n_components=20, mean_split=mean_split, random_state=0
    ).fit(X)
    places = np.vstack([np.zeros(6), X.mean(axis=0), X[:1]])
    rows = torch.tensor(places, requires_grad=True)
    assert torch.autograd.gradcheck(features.transform, (rows,))
    expected = torch.autograd.functional.jacobian(features.transform, rows)
    found = jax.jit(jax.jacobian(features.transform))(jax.numpy.asarray(places))
    np.testing.assert_allclose(found, expected, atol=1e-10)


@pytest.mark.parametrize("coefficients", ["taylor", "fitted"])
@pytest.mark.parametrize("mean_split", [False, True])
@pytest.mark.parametrize(
    "kernel",
    [Polynomial(1, coef0=0), Polynomial(3, coef0=0), Maclaurin([0, 0, 1, 0, 2]), Maclaurin([2.0])],
    ids=str,
)
def test_kernels_with_few_terms(kernel, mean_split, coefficients, X):
    """No constant, a single term, or a constant alone."""
    for n_components in (1, 2, 3, 20):
        features = MaclaurinFeatures(
            kernel,
            n_components=n_components,
            mean_split=mean_split,
            coefficients=coefficients,
            random_state=0,
        )
        Z = features.fit_transform(X)
        assert Z.shape == (40, n_components)
        assert np.all(np.isfinite(Z))
        assert np.isfinite(features.expected_relative_error_)


@pytest.mark.parametrize("options", [{}, {"mean_split": True}], ids=str)
@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_more_columns_never_predict_a_larger_error(kernel, options, X):
    errors = [
        MaclaurinFeatures(kernel, n_components=n, sketch="rademacher", **options)
        .fit(X)
        .expected_relative_error_
        for n in (1, 2, 3, 4, 6, 8, 12, 20, 40)
    ]
    assert np.all(np.diff(errors) <= 1e-9)


def test_features_do_not_vanish_where_the_kernel_does_off_the_diagonal():
    X = np.eye(6)
    features = MaclaurinFeatures(Polynomial(2, coef0=0), n_components=30, random_state=0)
    Z = features.fit_transform(X)
    np.testing.assert_allclose(Z @ Z.T, np.eye(6), atol=1e-12)


def test_a_series_that_begins_later_says_so(X):
    for kernel in (Polynomial(12, coef0=0), Maclaurin([0] * 12 + [1])):
        with pytest.raises(ValueError, match="raise max_degree"):
            MaclaurinFeatures(kernel).fit(X)
        MaclaurinFeatures(kernel, max_degree=12, n_components=5).fit(X)


@pytest.mark.parametrize("mean_split", [False, True])
def test_a_kernel_that_is_zero_on_the_data(mean_split):
    X = np.zeros((5, 3))
    features = MaclaurinFeatures(Polynomial(2, coef0=0.0), n_components=4, mean_split=mean_split)
    assert np.all(features.fit_transform(X) == 0)
    assert features.expected_relative_error_ == 0


@pytest.mark.parametrize("mean_split", [False, True])
@pytest.mark.parametrize("scale", [100, 1e100])
def test_overflow_of_the_kernel_is_an_error(scale, mean_split, X):
    with pytest.raises(ValueError, match="overflow on these data"):
        MaclaurinFeatures(Exponential(), mean_split=mean_split).fit(X * scale)


def test_random_degrees_with_nothing_to_draw(X):
    kernel = Maclaurin([1.0])
    features = MaclaurinFeatures(kernel, allocation="random", n_components=20)
    np.testing.assert_allclose(gram(features.fit_transform(X)), kernel(X))


def test_an_outlier_does_not_move_the_centre_off_the_rows(rng):
    """One cell of 1e6 moved the mean by 1000: the weights of all rows underflowed to zero."""
    X = rng.standard_normal((1000, 5))
    ordinary = MaclaurinFeatures(Gaussian(), n_components=60, random_state=0).fit(X)
    np.testing.assert_array_equal(ordinary.design_.expansion.centre, X.mean(axis=0))
    X[3, 2] = 1e6
    model = MaclaurinFeatures(Gaussian(), n_components=60, random_state=0).fit(X)
    assert model.expected_relative_error_ < 2 * ordinary.expected_relative_error_
    Z = model.transform(np.delete(X, 3, axis=0)[:100])
    K = model.kernel_(np.delete(X, 3, axis=0)[:100])
    assert np.linalg.norm(Z @ Z.T - K) < 0.1 * np.linalg.norm(K)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_bias_and_variance_of_pairs_are_those_of_the_allocation(options, X):
    """Their means over the pairs of the training rows, and of a mean over draws."""
    features = MaclaurinFeatures(
        Exponential(lengthscale=2.0), n_components=60, random_state=0, **options
    ).fit(X)
    pairs = ~np.eye(len(X), dtype=bool)
    variance, squared_bias = features.variance(X)[pairs].mean(), features.bias(X)[pairs] ** 2
    np.testing.assert_allclose(variance, features.allocation_.variance, rtol=1e-8, atol=1e-15)
    expected = features.allocation_.squared_bias
    np.testing.assert_allclose(squared_bias.mean(), expected, rtol=1e-6, atol=1e-12)

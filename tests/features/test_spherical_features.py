"""SphericalFeatures: columns, unit rows, refusals, libraries, and its place in scikit-learn."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

from dotsketch import (
    ArcCosine,
    Exponential,
    Gaussian,
    Maclaurin,
    Polynomial,
    SphericalFeatures,
)
from dotsketch.projections import PROJECTIONS
from rounding import assert_same_to_rounding

KERNEL = Polynomial(3, gamma=0.5, coef0=0.5)
every_projection = pytest.mark.parametrize("projection", PROJECTIONS)
every_output = pytest.mark.parametrize("output", ["real", "complex", "complex_to_real"])


@pytest.fixture
def X(rng):
    """Of 11 coordinates: in 8 or fewer structured directions are no good, and warn."""
    return rng.standard_normal((7, 11)) + 0.5


def unit(X):
    return X / np.linalg.norm(X, axis=1, keepdims=True)


ZERO_ROWS = dict.fromkeys(
    [
        "check_estimator_sparse_array",
        "check_estimator_sparse_matrix",
        "check_estimator_sparse_tag",
        "check_estimators_dtypes",
    ],
    "scikit-learn's data have rows of zeros here, which have no direction",
)


# -- fitting ----------------------------------------------------------------------------------


@every_output
@every_projection
def test_columns_dtype_and_names(projection, output, X):
    model = SphericalFeatures(
        KERNEL, projection=projection, output=output, n_components=8, random_state=0
    )
    Z = model.fit_transform(X)
    assert Z.shape == (7, 8)
    assert np.iscomplexobj(Z) == (output == "complex")
    assert list(model.get_feature_names_out()) == [f"sphericalfeatures{i}" for i in range(8)]
    Z32 = model.transform(X.astype(np.float32))
    assert Z32.dtype == (np.complex64 if output == "complex" else np.float32)
    np.testing.assert_allclose(Z32, Z, atol=1e-5)


@every_projection
def test_features_converge_to_the_kernel_but_for_the_bias(projection, X):
    """At 65536 columns: within six predicted standard deviations, and bias where it is large."""
    kernel = Polynomial(3, gamma=1.0, coef0=1.5, variance=2.0)
    n = 1 << 16 if projection != "sorf" else 1 << 12
    X = unit(np.hstack([X, X[:, ::-1] ** 2, X**2, 0.1 + 0 * X, X**3, X**4, 0.3 * X]))  # d = 35
    model = SphericalFeatures(kernel, projection=projection, n_components=n, random_state=0)
    Z = model.fit_transform(X)
    deviation = np.sqrt(model.variance(X))
    expected = kernel(X) + model.bias(X)
    assert np.all(np.abs(Z @ Z.T - expected) < 6 * deviation + 1e-9)
    np.testing.assert_allclose(np.diag(Z @ Z.T), kernel.diag(X))


def test_bias_is_seen_at_many_features(rng):
    """The mutant: without the bias the same features do not agree."""
    X = unit(rng.standard_normal((6, 35)))
    kernel = Polynomial(1)
    model = SphericalFeatures(kernel, projection="orthogonal", n_components=1 << 15, random_state=0)
    Z = model.fit_transform(X)
    deviation = np.sqrt(model.variance(X)) + 1e-9
    assert np.all(np.abs(Z @ Z.T - kernel(X) - model.bias(X)) < 6 * deviation)
    assert np.any(np.abs(Z @ Z.T - kernel(X)) > 6 * deviation)


def test_real_and_complex_to_real_are_the_same_numbers(X):
    real, both = (
        SphericalFeatures(KERNEL, output=output, n_components=8, random_state=0).fit_transform(X)
        for output in ("real", "complex_to_real")
    )
    assert_same_to_rounding(real, both)


# -- unit rows ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dimension", "expected"), [(1, "orthogonal"), (32, "orthogonal"), (33, "sorf")]
)
def test_default_projection_converges_and_is_the_faster_one(dimension, expected, rng):
    X = unit(rng.standard_normal((30, dimension)))
    model = SphericalFeatures(KERNEL, n_components=512, random_state=0).fit(X)
    assert model.design_.projection == expected


def test_two_coordinates_have_the_error_that_is_predicted(rng):
    """Structured directions would have seven times it."""
    X = unit(rng.standard_normal((60, 2)))
    kernel = Polynomial(7, gamma=0.5, coef0=0.5)
    K = kernel(X)
    models = [
        SphericalFeatures(kernel, n_components=512, random_state=seed).fit(X) for seed in range(20)
    ]
    squares = [np.mean((model.transform(X) @ model.transform(X).T - K) ** 2) for model in models]
    predicted = np.mean(models[0].variance(X) + models[0].bias(X) ** 2)
    error = np.std(squares, ddof=1) / np.sqrt(len(squares))
    assert abs(np.mean(squares) - predicted) < 6 * error


def test_structured_directions_of_few_coordinates_are_not_claimed(rng):
    X = unit(rng.standard_normal((30, 8)))
    model = SphericalFeatures(KERNEL, projection="sorf", random_state=0)
    with pytest.warns(UserWarning, match="far from uniform"):
        model.fit(X)
    for method in (model.variance, model.bias):
        with pytest.raises(ValueError, match="No closed form"):
            method(X)


@every_projection
def test_norms_do_not_matter_unless_asked(projection, X):
    options = {"projection": projection, "n_components": 9, "random_state": 0}
    model = SphericalFeatures(KERNEL, **options).fit(X)
    Z = model.transform(X)
    np.testing.assert_allclose(model.transform(unit(X)), Z, atol=1e-12)
    np.testing.assert_allclose(model.transform(1e200 * X), Z, atol=1e-12)
    strict = SphericalFeatures(KERNEL, normalize=False, **options).fit(unit(X))
    np.testing.assert_allclose(strict.transform(unit(X)), Z, atol=1e-12)
    for refused in (strict.fit, strict.transform, strict.variance):
        with pytest.raises(ValueError, match="need rows of unit norm"):
            refused(X)


@pytest.mark.parametrize("normalize", [True, False])
def test_zero_rows_are_refused(normalize, library, X):
    X = unit(X)
    model = SphericalFeatures(KERNEL, normalize=normalize, n_components=4).fit(X)
    X[3] = 0
    with pytest.raises(ValueError, match="row of zeros" if normalize else "unit norm"):
        model.transform(library.asarray(X))


@every_output
@every_projection
def test_sparse_rows(projection, output, X):
    X[:, 2] = 0
    model = SphericalFeatures(
        KERNEL, projection=projection, output=output, n_components=8, random_state=0
    ).fit(sparse.csr_array(X))
    Z = model.transform(X)
    np.testing.assert_allclose(model.transform(sparse.csr_array(X)), Z, atol=1e-12)
    np.testing.assert_allclose(model.transform(sparse.csr_array(1e200 * X)), Z, atol=1e-12)
    assert_same_to_rounding(model.variance(sparse.csr_array(X)), model.variance(X))
    X[1] = 0
    with pytest.raises(ValueError, match="row of zeros"):
        model.transform(sparse.csr_array(X))
    strict = clone(model).set_params(normalize=False)
    with pytest.raises(ValueError, match="unit norm"):
        strict.fit(sparse.csr_array(X))


# -- libraries ------------------------------------------------------------------------------------


def test_torch_gradients_of_rows_and_variance(X):
    torch = pytest.importorskip("torch")
    variance = torch.tensor(1.5, dtype=torch.float64, requires_grad=True)
    kernel = Polynomial(3, gamma=0.5, coef0=0.5, variance=variance)
    model = SphericalFeatures(kernel, n_components=7, random_state=0).fit(torch.asarray(X))
    rows = torch.asarray(X).requires_grad_()
    assert torch.autograd.gradcheck(model.transform, (rows,))
    Z = model.transform(rows)
    (gradient,) = torch.autograd.grad((Z**2).sum(), variance)
    assert gradient.item() == pytest.approx((Z**2).sum().item() / 1.5)


# -- kernels --------------------------------------------------------------------------------------


def test_median_lengthscale_is_that_of_the_unit_rows(X):
    model = SphericalFeatures(Gaussian(), n_components=4).fit(5 * X)
    expected = Gaussian().resolve(unit(X)).lengthscale
    assert model.kernel_.lengthscale == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("kernel", [ArcCosine(1), Maclaurin([1, 0.5, 0.2]), Gaussian()])
def test_other_kernels(kernel, X):
    model = SphericalFeatures(
        kernel, projection="orthogonal", n_components=4000, random_state=0
    ).fit(X)
    Z = model.transform(X)
    expected = model.kernel_(unit(X)) + model.bias(X)
    assert np.all(np.abs(Z @ Z.T - expected) < 6 * np.sqrt(model.variance(X)) + 1e-9)


def test_a_kernel_out_of_reach_warns(X):
    with pytest.warns(UserWarning, match="Use MaclaurinFeatures"):
        SphericalFeatures(Polynomial(3, coef0=0.0), n_components=4).fit(X)


@pytest.mark.parametrize("kernel", [Maclaurin([0.0, 0.0]), Exponential(lengthscale=0.01)])
def test_kernels_that_vanish_or_overflow_are_refused(kernel, X):
    with pytest.raises(ValueError, match="positive and finite"):
        SphericalFeatures(kernel).fit(X)


def test_refusals(X):
    with pytest.raises(TypeError, match="kernel must be a kernel of dotsketch"):
        SphericalFeatures("polynomial").fit(X)
    with pytest.raises(ValueError, match="one lengthscale for every coordinate"):
        SphericalFeatures(Gaussian(lengthscale=np.ones(5))).fit(X)
    with pytest.raises(ValueError, match="projection must be one of"):
        SphericalFeatures(KERNEL, projection="dense").fit(X)
    with pytest.raises(ValueError, match="n_components=5 must be even"):
        SphericalFeatures(KERNEL, output="complex_to_real", n_components=5).fit(X)
    with pytest.raises(ValueError, match="part must be one of 'real', 'complex'"):
        SphericalFeatures(KERNEL).fit(X).variance(X, part="imaginary")
    torch = pytest.importorskip("torch")
    with pytest.raises(TypeError, match="no gradient flows to gamma"):
        SphericalFeatures(Polynomial(3, gamma=torch.tensor(0.5))).fit(X)

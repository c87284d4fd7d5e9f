"""SphericalFeatures: columns, unit rows, refusals, libraries, and its place in scikit-learn."""

import numpy as np
import pytest

from dotsketch import Gaussian, Polynomial, SphericalFeatures
from dotsketch.projections import PROJECTIONS

KERNEL = Polynomial(3, gamma=0.5, coef0=0.5)
every_projection = pytest.mark.parametrize("projection", PROJECTIONS)


@pytest.fixture
def X(rng):
    """Of 11 coordinates: in 8 or fewer structured directions are no good, and warn."""
    return rng.standard_normal((7, 11)) + 0.5


def unit(X):
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def test_bias_is_seen_at_many_features(rng):
    """The mutant: without the bias the same features do not agree."""
    X = unit(rng.standard_normal((6, 35)))
    kernel = Polynomial(1)
    model = SphericalFeatures(kernel, projection="orthogonal", n_components=1 << 15, random_state=0)
    Z = model.fit_transform(X)
    deviation = np.sqrt(model.variance(X)) + 1e-9
    assert np.all(np.abs(Z @ Z.T - kernel(X) - model.bias(X)) < 6 * deviation)
    assert np.any(np.abs(Z @ Z.T - kernel(X)) > 6 * deviation)


@pytest.mark.parametrize(
    ("dimension", "expected"), [(1, "orthogonal"), (32, "orthogonal"), (33, "sorf")]
)
def test_default_projection_converges_and_is_the_faster_one(dimension, expected, rng):
    X = unit(rng.standard_normal((30, dimension)))
    model = SphericalFeatures(KERNEL, n_components=512, random_state=0).fit(X)
    assert model.design_.projection == expected


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


def test_median_lengthscale_is_that_of_the_unit_rows(X):
    model = SphericalFeatures(Gaussian(), n_components=4).fit(5 * X)
    expected = Gaussian().resolve(unit(X)).lengthscale
    assert model.kernel_.lengthscale == pytest.approx(expected, rel=1e-12)


def test_a_kernel_out_of_reach_warns(X):
    with pytest.warns(UserWarning, match="Use MaclaurinFeatures"):
        SphericalFeatures(Polynomial(3, coef0=0.0), n_components=4).fit(X)

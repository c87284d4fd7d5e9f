"""Features that represent nothing of their kernel are warned of, with cause and remedy."""

import functools
import warnings

import numpy as np
import pytest
import scipy.sparse as sp

from dotsketch import (
    AutoFeatures,
    Exponential,
    FourierFeatures,
    Gaussian,
    MaclaurinFeatures,
    NystromFeatures,
    Polynomial,
    PositiveFeatures,
    SphericalFeatures,
)
from dotsketch.features.spherical import kernel_density

NARROW = "nearly zero between all pairs.*Use a larger lengthscale"
FAMILIES = [FourierFeatures, MaclaurinFeatures, NystromFeatures, PositiveFeatures]


def unit_rows(rng, n, d):
    X = rng.standard_normal((n, d))
    return X / np.linalg.norm(X, axis=1, keepdims=True)


NARROW_KERNELS = [
    *((family, Gaussian(lengthscale=0.025)) for family in [*FAMILIES, SphericalFeatures]),
    (PositiveFeatures, Exponential(lengthscale=0.05)),
]


@pytest.mark.parametrize(("family", "kernel"), NARROW_KERNELS)
def test_a_lengthscale_far_too_short(family, kernel, rng):
    X = unit_rows(rng, 40, 5)  # distances of about 1.4, here 56 lengthscales
    with pytest.warns(UserWarning, match=NARROW) as caught:
        family(kernel, n_components=20, random_state=0).fit(X)
    assert len(caught) == 1
    assert caught[0].filename == __file__  # the line that called fit


def test_every_library(library, rng):
    X = rng.standard_normal((40, 5))
    for rows in (library.asarray(X), library.asarray(X.astype(np.float32)), sp.csr_array(X)):
        with pytest.warns(UserWarning, match=NARROW):
            FourierFeatures(Gaussian(lengthscale=1e-10), random_state=0).fit(rows)


def test_what_is_not_warned_of(rng):
    X = 1e3 * rng.standard_normal((6, 5))
    FourierFeatures(Gaussian(lengthscale=1.0)).fit(X[:4])  # too few rows to judge by
    FourierFeatures(Gaussian(lengthscale=1.0)).fit(np.ones((40, 5)))  # one row, again and again
    centres = 1e3 * rng.standard_normal((4, 5))
    clusters = np.repeat(centres, 10, axis=0) + 0.1 * rng.standard_normal((40, 5))
    FourierFeatures(Gaussian(lengthscale=1.0)).fit(clusters)
    one_hot = np.eye(20)
    NystromFeatures(Polynomial(2, coef0=0.0), n_components=20).fit(one_hot)  # no lengthscale


def test_equal_rows_do_not_hide_a_short_lengthscale(rng):
    X = np.repeat(rng.standard_normal((10, 5)), 4, axis=0)
    with pytest.warns(UserWarning, match=NARROW):
        FourierFeatures(Gaussian(lengthscale=0.01)).fit(X)


def test_rows_too_far_from_the_centre_of_a_series(rng):
    """Two clusters at ±10: |x − c|² = 500 lengthscales², of which a series of degree 10 holds 0."""
    X = np.repeat([[10.0] * 5, [-10.0] * 5], 20, axis=0) + 0.1 * rng.standard_normal((40, 5))
    kernel = Gaussian(lengthscale=1.0)
    with pytest.warns(UserWarning, match=r"hold at most .* up to degree 10.*larger max_degree"):
        features = MaclaurinFeatures(kernel, allocation="sketched", n_components=91).fit(X)
    assert np.abs(features.transform(X)).max() < 1e-20
    NystromFeatures(kernel, n_components=20).fit(X)


@pytest.mark.parametrize(("radius", "warned"), [(2.0, False), (2.7, True)])
def test_the_share_of_a_truncated_series(radius, warned):
    """e^−r² for the constant alone, and e^−r² (1 + r²) with degree 1."""
    X = radius * np.vstack([np.eye(5), -np.eye(5)])
    options = {"allocation": "sketched", "max_degree": 1, "n_components": 6, "random_state": 0}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        features = MaclaurinFeatures(Gaussian(lengthscale=1.0), **options).fit(X)
    assert len(caught) == warned
    if warned:
        share = np.exp(-(radius**2)) * (1 + features.allocation_.max_degree * radius**2)
        assert f"hold at most {share:.2g} of k(x, x)" in str(caught[0].message)


@pytest.mark.parametrize("lengthscale", [0.1, 0.01])
def test_spherical_density_of_a_narrow_kernel(lengthscale):
    assert kernel_density(Gaussian(lengthscale=lengthscale), 10).max_error < 1e-9


def test_spherical_features_refuse_what_the_sphere_does_not_resolve(rng):
    X = unit_rows(rng, 40, 5)
    with pytest.raises(ValueError, match=r"too narrow on the unit sphere.*larger lengthscale"):
        SphericalFeatures(Gaussian(lengthscale=1e-10)).fit(X)


UNEVEN = r"scales of the columns differ.*column 2 is .*column 0 .*StandardScaler"


@pytest.mark.parametrize(
    "family", [*FAMILIES, functools.partial(AutoFeatures, candidates="fourier")]
)
@pytest.mark.parametrize("lengthscale", ["median", 3e3])
def test_columns_of_very_different_scales(family, lengthscale, rng):
    X = rng.standard_normal((50, 3)) * [0.1, 1.0, 1e3]
    with pytest.warns(UserWarning, match=UNEVEN) as caught:
        family(Gaussian(lengthscale=lengthscale), n_components=20, random_state=0).fit(X)
    assert len(caught) == 1  # of features that choose themselves, too
    assert caught[0].filename == __file__ or family not in FAMILIES


def test_scales_that_are_not_warned_of(rng):
    X = rng.standard_normal((50, 3)) * [0.1, 1.0, 9.0]
    rare = np.where(np.arange(50)[:, None] % 10 == 0, 1e-3, 0) * np.ones((1, 2))  # mostly one value
    constant = np.full((50, 1), 7.0)
    features = FourierFeatures(Gaussian(), random_state=0)
    features.fit(np.concatenate([X, rare, constant], axis=1))
    wide = X * [1.0, 1.0, 1e3]
    FourierFeatures(Gaussian(lengthscale=[0.1, 1.0, 9e3]), random_state=0).fit(wide)
    FourierFeatures(Gaussian(), random_state=0).fit(wide[:, 2:])  # one column
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        FourierFeatures(Gaussian(), random_state=0).fit(wide[:4])

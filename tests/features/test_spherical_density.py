"""Spherical maps: the mean over a sphere, the fitted density, mean and variance of k̂."""

import numpy as np
import pytest
from scipy.special import gammaln, hyp0f1, jve

from dotsketch import ArcCosine, Exponential, Gaussian, Polynomial
from dotsketch.features import RadialDensity, SphericalDesign
from dotsketch.features.spherical import fit_density, kernel_density, on_circle
from dotsketch.projections import sphere_mean
from rounding import assert_same_to_rounding

GRID = np.linspace(0, 2, 401)  # finer than the grid of the fit


def kernel_of(degree, a=2.0):
    """(1 − z²/a²)^degree on unit vectors."""
    return Polynomial(degree, gamma=2 / a**2, coef0=1 - 2 / a**2)


def profile(degree, z, a=2.0):
    return (1 - z**2 / a**2) ** degree


def design(D, projection="sorf", output="real", *, density, dimension=None):
    kernel = Polynomial(1, gamma=0.5, coef0=0.5)  # k(x, x) = 1
    d = density.dimension if dimension is None else dimension
    return SphericalDesign(kernel, d, D, output, projection, density=density)


@pytest.mark.parametrize("dimension", [1, 2, 3, 4, 7, 8, 33, 64, 150])
def test_sphere_mean_is_the_hypergeometric_function(dimension):
    r = np.linspace(0, 12 * np.sqrt(10 * dimension), 300)
    expected = hyp0f1(dimension / 2, -(r**2) / 4)
    np.testing.assert_allclose(sphere_mean(r, dimension), expected, atol=2e-13)


@pytest.mark.parametrize("dimension", [1000, 4096])
def test_sphere_mean_in_high_dimension(dimension):
    """Against the power series where it does not cancel, and Bessel's function beyond ν."""
    order = dimension / 2 - 1
    r = np.linspace(0, 3 * np.sqrt(dimension), 50)
    term, total = np.ones_like(r), np.ones_like(r)
    for k in range(1, 80):
        term = -term * r**2 / (4 * k * (order + k))
        total += term
    np.testing.assert_allclose(sphere_mean(r, dimension), total, atol=1e-13)
    r = np.linspace(1.2 * order, 2 * order, 20)
    size = np.exp(gammaln(order + 1) - order * np.log(r / 2))  # underflows to nothing, as it must
    np.testing.assert_allclose(sphere_mean(r, dimension), size * jve(order, r), atol=1e-12)


@pytest.mark.parametrize(("dimension", "rmse"), [(8, 4.7e-4), (64, 8.9e-3)])
def test_density_is_as_close_as_known(dimension, rmse):
    """Figures of the earlier fit; the authors' own had 5.4e-3 and 1.15e-2."""
    density = kernel_density(kernel_of(7), dimension)
    error = density.mean(GRID) - profile(7, GRID)
    assert np.sqrt(np.mean(error**2)) < 1.01 * rmse
    assert density.rmse == pytest.approx(np.sqrt(np.mean(error**2)), rel=0.02)
    assert density.max_error == pytest.approx(np.max(np.abs(error)), rel=0.02)


@pytest.mark.parametrize("degree", [1, 3, 20])
@pytest.mark.parametrize("dimension", [1, 2, 5, 64, 4096])
def test_density_is_a_distribution(degree, dimension):
    density = kernel_density(kernel_of(degree), dimension)
    assert np.all(density.weights > 0)
    assert density.weights.sum() == pytest.approx(1, abs=1e-14)
    assert np.all(density.radii >= 0)
    assert len(density.radii) < 20
    assert density.mean(np.zeros(1)) == pytest.approx(1)
    assert density.rmse <= density.max_error < 0.25


def test_density_is_deterministic_and_remembered():
    first = kernel_density(kernel_of(5), 16)
    assert kernel_density(kernel_of(5), 16) is first
    kernel_density.cache_clear()
    second = kernel_density(kernel_of(5), 16)
    assert second is not first
    # The grid of radii takes a difference quotient with step 1e-4, which divides roundings by it;
    # the weights solve least squares with the waves of the two radii that remain.
    waves = sphere_mean(np.outer(GRID, first.radii), 16)
    assert_same_to_rounding(second.radii, first.radii, condition=1e4)
    assert_same_to_rounding(second.weights, first.weights, condition=np.linalg.cond(waves) ** 2)


def test_weights_satisfy_the_optimality_conditions():
    """Kuhn–Tucker under Σp = 1: the gradient is least, and equal, at the radii in use."""
    density = fit_density(lambda z: profile(7, z), 8, 3 * np.sqrt(2 * 7 * 8) / 2)
    z, radii = np.linspace(0, 2, 200), np.linspace(0, 3 * np.sqrt(2 * 7 * 8) / 2, 200)
    basis = sphere_mean(np.multiply.outer(z, radii), 8)
    residual = density.mean(z) - profile(7, z)
    gradient = basis.T @ residual
    used = np.isin(radii, density.radii)
    assert used.sum() == len(density.radii)
    assert np.ptp(gradient[used]) < 1e-10
    assert gradient[~used].min() > gradient[used].max() - 1e-10


def test_gaussian_kernels_are_represented_exactly():
    """They are mixtures of spheres: nothing but the grid of radii is in the way."""
    density = kernel_density(Gaussian(lengthscale=0.7), 32)
    assert density.max_error < 1e-9
    z = np.array([0.3, 1.4])
    np.testing.assert_allclose(density.mean(z), np.exp(-(z**2) / (2 * 0.7**2)), atol=1e-9)


@pytest.mark.parametrize("kernel", [Exponential(), ArcCosine(1), Polynomial(3, coef0=2.0)])
def test_any_kernel_on_the_sphere(kernel, rng):
    X = rng.standard_normal((4, 9))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    np.testing.assert_allclose(on_circle(kernel, (X @ X.T).ravel()), kernel(X).ravel(), rtol=1e-6)
    assert kernel_density(kernel, 9).rmse < 0.05


def test_radii_grid_reaches_three_times_the_root_mean_square():
    """E w² = 2dp/a² for equal curvature at zero; the factor of the kernel does not matter."""
    density = kernel_density(Polynomial(20, gamma=1.5, coef0=1.5, variance=3.0), 2)
    same = kernel_density(kernel_of(20), 2)
    np.testing.assert_allclose(density.radii, same.radii)
    np.testing.assert_allclose(density.weights, same.weights, rtol=1e-6)
    assert density.weights @ density.radii**2 == pytest.approx(2 * 2 * 20 / 4, rel=1e-3)


def test_repr_shows_the_heaviest_atoms():
    density = RadialDensity(4, np.array([1.0, 2.5]), np.array([0.25, 0.75]), 0.01, 0.02)
    expected = "RadialDensity(dimension=4, weight by radius={1: 0.25, 2.5: 0.75}, "
    assert repr(density) == expected + "rmse=0.01, max_error=0.02)"


ATOMS = RadialDensity(3, np.array([0.5, 2.0, 3.0]), np.array([0.13, 0.6, 0.27]), 0.0, 0.0)


@pytest.mark.parametrize("n", [1, 2, 7, 100])
def test_systematic_sampling_rounds_the_expected_counts(n, rng):
    for _ in range(20):
        radii = ATOMS.sample(n, rng)
        counts = np.array([np.sum(radii == w) for w in ATOMS.radii])
        assert counts.sum() == n
        assert np.all(np.abs(counts - n * ATOMS.weights) < 1)


@pytest.mark.parametrize("n", [2, 5, 8])
def test_pair_weights_are_those_of_all_offsets(n):
    """The definition, with the offset u integrated by a fine midpoint rule."""
    total = np.zeros((3, 3))
    n_offsets = 3000
    ends = np.append(0, np.cumsum(ATOMS.weights))
    for u in (np.arange(n_offsets) + 0.5) / n_offsets:
        counts, _ = np.histogram((np.arange(n) + u) / n, bins=ends)
        total += np.outer(counts, counts) - np.diag(counts)
    expected = total / n_offsets / (n * (n - 1))
    found = ATOMS.pair_weights(n)
    np.testing.assert_allclose(found, expected, atol=3 / n_offsets)
    np.testing.assert_allclose(found.sum(axis=1), ATOMS.weights)


def pair(dimension, dot, rng):
    Q, _ = np.linalg.qr(rng.standard_normal((dimension, 2)))
    return np.stack([Q[:, 0], dot * Q[:, 0] + np.sqrt(1 - dot**2) * Q[:, 1]])


def draws(features, X, n_draws, rng):
    values = np.empty(n_draws, dtype=complex)
    for i in range(n_draws):
        Z = features.apply(X, features.sample(rng))
        values[i] = Z[0] @ Z[1].conj()
    return values


def z_scores(values, mean, variance, part):
    """Deviations of sample mean and sample variance in standard errors."""
    values = values.real if part == "real" else values
    squares = np.abs(values - mean) ** 2
    n = len(values)
    score = (values.mean().real - mean) / (values.real.std() / np.sqrt(n))
    return abs(score), abs(squares.mean() - variance) / (squares.std() / np.sqrt(n))


def test_variance_of_independent_frequencies_of_one_radius():
    """(1 + k̃(2z))/2 − k̃(z)² over the number of frequencies: no radius varies."""
    density = RadialDensity(6, np.array([3.0]), np.ones(1), 0.0, 0.0)
    z = np.linspace(0.1, 2, 30)
    expected = ((1 + density.mean(2 * z)) / 2 - density.mean(z) ** 2) / 10
    _, variance = design(20, "independent", density=density).moments("real")
    np.testing.assert_allclose(variance(1 - z**2 / 2), expected, rtol=1e-9, atol=1e-14)


def test_moments_are_those_of_the_definition_everywhere():
    """The Chebyshev series against direct evaluation, at high dimension and degree."""
    density = kernel_density(kernel_of(20), 4096)
    mean, _ = design(100, "orthogonal", density=density).moments("real")
    np.testing.assert_allclose(mean(1 - GRID**2 / 2), density.mean(GRID), atol=1e-11)


def test_sorf_is_close_to_its_prediction(rng):
    """At 64 coordinates: not exact, but within six standard errors of 500 draws."""
    features = design(128, "sorf", density=kernel_density(kernel_of(7), 64))
    values = draws(features, pair(64, 0.3, rng), 500, rng)
    mean, variance = (of(np.array(0.3)) for of in features.moments("real"))
    scores = z_scores(values, mean, variance, "real")
    assert max(scores) < 6


def test_a_density_of_another_dimension_is_refused():
    density = kernel_density(kernel_of(3), 8)
    with pytest.raises(ValueError, match=r"needs a density in R\^5"):
        design(4, "orthogonal", density=density, dimension=5)


@pytest.mark.parametrize("dimension", [2, 3, 17, 500])
@pytest.mark.parametrize("largest", [0.3, 30.0, 300.0])
def test_sphere_mean_of_many_values_is_that_of_few(dimension, largest):
    """Many are interpolated; a few at a time are integrals."""
    r = largest * np.random.default_rng(0).random(4000)
    few = np.concatenate([sphere_mean(part, dimension) for part in np.split(r, 40)])
    np.testing.assert_allclose(sphere_mean(r, dimension), few, rtol=0, atol=2e-12)

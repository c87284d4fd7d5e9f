"""FourierFeatures: unbiased, with the variance that the formulas tell, on every path."""

import numpy as np
import pytest
from scipy.special import gammaln, jv

from dotsketch import FourierFeatures, Gaussian, plan
from dotsketch.features import FourierDesign
from dotsketch.kernels import DistanceKernel
from dotsketch.projections import PROJECTIONS

every_projection = pytest.mark.parametrize("projection", PROJECTIONS)
OUTPUTS = ["real", "complex", "complex_to_real"]
every_output = pytest.mark.parametrize("output", OUTPUTS)


def pair(distance, d):
    """Two points of R^d at a distance, neither at the origin."""
    rng = np.random.default_rng(d)
    direction = rng.standard_normal(d)
    x = 0.3 * rng.standard_normal(d)
    return np.array([x, x + distance * direction / np.linalg.norm(direction)])


def design(D, d, projection="orthogonal", output="real", norms="auto"):
    return FourierDesign(Gaussian(lengthscale=1.0), d, D, output, projection, norms)


def test_a_phase_that_is_not_random_would_be_seen():
    """Near the origin, √2 cos ωᵀx alone has the kernel 1 + k(x + y, 0) − …: twice as much."""
    fourier = design(1, 2)
    X = pair(0.1, 2) / 10
    rng = np.random.default_rng(0)
    found = []
    for _ in range(300):
        weights = fourier.sample(rng)
        Z = fourier.apply(X, weights._replace(phase=0 * weights.phase))
        found.append(Z[0] @ Z[1])
    assert abs(np.mean(found) - 1) > 6 * np.std(found) / np.sqrt(300)


@pytest.mark.parametrize("d", [1, 2, 3, 7, 64, 200])
def test_constant_norms_have_a_bessel_function_for_a_mean(d):
    """Γ(ν + 1) (2/r)^ν J_ν(r), ν = d/2 − 1, r = √d |x − y|; Gaussian as d grows."""
    distance = np.array([0.1, 1.0, 2.5])
    nu, r = d / 2 - 1, np.sqrt(d) * distance
    constant = design(4, d, norms="constant")
    mean = constant.bias_at(distance**2) + np.exp(-(distance**2) / 2)
    log_factor = gammaln(nu + 1) + nu * np.log(2 / r)
    np.testing.assert_allclose(mean, np.exp(log_factor) * jv(nu, r), rtol=1e-9)
    leading = -np.exp(-(distance[0] ** 2) / 2) * distance[0] ** 4 / (4 * (d + 2))
    np.testing.assert_allclose(constant.bias_at(distance[0] ** 2), leading, rtol=0.02)


def test_variance_of_independent_frequencies():
    """(1 + k(2δ))/2 − k(δ)² a frequency; 1 − k² for the complex value; half the columns pair."""
    s = np.array([0.0, 1e-8, 0.5, 3.0, 1e4])
    k, k2 = np.exp(-s / 2), np.exp(-2 * s)
    expected = ((1 + k2) / 2 - k**2) / 5
    independent = design(10, 3, "independent")
    np.testing.assert_allclose(independent.variance_at(s, "real"), expected, atol=1e-16)
    complex_ = design(10, 3, "independent", "complex")
    np.testing.assert_allclose(complex_.variance_at(s, "complex"), -np.expm1(-s) / 10)
    np.testing.assert_allclose(complex_.variance_at(s, "real"), expected / 2, atol=1e-16)


def measured_squared_error(fourier, X, Y, n_draws, rng):
    """E|k̂ − k|² between rows of X and of Y over some maps, and its standard error."""
    kernel, errors = fourier.kernel(X, Y), []
    for _ in range(n_draws):
        weights = fourier.sample(rng)
        Z, V = fourier.apply(X, weights), fourier.apply(Y, weights)
        errors.append(np.abs(Z @ V.conj().T - kernel) ** 2)
    return np.mean(errors, axis=0), np.std(errors, axis=0, ddof=1) / np.sqrt(n_draws)


@pytest.mark.parametrize("norms", ["constant", "random"])
@pytest.mark.parametrize("d", [32, 50])
def test_error_of_sorf_is_near_that_of_orthogonal_frequencies(d, norms):
    """Mean over pairs, within 15 % and the noise: what docs/fourier.md promises for p ≥ 32."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((15, d)) / np.sqrt(2 * d)
    fourier = design(2 * d, d, "sorf", norms=norms)
    error, spread = measured_squared_error(fourier, X, X, 200, rng)
    squared = ((X[:, None] - X[None]) ** 2).sum(axis=2)
    off = ~np.eye(15, dtype=bool)
    predicted = (fourier.variance_at(squared, "real") + fourier.bias_at(squared) ** 2)[off].mean()
    assert abs(error[off].mean() - predicted) < 0.15 * predicted + 6 * spread[off].mean()
    assert not fourier.has_formula
    independent = design(2 * d, d, "independent").variance_at(squared, "real")[off].mean()
    assert error[off].mean() < 0.7 * independent


@every_output
@every_projection
def test_columns_are_cosines_and_sines(projection, output, X):
    model = FourierFeatures(
        Gaussian(lengthscale=1.3, variance=0.7),
        projection=projection,
        output=output,
        n_components=6,
        random_state=0,
    )
    Z = model.fit_transform(X)
    angles = model.design_.frequencies.apply(X / 1.3, model.weights_.frequencies)
    assert angles.shape == (7, 6 if output == "complex" else 3)
    if output == "complex":
        expected = np.exp(1j * angles) * np.sqrt(0.7 / 6)
    else:
        expected = np.hstack([np.cos(angles), np.sin(angles)]) * np.sqrt(0.7 / 3)
    np.testing.assert_allclose(Z, expected, atol=1e-14)
    assert list(model.get_feature_names_out()) == [f"fourierfeatures{i}" for i in range(6)]


class Cauchy(DistanceKernel):
    """1 / (1 + |x − y|²/2), a mixture of Gaussian kernels; its density is not stated here."""

    def __init__(self, *, lengthscale="median", variance=1.0):
        self.lengthscale, self.variance = lengthscale, variance

    def profile_of_halves(self, halves):
        return 1 / (1 + halves)

    def fill_profile(self, halves):
        halves[...] = 1 / (1 + halves)


class DescribedCauchy(Cauchy):
    def frequency_factors(self, n, rng):
        return np.sqrt(rng.exponential(size=n))


def test_a_kernel_without_a_spectral_density_is_refused(X, rng):
    """Its frequencies are not Gaussian; with its own ones features are unbiased."""
    with pytest.raises(ValueError, match=r"no spectral density: implement .*frequency_factors"):
        FourierFeatures(Cauchy()).fit(X)
    table = plan(Cauchy(), rng.standard_normal((60, 3)), n_components=8)
    assert {row.family for row in table} == {"nystrom"}
    rows = rng.standard_normal((40, 3))
    kernel = DescribedCauchy(lengthscale=2.0)
    features = FourierFeatures(kernel, n_components=4000, projection="independent", random_state=0)
    Z = features.fit(rows).transform(rows)
    deviation = np.sqrt(features.variance(rows))
    assert np.all(np.abs(Z @ Z.T - kernel(rows)) < 6 * deviation + 1e-12)

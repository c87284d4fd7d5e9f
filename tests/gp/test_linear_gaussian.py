"""Sufficient statistics, posterior and marginal likelihood against the n-dimensional formulas."""

import numpy as np
import pytest

from dotsketch import SufficientStatistics
from dotsketch.gp import algebra
from dotsketch.gp.packed import PackedMatrix
from rounding import assert_same_to_rounding

PRIOR = 1.7


def posterior(moment, cross, prior=1.0):
    m = cross.shape[1]
    return algebra.solve([(moment, cross)], np.zeros(m, dtype=int), np.full(m, prior))


@pytest.fixture(params=["real", "complex"])
def field(request):
    return request.param


@pytest.fixture
def Z(rng, field):
    Z = rng.standard_normal((12, 5)) / 2
    return Z if field == "real" else Z + 0.5j * rng.standard_normal((12, 5))


@pytest.fixture
def y(rng):
    return rng.standard_normal((12, 2)) + 3


@pytest.fixture
def noise(rng):
    return rng.uniform(0.1, 2, 12)


def dual(Z, y, noise, Z_test):
    """The n-dimensional posterior: real part of mean and covariance, as MATH has them right."""
    C = PRIOR * Z @ Z.conj().T + np.diag(noise)
    cross = PRIOR * Z_test @ Z.conj().T
    mean = cross @ np.linalg.solve(C, y)
    covariance = PRIOR * Z_test @ Z_test.conj().T - cross @ np.linalg.solve(C, cross.conj().T)
    return mean.real, covariance.real


def test_primal_is_dual(Z, y, noise, rng):
    Z_test = Z[:4] * rng.uniform(0.5, 2, (4, 5))
    statistics = SufficientStatistics.of(Z, y, 1 / noise)
    found = posterior(statistics.second_moment, statistics.cross[:, :2], PRIOR)
    mean, covariance = dual(Z, y, noise, Z_test)
    np.testing.assert_allclose(found.mean(Z_test), mean, rtol=1e-10)
    for output in range(2):
        np.testing.assert_allclose(found.covariance(Z_test)[:, :, output], covariance, atol=1e-12)
        variance = found.variance(Z_test)[:, output]
        np.testing.assert_allclose(variance, np.diag(covariance), rtol=1e-10)
    assert found.jitter == 0


def test_statistics_are_sums(Z, y, noise):
    statistics = SufficientStatistics.of(Z, y, 1 / noise)
    W = np.diag(1 / noise)
    np.testing.assert_allclose(statistics.gram(), Z.conj().T @ W @ Z, atol=1e-13)
    np.testing.assert_allclose(statistics.cross[:, :2], Z.T @ W @ y, atol=1e-13)
    np.testing.assert_allclose(statistics.targets[:2, :2], y.T @ W @ y)
    assert statistics.log_weights == pytest.approx(-np.log(noise).sum())
    assert (statistics.n, statistics.n_features, statistics.n_outputs) == (12, 5, 2)


def test_counts_are_copies(Z, y, rng):
    counts = rng.integers(1, 4, 12)
    weighted, copies = SufficientStatistics.of(Z, y, None, counts), np.repeat(np.arange(12), counts)
    for name, value in SufficientStatistics.of(Z[copies], y[copies]).arrays().items():
        np.testing.assert_allclose(weighted.arrays()[name], value, rtol=1e-10, err_msg=name)


def test_merge_and_removal(Z, y, noise):
    def of(rows):
        return SufficientStatistics.of(Z[rows], y[rows], 1 / noise[rows])

    whole, first, second = of(slice(None)), of(slice(5)), of(slice(5, None))
    for name, value in (first + second).arrays().items():
        np.testing.assert_allclose(value, whole.arrays()[name], atol=1e-12, err_msg=name)
    kept = second.arrays()
    total = SufficientStatistics.zeros(5, 2, Z.dtype)
    total += first
    total += second
    for name, value in total.arrays().items():
        np.testing.assert_allclose(value, whole.arrays()[name], atol=1e-12, err_msg=name)
        np.testing.assert_array_equal(second.arrays()[name], kept[name])
    for name, value in (whole - second).arrays().items():
        np.testing.assert_allclose(value, first.arrays()[name], atol=1e-12, err_msg=name)
    restored = SufficientStatistics.restored({k: np.array(v) for k, v in whole.arrays().items()})
    assert (restored + first).n == 17
    for name, value in sum([first, second]).arrays().items():
        np.testing.assert_array_equal(value, (first + second).arrays()[name])


def test_another_offset(Z, y, noise):
    """The statistics about another offset without the rows; the original is left alone."""
    offset = np.array([0.5, -2.0])
    statistics = SufficientStatistics.of(Z, y, 1 / noise)
    shifted = statistics.shifted(offset)
    direct = SufficientStatistics.zeros(5, 2, Z.dtype, offset)
    direct.update(Z, y, 1 / noise)
    for name, value in direct.arrays().items():
        np.testing.assert_allclose(shifted.arrays()[name], value, atol=1e-12, err_msg=name)
    np.testing.assert_allclose(shifted.means(), y.mean(axis=0))
    np.testing.assert_allclose((statistics + direct).cross, 2 * statistics.cross, atol=1e-12)
    shifted.update(Z, y)
    np.testing.assert_allclose(statistics.gram(), (Z.conj().T / noise) @ Z, atol=1e-13)


def test_outputs_with_variances_of_their_own(Z, y, noise):
    """Every output has the posterior that it would have alone; equal variances share a factor."""
    sums = SufficientStatistics.of(Z, np.column_stack([y, y[:, 0]]), 1 / noise)
    zeros, ones = np.zeros(3), np.ones(3)
    noises, priors = np.array([0.3, 2.0, 0.3]), np.array([1.7, 0.4, 1.7])
    together = algebra.posterior_of_sums(sums, zeros, ones, noises, priors)
    assert len(together.factors) == 2
    for j, (target, s2, s) in enumerate(
        zip([y[:, 0], y[:, 1], y[:, 0]], noises, priors, strict=True)
    ):
        own = SufficientStatistics.of(Z, target, 1 / noise)
        alone = algebra.posterior_of_sums(own, *(np.array([v]) for v in (0.0, 1.0, s2, s)))
        np.testing.assert_allclose(together.mean(Z)[:, j], alone.mean(Z)[:, 0], rtol=1e-10)
        np.testing.assert_allclose(together.variance(Z)[:, j], alone.variance(Z)[:, 0], rtol=1e-10)


def test_centred_targets(Z, y, noise):
    statistics = SufficientStatistics.of(Z, y, 1 / noise)
    mean, deviation = y.mean(axis=0), y.std(axis=0)
    np.testing.assert_allclose(statistics.means(), mean)
    np.testing.assert_allclose(statistics.deviations(), deviation)
    cross, squares = statistics.centred(mean, deviation)
    normal = (y - mean) / deviation
    np.testing.assert_allclose(cross, Z.T @ (normal / noise[:, None]), atol=1e-12)
    np.testing.assert_allclose(squares, np.sum(normal**2 / noise[:, None], axis=0))


def test_float32_rows_are_summed_in_double(Z, y):
    narrow = Z.astype(np.complex64 if np.iscomplexobj(Z) else np.float32)
    found = SufficientStatistics.of(narrow, y)
    assert_same_to_rounding(
        found.second_moment.values,
        SufficientStatistics.of(narrow.astype(Z.dtype), y).second_moment.values,
    )


def test_statistics_of_different_features_do_not_merge(Z, y):
    message = r"5 features \(.*\), 2 outputs and 4 features \(.*\), 2 outputs"
    with pytest.raises(ValueError, match=message):
        SufficientStatistics.of(Z, y) + SufficientStatistics.of(Z[:, :4], y)
    other = Z.real if np.iscomplexobj(Z) else Z.astype(complex)
    with pytest.raises(ValueError, match=r"float64.*|complex128.*"):
        SufficientStatistics.of(Z, y) + SufficientStatistics.of(other, y)
    with pytest.raises(ValueError, match="12 rows of 2 outputs"):
        SufficientStatistics.zeros(5, 2, Z.dtype).update(Z, y[:, :1])
    with pytest.raises(ValueError, match="Rows of 5 features are expected"):
        SufficientStatistics.of(Z, y).update(Z[:, :4], y)


@pytest.mark.parametrize("weights", [np.zeros(12), -np.ones(12), np.ones(1), np.full(12, np.nan)])
def test_weights_are_positive(Z, y, weights):
    with pytest.raises(ValueError, match="weights must be 12 positive finite numbers"):
        SufficientStatistics.of(Z, y, weights)


def test_samples_have_the_posterior_covariance(Z, y, noise):
    """The map from white noise to weights, column by column: an exact test of the covariance."""
    statistics = SufficientStatistics.of(Z, y[:, :1], 1 / noise)
    found = posterior(statistics.second_moment, statistics.cross[:, :1], PRIOR)
    D = Z.shape[1]

    class Unit:
        """A generator of the identity instead of noise (of zeros for the imaginary part)."""

        def __init__(self, part):
            self.part, self.calls = part, 0

        def standard_normal(self, shape):
            self.calls += 1
            return np.eye(D) if self.calls - 1 == self.part else np.zeros((D, D))

    covariance = np.zeros((len(Z), len(Z)))
    for part in range(2 if np.iscomplexobj(Z) else 1):
        weights = found.sample(D, Unit(part))[:, 0] - found.coefficients
        values = (Z.conj() @ weights).real
        covariance += values @ values.T
    np.testing.assert_allclose(covariance, found.covariance(Z)[:, :, 0], atol=1e-12)


def test_hopeless_systems_raise():
    with pytest.raises(ValueError, match="use a larger noise variance"):
        algebra.factorise(PackedMatrix.of(np.diag([1.0, -1.0])))
    with pytest.raises(ValueError, match="scale the features down"):
        algebra.factorise(PackedMatrix.of(np.diag([1.0, np.inf])))

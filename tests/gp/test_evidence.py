"""The marginal likelihood from one eigendecomposition, at every noise and prior variance."""

import numpy as np
import pytest

from dotsketch import SufficientStatistics
from dotsketch.gp import log_marginal_likelihood
from dotsketch.gp.evidence import spectrum_of_features
from dotsketch.spectrum import Spectrum, best_variances, eigenvalues_and_energies, maximise


@pytest.mark.parametrize("n", [5, 40])
@pytest.mark.parametrize("is_complex", [False, True])
@pytest.mark.parametrize("noise", [1e-3, 1.0, 50.0])
@pytest.mark.parametrize("prior", [0.01, 3.0])
def test_spectrum_is_direct(rng, n, is_complex, noise, prior):
    """More rows than features, and fewer."""
    Z = rng.standard_normal((n, 8)) + (1j * rng.standard_normal((n, 8)) if is_complex else 0)
    y, weights = rng.standard_normal((n, 2)), rng.uniform(0.5, 2, n)
    statistics = SufficientStatistics.of(Z, y, weights)
    cross, squares = statistics.centred(np.zeros(2), np.ones(2))
    spectrum = spectrum_of_features(statistics, cross, squares)
    direct = log_marginal_likelihood(Z, y, noise / weights, prior)
    assert spectrum.log_likelihood(noise, prior) == pytest.approx(float(direct), rel=1e-8)


def test_kernel_spectrum_is_direct(rng):
    Z, y = rng.standard_normal((20, 8)), rng.standard_normal((20, 2))
    spectrum = Spectrum.of_kernel(Z @ Z.T, y)
    direct = float(log_marginal_likelihood(Z, y, 0.3, 2.0))
    assert spectrum.log_likelihood(0.3, 2.0) == pytest.approx(direct)


@pytest.mark.parametrize("given", [(None, None), (None, 2.0), (0.5, None)])
def test_best_variances_are_the_best_of_a_fine_grid(rng, given):
    Z = rng.standard_normal((200, 6))
    y = Z @ rng.standard_normal((6, 1)) + 0.7 * rng.standard_normal((200, 1))
    spectrum = Spectrum.of_kernel(Z @ Z.T, y)
    noise, prior = best_variances(lambda: spectrum, *given)
    best = spectrum.log_likelihood(noise, prior)
    grid = np.exp(np.linspace(-6, 6, 120))
    for other_noise in grid if given[0] is None else [noise]:
        for other_prior in grid if given[1] is None else [prior]:
            assert spectrum.log_likelihood(other_noise, other_prior) <= best + 1e-9
    assert (noise == given[0]) is (given[0] is not None)
    assert noise == pytest.approx(0.49, rel=0.3)


def test_nothing_free_takes_no_spectrum():
    assert best_variances(lambda: 1 / 0, 0.1, 2.0) == (0.1, 2.0)


def test_maximise():
    assert maximise(lambda x: -((np.log(x) - 1.234) ** 2), (1e-3, 1e3)) == pytest.approx(
        np.exp(1.234), rel=1e-4
    )
    assert maximise(lambda x: x, (0.1, 10.0)) == pytest.approx(10.0, rel=1e-4)


@pytest.mark.parametrize("D", [1, 2, 3, 40])
@pytest.mark.parametrize("field", [float, complex])
def test_eigenvalues_and_energies(D, field):
    """Those of an eigendecomposition; the upper triangle is not looked at."""
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(50, D)).astype(field)
    b = rng.normal(size=(D, 3)).astype(field)
    if field is complex:
        Z, b = Z + 1j * rng.normal(size=Z.shape), b + 1j * rng.normal(size=b.shape)
    A = Z.conj().T @ Z
    expected, vectors = np.linalg.eigh(A)
    values, energies = eigenvalues_and_energies(np.tril(A), b)
    np.testing.assert_allclose(values, expected, rtol=1e-10)
    np.testing.assert_allclose(energies, np.sum(np.abs(vectors.conj().T @ b) ** 2, axis=1))
    np.testing.assert_allclose(np.sum(energies), np.sum(np.abs(b) ** 2))


def test_energies_of_a_matrix_without_rank():
    """Repeated eigenvalues: the energies of each group are those of its subspace."""
    values, energies = eigenvalues_and_energies(np.diag([5.0, 0, 0, 5.0]), np.eye(4)[:, :3])
    np.testing.assert_allclose(values, [0, 0, 5, 5], atol=1e-12)
    np.testing.assert_allclose([energies[:2].sum(), energies[2:].sum()], [2, 1])

"""The marginal likelihood from one eigendecomposition, at every noise and prior variance."""

import numpy as np
import pytest

from dotsketch import SufficientStatistics
from dotsketch.gp.algebra import likelihood_of_kernel, likelihood_of_sums
from dotsketch.gp.spectrum import band_of


def log_likelihood(likelihood, noise, prior):
    """Of every output, at its noise and prior variance."""
    pairs = zip(*np.broadcast_arrays(noise, prior, likelihood.squares)[:2], strict=True)
    return np.array(
        [
            likelihood.densities(sigma2, *likelihood.measure(s / sigma2))[j]
            for j, (sigma2, s) in enumerate(pairs)
        ]
    )


def of_sums(sums, **options):
    m = sums.n_outputs
    return likelihood_of_sums(sums, np.zeros(m), np.ones(m), **options)


def log_density(Z, Y, noise, prior):
    """log N(y; 0, s Z Zᴴ + diag σ²) of all outputs, or CN: 1/(πⁿ|C|) exp(−yᴴC⁻¹y), no root."""
    C = prior * Z @ Z.conj().T + np.diag(np.broadcast_to(noise, len(Z)))
    logs = np.linalg.slogdet(C)[1] + len(C) * np.log(np.pi * (1 if np.iscomplexobj(C) else 2))
    squares = np.sum(Y.conj() * np.linalg.solve(C, Y), axis=0).real
    return -np.sum(logs + squares) / (1 if np.iscomplexobj(C) else 2)


def of_kernel(K, Y, **options):
    return likelihood_of_kernel(K, Y, None, np.ones(len(K)), **options)


@pytest.mark.parametrize(("n", "D"), [(5, 8), (40, 8), (9, 1), (9, 2), (9, 3), (50, 40)])
@pytest.mark.parametrize("is_complex", [False, True])
@pytest.mark.parametrize("noise", [1e-3, 1.0, 50.0])
@pytest.mark.parametrize("prior", [0.01, 3.0])
def test_spectrum_is_direct(rng, n, D, is_complex, noise, prior):
    """More rows than features, and fewer."""
    Z = rng.standard_normal((n, D)) + (1j * rng.standard_normal((n, D)) if is_complex else 0)
    y, weights = rng.standard_normal((n, 2)), rng.uniform(0.5, 2, n)
    statistics = SufficientStatistics.of(Z, y, weights)
    spectrum = of_sums(statistics)
    direct = log_density(Z, y, noise / weights, prior)
    assert log_likelihood(spectrum, noise, prior).sum() == pytest.approx(float(direct), rel=1e-8)


@pytest.mark.parametrize("options", [{}, {"most_of_spectrum": 10}], ids=["spectrum", "band"])
def test_the_evidence_of_a_kernel_is_direct(rng, options):
    Z, y = rng.standard_normal((90, 8)), rng.standard_normal((90, 2))
    noise = rng.uniform(0.5, 2, 90)
    found = likelihood_of_kernel(Z @ Z.T, y, noise, np.ones(90), **options)
    direct = float(log_density(Z, y, 0.3 * noise, 2.0))
    assert log_likelihood(found, 0.3, 2.0).sum() == pytest.approx(direct)


@pytest.mark.parametrize("D", [1, 2, 5, 8, 9, 16, 300])
@pytest.mark.parametrize("width", [1, 4, 64])
@pytest.mark.parametrize("field", [float, complex])
def test_a_band_has_the_eigenvalues_of_the_matrix(rng, D, width, field):
    """And with the vectors the same resolvent; the upper triangle is not looked at."""
    Z, b = rng.standard_normal((D + 3, D)).astype(field), rng.standard_normal((D, 3)).astype(field)
    Z[:, D // 2 :] = Z[:, :1]  # columns of panels that need no reflection
    if field is complex:
        Z, b = Z + 1j * rng.standard_normal((D + 3, 1)), b * (1 - 2j)
    A = Z.conj().T @ Z
    band, along = band_of(np.tril(A), b, width)
    assert band.shape == (min(width, D - 1) + 1, D)
    B = sum(np.diag(diagonal[: D - k], -k) for k, diagonal in enumerate(band))
    B = np.tril(B) + np.tril(B, -1).conj().T
    size = np.linalg.norm(A)
    np.testing.assert_allclose(np.linalg.eigvalsh(B), np.linalg.eigvalsh(A), atol=1e-13 * size)
    expected = b.conj().T @ np.linalg.solve(np.eye(D) + A, b)
    found = along.conj().T @ np.linalg.solve(np.eye(D) + B, along)
    np.testing.assert_allclose(found, expected, atol=1e-11 * np.linalg.norm(expected))


@pytest.mark.parametrize("given", [(None, None), (None, 2.0), (0.5, None)])
@pytest.mark.parametrize("is_complex", [False, True])
def test_a_band_chooses_what_a_spectrum_does(rng, given, is_complex):
    Z = rng.standard_normal((150, 70))
    Z = (Z + 1j * rng.standard_normal((150, 70)) if is_complex else Z) * np.geomspace(1, 1e-6, 70)
    y = (Z @ rng.standard_normal((70, 2))).real + [0.3, 1.0] * rng.standard_normal((150, 2))
    statistics = SufficientStatistics.of(Z, y, rng.uniform(0.5, 2, 150))
    spectrum, band = of_sums(statistics), of_sums(statistics, most_of_spectrum=10)
    for noise, prior in ((1e-4, 100.0), (0.1, 1.0), (10.0, 0.1)):
        values = log_likelihood(spectrum, noise, prior)
        np.testing.assert_allclose(log_likelihood(band, noise, prior), values, rtol=1e-7)
    assert band.largest == pytest.approx(spectrum.largest, rel=0.02)
    for ours, theirs in zip(
        band.best_variances(*given), spectrum.best_variances(*given), strict=True
    ):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4)


def test_outputs_have_variances_of_their_own(rng):
    """Noise of 0.6 and 0.05 is found in the same rows."""
    Z = rng.standard_normal((600, 5))
    y = Z @ rng.standard_normal((5, 2)) + [0.6, 0.05] * rng.standard_normal((600, 2))
    noise, prior = of_sums(SufficientStatistics.of(Z, y)).best_variances()
    np.testing.assert_allclose(np.sqrt(noise), [0.6, 0.05], rtol=0.1)
    for j in range(2):
        alone = of_sums(SufficientStatistics.of(Z, y[:, j])).best_variances()
        np.testing.assert_allclose([noise[j], prior[j]], np.ravel(alone), rtol=1e-5)


def test_a_band_of_data_without_noise(rng):
    """The search ends where that of a spectrum does; 1100 rows are many."""
    X = rng.uniform(-1, 1, (1100, 2))
    K = np.exp(-np.sum((X[:, None] - X) ** 2, axis=2) / 2)
    y = np.sin(3 * X[:, :1])
    band, spectrum = of_kernel(K, y), of_kernel(K, y, most_of_spectrum=2000)
    assert band.largest == pytest.approx(spectrum.largest, rel=0.02)
    [noise], [prior] = band.best_variances()
    [other_noise], [other_prior] = spectrum.best_variances()
    assert prior / noise == pytest.approx(other_prior / other_noise, rel=0.05)
    assert noise == pytest.approx(other_noise, rel=0.1)


def test_fewer_rows_than_columns_have_a_spectrum(rng):
    """Roundings of many eigenvalues of zero would count in a band."""
    Z, y = rng.standard_normal((30, 50)), rng.standard_normal((30, 1))
    statistics = SufficientStatistics.of(Z, y)
    few = of_sums(statistics, most_of_spectrum=10)
    assert few.measure(0.7)[0] == of_sums(statistics).measure(0.7)[0]


def test_a_band_that_rounding_makes_indefinite(rng):
    """Ratios at which I + r B cannot be factored are not chosen; nothing is NaN."""
    z = rng.standard_normal(300)
    band = of_kernel(np.outer(z, z) - 1e-11 * np.eye(300), z[:, None], most_of_spectrum=10)
    assert band.measure(1e15) == (np.inf, np.inf)
    assert log_likelihood(band, 1e-15, 1.0) == -np.inf
    noise, prior = band.best_variances()
    assert np.isfinite([noise, prior, log_likelihood(band, noise, prior)]).all()


@pytest.mark.parametrize("given", [(None, None), (None, 2.0), (0.5, None)])
def test_best_variances_are_the_best_of_a_fine_grid(rng, given):
    Z = rng.standard_normal((200, 6))
    y = Z @ rng.standard_normal((6, 1)) + 0.7 * rng.standard_normal((200, 1))
    spectrum = of_kernel(Z @ Z.T, y)
    noise, prior = spectrum.best_variances(*given)
    best = log_likelihood(spectrum, noise, prior)
    grid = np.exp(np.linspace(-6, 6, 60))
    for other_noise in grid if given[0] is None else [noise]:
        for other_prior in grid if given[1] is None else [prior]:
            assert log_likelihood(spectrum, other_noise, other_prior) <= best + 1e-9
    assert noise == pytest.approx(0.49, rel=0.3)

"""FourierFeatures: unbiased, with the variance that the formulas tell, on every path."""

import numpy as np
import pytest
from scipy import sparse
from scipy.special import gammaln, jv

from dotsketch import (
    Exponential,
    FourierFeatures,
    Gaussian,
    Polynomial,
    PositiveFeatures,
    plan,
    relative_frobenius_error,
)
from dotsketch.features import FourierDesign
from dotsketch.kernels import DistanceKernel
from dotsketch.projections import PROJECTIONS
from rounding import assert_same_to_rounding

every_projection = pytest.mark.parametrize("projection", PROJECTIONS)
OUTPUTS = ["real", "complex", "complex_to_real"]
every_output = pytest.mark.parametrize("output", OUTPUTS)

ODD_COLUMNS = "scikit-learn sets n_components=1, and complex_to_real needs an even number"
FEW_COLUMNS_CHECKS = [
    "check_dont_overwrite_parameters",
    "check_methods_sample_order_invariance",
    "check_methods_subset_invariance",
    "check_fit2d_1sample",
    "check_fit2d_1feature",
    "check_fit2d_predict1d",
]


# -- mean and variance ------------------------------------------------------------------------


def pair(distance, d):
    """Two points of R^d at a distance, neither at the origin."""
    rng = np.random.default_rng(d)
    direction = rng.standard_normal(d)
    x = 0.3 * rng.standard_normal(d)
    return np.array([x, x + distance * direction / np.linalg.norm(direction)])


def design(D, d, projection="orthogonal", output="real", norms="auto"):
    return FourierDesign(Gaussian(lengthscale=1.0), d, D, output, projection, norms)


def draws_of(fourier, X, draws, seed=0):
    """k̂ between the two rows of X, over draws of the weights."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(draws):
        Z = fourier.apply(X, fourier.sample(rng))
        found.append(Z[0] @ Z[1].conj())
    return np.array(found)


CASES = [  # (D, d): D below d, whole blocks, incomplete blocks, odd, one column
    (1, 3),
    (6, 3),
    (15, 4),
    (10, 8),
]


@pytest.mark.parametrize("output", ["real", "complex"])
@pytest.mark.parametrize(("D", "d"), CASES)
@pytest.mark.parametrize(
    ("projection", "norms"),
    [("independent", "random"), ("orthogonal", "random"), ("orthogonal", "constant")],
)
def test_mean_and_variance(projection, norms, D, d, output):
    """Against 1500 draws, z = 6."""
    distance, draws = 1.2, 1500
    fourier = design(D, d, projection, output, norms)
    found = draws_of(fourier, pair(distance, d), draws)
    bias = fourier.bias_at(distance**2)
    assert (bias == 0) == (norms == "random")
    kernel = np.exp(-(distance**2) / 2)
    assert abs(found.mean() - kernel - bias) < 6 * found.std() / np.sqrt(draws)
    errors = np.abs(found - kernel) ** 2
    threshold = 6 * errors.std() / np.sqrt(draws)
    expected = fourier.variance_at(distance**2, fourier.part) + bias**2
    assert abs(errors.mean() - expected) < threshold
    assert fourier.has_formula


def test_wrong_variances_would_be_seen():
    """The variance of independent frequencies, and of blocks that are taken as whole, fail."""
    distance, d, draws = 1.2, 4, 3000
    fourier = design(12, d)
    found = draws_of(fourier, pair(distance, d), draws)
    errors = np.abs(found - np.exp(-(distance**2) / 2)) ** 2
    threshold = 6 * errors.std() / np.sqrt(draws)
    for wrong in (
        design(12, d, "independent").variance_at(distance**2, "real"),
        design(12, 6).variance_at(distance**2, "real"),  # as if all six were orthogonal
        2 * fourier.variance_at(distance**2, "real"),
    ):
        assert abs(errors.mean() - wrong) > threshold


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


def test_norms_are_as_published_by_default(X):
    for projection, norms in (("sorf", "constant"), ("orthogonal", "random")):
        one, other = (
            FourierFeatures(
                Gaussian(), projection=projection, norms=n, n_components=6, random_state=0
            ).fit(X)
            for n in ("auto", norms)
        )
        assert_same_to_rounding(one.transform(X), other.transform(X))
        assert np.all(one.bias(X) == 0) == (norms == "random")


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


def test_orthogonal_frequencies_have_less_variance_up_to_some_distance():
    s = np.linspace(0.1, 2.0, 8)
    for d in (2, 8, 100):
        independent = design(4 * d, d, "independent").variance_at(s, "real")
        orthogonal = design(4 * d, d).variance_at(s, "real")
        assert np.all(orthogonal < independent)
        alone = design(2, d).variance_at(s, "real")  # one frequency has no partner
        expected = design(2, d, "independent").variance_at(s, "real")
        np.testing.assert_allclose(alone, expected)


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


def test_measured_error_is_the_variance_where_that_is_exact():
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((3, 4)), rng.standard_normal((2, 4))
    fourier = design(8, 4, output="complex")
    error, spread = measured_squared_error(fourier, X, Y, 1000, rng)
    squared = ((X[:, None] - Y[None]) ** 2).sum(axis=2)
    assert np.all(np.abs(error - fourier.variance_at(squared, "complex")) < 6 * spread)


def test_estimator_variance_is_that_of_the_map(X, rng):
    Y = rng.standard_normal((3, 5))
    kernel = Gaussian(lengthscale=[0.5, 1.0, 2.0, 1.5, 1.0], variance=1.7)
    model = FourierFeatures(kernel, n_components=8, output="complex").fit(X)
    S, T = X / kernel.lengthscale, Y / kernel.lengthscale
    squared = ((S[:, None] - T[None]) ** 2).sum(axis=2)
    for part in (None, "real", "complex"):
        expected = 1.7**2 * model.design_.variance_at(squared, part or "complex")
        np.testing.assert_allclose(model.variance(X, Y, part=part), expected, rtol=1e-9)
    np.testing.assert_allclose(model.variance(sparse.csr_array(X), Y), model.variance(X, Y))
    far = model.variance(X, Y + 1e3)
    np.testing.assert_allclose(far, 1.7**2 / 8, rtol=1e-9)  # the kernel underflows: 1 − k² = 1


def test_predicted_error_is_the_measured_one(rng):
    X = rng.standard_normal((100, 20))
    for projection in ("independent", "orthogonal"):
        errors = []
        for seed in range(20):
            model = FourierFeatures(
                Gaussian(), projection=projection, n_components=200, random_state=seed
            )
            Z = model.fit_transform(X)
            K = model.kernel_(X)
            errors.append(relative_frobenius_error(K, Z @ Z.T) ** 2)
        predicted = model.variance(X).sum() / np.linalg.norm(K) ** 2
        threshold = 6 * np.std(errors, ddof=1) / np.sqrt(len(errors))
        assert abs(np.mean(errors) - predicted) < threshold


# -- columns ----------------------------------------------------------------------------------


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


@every_projection
@pytest.mark.parametrize("D", [1, 2, 3, 9, 16, 33])
@pytest.mark.parametrize("d", [1, 3, 8])
def test_any_number_of_columns_and_features(D, d, projection, rng):
    X = rng.standard_normal((6, d))
    X[0] = 0
    model = FourierFeatures(Gaussian(), projection=projection, n_components=D, random_state=0)
    Z = model.fit_transform(X)
    assert Z.shape == (6, D)
    assert np.all(np.isfinite(Z))
    if D % 2 == 0:  # k̂(x, x) = 1 exactly
        np.testing.assert_allclose(np.sum(Z**2, axis=1), 1)
        np.testing.assert_allclose(model.variance(X).diagonal(), 0, atol=1e-14)


# -- libraries --------------------------------------------------------------------------------


@every_projection
def test_gradients_flow_to_inputs_and_hyperparameters(projection, X):
    torch = pytest.importorskip("torch")
    rows = torch.tensor(X[:3], requires_grad=True)
    lengthscale = torch.full((5,), 1.3, dtype=torch.float64, requires_grad=True)
    variance = torch.tensor(0.8, dtype=torch.float64, requires_grad=True)

    def transform(rows, lengthscale, variance):
        kernel = Gaussian(lengthscale=lengthscale, variance=variance)
        model = FourierFeatures(kernel, projection=projection, n_components=5, random_state=0)
        return model.fit(rows).transform(rows)

    assert torch.autograd.gradcheck(transform, (rows, lengthscale, variance))


# -- refusals ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (Polynomial(2), r"Matern\(\); MaclaurinFeatures.*PositiveFeatures.*; got Polynomial"),
        (Exponential(), r"Matern\(\); MaclaurinFeatures.*PositiveFeatures.*; got Exponential"),
        ("rbf", r"kernel must be a kernel of dotsketch, such as Gaussian\(\); got 'rbf'"),
        (None, r"kernel must be a kernel of dotsketch, such as Gaussian\(\); got None"),
    ],
    ids=str,
)
def test_other_kernels_are_told_what_serves_them(kernel, message, X):
    with pytest.raises(TypeError, match=message):
        FourierFeatures(kernel).fit(X)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"projection": "srht"}, "projection must be one of 'independent', .*; got 'srht'"),
        ({"norms": "unit"}, "norms must be one of .*; got 'unit'"),
        ({"n_components": 0}, "n_components must be a positive integer; got 0"),
        ({"n_components": 2.0}, "n_components must be a positive integer; got 2.0"),
        ({"n_components": 7, "output": "complex_to_real"}, "n_components=7 must be even; use 8"),
        ({"output": "imaginary"}, "output must be one of 'real', .*; got 'imaginary'"),
    ],
)
def test_parameters_without_meaning_are_refused(params, message, X):
    with pytest.raises(ValueError, match=message):
        FourierFeatures(Gaussian(), **params).fit(X)


@pytest.mark.parametrize("features", [FourierFeatures, PositiveFeatures])
def test_fit_refuses_lengthscales_of_another_width(features, X):
    with pytest.raises(ValueError, match="lengthscale has 2 values"):
        features(Gaussian(lengthscale=[1.0, 2.0])).fit(X)


@pytest.mark.parametrize("output", ["imaginary", "complex_to_real"])
def test_designs_without_meaning_are_refused(output):
    with pytest.raises(ValueError, match=r"output must be|must be even; use 4"):
        design(3, 2, "sorf", output)


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

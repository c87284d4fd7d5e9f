"""The search for a kernel: derivatives, what it finds, which rows it sees, what it leaves alone."""

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from scipy.sparse import csr_array

from dotsketch import (
    DirichletGPClassifier,
    ExactGPClassifier,
    ExactGPRegressor,
    Exponential,
    FeatureGPClassifier,
    FeatureGPRegressor,
    Gaussian,
    Matern,
    NystromFeatures,
    Polynomial,
)
from dotsketch.gp import best_kernel, search
from gp.data import regression_data

KERNELS = [
    Matern(0.5, lengthscale=1.3),
    Matern(1.5, lengthscale=[1.0, 2.0, 3.0], variance=1.4),
    Gaussian(lengthscale=[1.0, 2.0, 3.0]),
    Polynomial(2, gamma=0.4),
    Exponential(lengthscale=2.0),
    Gaussian(lengthscale=1.0) + 0.5 * Matern(2.5, lengthscale=[1.0, 2.0, 3.0]),
    Matern(1.5, lengthscale=2.0) * Polynomial(1),
]


def waves(n=300, inputs=6, seed=0):
    """Two inputs matter."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, inputs))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * rng.standard_normal(n)


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
@pytest.mark.parametrize("by_row", [False, True])
@pytest.mark.parametrize("outputs", [1, 2])
def test_losses_have_the_derivatives_of_their_values(kernel, by_row, outputs):
    X, Y = regression_data(n=25, outputs=outputs)
    Y = (Y - Y.mean(axis=0)).reshape(25, outputs)
    noise = np.linspace(0.05, 0.2, 25) if by_row else None
    point = kernel.logarithms if by_row else np.append(kernel.logarithms, np.log(0.1))
    box = np.stack([point - 3, point + 0.3, point + 3], axis=1)
    for landmarks in (None, X[:9]):
        full = search._loss_of(kernel, box, X, Y, noise, landmarks)
        value, gradient = full(point)
        numeric = approx_fprime(point, lambda x, full=full: full(x)[0], 1e-6)
        np.testing.assert_allclose(gradient, numeric, rtol=1e-3, atol=1e-5)
        assert np.isfinite(value)


def test_losses_are_those_of_the_processes():
    X, y = regression_data()
    kernel = Gaussian(lengthscale=1.5)
    point = np.append(kernel.logarithms, np.log(0.1))
    box = np.stack(3 * [point], axis=1)  # the prior is zero at its typical values
    exact = ExactGPRegressor(kernel, noise_variance=0.1, prior_variance=1.0, normalize_y=None)
    value, _ = search._loss_of(kernel, box, X, y[:, None], None)(point)
    assert value == pytest.approx(-exact.fit(X, y).log_marginal_likelihood() / 60)
    landmarks = NystromFeatures(kernel, n_components=9, landmarks=X[:9])
    gp = FeatureGPRegressor(landmarks, noise_variance=0.1, prior_variance=1.0, normalize_y=None)
    value, _ = search._loss_of(kernel, box, X, y[:, None], None, X[:9])(point)
    assert value == pytest.approx(-gp.fit(X, y).log_marginal_likelihood() / 60, rel=1e-5)


@pytest.mark.parametrize("make", [FeatureGPRegressor, ExactGPRegressor])
def test_a_default_finds_the_inputs_that_matter(make):
    X, y = waves()
    test, truth = waves(seed=1)
    gp = make().fit(X, y)
    assert set(np.argsort(gp.relevances_)[-2:]) == {0, 1}
    assert gp.relevances_.sum() == pytest.approx(1.0)
    assert gp.score(test, truth) > 0.97
    plain = make(optimize=False).fit(X, y)
    assert plain.search_ is None
    assert gp.score(test, truth) > plain.score(test, truth)
    assert gp.search_.steps[0].stage == "few rows"
    assert len(str(gp.search_).splitlines()) == 1 + len(gp.search_.steps)
    assert gp.search_.seconds > 0


def test_classes_are_searched_and_never_worse():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 8))
    y = np.where(np.sin(3 * X[:, 0]) + X[:, 1] > 0, "up", "down")
    for make in (FeatureGPClassifier, DirichletGPClassifier, ExactGPClassifier):
        gp = make().fit(X[:300], y[:300])
        assert set(np.argsort(gp.relevances_)[-2:]) == {0, 1}
        held = [step for step in gp.search_.steps if step.stage == "held out"]
        chosen = max(held, key=lambda step: step.log_likelihood)
        np.testing.assert_allclose(gp.kernel_.lengthscale, chosen.kernel.lengthscale)
        assert gp.score(X[300:], y[300:]) > 0.85


def test_units_of_inputs_do_not_matter():
    X, y = waves()
    units = np.array([1e-3, 1.0, 1e4, 1.0, 7.0, 1.0])
    one, other = (FeatureGPRegressor().fit(rows, y) for rows in (X, units * X + 3 * units))
    np.testing.assert_allclose(one.predict(X), other.predict(units * X + 3 * units), atol=1e-3)
    np.testing.assert_allclose(one.relevances_, other.relevances_, atol=1e-3)


def test_periodic_rows_do_not_alias():
    """Every 24th row shows one hour only; random rows show all of them."""
    rng = np.random.default_rng(0)
    n = 24 * 499 + 1
    hour = np.arange(n) % 24
    X = np.column_stack([hour, rng.standard_normal(n)]).astype(float)
    y = np.sin(2 * np.pi * hour / 24) + 0.1 * rng.standard_normal(n)
    gp = FeatureGPRegressor(64).fit(X, y)
    assert gp.score(X, y) > 0.97
    assert gp.relevances_[0] > 0.8


def test_given_noise_and_prior_are_honoured():
    X, y = waves()
    gp = FeatureGPRegressor(noise_variance=0.5, prior_variance=2.0).fit(X, y)
    assert (gp.noise_variance_, gp.prior_variance_) == (0.5, 2.0)
    assert {step.noise_variance for step in gp.search_.steps} == {0.5}
    assert np.mean(gp.kernel_.diag(X)) == pytest.approx(1.0)
    by_row = np.linspace(0.01, 0.5, len(y))
    gp = FeatureGPRegressor().fit(X, y, noise_variance=by_row)
    assert gp.noise_variance_ is None
    assert gp.search_.steps[0].noise_variance == pytest.approx(np.mean(by_row), rel=0.1)


def test_constant_inputs_have_no_relevance():
    X, y = waves()
    X[:, 3] = 7.0
    gp = FeatureGPRegressor().fit(X, y)
    assert gp.relevances_[3] == 0
    assert np.all(np.isfinite(gp.kernel_.lengthscale))
    FeatureGPRegressor().fit(np.ones((20, 2)), np.arange(20.0))


@pytest.mark.parametrize("kernel", KERNELS[3:], ids=str)
def test_every_kernel_with_parameters(kernel):
    X, y = waves(n=150, inputs=3)
    features = NystromFeatures(kernel, n_components=60, random_state=0)
    plain, tuned = (FeatureGPRegressor(features, optimize=k).fit(X, y) for k in ("auto", True))
    assert plain.search_ is None
    assert tuned.log_marginal_likelihood() > plain.log_marginal_likelihood()
    assert type(tuned.kernel_) is type(plain.kernel_)
    assert features.kernel == kernel


def test_sparse_rows_and_many_inputs():
    rng = np.random.default_rng(0)
    X = np.where(rng.uniform(size=(200, 400)) < 0.05, rng.uniform(1, 2, (200, 400)), 0.0)
    y = X[:, :20].sum(axis=1)
    gp = FeatureGPRegressor().fit(csr_array(X), y)
    assert np.ndim(gp.kernel_.lengthscale) == 0  # more than 300 inputs share one
    dense = FeatureGPRegressor(Matern(1.5), optimize=True).fit(X, y)
    assert gp.score(csr_array(X), y) == pytest.approx(dense.score(X, y), abs=0.1)


def test_the_search_is_reproducible_and_reports(capsys):
    X, y = waves(n=150)
    one, same, _ = (
        FeatureGPRegressor(random_state=seed, verbose=seed == 1).fit(X, y) for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(one.predict(X), same.predict(X))
    assert "few rows" in capsys.readouterr().out
    frame = one.search_.to_pandas()
    assert list(frame["stage"])[:2] == ["few rows", "smoothness"]


def test_few_rows():
    """A search on two to eight rows ends, with a kernel."""
    rng = np.random.default_rng(0)
    for n in (2, 3, 8):
        X = rng.standard_normal((n, 4))
        result = best_kernel(Matern(1.5), X, X[:, :1], rng=rng)
        assert np.all(np.isfinite(result.kernel.lengthscale))
        mean, std = FeatureGPRegressor().fit(X, X[:, 0]).predict(X + 1, return_std=True)
        assert np.all(np.isfinite(mean))
        assert np.all(std > 0)

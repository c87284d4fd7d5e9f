"""Classifiers: Dirichlet labels against the exact process, the softmax against its definition."""

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from scipy.special import logsumexp
from sklearn.datasets import load_iris
from sklearn.frozen import FrozenEstimator
from sklearn.gaussian_process import GaussianProcessClassifier

from dotsketch import (
    DirichletGPClassifier,
    ExactGPClassifier,
    FeatureGPClassifier,
    FourierFeatures,
    Gaussian,
    NystromFeatures,
    Polynomial,
)
from dotsketch.gp import classes, dirichlet, softmax
from gp.data import class_data, gaussian_features, polynomial_features

X, y = class_data()

BOTH = [FeatureGPClassifier, DirichletGPClassifier]
FIXED = {"alpha": 0.01, "prior_variance": 2.0}


@pytest.mark.parametrize("posterior", ["real", "complex"])
@pytest.mark.parametrize("class_weight", [None, {0: 2.0}, "balanced"])
def test_dirichlet_labels_are_regressions_on_the_features(posterior, class_weight):
    """Every class is a process of its own noise, in the dimension of the rows."""
    output = "complex" if posterior == "complex" else "real"
    gp = DirichletGPClassifier(
        polynomial_features(output), posterior=posterior, class_weight=class_weight, **FIXED
    ).fit(X, y)
    Z, W = gp.features_.transform(X), gp.features_.transform(X[:9] * 1.1)
    mean, std = gp.predict_latent(X[:9] * 1.1)
    labels = gp.labels_
    for c in range(3):
        inside = y == c
        target = np.where(inside, labels.inside, labels.outside) - labels.means[c]
        noise = np.where(inside, labels.inside_variance, labels.outside_variance)
        C = 2.0 * Z @ Z.conj().T + np.diag(noise / gp.class_weights_[y])
        cross = 2.0 * W @ Z.conj().T
        expected = (cross @ np.linalg.solve(C, target)).real + labels.means[c]
        np.testing.assert_allclose(mean[:, c], expected, rtol=1e-8)
        explained = np.sum(cross * np.linalg.solve(C, cross.conj().T).T, axis=1).real
        prior = 2.0 * np.sum(np.abs(W) ** 2, axis=1)
        np.testing.assert_allclose(std[:, c] ** 2, prior - explained, rtol=1e-6)


def test_dirichlet_labels_agree_with_the_exact_process():
    kernel = Polynomial(2, gamma=0.3, coef0=1.0)
    exact = ExactGPClassifier(kernel, **FIXED).fit(X, y)
    features = NystromFeatures(kernel, n_components=10, landmarks=X, n_landmarks=90)
    gp = DirichletGPClassifier(features, **FIXED).fit(X, y)
    for ours, theirs in zip(gp.predict_latent(X), exact.predict_latent(X), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(gp.predict(X), exact.predict(X))


def test_labels_match_the_moments_of_gamma_variables():
    """exp of N(ỹ, σ²) has mean and variance of a gamma variable with shape 1 + α or α."""
    labels = dirichlet.DirichletLabels.of(0.3, [0.2, 0.5, 0.3])
    for shape, value, variance in (
        (1.3, labels.inside, labels.inside_variance),
        (0.3, labels.outside, labels.outside_variance),
    ):
        assert np.exp(value + variance / 2) == pytest.approx(shape)
        assert np.exp(2 * value + variance) * (np.exp(variance) - 1) == pytest.approx(shape)


def test_a_refit_is_a_fit():
    frozen = FrozenEstimator(gaussian_features().fit(X))
    refitted = DirichletGPClassifier(frozen, **FIXED).fit(X, y).refit(alpha=0.1)
    fresh = DirichletGPClassifier(frozen, alpha=0.1, prior_variance=2.0).fit(X, y)
    np.testing.assert_allclose(refitted.predict_proba(X), fresh.predict_proba(X), rtol=1e-8)
    with pytest.raises(ValueError, match="classes must be those"):
        refitted.partial_fit(X, y, classes=[0, 1, 2, 3])


@pytest.mark.parametrize("n", [1, 4, 40, 1001])
def test_rows_held_out(rng, n):
    """Every row of few is held out once; one in five of many; a single row stands in for itself."""
    codes = rng.integers(0, 2, n)
    rows = classes.HeldOut.of(codes, np.arange(n) + 1.0, rng)
    held = np.concatenate([held for _, held in rows.folds])
    assert len(np.unique(held)) == len(held) == (n if n == 40 else max(n // 5, 1))
    np.testing.assert_array_equal(rows.counts, held + 1)
    for rest, own in rows.folds:
        assert n == 1 or sorted([*rest, *own]) == list(range(n))
    mean = rng.standard_normal((len(held), 2))
    ends = np.cumsum([len(own) for _, own in rows.folds])

    def predict(k, factor):
        part = mean[ends[k] - len(rows.folds[k][1]) : ends[k]]
        return factor * part, 0 * part

    expected = logsumexp(2 * mean, axis=1) - 2 * mean[np.arange(len(held)), codes[held]]
    np.testing.assert_allclose(rows.losses(predict, 2.0), expected)
    assert rows.mean(expected) == pytest.approx(np.average(expected, weights=held + 1))


def test_what_was_chosen_stays():
    """α and the prior variance are chosen by the first rows; a number that is set replaces them."""
    frozen = FrozenEstimator(gaussian_features().fit(X))
    chosen = DirichletGPClassifier(frozen).fit(X, y)
    alpha, prior = chosen.alpha_, chosen.prior_variance_
    other = DirichletGPClassifier(frozen, alpha=0.1).fit(X[::2], y[::2])
    merged = chosen.merge(other)
    assert (merged.alpha_, merged.prior_variance_) == (alpha, pytest.approx(prior, rel=0.5))
    assert merged.partial_fit(X, y).alpha_ == merged.refit().alpha_ == alpha
    assert merged.refit(alpha=0.3).alpha_ == 0.3
    fixed = DirichletGPClassifier(frozen, alpha=alpha, prior_variance=prior).fit(X, y)
    again = DirichletGPClassifier(frozen).fit(X, y).refit()
    np.testing.assert_allclose(again.predict_proba(X), fixed.predict_proba(X), rtol=1e-9)


@pytest.fixture
def problem(rng):
    Z, codes = rng.standard_normal((50, 6)), rng.integers(0, 3, 50)
    weights = rng.uniform(0.5, 2, 50)
    return softmax.LabelledBlock(Z, codes, weights), np.log([0.2, 0.5, 0.3])


def test_loss_and_gradient_of_labels(problem, rng):
    block, means = problem
    V = rng.standard_normal((6, 3))
    value, gradient = softmax.negative_log_likelihood(softmax.fold_of(block), V, means)
    latent = block.features @ V + means
    losses = logsumexp(latent, axis=1) - latent[np.arange(50), block.codes]
    assert value == pytest.approx(np.sum(block.weights * losses))

    def loss(v):
        return softmax.negative_log_likelihood(softmax.fold_of(block), v.reshape(6, 3), means)[0]

    np.testing.assert_allclose(gradient.ravel(), approx_fprime(V.ravel(), loss), atol=1e-4)


def test_the_mode_is_stationary_and_the_covariance_a_bound(problem):
    block, means = problem
    fold = softmax.fold_of(block)
    moment = softmax.moment_of(fold, 6)
    np.testing.assert_allclose(
        moment.full(), (block.features.T * block.weights) @ block.features, rtol=1e-6
    )
    posterior, n_iterations = softmax.mode(fold, moment, means, 2.0, tolerance=1e-12)
    gradient = softmax.negative_log_likelihood(fold, posterior.coefficients, means)[1]
    np.testing.assert_allclose(gradient + posterior.coefficients / 2.0, 0, atol=1e-4)
    assert 0 < n_iterations < 100
    B = np.eye(6) + 0.5 * 2.0 * moment.full()
    Z = block.features[:5]
    expected = 2.0 * np.sum(Z * np.linalg.solve(B, Z.T).T, axis=1)
    for c in range(3):
        np.testing.assert_allclose(posterior.variance(Z)[:, c], expected, rtol=1e-8)


def test_expected_softmax():
    """Exact without variance; by quadrature for two classes; sums to one."""
    mean = np.array([[0.3, -1.0, 2.0], [0.0, 0.0, 0.0]])
    np.testing.assert_allclose(
        classes.expected_softmax(mean, 0 * mean), np.exp(mean - logsumexp(mean, axis=1)[:, None])
    )
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    mean, variance = np.array([[1.2, -0.3]]), np.array([[0.8, 0.5]])
    difference = 1.5 + np.sqrt(1.3) * nodes
    exact = np.sum(weights / (1 + np.exp(-difference))) / np.sum(weights)
    found = classes.expected_softmax(mean, variance, n_samples=4096)
    assert found[0, 0] == pytest.approx(exact, abs=2e-3)
    np.testing.assert_allclose(found.sum(axis=1), 1.0)


@pytest.mark.parametrize("make", BOTH)
def test_weights_of_classes(make):
    plain = make(gaussian_features(), prior_variance=1.0).fit(X, y)
    heavy = make(gaussian_features(), prior_variance=1.0, class_weight={2: 30.0}).fit(X, y)
    assert heavy.predict_proba(X)[:, 2].mean() > plain.predict_proba(X)[:, 2].mean()


@pytest.mark.parametrize("make", [*BOTH, ExactGPClassifier])
def test_labels_of_any_kind(make):
    X, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    model = Gaussian() if make is ExactGPClassifier else gaussian_features()
    gp = make(model).fit(X, names)
    assert gp.score(X, names) > 0.9
    np.testing.assert_array_equal(gp.classes_, np.unique(names))
    p = gp.predict_proba(X)
    np.testing.assert_allclose(p.sum(axis=1), 1)


def coin_flips(rng, n):
    return rng.integers(0, 2, n)


def logistic(rng, n, X):
    return (rng.uniform(size=n) < 1 / (1 + np.exp(-2 * X[:, 0]))).astype(int)


@pytest.mark.parametrize("make", BOTH)
@pytest.mark.parametrize("n", [60, 200])
@pytest.mark.parametrize("law", ["coin flips", "logistic"])
def test_few_rows_do_not_make_a_classifier_overconfident(make, n, law):
    """Labels that nothing predicts, or little: hardly worse than scikit-learn's classifier."""
    ours, theirs = [], []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((n + 500, 3))
        y = coin_flips(rng, n + 500) if law == "coin flips" else logistic(rng, n + 500, X)
        for gp, losses in ((make(), ours), (GaussianProcessClassifier(), theirs)):
            p = gp.fit(X[:n], y[:n]).predict_proba(X[n:])
            losses.append(-np.mean(np.log(p[np.arange(500), y[n:]])))
    reference = 0.693 if law == "coin flips" else np.mean(theirs)
    # few rows say little about α, too: Dirichlet labels are somewhat worse
    assert np.mean(ours) < reference + (0.1 if make is FeatureGPClassifier else 0.2)


@pytest.mark.parametrize("make", BOTH)
def test_a_row_far_from_all_others_is_uncertain(make):
    gp = make().fit(X, y)
    p = gp.predict_proba(np.full((1, 3), 1e3))
    assert p.max() < 0.7


def test_streams_are_the_array():
    features = FourierFeatures(Gaussian(lengthscale=2.0), n_components=20, random_state=0)
    once = DirichletGPClassifier(features, **FIXED).fit(iter([(X[:50], y[:50]), (X[50:], y[50:])]))
    whole = DirichletGPClassifier(features, **FIXED).fit(X, y)
    np.testing.assert_allclose(once.predict_proba(X), whole.predict_proba(X), rtol=1e-8)
    again = FeatureGPClassifier(features, prior_variance=2.0).fit(lambda: iter([(X, y)]))
    direct = FeatureGPClassifier(features, prior_variance=2.0).fit(X, y)
    np.testing.assert_allclose(again.predict_proba(X), direct.predict_proba(X), rtol=1e-4)

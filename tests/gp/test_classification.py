"""FeatureGPClassifier and ExactGPClassifier against the formulas of the paper, class by class."""

import numpy as np
import pytest
from scipy.special import softmax
from scipy.stats import multivariate_normal
from sklearn.gaussian_process.kernels import RBF

import dotsketch.gp.exact_classification
from dotsketch import (
    ExactGPClassifier,
    FeatureGPClassifier,
    Gaussian,
    NystromFeatures,
    Polynomial,
    PolynomialSketch,
    gaussian_kl,
    mean_negative_log_likelihood,
)
from dotsketch.gp.choice import ALPHAS, PRIORS, HeldOut, downhill, penalty
from dotsketch.gp.class_sums import row_hashes
from dotsketch.gp.dirichlet import DirichletLabels, class_weights
from dotsketch.gp.softmax import expected_softmax, normal_points
from gp.data import class_data, condition, gaussian_features, polynomial_features
from rounding import assert_same_to_rounding


def per_class(K, cross, diagonal, y, alpha, weights=None):
    """Labels, prior and posterior of Appendix D written out, in n dimensions; no shortcuts."""
    C = y.max() + 1
    weights = np.ones(C) if weights is None else weights
    one_hot = np.eye(C)[y]
    variance = np.log(1 / (one_hot + alpha) + 1)
    targets = np.log(one_hot + alpha) - variance / 2
    u = weights[y] / weights[y].sum()
    log_share = np.log(u @ one_hot)
    means = log_share + np.sum(u @ (targets - log_share)) / C
    prior = np.sum(u @ (targets - means) ** 2) / C
    found_mean, found_variance, evidence = [], [], 0.0
    for c in range(C):
        A = prior * K + np.diag(variance[:, c] / weights[y])
        solved = np.linalg.solve(A, np.c_[targets[:, c] - means[c], prior * cross.conj().T])
        found_mean.append((prior * cross @ solved[:, 0]).real + means[c])
        explained = np.sum(prior * cross * solved[:, 1:].T, axis=1).real
        found_variance.append(prior * diagonal - explained)
        if not np.iscomplexobj(K):
            evidence += multivariate_normal(cov=A).logpdf(targets[:, c] - means[c])
    return np.stack(found_mean, 1), np.sqrt(np.stack(found_variance, 1)), evidence


@pytest.mark.parametrize("alpha", [1e-5, 0.01, 1.0])
@pytest.mark.parametrize(("output", "posterior"), [("real", "real"), ("complex", "complex")])
@pytest.mark.parametrize("class_weight", [None, {0: 2.0, 2: 0.5}, "balanced"])
def test_one_pass_is_the_recomputation_for_every_class(alpha, output, posterior, class_weight):
    X, y = class_data()
    test = X[:8] * 1.1
    gp = FeatureGPClassifier(
        polynomial_features(output),
        alpha=alpha,
        prior_variance="labels",
        posterior=posterior,
        class_weight=class_weight,
    ).fit(X, y)
    Z, W = gp.features_.transform(X), gp.features_.transform(test)
    weights = class_weights(class_weight, np.arange(3), np.bincount(y))
    mean, std, evidence = per_class(
        Z @ Z.conj().T, W @ Z.conj().T, np.sum(np.abs(W) ** 2, axis=1), y, alpha, weights
    )
    found = gp.predict_latent(test)
    np.testing.assert_allclose(found[0], mean, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(found[1], std, rtol=1e-7, atol=1e-9)
    np.testing.assert_array_equal(gp.predict(test), mean.argmax(axis=1))
    if output == "real":
        assert gp.log_marginal_likelihood() == pytest.approx(evidence)


@pytest.mark.parametrize("class_weight", [None, {0: 2.0, 2: 0.5}])
def test_exact_classifier(class_weight):
    X, y = class_data()
    kernel, test = Gaussian(lengthscale=1.5), X[:8] * 1.1
    gp = ExactGPClassifier(
        kernel, alpha=0.01, prior_variance="labels", class_weight=class_weight
    ).fit(X, y)
    weights = class_weights(class_weight, np.arange(3), np.bincount(y))
    mean, std, evidence = per_class(kernel(X), kernel(test, X), kernel.diag(test), y, 0.01, weights)
    found = gp.predict_latent(test)
    np.testing.assert_allclose(found[0], mean, rtol=1e-8)
    np.testing.assert_allclose(found[1], std, rtol=1e-8)
    assert gp.log_marginal_likelihood() == pytest.approx(
        evidence if class_weight is None else gp.log_marginal_likelihood()
    )
    np.testing.assert_array_equal(gp.predict(test), mean.argmax(axis=1))


def test_exact_classifier_takes_kernels_of_scikit_learn():
    X, y = class_data()
    ours = ExactGPClassifier(Gaussian(lengthscale=1.5), alpha=0.01).fit(X, y)
    theirs = ExactGPClassifier(RBF(1.5), alpha=0.01).fit(X, y)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), rtol=1e-8)


def test_real_posterior_is_the_one_of_the_real_columns():
    X, y = class_data()
    kernel = {"degree": 2, "coef0": 1.0, "gamma": 0.3, "random_state": 0}
    pair = [
        FeatureGPClassifier(PolynomialSketch(**kernel, output=o, n_components=D), alpha=0.1)
        for o, D in (("complex", 8), ("complex_to_real", 16))
    ]
    first, second = (gp.fit(X, y).predict_latent(X) for gp in pair)
    np.testing.assert_allclose(first, second, rtol=1e-9)


def test_labels_by_hand():
    """α = 1: σ² = log 1.5 and log 2; ỹ = log 2 − σ₁²/2 and −σ₀²/2; two classes, shares ¼ and ¾."""
    labels = DirichletLabels.of(1.0, [0.25, 0.75])
    assert labels.inside_variance == pytest.approx(np.log(1.5))
    assert labels.outside_variance == pytest.approx(np.log(2))
    inside, outside = np.log(2) - np.log(1.5) / 2, -np.log(2) / 2
    assert (labels.inside, labels.outside) == pytest.approx((inside, outside))
    share = np.array([0.25, 0.75])
    shifted = share * inside + (1 - share) * outside - np.log(share)
    means = np.log(share) + shifted.mean()
    np.testing.assert_allclose(labels.means, means)
    y = np.array([0, 1, 1, 1])
    targets = np.where(np.eye(2)[y] == 1, inside, outside) - means
    assert labels.prior_variance == pytest.approx(np.var(targets))
    assert np.mean(targets) == pytest.approx(0, abs=1e-12)


def test_new_alpha_takes_no_rows():
    X, y = class_data()
    gp = FeatureGPClassifier(polynomial_features(), alpha=0.01).fit(X, y)
    gp.features_ = None  # nothing is computed from rows
    gp.refit(alpha=0.5)
    fresh = FeatureGPClassifier(polynomial_features(), alpha=0.5).fit(X, y)
    for mine, theirs in zip(gp.posteriors_, fresh.posteriors_, strict=True):
        assert_same_to_rounding(mine.weights, theirs.weights, condition=condition(fresh))
        assert_same_to_rounding(
            mine.factor.values, theirs.factor.values, condition=condition(fresh)
        )


MAKERS = [
    lambda **options: FeatureGPClassifier(gaussian_features(), **options),
    lambda **options: ExactGPClassifier(Gaussian(lengthscale=1.5), **options),
]


def rows_held_out(gp, X):
    """Their numbers, those of the others, and the kernel matrix of all rows."""
    order = np.argsort(row_hashes(gp._seed, 0, len(X)))
    if isinstance(gp, ExactGPClassifier):
        return order[: len(X) // 10], order[len(X) // 10 :], gp.kernel_(X)
    Z = gp.features_.transform(X)
    return order[: len(X) // 10], order[len(X) // 10 :], Z @ Z.T


@pytest.mark.parametrize("make", MAKERS)
def test_automatic_alpha_is_the_best_on_rows_held_out(make):
    """The rows held out are those of the seed; a fit without them gives every loss again."""
    X, y = class_data(200)
    options = {"prior_variance": "labels", "temperature": 1.0}
    gp = make(alpha="auto", **options).fit(X, y)
    held, kept, K = rows_held_out(gp, X)
    losses = []
    for alpha in ALPHAS:
        labels = DirichletLabels.of(alpha, gp.frequencies_)
        found = ExactPosteriors(labels, labels.prior_variance, K, kept, y).latent(held)
        p = expected_softmax(*found, "closed_form", 1, 0)
        losses.append(mean_negative_log_likelihood(y[held], p))
    assert gp.alpha_ == ALPHAS[int(np.argmin(losses))]
    assert (gp.prior_variance_, gp.temperature_) == (gp.labels_.prior_variance, 1.0)


@pytest.mark.parametrize("temperature", [1.0, "auto"])
@pytest.mark.parametrize("make", MAKERS)
def test_alpha_and_prior_variance_are_better_than_their_neighbours(make, temperature):
    """On the rows held out, with weak priors; and the temperature is the best."""
    X, y = class_data(200)
    gp = make(temperature=temperature, probabilities="closed_form").fit(X, y)
    held, kept, K = rows_held_out(gp, X)

    def predicted(i, j):
        labels = DirichletLabels.of(ALPHAS[i], gp.frequencies_)
        prior = PRIORS[j] * labels.prior_variance
        latent = ExactPosteriors(labels, prior, K, kept, y).latent(held)
        return HeldOut(*latent, y[held], np.ones(len(held)))

    def loss(i, j):
        found = predicted(i, j)
        rules = penalty(np.log10(PRIORS[j] / 10), 1.5, len(held))
        if temperature == 1.0:
            return found.loss(1.0) + rules
        return found.best_temperature()[1] + rules + penalty(np.log10(ALPHAS[i] / 1e-3), 0.5, 20)

    i = ALPHAS.index(gp.alpha_)
    multiple = gp.prior_variance_ / gp.labels_.prior_variance
    j = int(np.argmin(np.abs(np.array(PRIORS) / multiple - 1)))
    assert PRIORS[j] == pytest.approx(multiple)
    beside = [(i, j + 1), (i, j - 1), (i + 1, j), (i - 1, j)]
    beside = [place for place in beside if place[0] in range(6) and place[1] in range(7)]
    assert loss(i, j) <= min(loss(*place) for place in beside)
    if temperature == "auto":
        assert gp.temperature_ == pytest.approx(predicted(i, j).best_temperature()[0], rel=1e-3)


def test_the_best_temperature_against_a_grid():
    """The least loss plus (log T)²/(2 · 0.5² n); few rows keep it near one."""
    rng = np.random.default_rng(0)
    mean = 3 * rng.standard_normal((400, 3))
    codes = np.array([rng.choice(3, p=softmax(m / 2.0)) for m in mean])
    found = HeldOut(mean, np.full((400, 3), 0.1), codes, np.ones(400))
    grid = np.exp(np.linspace(-2, 2, 801))
    losses = [found.loss(T) + np.log(T) ** 2 / (2 * 0.5**2 * 400) for T in grid]
    T, loss = found.best_temperature()
    assert (T, loss) == (
        pytest.approx(grid[np.argmin(losses)], rel=0.02),
        pytest.approx(min(losses), abs=1e-4),
    )
    assert 1.5 < T < 2.7
    right = mean[:4].argmax(axis=1)
    few = HeldOut(mean[:4], np.zeros((4, 3)), right, np.ones(4))
    assert 0.5 < few.best_temperature()[0] < 1


def test_a_temperature_divides_latent_functions():
    X, y = class_data()
    gp = FeatureGPClassifier(gaussian_features(), alpha=0.01, temperature=2.0).fit(X, y)
    mean, std = gp.predict_latent(X)
    expected = expected_softmax(mean / 2, std**2 / 4, "monte_carlo", 128, gp._seed)
    np.testing.assert_allclose(gp.predict_proba(X), expected, rtol=1e-9)


def test_a_choice_with_fewer_columns_is_fitted_with_all(monkeypatch):
    monkeypatch.setattr("dotsketch.gp.class_fits.SEARCH_COLUMNS", 12)
    X, y = class_data(200)
    gp = FeatureGPClassifier(gaussian_features()).fit(X, y)
    same = FeatureGPClassifier(
        gaussian_features(),
        alpha=gp.alpha_,
        prior_variance=gp.prior_variance_,
        temperature=gp.temperature_,
    ).fit(X, y)
    np.testing.assert_array_equal(gp.predict_proba(X), same.predict_proba(X))
    assert gp.score(X, y) > 0.8


class ExactPosteriors:
    """The posteriors of some rows for given labels."""

    def __init__(self, labels, prior, K, rows, y):
        self.labels, self.prior, self.K, self.rows, self.y = labels, prior, K, rows, y

    def latent(self, test):
        labels, prior, K, rows = self.labels, self.prior, self.K, self.rows
        cross = prior * K[np.ix_(test, rows)]
        means, variances = [], []
        for c in range(3):
            inside = self.y[rows] == c
            noise = np.where(inside, labels.inside_variance, labels.outside_variance)
            targets = np.where(inside, labels.inside, labels.outside) - labels.means[c]
            A = prior * K[np.ix_(rows, rows)] + np.diag(noise)
            means.append(cross @ np.linalg.solve(A, targets) + labels.means[c])
            explained = np.sum(cross * np.linalg.solve(A, cross.T).T, axis=1)
            variances.append(prior * np.diag(K)[test] - explained)
        return np.stack(means, 1), np.stack(variances, 1)


@pytest.mark.parametrize("posterior", ["real", "complex"])
def test_alpha_by_evidence_maximises_it(posterior):
    X, y = class_data()
    features = polynomial_features("real" if posterior == "real" else "complex")
    gp = FeatureGPClassifier(
        features, alpha="evidence", prior_variance="labels", posterior=posterior
    ).fit(X, y)
    scores = []
    for alpha in ALPHAS:
        gp.refit(alpha)
        stretch = gp.labels_.inside - gp.labels_.outside
        numbers = 90 * 3 * (1 if posterior == "real" else 2)
        scores.append(gp.log_marginal_likelihood() + numbers * np.log(stretch))
    assert gp.refit("evidence").alpha_ == ALPHAS[int(np.argmax(scores))]


@pytest.mark.parametrize(
    ("losses", "start", "expected", "computed"),
    [
        ([[5], [4], [3], [2], [1], [0]], (3, 0), (5, 0), {2, 3, 4, 5}),
        ([[0], [1], [2], [1], [2], [3]], (3, 4), (3, 0), {2, 3, 4}),
        ([[1, 2, 3]], (0, 1), (0, 0), {0, 1}),
        ([[1]], (2, 3), (0, 0), set()),
        # down along the row, then along the column, then along that row
        ([[0, 9, 9], [7, 6, 9], [9, 5, 8]], (2, 1), (2, 1), {7, 4, 6, 8}),
        ([[0, 1, 9], [7, 2, 9], [9, 5, 8]], (2, 1), (0, 0), {6, 7, 8, 4, 1, 0, 3}),
    ],
)
def test_downhill(losses, start, expected, computed):
    """Few places are computed, none twice, and none of a grid of one place."""
    losses, seen = np.array(losses), []

    def looked_up(i, j):
        seen.append(i * losses.shape[1] + j)
        return losses[i, j]

    assert downhill(looked_up, losses.shape, start) == expected
    assert sorted(seen) == sorted(computed)


def test_exact_alpha_by_evidence():
    X, y = class_data()
    kernel = Polynomial(2, gamma=0.3)
    scores = {}
    for alpha in ALPHAS:
        gp = ExactGPClassifier(kernel, alpha=alpha, prior_variance="labels").fit(X, y)
        stretch = np.log(gp.labels_.inside - gp.labels_.outside)
        scores[alpha] = gp.log_marginal_likelihood() + 270 * stretch
    found = ExactGPClassifier(kernel, alpha="evidence", prior_variance="labels").fit(X, y)
    assert found.alpha_ == max(scores, key=scores.get)


def test_the_gram_matrix_is_computed_once(monkeypatch):
    """Of all values of α and of the prior variance."""
    X, y = class_data()
    module = dotsketch.gp.exact_classification
    calls, gram = [], module.gram
    monkeypatch.setattr(module, "gram", lambda *a: calls.append(1) or gram(*a))
    ExactGPClassifier(Gaussian(lengthscale=1.5), alpha="evidence").fit(X, y)
    assert len(calls) == 1


def test_closed_form_is_close_to_the_integral():
    """Two classes: E σ(f₁ − f₀) by quadrature; MacKay's approximation is within 0.02 of it."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    rng = np.random.default_rng(0)
    mean, variance = rng.normal(0, 2, (50, 2)), rng.uniform(0.01, 4, (50, 2))
    gap, spread = mean[:, 1] - mean[:, 0], np.sqrt(variance.sum(axis=1))
    values = 1 / (1 + np.exp(-(gap[:, None] + spread[:, None] * nodes)))
    exact = values @ weights / weights.sum()
    closed = expected_softmax(mean, variance, "closed_form", 1, 0)
    np.testing.assert_allclose(closed[:, 1], exact, atol=0.02)
    n_samples = 20_000
    sampled = expected_softmax(mean, variance, "monte_carlo", n_samples, 0)
    spread_of_values = np.sqrt((values - exact[:, None]) ** 2 @ weights / weights.sum())
    assert np.all(np.abs(sampled[:, 1] - exact) < 6 * spread_of_values / np.sqrt(n_samples) + 1e-12)


def test_normal_points_are_normal_and_evenly_spread():
    """Means and variances far closer than those of independent draws, in every dimension."""
    points = normal_points(128, 10, 3)
    np.testing.assert_array_equal(points, normal_points(128, 10, 3))
    assert points.shape == (128, 10)
    assert np.max(np.abs(points.mean(axis=0))) < 0.3 / np.sqrt(128)
    assert np.max(np.abs(points.var(axis=0) - 1)) < np.sqrt(2 / 128)
    assert np.all(np.isfinite(normal_points(100, 40, 0)))
    assert len(normal_points(100, 2, 0)) == 100
    assert normal_points(1, 2, 0).shape == (1, 2)


@pytest.mark.parametrize("method", ["monte_carlo", "closed_form"])
def test_probabilities_without_variance_are_the_softmax(method):
    mean = np.array([[1.0, 2.0, 3.0], [1000.0, 0.0, -1000.0]])
    found = expected_softmax(mean, np.zeros_like(mean), method, 7, 0)
    np.testing.assert_allclose(found, softmax(mean, axis=1), atol=1e-12)


@pytest.mark.parametrize("method", ["monte_carlo", "closed_form"])
def test_probabilities(method):
    X, y = class_data()
    names = np.array(["red", "green", "blue"])[y]
    gp = FeatureGPClassifier(gaussian_features(), alpha=0.01, probabilities=method).fit(X, names)
    p = gp.predict_proba(X)
    np.testing.assert_allclose(p.sum(axis=1), 1)
    assert_same_to_rounding(gp.predict_proba(X), p)
    np.testing.assert_allclose(gp.predict_proba(X[5:9]), p[5:9], rtol=1e-10)
    assert np.mean(gp.classes_[p.argmax(axis=1)] == names) > 0.8
    assert set(gp.predict(X)) == {"red", "green", "blue"}


def test_class_weights_shift_the_boundary():
    X, y = class_data(300, classes=2)
    shares = [
        np.mean(
            FeatureGPClassifier(gaussian_features(), alpha=0.01, class_weight={1: w})
            .fit(X, y)
            .predict(X)
        )
        for w in (0.02, 1.0, 50.0)
    ]
    assert shares[0] < shares[1] < shares[2]


@pytest.mark.parametrize("option", ["heavy", {7: 1.0}, {0: -1.0}, [1, 2]])
def test_wrong_class_weights(option):
    X, y = class_data()
    with pytest.raises(ValueError, match="class_weight"):
        FeatureGPClassifier(polynomial_features(), alpha=0.1, class_weight=option).fit(X, y)


@pytest.mark.parametrize(
    "gp", [FeatureGPClassifier(polynomial_features()), ExactGPClassifier(Gaussian())]
)
def test_one_class_is_refused(gp):
    X, _ = class_data()
    with pytest.raises(ValueError, match=r"at least two classes in y; got one class: \['a'\]"):
        gp.fit(X, np.full(len(X), "a"))


def test_numbers_are_no_labels():
    X, _ = class_data()
    with pytest.raises(ValueError, match="Unknown label type: continuous"):
        FeatureGPClassifier(polynomial_features()).fit(iter([(X, X[:, 0])]))


def test_one_class_in_a_stream():
    X, _ = class_data()
    with pytest.raises(ValueError, match="at least two classes"):
        FeatureGPClassifier(polynomial_features()).fit(iter([(X, np.zeros(len(X), dtype=int))]))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"alpha": 0.0}, 'alpha must be a positive number or "auto" or "evidence"'),
        ({"alpha": "best"}, "alpha must be"),
        ({"prior_variance": -1}, "prior_variance must be"),
        ({"temperature": 0.0}, 'temperature must be a positive number or "auto"'),
        ({"probabilities": "exact"}, "probabilities must be one of"),
        ({"n_samples": 0}, "n_samples must be positive"),
        ({"variance_correction": "fitc"}, "variance_correction must be one of"),
    ],
)
def test_wrong_parameters(parameters, message):
    X, y = class_data()
    with pytest.raises(ValueError, match=message):
        FeatureGPClassifier(polynomial_features(), **parameters).fit(X, y)


def test_variance_correction_adds_the_deficit():
    X, y = class_data()
    plain, corrected = (
        FeatureGPClassifier(gaussian_features(), alpha=0.01, variance_correction=c).fit(X, y)
        for c in (None, "posterior")
    )
    far = np.full((1, 3), 25.0)  # where the features are tiny, but not yet zero
    assert np.all(plain.predict_latent(far)[1] < 1e-6)
    np.testing.assert_allclose(
        corrected.predict_latent(far)[1] ** 2, corrected.prior_variance_, rtol=1e-9
    )


def test_divergence_from_the_exact_process_falls():
    X, y = class_data(150)
    kernel, test = Polynomial(3, gamma=0.1), X[:40]
    exact = ExactGPClassifier(kernel, alpha=0.01).fit(X[40:], y[40:])
    mean, std = exact.predict_latent(test)
    values = []
    for D in (8, 32, 128):
        features = PolynomialSketch(
            3, gamma=0.1, coef0=1.0, n_components=D, output="complex_to_real", random_state=0
        )
        gp = FeatureGPClassifier(features, alpha=0.01).fit(X[40:], y[40:])
        m, s = gp.predict_latent(test)
        values.append(gaussian_kl(m, s**2, mean, std**2))
    assert values[0] > values[1] > values[2]


def test_what_is_chosen_on_rows_held_out_is_not_corrected_afterwards(rng):
    """A large prior variance times what Nyström features lack would flatten all probabilities."""
    X = rng.standard_normal((400, 6))
    y = (3 * X[:, 0] + X[:, 1] > 0).astype(int)
    features = NystromFeatures(Gaussian(lengthscale=1.5), n_components=30, random_state=0)
    automatic, none, posterior = (
        FeatureGPClassifier(features, prior_variance=500.0, variance_correction=c).fit(X, y)
        for c in ("auto", None, "posterior")
    )
    np.testing.assert_array_equal(automatic.predict_proba(X), none.predict_proba(X))
    assert np.all(posterior.predict_latent(X)[1] > none.predict_latent(X)[1])

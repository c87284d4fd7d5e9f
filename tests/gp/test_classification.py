"""FeatureGPClassifier and ExactGPClassifier against the formulas of the paper, class by class."""

import numpy as np
import pytest
from scipy.special import softmax
from scipy.stats import multivariate_normal
from sklearn.gaussian_process.kernels import RBF

from dotsketch import (
    ExactGPClassifier,
    FeatureGPClassifier,
    Gaussian,
    Polynomial,
    PolynomialSketch,
    gaussian_kl,
    mean_negative_log_likelihood,
)
from dotsketch.gp.class_sums import row_hashes
from dotsketch.gp.dirichlet import (
    ALPHAS,
    DirichletLabels,
    class_weights,
    downhill,
    expected_softmax,
)
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
        polynomial_features(output), alpha=alpha, posterior=posterior, class_weight=class_weight
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
    gp = ExactGPClassifier(kernel, alpha=0.01, class_weight=class_weight).fit(X, y)
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


@pytest.mark.parametrize(
    "make",
    [
        lambda alpha: FeatureGPClassifier(gaussian_features(), alpha=alpha),
        lambda alpha: ExactGPClassifier(Gaussian(lengthscale=1.5), alpha=alpha),
    ],
)
def test_automatic_alpha_is_the_best_on_rows_held_out(make):
    """The rows held out are those of the seed; a fit without them gives every loss again."""
    X, y = class_data(200)
    gp = make("auto").fit(X, y)
    order = np.argsort(row_hashes(gp._seed, 0, 200))
    held, kept = order[:20], order[20:]
    losses = []
    for alpha in ALPHAS:
        part = make(alpha).set_params(probabilities="closed_form")
        part.fit(X, y)  # features, frequencies and prior of all rows
        if isinstance(part, FeatureGPClassifier):
            features = part.features_
            K = features.transform(X) @ features.transform(X).T
        else:
            K = part.kernel_(X)
        found = ExactPosteriors(part, K, kept, y).latent(held)
        p = expected_softmax(*found, "closed_form", 1, 0)
        losses.append(mean_negative_log_likelihood(y[held], p))
    assert gp.alpha_ == ALPHAS[int(np.argmin(losses))]


class ExactPosteriors:
    """The posteriors of some rows for the labels of a fitted classifier."""

    def __init__(self, gp, K, rows, y):
        self.gp, self.K, self.rows, self.y = gp, K, rows, y

    def latent(self, test):
        labels, K, rows = self.gp.labels_, self.K, self.rows
        cross = labels.prior_variance * K[np.ix_(test, rows)]
        means, variances = [], []
        for c in range(3):
            inside = self.y[rows] == c
            noise = np.where(inside, labels.inside_variance, labels.outside_variance)
            targets = np.where(inside, labels.inside, labels.outside) - labels.means[c]
            A = labels.prior_variance * K[np.ix_(rows, rows)] + np.diag(noise)
            means.append(cross @ np.linalg.solve(A, targets) + labels.means[c])
            explained = np.sum(cross * np.linalg.solve(A, cross.T).T, axis=1)
            variances.append(labels.prior_variance * np.diag(K)[test] - explained)
        return np.stack(means, 1), np.stack(variances, 1)


@pytest.mark.parametrize("posterior", ["real", "complex"])
def test_alpha_by_evidence_maximises_it(posterior):
    X, y = class_data()
    features = polynomial_features("real" if posterior == "real" else "complex")
    gp = FeatureGPClassifier(features, alpha="evidence", posterior=posterior).fit(X, y)
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
        ([5, 4, 3, 2, 1, 0], 3, 5, {2, 3, 4, 5}),
        ([0, 1, 2, 1, 2, 3], 3, 3, {2, 3, 4}),
        ([1], 0, 0, {0}),
    ],
)
def test_downhill(losses, start, expected, computed):
    seen = set()

    def looked_up(place):
        seen.add(place)
        return losses[place]

    found = downhill([lambda k=k: looked_up(k) for k in range(len(losses))], start)
    assert found == expected
    assert seen == computed


def test_exact_alpha_by_evidence():
    X, y = class_data()
    kernel = Polynomial(2, gamma=0.3)
    scores = {}
    for alpha in ALPHAS:
        gp = ExactGPClassifier(kernel, alpha=alpha).fit(X, y)
        stretch = np.log(gp.labels_.inside - gp.labels_.outside)
        scores[alpha] = gp.log_marginal_likelihood() + 270 * stretch
    found = ExactGPClassifier(kernel, alpha="evidence").fit(X, y)
    assert found.alpha_ == max(scores, key=scores.get)


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

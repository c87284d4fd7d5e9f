"""The softmax likelihood: its mode against a general optimiser, and what it needs."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize
from scipy.special import logsumexp, softmax
from sklearn.base import clone
from sklearn.preprocessing import FunctionTransformer

import dotsketch.gp.multinomial
import dotsketch.gp.softmax_fits
from dotsketch import FeatureGPClassifier, FourierFeatures, Gaussian, load, save
from dotsketch.gp.choice import HeldOut
from dotsketch.gp.class_sums import row_hashes
from dotsketch.gp.multinomial import LabelledBlock, SoftmaxProblem, lowest_point
from dotsketch.gp.packed import PackedMatrix
from gp.data import class_data, polynomial_features

WAVES = FourierFeatures(Gaussian(lengthscale=1.5), n_components=20, random_state=0)


@pytest.fixture(autouse=True)
def _to_the_end(monkeypatch):
    """Iterations that end at the mode: predictions do not depend on the way to it."""
    monkeypatch.setattr(dotsketch.gp.multinomial, "TOLERANCE", 1e-14)
    monkeypatch.setattr(dotsketch.gp.multinomial, "MOST_ITERATIONS", 1000)


def classifier(**options):
    given = {
        "features": WAVES,
        "likelihood": "softmax",
        "prior_variance": 3.0,
        "probabilities": "closed_form",
        "chunk_rows": 16,
    }
    return FeatureGPClassifier(**{**given, **options})


def mode(Z, codes, weights, means, prior):
    """The most probable weights by a general optimiser, without a bound or blocks."""
    n, D, C = *Z.shape, len(means)

    def loss(w):
        W = w.reshape(D, C)
        F = Z @ W + means
        P = weights[:, None] * (softmax(F, axis=1) - np.eye(C)[codes])
        value = weights @ (logsumexp(F, axis=1) - F[np.arange(n), codes])
        return value + np.sum(W**2) / (2 * prior), (Z.T @ P + W / prior).ravel()

    options = {"maxiter": 10_000, "maxfun": 20_000, "ftol": 1e-15, "gtol": 1e-9}
    return minimize(loss, np.zeros(D * C), jac=True, method="L-BFGS-B", options=options).x.reshape(
        D, C
    )


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("class_weight", [None, "balanced", {0: 3.0}])
def test_the_mode_is_that_of_a_general_optimiser(n_classes, class_weight):
    """And its covariance is s (I + s G/2)⁻¹ for every class."""
    X, y = class_data(n=120, classes=n_classes)
    X, y = X[(y != 1) | (X[:, 0] > 1)], y[(y != 1) | (X[:, 0] > 1)]  # of different sizes
    gp = classifier(class_weight=class_weight).fit(X, y)
    Z, weights = gp.features_.transform(X), gp.class_weights_[y]
    means = np.log(np.bincount(y, weights=weights) / weights.sum())
    W = mode(Z, y, weights, means, 3.0)
    mean, deviation = gp.predict_latent(X)
    np.testing.assert_allclose(mean, Z @ W + means, atol=2e-4)
    covariance = 3.0 * np.linalg.inv(np.eye(20) + 1.5 * (Z.T * weights) @ Z)
    expected = np.sqrt(np.sum((Z @ covariance) * Z, axis=1))
    np.testing.assert_allclose(deviation, np.tile(expected[:, None], n_classes), rtol=1e-7)
    np.testing.assert_array_equal(gp.predict(X), mean.argmax(axis=1))
    assert (gp.likelihood_, gp.alpha_, gp.temperature_) == ("softmax", None, 1.0)
    assert gp.n_iterations_ > 1


@pytest.mark.parametrize("small_product", [1_000_000, 100, 12])  # all, 8 and all rows at a time
def test_the_gradient_is_that_of_the_loss(monkeypatch, small_product):
    monkeypatch.setattr(dotsketch.gp.multinomial, "SMALL_PRODUCT", small_product)
    monkeypatch.setattr(dotsketch.gp.multinomial, "FEW_ROWS", 8)
    rng = np.random.default_rng(0)
    Z, codes, weights = rng.standard_normal((30, 4)), rng.integers(0, 3, 30), rng.random(30)
    blocks = [
        LabelledBlock(Z[rows], codes[rows], weights[rows]) for rows in (slice(11), slice(11, None))
    ]

    def fold(zero, add):
        return add(add(zero(), blocks[0], 0), blocks[1], 11)

    problem = SoftmaxProblem(fold, 0, PackedMatrix.zeros(4, float), np.log([0.2, 0.3, 0.5]))
    W, direction = rng.standard_normal((2, 4, 3))
    step = 1e-6
    ends = [problem.negative_log_likelihood(W + sign * step * direction)[0] for sign in (1, -1)]
    gradient = problem.negative_log_likelihood(W)[1]
    assert (ends[0] - ends[1]) / (2 * step) == pytest.approx(np.sum(gradient * direction), rel=1e-6)
    p = softmax(Z @ W + problem.means, axis=1)[np.arange(30), codes]
    assert problem.negative_log_likelihood(W)[0] == pytest.approx(-weights @ np.log(p))


def test_the_first_step_is_that_of_the_usual_curvature(monkeypatch):
    """−s (I + 0.1 s G)⁻¹ times the gradient, found without a search."""
    rng = np.random.default_rng(0)
    Z, codes = rng.standard_normal((200, 4)), rng.integers(0, 3, 200)
    moment = PackedMatrix.of(Z.T @ Z)
    fold = dotsketch.gp.multinomial.fold_of(LabelledBlock(Z, codes, np.ones(200)))
    problem = SoftmaxProblem(fold, 0, moment, np.log([0.2, 0.3, 0.5]))
    gradient = problem.negative_log_likelihood(np.zeros((4, 3)))[1]
    tried, loss = [], problem.negative_log_likelihood
    monkeypatch.setattr(problem, "negative_log_likelihood", lambda W: tried.append(W) or loss(W))
    problem.mode(50.0)
    assert not np.any(tried[0])
    step = -50.0 * np.linalg.solve(np.eye(4) + 5.0 * Z.T @ Z, gradient)
    np.testing.assert_allclose(tried[1], step, rtol=1e-9)
    assert len(tried) < 30


@pytest.mark.parametrize("separation", [0.0, 3.0, 10.0])
def test_the_loss_at_the_mode_is_the_least_to_the_tolerance(separation):
    rng = np.random.default_rng(0)
    Z = rng.standard_normal((1000, 10))
    codes = (separation * Z[:, 0] + rng.standard_normal(1000) > 0).astype(int)
    fold = dotsketch.gp.multinomial.fold_of(LabelledBlock(Z, codes, np.ones(1000)))
    problem = SoftmaxProblem(fold, 0, PackedMatrix.of(Z.T @ Z), np.log([0.5, 0.5]))

    def loss(w):
        W = w.reshape(10, 2)
        value, gradient = problem.negative_log_likelihood(W)
        return value + 0.5 * np.sum(W * W) / 50, (gradient + W / 50).ravel()

    found = problem.mode(50.0).weights.ravel()
    options = {"maxiter": 2000, "ftol": 1e-15, "gtol": 1e-9}
    best = minimize(loss, found, jac=True, method="L-BFGS-B", options=options).fun
    assert loss(found)[0] - best < dotsketch.gp.multinomial.TOLERANCE * best


def test_weights_are_copies():
    X, y = class_data(60)
    counts = np.random.default_rng(0).integers(0, 4, 60)
    weighted = classifier().fit(X, y, sample_weight=counts.astype(float))
    copies = classifier().fit(np.repeat(X, counts, axis=0), np.repeat(y, counts))
    np.testing.assert_allclose(
        weighted.predict_latent(X), copies.predict_latent(X), rtol=1e-4, atol=1e-4
    )


def test_sources_of_rows(tmp_path):
    """A stream that can be read again, a memory map, sparse rows; features that are not kept."""
    X, y = class_data(60)
    expected = classifier().fit(X, y).predict_proba(X)
    names = np.array(["red", "green", "blue"])[y]

    def batches():
        for start in range(0, 60, 7):
            yield X[start : start + 7], y[start : start + 7]

    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    for found in (classifier().fit(batches), classifier().fit(mapped, y)):
        np.testing.assert_allclose(found.predict_proba(X), expected, atol=1e-4)
    named = classifier().fit(X, names).predict_proba(X)
    np.testing.assert_allclose(named, expected[:, [2, 1, 0]], atol=1e-4)
    with pytest.raises(ValueError, match="fresh iterator"):
        classifier().fit(batches())
    single = classifier().fit(X.astype(np.float32), y)
    np.testing.assert_allclose(single.predict_proba(X), expected, atol=1e-3)


def test_a_class_without_rows():
    X, y = class_data(60)
    gp = classifier().fit(iter_of(X, y), classes=[0, 1, 2, 3])
    p = gp.predict_proba(X)
    assert p.shape == (60, 4)
    assert np.all(np.isfinite(p))
    assert np.max(p[:, 3]) < 0.2


def iter_of(X, y):
    return lambda: iter([(X, y)])


def test_saved_and_loaded(tmp_path):
    X, y = class_data()
    gp = classifier().fit(X, y)
    save(gp, tmp_path / "model")
    again = load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict_proba(X), gp.predict_proba(X))
    assert again.likelihood_ == "softmax"
    assert again.posteriors_[0].factor.values is again.posteriors_[1].factor.values  # stored once


def test_the_prior_variance_is_the_best_on_rows_held_out(monkeypatch):
    """Those with hashes below a fifth of all; half decades, and the lowest point of a parabola."""
    X, y = class_data(300)
    gp = classifier(prior_variance="auto").fit(X, y)
    hashes = row_hashes(gp._seed, 0, 300)
    held = hashes < 0.2 * 2.0**64
    Z, means = gp.features_.transform(X), np.log(np.bincount(y) / 300)
    level = np.mean(np.sum(Z[~held] ** 2, axis=1))

    def loss(k):
        prior = 10 ** (k / 2) / level
        W = mode(Z[~held], y[~held], np.ones(np.sum(~held)), means, prior)
        B = np.eye(20) + prior / 2 * Z[~held].T @ Z[~held]
        variance = prior * np.sum(Z[held] * np.linalg.solve(B, Z[held].T).T, axis=1)
        predicted = HeldOut(
            Z[held] @ W + means, np.tile(variance[:, None], 3), y[held], np.ones(np.sum(held))
        )
        return predicted.loss(1.0) + (k - 4) ** 2 / (2 * 9 * np.sum(held))

    place = 2 * np.log10(gp.prior_variance_ * level)
    losses = {k: loss(k) for k in range(-3, 8)}
    best = min(losses, key=losses.get)
    assert -3 < best < 7
    assert place == pytest.approx(best + lowest_point(losses, best), abs=0.05)


def test_the_lowest_point_of_a_parabola():
    losses = {k: (k - 2.3) ** 2 for k in range(5)}
    assert lowest_point(losses, 2) == pytest.approx(0.3)
    assert lowest_point(losses, 4) == 0.0  # nothing beyond
    assert lowest_point({0: 1.0, 1: 1.0, 2: 1.0}, 1) == 0.0


def test_a_prior_chosen_with_fewer_columns_and_rows(monkeypatch):
    monkeypatch.setattr(dotsketch.gp.multinomial, "SEARCH_COLUMNS", 8)
    monkeypatch.setattr(dotsketch.gp.multinomial, "SEARCH_ROWS", 100)
    X, y = class_data(300)
    gp = classifier(prior_variance="auto").fit(X, y)
    same = classifier(prior_variance=gp.prior_variance_).fit(X, y)
    np.testing.assert_allclose(gp.predict_proba(X), same.predict_proba(X), atol=1e-4)
    assert gp.score(X, y) > 0.8


def test_auto_is_softmax_where_rows_are_many_and_can_be_read_again(monkeypatch):
    monkeypatch.setattr(dotsketch.gp.softmax_fits, "LEAST_ROWS", 60)
    X, y = class_data(60)

    def fitted(*rows, **options):
        return classifier(likelihood="auto", **options).fit(*rows).likelihood_

    assert fitted(X, y) == "softmax"
    assert fitted(X[:59], y[:59]) == "dirichlet"
    assert fitted(iter_of(X, y)) == "softmax"
    assert fitted(iter([(X, y)])) == "dirichlet"
    assert fitted(X, y, alpha=0.01) == "dirichlet"
    assert fitted(X, y, prior_variance="labels") == "dirichlet"
    assert fitted(X, y, solver="cg") == "dirichlet"
    complex_features = polynomial_features("complex")
    assert fitted(X, y, features=complex_features) == "softmax"
    assert fitted(X, y, features=complex_features, posterior="complex") == "dirichlet"


@pytest.mark.parametrize("likelihood", ["softmax", "dirichlet"])
def test_single_precision_is_left_where_it_would_matter(likelihood):
    """Products of float32 rows; a prior variance for which their rounding counts repeats them.

    Those of Dirichlet labels are never rounded: their solution is in closed form.
    """
    X, y = class_data(300)
    X = X.astype(np.float32)
    options = {"features": WAVES, "likelihood": likelihood, "temperature": 1.0}
    options |= {} if likelihood == "softmax" else {"alpha": 0.1}
    exact = FeatureGPClassifier(WAVES, alpha=0.1, prior_variance=1.0).partial_fit(X, y)
    for prior, is_exact in ((10.0, likelihood == "dirichlet"), (1e6, True)):
        gp = FeatureGPClassifier(prior_variance=prior, **options).fit(X, y)
        for found, expected in zip(gp.statistics_, exact.statistics_, strict=True):
            same = found.second_moment.values - expected.second_moment.values
            scale = np.max(expected.second_moment.diagonal())
            assert np.max(np.abs(same)) < (1e-12 if is_exact else 1e-6) * scale
            assert is_exact or np.max(np.abs(same)) > 1e-10 * scale


def test_many_features_of_a_softmax_are_in_single_precision(monkeypatch):
    """Of rows in double precision, unless these are far from the origin; sums show it."""
    X, y = class_data(300)

    def rounding(rows, least, **options):
        monkeypatch.setattr(dotsketch.gp.softmax_fits, "LEAST_NUMBERS", least)
        gp = classifier(chunk_rows=None, **options).fit(rows, y)
        Z = gp.features_.transform(rows)
        found = sum(statistics.second_moment.full() for statistics in gp.statistics_)
        return gp.predict_latent(rows)[0], np.max(np.abs(found - Z.T @ Z)) / np.max(Z.T @ Z)

    exact, least = rounding(X, 300 * 20 + 1)
    found, single = rounding(X, 300 * 20)
    assert least < 1e-13 < 1e-9 < single < 1e-6
    sparse, also_single = rounding(sp.csr_array(X), 1)
    assert 1e-9 < also_single < 1e-6
    for values in (found, sparse):
        np.testing.assert_allclose(values, exact, atol=1e-4 * np.max(np.abs(exact)))
    assert rounding(X + 1e5, 1)[1] < 1e-12
    assert rounding(X, 1, likelihood="dirichlet", alpha=0.01)[1] < 1e-13
    for value in (-9_999_999.5, 1e39):  # single rows far off, beyond single precision or not
        outlier = X.copy()
        outlier[200, 1] = value
        assert rounding(outlier, 1)[1] < 1e-12
    doubles = FunctionTransformer(lambda rows: WAVES.fit_transform(rows.astype(float)))
    assert rounding(X, 1, features=doubles)[1] < 1e-13


def test_rounded_sums_are_not_used_for_more_than_they_are_good_for(monkeypatch):
    """Those of rows in double precision are not rounded if a `refit` may follow."""
    monkeypatch.setattr(dotsketch.gp.softmax_fits, "LEAST_NUMBERS", 1)
    monkeypatch.setattr(dotsketch.gp.softmax_fits, "LEAST_ROWS", 30)
    X, y = class_data(300)
    options = {"chunk_rows": None, "likelihood": "auto", "prior_variance": 10.0}
    doubles = classifier(**options).fit(X, y).set_params(prior_variance=1e6)
    expected = classifier(**options | {"prior_variance": 1e6, "alpha": 0.1}).fit(X, y)
    found = doubles.refit(alpha=0.1).predict_latent(X)[0]
    exact = expected.predict_latent(X)[0]
    np.testing.assert_allclose(found, exact, atol=1e-2 * np.std(exact))
    singles = classifier(**options).fit(X.astype(np.float32), y).set_params(prior_variance=1e6)
    with pytest.warns(RuntimeWarning, match="single precision, which is too little"):
        singles.refit(alpha=0.1)


def test_features_of_rows_in_memory_are_computed_once(monkeypatch):
    X, y = class_data(300)
    seen, mapped = [], FeatureGPClassifier._map
    monkeypatch.setattr(
        FeatureGPClassifier, "_map", lambda gp, rows: seen.append(len(rows)) or mapped(gp, rows)
    )
    classifier(chunk_rows=None, prior_variance="auto").fit(X, y)
    assert seen == [300]


def test_features_that_take_too_much_memory_are_computed_again(monkeypatch):
    X, y = class_data(300)
    expected = classifier(chunk_rows=None).fit(X, y).predict_latent(X)[0]
    seen, mapped = [], FeatureGPClassifier._map
    monkeypatch.setattr(
        FeatureGPClassifier, "_map", lambda gp, rows: seen.append(len(rows)) or mapped(gp, rows)
    )
    monkeypatch.setattr(dotsketch.gp.softmax_fits, "MEMORY", 1)
    monkeypatch.setattr(dotsketch.gp.softmax_fits, "usable_memory", lambda: 4 * 300 * 20 * 8 - 1)
    gp = classifier(chunk_rows=None).fit(X, y)
    assert sum(seen) > 300 * gp.n_iterations_
    np.testing.assert_allclose(gp.predict_latent(X)[0], expected, atol=1e-5)


def test_sums_go_on_as_dirichlet_labels(monkeypatch):
    """`fit` and `partial_fit`, or `merge`, or `refit`: those of all rows with Dirichlet labels."""
    monkeypatch.setattr(dotsketch.gp.softmax_fits, "LEAST_ROWS", 30)
    X, y = class_data(60)
    options = {"likelihood": "auto", "features": polynomial_features(), "prior_variance": 2.0}
    auto = classifier(temperature=1.0, **options)
    expected = clone(auto).set_params(likelihood="dirichlet", alpha=0.01).fit(X, y)
    halves = [clone(auto).fit(X[rows], y[rows]) for rows in (slice(30), slice(30, None))]
    assert [gp.likelihood_ for gp in halves] == ["softmax"] * 2
    added = clone(auto).fit(X[:30], y[:30]).partial_fit(X[30:], y[30:])
    for found in (added, halves[0].merge(halves[1]), clone(auto).fit(X, y)):
        found.refit(alpha=0.01)
        assert found.likelihood_ == "dirichlet"
        assert not hasattr(found, "n_iterations_")
        np.testing.assert_allclose(found.predict_proba(X), expected.predict_proba(X), rtol=1e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"likelihood": "logistic"}, "likelihood must be one of"),
        ({"alpha": 0.01}, "no Dirichlet labels"),
        ({"prior_variance": "labels"}, "no Dirichlet labels"),
        ({"solver": "cg"}, 'needs solver="cholesky"'),
        ({"features": polynomial_features("complex"), "posterior": "complex"}, "real columns"),
    ],
)
def test_what_a_softmax_cannot_have(options, message):
    X, y = class_data()
    with pytest.raises(ValueError, match=message):
        classifier(**options).fit(X, y)


def test_what_needs_more_than_sums_raises():
    X, y = class_data()
    gp = classifier().fit(X, y)
    for what in (lambda: gp.partial_fit(X, y), gp.refit, lambda: gp.merge(gp)):
        with pytest.raises(ValueError, match="needs the rows"):
            what()
    with pytest.raises(ValueError, match="softmax likelihood"):
        gp.log_marginal_likelihood()


def test_many_columns_are_no_reason_to_iterate_otherwise(monkeypatch):
    monkeypatch.setattr(dotsketch.gp.iterative, "MOST_COLUMNS", 10)
    X, y = class_data()
    assert classifier().fit(X, y).solver_ == "cholesky"

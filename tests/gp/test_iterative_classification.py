"""Conjugate gradients for classifiers: all classes in each pass, with weights of their own."""

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import DotProduct

import dotsketch.gp.iterative
from dotsketch import ExactGPClassifier, FeatureGPClassifier, load, save
from dotsketch.gp import ConjugateGradients
from gp.data import class_data, gaussian_features, polynomial_features

STRICT = ConjugateGradients(tolerance=1e-9, n_samples=4)


def classifier(**options):
    given = {
        "features": gaussian_features(),
        "alpha": 0.01,
        "prior_variance": "labels",
        "solver": STRICT,
        "chunk_rows": 16,
    }
    return FeatureGPClassifier(**{**given, **options})


def assert_same_latent(found, exact, X):
    """The same means, and variances that are exact because all columns are in the subspace."""
    (mean, deviation), (exact_mean, exact_deviation) = (
        gp.predict_latent(X) for gp in (found, exact)
    )
    np.testing.assert_allclose(mean, exact_mean, atol=1e-6 * exact_mean.std())
    np.testing.assert_allclose(deviation, exact_deviation, rtol=1e-3)


@pytest.mark.parametrize("class_weight", [None, "balanced", {0: 3.0, 2: 0.5}])
def test_classes_are_those_of_cholesky(class_weight):
    X, y = class_data(n=200)
    X, y = X[(y != 1) | (X[:, 0] > 1)], y[(y != 1) | (X[:, 0] > 1)]  # classes of different sizes
    exact = classifier(solver="cholesky", class_weight=class_weight).fit(X, y)
    found = classifier(class_weight=class_weight).fit(X, y)
    assert_same_latent(found, exact, X)
    np.testing.assert_allclose(found.predict_proba(X), exact.predict_proba(X), atol=1e-3)
    np.testing.assert_array_equal(found.predict(X), exact.predict(X))
    assert (found.solver_, exact.solver_) == ("cg", "cholesky")
    assert found.n_iterations_ == len(found.residuals_) - 1


def test_variances_of_each_class_are_unbiased():
    """6 standard errors of the part outside of a small subspace, of 500 draws."""
    X, y = class_data(n=100)
    exact = classifier(solver="cholesky").fit(X, y).predict_latent(X[:10])[1] ** 2
    solver = ConjugateGradients(rank=4, n_samples=500)
    gp = classifier(solver=solver).fit(X, y)
    Z = gp._map(X[:10])
    inside = np.stack([np.sum(p._parts(Z)[0] ** 2, axis=0) for p in gp.posteriors_], axis=1)
    error = 6 * np.sqrt(2 / solver.n_samples) * (exact - inside)
    assert np.all(np.abs(gp.predict_latent(X[:10])[1] ** 2 - exact) < error)
    assert np.median(inside / exact) < 0.5


def test_alpha_is_chosen_on_a_sample_by_the_direct_path():
    """The exact classifier with the kernel of the features chooses the same."""
    X, y = class_data(n=150)
    features = polynomial_features()
    found = classifier(features=features, alpha="auto").fit(X, y)
    direct = ExactGPClassifier(DotProduct(0.0), prior_variance="labels", random_state=0)
    assert found.alpha_ == direct.fit(found.features_.transform(X), y).alpha_


def test_streams_named_classes_and_strings():
    X, y = class_data()
    names = np.array(["red", "green", "blue"])[y]

    def batches():
        for start in range(0, len(X), 7):
            yield X[start : start + 7], names[start : start + 7]

    exact = classifier(solver="cholesky", features=polynomial_features()).fit(X, names)
    found = classifier(features=polynomial_features()).fit(batches)
    assert_same_latent(found, exact, X)
    assert found.classes_.tolist() == ["blue", "green", "red"]
    more = classifier(features=polynomial_features()).fit(
        batches, classes=["red", "green", "blue", "gold"]
    )
    assert len(more.posteriors_) == 4
    with pytest.raises(ValueError, match="not among the classes"):
        classifier(features=polynomial_features()).fit(batches, classes=["red", "green"])
    with pytest.raises(ValueError, match="fresh iterator"):
        classifier().fit(batches())


@pytest.mark.parametrize("what", ["partial_fit", "merge", "refit", "log_marginal_likelihood"])
def test_what_needs_sums_raises(what, monkeypatch):
    X, y = class_data()
    monkeypatch.setattr(dotsketch.gp.iterative, "MOST_COLUMNS", 20)
    gp = classifier(solver="auto").fit(X, y)
    other = classifier(solver="cholesky").fit(X, y)
    arguments = {"partial_fit": (X, y), "merge": (other,)}.get(what, ())
    with pytest.raises(ValueError, match=f"{what} needs sums"):
        getattr(gp, what)(*arguments)
    assert not hasattr(gp, "statistics_")
    assert classifier(solver="auto").partial_fit(X, y).solver_ == "cholesky"


def test_interrupted_fit_goes_on(tmp_path, monkeypatch):
    X, y = class_data()
    options = {"solver": ConjugateGradients(rank=4)}
    expected = classifier(**options).fit(X, y)
    write, written = dotsketch.rows.Checkpoint.write, []

    def interrupted(self, *arguments):
        write(self, *arguments)
        written.append(1)
        if len(written) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(dotsketch.rows.Checkpoint, "write", interrupted)
    with pytest.raises(KeyboardInterrupt):
        classifier(**options).fit(X, y, checkpoint=tmp_path / "state.npz")
    found = classifier(**options).fit(X, y, checkpoint=tmp_path / "state.npz")
    assert len(written) == 3 + expected.n_iterations_ - 1  # the third iteration on
    np.testing.assert_allclose(found.predict_latent(X), expected.predict_latent(X), rtol=1e-7)


def test_saved_and_loaded(tmp_path):
    X, y = class_data()
    gp = classifier().fit(X, y)
    save(gp, tmp_path / "model")
    again = load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict_proba(X), gp.predict_proba(X))
    assert again.posteriors_[0].basis is again.posteriors_[1].basis  # stored once


def test_a_class_that_the_sample_lacks_may_have_a_weight(monkeypatch):
    """α is chosen on 20 rows here, none of them of the third class."""
    monkeypatch.setattr(dotsketch.gp.class_fits, "DIRECT_ROWS", 20)
    X, y = class_data(n=100)
    y = np.where(np.arange(100) == 1, 2, y % 2)
    gp = classifier(alpha="auto", class_weight={1: 2.0, 2: 3.0}).fit(X, y)
    np.testing.assert_array_equal(gp.classes_, [0, 1, 2])
    np.testing.assert_array_equal(gp.class_weights_, [1, 2, 3])


def test_a_sample_of_one_class_chooses_nothing(monkeypatch):
    """A stream that is sorted by class: the usual values, with a warning; given ones stay."""
    monkeypatch.setattr(dotsketch.gp.class_fits, "DIRECT_ROWS", 20)
    X, y = class_data(n=90)
    order = np.argsort(y, kind="stable")

    def batches():
        for start in range(0, 90, 9):
            yield X[order[start : start + 9]], y[order[start : start + 9]]

    free = {"alpha": "auto", "prior_variance": "auto"}
    with pytest.warns(UserWarning, match=r"all of the class 0.*shuffle the rows"):
        gp = classifier(**free, temperature=2.0).fit(batches)
    assert (gp.alpha_, gp.temperature_) == (1e-3, 2.0)
    assert gp.prior_variance_ == pytest.approx(10 * gp.labels_.prior_variance)
    assert gp.score(X, y) > 0.7
    classifier(temperature=1.0).fit(batches)  # nothing is to be chosen: no warning

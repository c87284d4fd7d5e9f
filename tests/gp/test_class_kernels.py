"""The kernel of a classifier: found by a regression, chosen on rows held out."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import dotsketch.gp.class_kernels
import dotsketch.gp.search
from dotsketch import FeatureGPClassifier, Gaussian, NystromFeatures, Polynomial, load, save
from dotsketch.gp.class_kernels import LastChoice, Trials, tuned_for_classes
from dotsketch.gp.search import Recorder
from dotsketch.gp.search.record import OutOfTime

FEATURES = NystromFeatures(Gaussian(lengthscale=2.0), n_components=40, random_state=0)


def labelled(n=200, seed=0):
    """Classes by the first of four columns, in stripes narrower than the lengthscale given."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 4))
    return X, (np.sin(4 * X[:, 0]) > 0).astype(int)


def test_a_column_that_matters_is_found(tmp_path):
    X, y = labelled()
    fixed = FeatureGPClassifier(FEATURES).fit(X, y)
    gp = FeatureGPClassifier(FEATURES, optimize=True).fit(X, y)
    assert gp.relevances_.argmax() == 0
    assert gp.kernel_.lengthscale.shape == (4,)
    assert "one lengthscale per column" in gp.search_.message
    assert {step.stage for step in gp.search_.steps} == {"subset", "factor", "kmeans"}
    test, expected = labelled(seed=1)
    assert gp.score(test, expected) > fixed.score(test, expected) + 0.1
    assert fixed.search_ is None
    np.testing.assert_allclose(fixed.relevances_, 0.25)
    save(gp, tmp_path / "gp")
    np.testing.assert_array_equal(load(tmp_path / "gp").predict_proba(X), gp.predict_proba(X))
    again = clone(gp).fit(X, y)
    np.testing.assert_array_equal(again.kernel_.lengthscale, gp.kernel_.lengthscale)


def test_a_search_that_runs_out_of_time_keeps_what_its_first_stage_found(monkeypatch):
    X, y = labelled()

    def late(*_):
        raise OutOfTime

    monkeypatch.setattr(LastChoice, "_tried", late)
    gp = FeatureGPClassifier(FEATURES, optimize=True).fit(X, y)
    assert gp.relevances_.argmax() == 0
    assert "one lengthscale per column" in gp.search_.message


def test_kernels_are_compared_with_the_same_landmarks(monkeypatch):
    X, y = labelled()
    seeds, values = set(), Trials.values

    def watched(self, features):
        seeds.add(features.random_state)
        return values(self, features)

    monkeypatch.setattr(Trials, "values", watched)
    FeatureGPClassifier(clone(FEATURES).set_params(random_state=None), optimize=True).fit(X, y)
    assert len(seeds) == 1
    assert None not in seeds


def test_common_lengthscales_and_the_argument_of_fit():
    X, y = labelled()
    gp = FeatureGPClassifier(FEATURES, optimize="ard").fit(X, y, optimize="common")
    assert np.ndim(gp.kernel_.lengthscale) == 0
    assert gp.kernel_.lengthscale < 2.0
    kept = FeatureGPClassifier(FEATURES, optimize=True).fit(X, y, optimize=False)
    assert (kept.search_, kept.kernel_.lengthscale) == (None, 2.0)


@pytest.mark.parametrize("factor", [0.02, 50.0])
def test_a_kernel_that_does_not_predict_better_is_not_taken(factor, monkeypatch):
    """Candidates that are far off: the kernel stays as given, its median resolved."""
    X = labelled()[0]
    features = NystromFeatures(Gaussian(), n_components=40, random_state=0)
    given = Gaussian().resolve(X)

    def misled(features, *_, **options):
        worse = clone(features).set_params(kernel=given.stretched(factor))
        options["recorder"].steps.append(None)
        return worse, "misled"

    monkeypatch.setattr(dotsketch.gp.class_kernels, "tuned_features", misled)
    corners = (X[:, 0] * X[:, 1] > 0).astype(int)
    found, message = tuned_for_classes(
        features,
        X,
        corners,
        None,
        fitting=X,
        make=FeatureGPClassifier,
        per_column=None,
        recorder=Recorder(),
    )
    assert "stays as given" in message
    assert found.kernel.lengthscale == pytest.approx(given.lengthscale)


def searched(monkeypatch, best=None, n_components=40, budget=None, levels=None):
    """A search whose trials are best at `best(n_columns)`: it finds 1.0, and 2.0 is given.

    `levels` are log-likelihoods of lengthscales instead. The last choice has 6000 rows, and the
    trials before it 80.
    """
    X, y = labelled(6000)
    monkeypatch.setattr(dotsketch.gp.class_kernels, "TRIAL_ROWS", 80)

    def values(trials, features):
        trial = trials._smaller(features)
        if levels is None:
            level = -(np.log(trial.kernel.lengthscale / best(trial.n_components)) ** 2)
        else:
            level = levels[round(float(trial.kernel.lengthscale), 2)]
        found = np.full(len(trials.held), level), 1.0
        return trials._known.setdefault(pickle.dumps(trial), found)

    def found(features, *_, **options):
        options["recorder"].steps.append(None)
        return clone(features).set_params(kernel=Gaussian(lengthscale=1.0)), "found"

    monkeypatch.setattr(Trials, "values", values)
    monkeypatch.setattr(dotsketch.gp.class_kernels, "tuned_features", found)
    recorder = Recorder(budget)
    features, message = tuned_for_classes(
        clone(FEATURES).set_params(n_components=n_components),
        X,
        y,
        None,
        fitting=X,
        make=FeatureGPClassifier,
        per_column=False,
        recorder=recorder,
    )
    return features, message, recorder.steps[1:]


@pytest.mark.parametrize(("best", "factor"), [(0.5, 0.5), (1.0, 1.0), (1.3, 2**0.5), (4.0, 2.0)])
def test_the_last_choice_takes_a_factor_of_the_lengthscales(best, factor, monkeypatch):
    features, message, steps = searched(monkeypatch, lambda _: best)
    start = 1.0 if best < 2 else 2.0
    assert features.kernel.lengthscale == pytest.approx(start * factor)
    assert features.n_components == 40
    assert {(step.stage, step.n_rows, step.n_columns) for step in steps} == {("factor", 6000, 40)}
    assert ("stays as given" in message) == (start == 2.0)
    assert ("times these" in message) == (factor != 1.0)


def test_many_columns_have_shorter_lengthscales_than_half_of_them(monkeypatch):
    features, _, steps = searched(monkeypatch, lambda n: 0.5 if n > 2048 else 0.7, 4096)
    assert features.kernel.lengthscale == pytest.approx(0.5)
    assert features.n_components == 4096
    tried = [(step.n_columns, round(step.factor, 2)) for step in steps]
    # the given one, which is far off, then the one that was found
    half = [(2048, 1.0), (2048, 1.0), (2048, 0.71), (2048, 0.5)]
    assert tried == [*half, (4096, 0.71), (4096, 0.5), (4096, 0.35)]


def test_candidates_near_the_best_have_factors_of_their_own(monkeypatch):
    """The given kernel is the better one as it is, and the other with shorter lengthscales."""
    levels = {1.0: -0.01, 0.71: 0.3, 0.5: 0.1, 2.0: 0.0, 1.41: -0.02, 2.83: -0.1}
    features, message, _ = searched(monkeypatch, levels=levels)
    assert features.kernel.lengthscale == pytest.approx(0.5**0.5)
    assert "0.707 times" in message
    levels[1.0] = -1.0  # too far
    features, message, _ = searched(monkeypatch, levels=levels)
    assert features.kernel.lengthscale == 2.0
    assert "stays as given: no other" in message


def test_a_search_that_is_late_does_without_more_rows_and_factors(monkeypatch):
    features, message, steps = searched(monkeypatch, lambda _: 0.5, budget=1e-9)
    assert features.kernel.lengthscale == 1.0
    assert (steps, message) == ([], "Best for rows held out: common lengthscales. found")


def test_a_gain_is_that_of_paired_rows_less_its_standard_error():
    X, y = labelled(200)
    counts = np.random.default_rng(0).integers(1, 4, 200).astype(float)
    trials = Trials(FeatureGPClassifier, X, y, counts, X, np.random.default_rng(0), 200)
    other = clone(FEATURES).set_params(kernel=Gaussian(lengthscale=1.0))
    better, worse = (trials.values(features)[0] for features in (other, FEATURES))
    w = counts[trials.held] / counts[trials.held].sum()
    mean = w @ (better - worse)
    expected = mean - np.sqrt(np.sum(w**2 * (better - worse - mean) ** 2))
    assert trials.gain(other, FEATURES) == pytest.approx(expected)
    assert trials.gain(FEATURES, FEATURES) == 0.0
    gp = FeatureGPClassifier(other).fit(X[trials.train], y[trials.train], counts[trials.train])
    p = gp.predict_proba(X[trials.held])[np.arange(len(w)), y[trials.held]]
    np.testing.assert_allclose(better, np.log(p))
    assert not set(trials.train) & set(trials.held)


def test_trials_have_fewer_columns_and_may_lack_a_class():
    X, y = labelled(40)
    y = np.where(np.arange(40) == 7, 5, y)
    trials = Trials(FeatureGPClassifier, X, y, None, X, np.random.default_rng(0), 40)
    assert trials._smaller(FEATURES).n_components == 30  # Nyström columns are rows
    assert np.all(np.isfinite(trials.values(FEATURES)[0]))


def test_features_without_a_kernel_to_search():
    X, y = labelled(60)
    nothing = NystromFeatures(Polynomial(1, gamma=1.0), n_components=4, random_state=0)
    for features in (StandardScaler(), make_pipeline(StandardScaler(), FEATURES), nothing):
        gp = FeatureGPClassifier(features, optimize="common").fit(X, y)
        assert gp.search_.message
    with pytest.raises(ValueError, match="optimize must be one of"):
        FeatureGPClassifier(FEATURES, optimize="all").fit(X, y)


def test_streams_and_parts_search_on_their_first_rows():
    X, y = labelled()
    names = np.array(["no", "yes"])[y]

    def batches():
        for start in range(0, 200, 40):
            yield X[start : start + 40], names[start : start + 40]

    expected = FeatureGPClassifier(FEATURES, optimize="common").fit(X, names).kernel_.lengthscale
    stream = FeatureGPClassifier(FEATURES, optimize="common").fit(batches)
    assert stream.kernel_.lengthscale == expected
    part = FeatureGPClassifier(FEATURES, optimize="common").partial_fit(X, names)
    found = part.kernel_.lengthscale
    assert found == expected
    assert part.partial_fit(X[:30] + 1, names[:30]).kernel_.lengthscale == found


def test_a_time_budget_ends_the_search():
    X, y = labelled()
    gp = FeatureGPClassifier(FEATURES, optimize=True, time_budget=1e-9).fit(X, y)
    assert "time budget" in gp.search_.message
    assert gp.score(X, y) > 0.5

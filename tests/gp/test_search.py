"""The search for the parameters of a kernel: `optimize=True`."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import StandardScaler

from dotsketch import (
    ExactGPRegressor,
    Exponential,
    FeatureGPRegressor,
    FourierFeatures,
    Gaussian,
    MaclaurinFeatures,
    Matern,
    NystromFeatures,
    Polynomial,
    load,
    save,
)
from dotsketch.gp.search import Journal, Recorder, best_on_rows, rounds
from dotsketch.gp.search import features as search_of_features
from dotsketch.gp.search.collapsed import LandmarkEvidence, MovedLandmarks
from dotsketch.gp.search.factor import MARGIN, best_factor
from dotsketch.gp.search.features import FirstStage
from dotsketch.gp.search.rounds import EXACT, FEATURES, SHORT_EXACT
from dotsketch.gp.search.subset import SubsetEvidence


def drawn_data(kernel, n=260, d=3, noise=0.01, seed=0):
    """Rows, and targets drawn from the process."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    K = kernel(X) + noise * np.eye(n)
    return X, np.linalg.cholesky(K) @ rng.standard_normal(n)


def nystrom(kernel=None, n_components=60):
    kernel = Matern(1.5) if kernel is None else kernel
    return NystromFeatures(kernel, n_components=n_components, random_state=0)


EVIDENCE_KERNELS = [
    Matern(1.5, lengthscale=np.array([0.6, 1.0, 2.0])),
    Gaussian(lengthscale=1.3),
    Polynomial(2, gamma=0.5),
    Exponential(lengthscale=2.0) + Matern(0.5, lengthscale=1.0),
]


@pytest.mark.parametrize("kernel", EVIDENCE_KERNELS, ids=repr)
@pytest.mark.parametrize("by_row", [False, True])
def test_the_gradient_with_landmarks(kernel, by_row, rng):
    """Differences, and the exact evidence where every row is a landmark."""
    X, Y, B = (rng.standard_normal(shape) for shape in ((30, 3), (30, 2), (7, 3)))
    noise, counts = rng.uniform(0.1, 0.5, 30) if by_row else None, rng.integers(1, 4, 30)
    start = kernel.logarithms if by_row else np.append(kernel.logarithms, np.log(0.3))
    evidence = LandmarkEvidence(kernel, B, X, Y, noise, counts)
    for i, step in enumerate(1e-5 * np.eye(len(start))):
        slope = (evidence(start + step)[0] - evidence(start - step)[0]) / 2e-5
        assert evidence(start)[1][i] == pytest.approx(slope, rel=1e-5, abs=1e-7)
    found = LandmarkEvidence(kernel, X, X, Y, noise, counts)(start)[0]
    assert found == pytest.approx(SubsetEvidence(kernel, X, Y, noise, counts)(start)[0], rel=1e-6)


@pytest.mark.parametrize("kernel", EVIDENCE_KERNELS, ids=repr)
@pytest.mark.parametrize("by_row", [False, True])
def test_the_gradient_is_that_of_the_density(kernel, by_row, rng):
    X, Y = rng.standard_normal((30, 3)), rng.standard_normal((30, 2))
    noise = rng.uniform(0.1, 0.5, 30) if by_row else None
    evidence = SubsetEvidence(kernel, X, Y, noise)
    start = kernel.logarithms if by_row else np.append(kernel.logarithms, np.log(0.3))
    value, gradient = evidence(start)
    C = kernel(X) + np.diag(noise if by_row else np.full(30, 0.3))
    determinant = np.linalg.slogdet(2 * np.pi * C)[1]
    density = -np.trace(Y.T @ np.linalg.solve(C, Y)) / 2 - determinant  # of two outputs
    assert value == pytest.approx(-density / 30)
    for i, step in enumerate(1e-5 * np.eye(len(start))):
        slope = (evidence(start + step)[0] - evidence(start - step)[0]) / 2e-5
        assert gradient[i] == pytest.approx(slope, rel=1e-5, abs=1e-8)


def test_rows_that_count_twice_are_two_rows(rng):
    X, Y, counts = rng.standard_normal((20, 2)), rng.standard_normal((20, 2)), np.ones(20)
    counts[[3, 8]] = 2
    kernel, twice = Gaussian(lengthscale=1.3), np.repeat(np.arange(20), counts.astype(int))
    start = np.append(kernel.logarithms, np.log(0.3))
    value, gradient = SubsetEvidence(kernel, X, Y, None, counts)(start)
    expected, slopes = SubsetEvidence(kernel, X[twice], Y[twice], None)(start)
    assert value == pytest.approx(expected)
    np.testing.assert_allclose(gradient, slopes, rtol=1e-9)


def test_the_columns_that_matter_are_found():
    """Targets drawn from a kernel of the first and third of five columns."""
    lengthscales = np.array([0.8, 1e6, 2.0, 1e6, 1e6])
    X, y = drawn_data(Matern(1.5, lengthscale=lengthscales), d=5)
    gp = ExactGPRegressor(Matern(1.5), optimize=True).fit(X, y)
    found = gp.kernel_.lengthscale
    assert np.all(found[[1, 3, 4]] > 8 * found[2])
    assert found[0] < found[2]
    assert gp.relevances_.sum() == pytest.approx(1)
    assert gp.relevances_.argmax() == 0
    # the scale of the process is that of the prior variance: that of the kernel stays
    assert gp.kernel_.variance == 1.0
    truth = Matern(1.5, lengthscale=lengthscales)
    at_truth = ExactGPRegressor(truth).fit(X, y).log_marginal_likelihood()
    assert gp.log_marginal_likelihood() > at_truth - 1e-3


def test_features_find_them_too_and_again():
    X, y = drawn_data(Matern(1.5, lengthscale=np.array([0.8, 1e6, 1.5])))
    gp = FeatureGPRegressor(nystrom(), optimize=True).fit(X, y)
    assert gp.relevances_.argmin() == 1
    plain = FeatureGPRegressor(nystrom()).fit(X, y)
    assert gp.log_marginal_likelihood() > plain.log_marginal_likelihood() + 10
    again = FeatureGPRegressor(nystrom()).fit(X, y, optimize=True)
    np.testing.assert_array_equal(gp.predict(X), again.predict(X))
    assert plain.search_ is None
    stages = [step.stage for step in gp.search_.steps]
    assert stages.count("subset") == 3
    assert stages.count("factor") >= 3
    table = str(gp.search_)
    assert len(table.splitlines()) == len(stages) + 2
    assert len(gp.search_.to_pandas()) == len(stages)


def test_the_argument_of_fit_wins():
    X, y = drawn_data(Gaussian(lengthscale=1.0), n=80)
    gp = FeatureGPRegressor(nystrom(), optimize=True).fit(X, y, optimize=False)
    assert gp.search_ is None
    gp = ExactGPRegressor(Gaussian(), optimize=False).fit(X, y, optimize="common")
    assert gp.search_ is not None
    assert np.ndim(gp.kernel_.lengthscale) == 0


def test_few_rows_and_many_columns_share_a_lengthscale(rng):
    X = rng.standard_normal((60, 10))
    y = np.sin(X[:, 0])
    for optimize, dimensions in ((True, 0), ("common", 0), ("ard", 1)):
        gp = ExactGPRegressor(Gaussian(), optimize=optimize).fit(X, y)
        assert np.ndim(gp.kernel_.lengthscale) == dimensions
    np.testing.assert_allclose(
        ExactGPRegressor(Gaussian(), optimize=True).fit(X, y).relevances_, 0.1
    )


def test_searches_within_scikit_learn():
    X, y = drawn_data(Gaussian(lengthscale=1.0), n=90, d=2)
    gp = FeatureGPRegressor(nystrom(Gaussian(), 20), optimize=True, time_budget=5.0)
    assert clone(gp).get_params()["optimize"] is True
    search = GridSearchCV(gp, {"optimize": [False, True]}, cv=2).fit(X, y)
    assert set(search.cv_results_["param_optimize"]) == {False, True}


@pytest.mark.parametrize("form", ["sparse", "stream", "memory map", "partial"])
def test_rows_from_anywhere(form, tmp_path):
    X, y = drawn_data(Gaussian(lengthscale=np.array([0.7, 1e6])), n=120, d=2)
    gp = FeatureGPRegressor(nystrom(Gaussian(), 30), optimize=True)
    expected = clone(gp).fit(X, y).kernel_.lengthscale
    if form == "sparse":
        gp.fit(sp.csr_array(X), y)
    elif form == "stream":
        gp.fit(iter([(X[:50], y[:50]), (X[50:], y[50:])]))
    elif form == "memory map":
        np.save(tmp_path / "X.npy", X)
        gp.fit(np.load(tmp_path / "X.npy", mmap_mode="r"), y)
    else:
        gp.partial_fit(X, y)
    np.testing.assert_allclose(gp.kernel_.lengthscale, expected, rtol=1e-6)


def test_several_outputs_and_noise_by_row(rng):
    X, y = drawn_data(Gaussian(lengthscale=np.array([0.7, 1e6, 1.0])), n=150)
    Y = np.stack([y, -3 * y], axis=1)
    noise = np.full(len(y), 0.02)
    for gp in (
        FeatureGPRegressor(nystrom(Gaussian(), 50), optimize=True),
        ExactGPRegressor(Gaussian(), optimize=True),
    ):
        gp.fit(X, Y, noise_variance=noise)
        assert gp.relevances_.argmin() == 1
        assert gp.noise_variance_ is None


@pytest.mark.parametrize(
    "spoil",
    ["duplicated", "constant", "outlier", "rank", "no noise", "units", "constant target"],
)
def test_difficult_rows(spoil):
    X, y = drawn_data(Matern(1.5, lengthscale=np.array([0.8, 1.2, 5.0])), n=120)
    if spoil == "duplicated":
        X = np.hstack([X, X])
    elif spoil == "constant":
        X[:, 2] = 7.0
    elif spoil == "outlier":
        X[3, 1] = 100.0
    elif spoil == "rank":
        X = np.repeat(X[:15], 8, axis=0)
    elif spoil == "no noise":
        y = X[:, 0] + X[:, 1] ** 2
    elif spoil == "units":
        X = X * [1e-6, 1e5, 1.0]
    else:
        y = np.full(len(X), 3.0)
    gp = FeatureGPRegressor(nystrom(n_components=15), optimize=True).fit(X, y)
    mean, std = gp.predict(X, return_std=True, include_noise=True)
    assert np.all(np.isfinite(mean))
    assert np.all(std > 0)
    if spoil not in ("rank", "constant target"):
        gp = ExactGPRegressor(Matern(1.5), optimize=True).fit(X[:90], y[:90])
        assert gp.score(X[90:], y[90:]) > 0.4


def test_behind_other_steps(rng):
    X, y = drawn_data(Matern(1.5, lengthscale=np.array([0.8, 1e6, 1.5])))
    scaled = StandardScaler().fit_transform(X)
    direct = FeatureGPRegressor(nystrom(), optimize=True).fit(scaled, y)
    model = make_pipeline(StandardScaler(), nystrom())
    behind = FeatureGPRegressor(model, optimize=True).fit(X * [1e3, 1.0, 1e-3], y)
    np.testing.assert_allclose(behind.kernel_.lengthscale, direct.kernel_.lengthscale, rtol=1e-4)
    union = FeatureUnion([("a", nystrom()), ("b", nystrom(Gaussian()))])
    gp = FeatureGPRegressor(union, optimize=True).fit(X, y)
    assert "no single kernel" in gp.search_.message


def test_a_sum_that_must_keep_its_series(rng):
    """Maclaurin features need both kernels to see one dot product: no lengthscale per column."""
    X = 0.3 * rng.standard_normal((150, 3))
    kernel = Polynomial(1) + Exponential(lengthscale=1.0)
    features = MaclaurinFeatures(kernel, n_components=40, random_state=0)
    y = np.sin(4 * X[:, 0])
    gp = FeatureGPRegressor(features, optimize=True).fit(X, y)
    assert np.all(np.isfinite(gp.predict(X)))
    assert "One lengthscale per column leaves no Maclaurin series" in gp.search_.message
    found = gp.kernel_.left.gamma * gp.kernel_.right.lengthscale**2
    assert abs(np.log(found)) > 0.1  # both were searched, not only their common factor


def test_columns_are_fewer_while_the_factor_is_searched():
    seen = []

    def score(factor, n_columns):
        seen.append((factor, n_columns))
        return -(np.log2(factor / 2) ** 2)

    assert best_factor(score, 2050, 2, Recorder()) == pytest.approx((2, 0))
    assert {columns for _, columns in seen} == {1024}
    assert len(seen) == len({factor for factor, _ in seen})
    seen.clear()
    assert best_factor(score, 100, 1, Recorder(), least=0.5) == (1, -1)
    assert seen == [(1, None)]  # no better than what is known already
    assert best_factor(lambda factor, columns: 0.0, 100, 1, Recorder()) == (1, 0)
    # a longer lengthscale needs a gain, a shorter one does not
    assert best_factor(lambda factor, columns: MARGIN * 0.9 * factor, None, 1, Recorder())[0] == 1
    shorter = best_factor(lambda factor, columns: -MARGIN * 0.1 * factor, None, 1, Recorder())
    assert shorter[0] == pytest.approx(0.25)


def test_a_budget_ends_the_search():
    X, y = drawn_data(Gaussian(lengthscale=1.0), n=100, d=2)
    gp = FeatureGPRegressor(nystrom(Gaussian(), 20), optimize=True, time_budget=1e-9).fit(X, y)
    stages = [step.stage for step in gp.search_.steps]  # what was found is compared once
    assert stages == [stages[0], "kernel", "kernel"]
    assert all(step.n_evaluations == 1 for step in gp.search_.steps)
    assert "ended the search early" in gp.search_.message
    assert np.all(np.isfinite(gp.predict(X)))


@pytest.mark.parametrize(("given", "found"), [(1.0, 1e-3), (1e-3, 1.0)])
def test_what_no_time_was_left_to_judge_is_compared_with_the_given_kernel(
    monkeypatch, given, found
):
    X, y = drawn_data(Gaussian(lengthscale=1.0), n=100, d=2)
    unjudged = [Gaussian(lengthscale=found)], ""
    monkeypatch.setattr(FirstStage, "candidates", lambda stage, kernel: unjudged)
    features = nystrom(Gaussian(lengthscale=given), 20)
    gp = FeatureGPRegressor(features, optimize=True, time_budget=1e-9).fit(X, y)
    assert gp.kernel_.lengthscale == 1.0
    assert ("given kernel is kept" in gp.search_.message) is (given == 1.0)


def test_files_keep_what_was_found(tmp_path):
    X, y = drawn_data(Gaussian(lengthscale=1.0), n=100, d=2)
    for gp in (FeatureGPRegressor(nystrom(Gaussian(), 20)), ExactGPRegressor(Gaussian())):
        gp.fit(X, y, optimize=True)
        save(gp, tmp_path / "gp")
        found = load(tmp_path / "gp")
        assert found.search_ == gp.search_
        np.testing.assert_array_equal(found.relevances_, gp.relevances_)


def test_relevances_are_drawn():
    pd, plt = pytest.importorskip("pandas"), pytest.importorskip("matplotlib.pyplot")
    X, y = drawn_data(Gaussian(lengthscale=np.array([0.7, 1e6])), n=100, d=2)
    frame = pd.DataFrame(X, columns=["width", "height"])
    ax = ExactGPRegressor(Gaussian(), optimize=True).fit(frame, y).plot_relevances()
    assert [text.get_text() for text in ax.get_yticklabels()] == ["height", "width"]
    plt.close(ax.figure)


def test_mistakes_are_explained():
    X, y = drawn_data(Gaussian(lengthscale=1.0), n=30, d=2)
    with pytest.raises(ValueError, match="optimize must be one of"):
        ExactGPRegressor(Gaussian(), optimize="all").fit(X, y)
    with pytest.raises(ValueError, match="time_budget must be a positive number"):
        FeatureGPRegressor(nystrom(n_components=5), time_budget=0).fit(X, y)
    features = FourierFeatures(Gaussian(), n_components=4)
    with pytest.raises(AttributeError, match="no lengthscale"):
        _ = ExactGPRegressor(Polynomial(2)).fit(X, y).relevances_
    assert not hasattr(FeatureGPRegressor(features), "kernel_")


def test_rows_of_a_subset_do_not_depend_on_how_many_are_asked(rng):
    """A larger subset contains the smaller one, and iterations are bounded."""
    X, y = drawn_data(Gaussian(lengthscale=1.0), n=50, d=2)
    recorder = Recorder()
    shared = {"per_column": None, "rng": np.random.default_rng(0), "recorder": recorder}
    best_on_rows(Gaussian(), X, y[:, None], None, **shared)
    assert all(step.n_evaluations < 3 * max(EXACT.iterations) for step in recorder.steps)


def test_quantiles_are_those_of_a_gaussian():
    X, y = drawn_data(Gaussian(lengthscale=1.0), n=60, d=2)
    for targets in (y, np.stack([y, 2 * y], axis=1)):
        for gp in (FeatureGPRegressor(nystrom(Gaussian(), 20)), ExactGPRegressor(Gaussian())):
            gp.fit(X, targets)
            found = gp.predict_quantiles(X[:5], [0.1, 0.5, 0.9])
            mean, std = gp.predict(X[:5], return_std=True, include_noise=True)
            assert found.shape == (*mean.shape, 3)
            np.testing.assert_allclose(found[..., 1], mean)
            np.testing.assert_allclose(found[..., 2] - mean, 1.2815515655446004 * std)
            np.testing.assert_allclose(found[..., 0] + found[..., 2], 2 * mean)
            plain = gp.predict_quantiles(X[:5], 0.9, include_noise=False)
            assert np.all(plain[..., 0] < found[..., 2])
    with pytest.raises(ValueError, match="between 0 and 1"):
        gp.predict_quantiles(X, [5, 95])


class CountedRecorder(Recorder):
    """Its time is a number of evaluations."""

    def __init__(self, most, journal=None):
        super().__init__(1e9, journal=journal)
        self.most = most

    def check(self, share=1.0):
        self.most -= 1
        if self.most < 0:
            self.time_budget = 1e-9
        super().check(share)


def test_a_run_that_is_stopped_does_not_lose_those_before():
    X, y = drawn_data(Gaussian(lengthscale=0.3), n=60, d=2)

    def search(most):
        recorder = CountedRecorder(most)
        options = {"per_column": False, "rng": np.random.default_rng(0), "recorder": recorder}
        return best_on_rows(Gaussian(), X, y[:, None], None, **options), recorder.steps

    _, steps = search(10_000)
    kernel, stopped = search(steps[0].n_evaluations + 1)  # early in the second run
    assert stopped[1].log_likelihood < stopped[0].log_likelihood
    expected, _ = search(steps[0].n_evaluations)
    assert kernel == expected


def test_weights_of_rows_count_in_the_first_stage(rng):
    """The same rows, targets and weights as those that the exact process searches with."""
    X, y = drawn_data(Gaussian(lengthscale=0.5), n=80, d=2)
    weights = rng.integers(1, 4, 80)
    features = FourierFeatures(Gaussian(), n_components=20, random_state=0)
    found, exact, unweighted = (
        gp.fit(X, y, w, optimize=True).search_.steps[0].log_likelihood
        for gp, w in (
            (FeatureGPRegressor(features), weights),
            (ExactGPRegressor(Gaussian()), weights),
            (FeatureGPRegressor(features), None),
        )
    )
    assert found == pytest.approx(exact, rel=1e-3)
    assert abs(unweighted - exact) > 0.01


@pytest.mark.parametrize("normalize_y", ["standard", None])
def test_figures_of_both_stages_are_in_the_same_units(normalize_y, rng):
    """With every row a landmark both stages have the exact likelihood of the rows, per copy.

    With noise by row: copies of a target have none to learn from.
    """
    X, y = drawn_data(Gaussian(lengthscale=0.5), n=60, d=2)
    weights, noise = rng.integers(1, 4, 60), np.full(60, 0.05)
    gp = FeatureGPRegressor(nystrom(Gaussian(), 60), optimize="common", normalize_y=normalize_y)
    steps = gp.fit(X, 5 * y, weights, noise_variance=noise).search_.steps
    first = max(step.log_likelihood for step in steps if step.stage == "subset")
    [second] = [step for step in steps if step.stage == "factor" and step.factor == 1]
    # means that are not subtracted (normalize_y=None) are subtracted by the first stage
    tolerance = 1e-3 if normalize_y else 0.05
    assert second.log_likelihood == pytest.approx(first, abs=tolerance)


@pytest.mark.parametrize("model", ["exact", "features", "sparse", "pipeline"])
def test_a_constant_column_has_no_relevance(model):
    X, y = drawn_data(Matern(1.5, lengthscale=np.array([0.8, 1.2, 1.5])), n=90)
    X[:, 1] = 7.0
    gp = FeatureGPRegressor(nystrom(n_components=30), optimize="ard")
    if model == "exact":
        gp = ExactGPRegressor(Matern(1.5), optimize="ard")
    elif model == "pipeline":
        gp.set_params(features=make_pipeline(StandardScaler(), gp.features))
    gp.fit(sp.csr_array(X) if model == "sparse" else X, y)
    assert gp.relevances_[1] == 0
    assert gp.relevances_.sum() == pytest.approx(1)
    assert gp.search_.constant_columns == (1,)
    assert "Constant columns were left out: 1" in gp.search_.message
    if model == "exact":  # the function does not vary along it: its lengthscale is the longest
        assert gp.kernel_.lengthscale.argmax() == 1


def test_a_column_that_is_constant_in_the_rows_of_the_search_only(rng, monkeypatch):
    """Its rare values may matter: it keeps a usual lengthscale."""
    monkeypatch.setattr(rounds, "EXACT", EXACT._replace(rows=(20, 40)))
    X = rng.standard_normal((80, 2))
    X[:, 1] = 0
    X[np.random.default_rng(0).permutation(80)[-1], 1] = 9.0  # not of the first 40
    y = np.sin(2 * X[:, :1])
    recorder = Recorder()
    options = {"per_column": True, "rng": np.random.default_rng(0), "recorder": recorder}
    kernel = best_on_rows(Matern(1.5), X, y, None, **options)
    assert recorder.constant_columns == ()
    assert kernel.lengthscale[1] < 10


@pytest.mark.parametrize(
    "kernel", [Polynomial(1) + Exponential(), Polynomial(1) * Exponential()], ids=repr
)
def test_sums_and_products_have_lengthscales_per_column_on_landmarks(kernel, rng):
    """Nyström features take any kernel: nothing keeps them from one lengthscale per column."""
    X = 0.3 * rng.standard_normal((120, 3))
    gp = FeatureGPRegressor(nystrom(kernel, 20), optimize="ard").fit(X, np.sin(4 * X[:, 0]))
    assert "Maclaurin" not in gp.search_.message
    assert gp.kernel_.right.lengthscale.shape == (3,)


def test_an_interrupted_search_goes_on(tmp_path, monkeypatch):
    """After the last step that it has done: no run of the first stage is repeated."""
    X, y = drawn_data(Gaussian(lengthscale=1.0), n=80, d=2)
    gp = FeatureGPRegressor(nystrom(Gaussian(), 20), optimize=True)
    expected = clone(gp).fit(X, y)
    score, seen = FeatureGPRegressor._score, []

    def interrupted(self, *arguments):
        seen.append(len(seen))
        if len(seen) == 2:
            raise KeyboardInterrupt
        return score(self, *arguments)

    monkeypatch.setattr(FeatureGPRegressor, "_score", interrupted)
    with pytest.raises(KeyboardInterrupt):
        gp.fit(X, y, checkpoint=tmp_path / "sums")
    monkeypatch.setattr(SubsetEvidence, "__call__", None)
    gp.fit(X, y, checkpoint=tmp_path / "sums")
    assert gp.kernel_ == expected.kernel_
    unlike = {"seconds": 0.0}
    assert [s._replace(**unlike) for s in gp.search_.steps] == [
        s._replace(**unlike) for s in expected.search_.steps
    ]
    n_scored = sum(step.stage in ("factor", "kmeans") for step in gp.search_.steps)
    assert len(seen) == n_scored + 1


def test_a_search_that_time_has_stopped_stops_there_again(tmp_path):
    """Otherwise the sums of a checkpoint would be those of another kernel."""
    X, y = drawn_data(Gaussian(lengthscale=0.3), n=60, d=2)
    path, found = tmp_path / "sums.search", []
    for most in (30, 40, 10_000):  # evaluations; the file decides after the first time
        recorder = CountedRecorder(most, Journal(path, b"digest"))
        options = {"per_column": False, "rng": np.random.default_rng(0), "recorder": recorder}
        found.append((best_on_rows(Gaussian(), X, y[:, None], None, **options), recorder.steps))
    assert found[0] == found[1] == found[2]
    assert found[0][1][-1].n_evaluations < 30
    assert Journal(path, b"digest").read()
    assert Journal(path, b"other").read() == []
    path.write_text("no search")
    assert Journal(path, b"digest").read() == []


def test_many_rows_are_seen_through_landmarks(monkeypatch):
    """In a round of its own; of its kernel and the exact one the better for the features wins."""
    schedule = FEATURES._replace(rows=(30, 60), iterations=(60, 60, 60))
    monkeypatch.setattr(search_of_features, "FEATURES", schedule)
    X, y = drawn_data(Matern(1.5, lengthscale=np.array([0.8, 1e6, 1.5])), n=200)
    gp = FeatureGPRegressor(nystrom(n_components=25), optimize="ard").fit(X, y)
    [step] = [step for step in gp.search_.steps if step.stage == "landmarks"]
    assert (step.n_rows, step.n_columns) == (200, 25)
    tried = [step for step in gp.search_.steps if step.stage == "factor"]
    assert sum(step.factor == 1 for step in tried) == 2
    reached = gp.log_marginal_likelihood() / 200 + np.log(np.std(y))
    assert reached == pytest.approx(max(step.log_likelihood for step in tried), abs=MARGIN)
    exact = ExactGPRegressor(Matern(1.5), optimize="ard").fit(X, y)
    assert {step.stage for step in exact.search_.steps} == {"subset"}


@pytest.mark.parametrize("model", ["features", "exact"])
@pytest.mark.parametrize("truth", [Matern(0.5, lengthscale=2.0), Gaussian(lengthscale=1.5)])
def test_the_smoothness_is_found(model, truth):
    """Both truths differ from nu = 1.5, the first of the kernels that are compared."""
    X, y = drawn_data(truth, n=400, d=2, noise=1e-4)
    kernel = Matern("auto")
    gp = ExactGPRegressor(kernel) if model == "exact" else FeatureGPRegressor(nystrom(kernel, 200))
    gp.fit(X, y, optimize="common")
    assert type(gp.kernel_) is type(truth)
    assert getattr(gp.kernel_, "nu", None) == getattr(truth, "nu", None)
    again = clone(gp).fit(X, y, optimize="common")
    np.testing.assert_array_equal(again.predict(X), gp.predict(X))
    if model == "features":
        assert [step.stage for step in gp.search_.steps].count("kernel") == 4
        assert f"Kernel: {type(truth).__name__}" in gp.search_.message


def test_a_kernel_that_is_not_searched_has_the_usual_smoothness(rng):
    X = rng.standard_normal((50, 3))
    y = np.sin(X[:, 0])
    expected = FeatureGPRegressor(nystrom(Matern(1.5), 30)).fit(X, y).predict(X)
    gp = FeatureGPRegressor(nystrom(Matern("auto"), 30)).fit(X, y)
    np.testing.assert_array_equal(gp.predict(X), expected)
    assert gp.kernel_.nu == 1.5


def test_the_best_start_of_a_kernel_counts():
    """With few rows all starts see the same ones: the last need not be the best."""
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(120, 1))
    y = np.sin(100 * X[:, 0]) + 0.05 * rng.standard_normal(120)
    gp = ExactGPRegressor(Matern("auto", lengthscale=0.01), optimize="common").fit(X, y)
    assert isinstance(gp.kernel_, Gaussian)


def test_the_usual_smoothness_is_kept_unless_another_is_clearly_better():
    kernels = [Matern(nu) for nu in (1.5, 0.5, 2.5)]
    values = dict(zip(kernels, (1.0, 1.02, 0.5), strict=True))
    chosen = [
        rounds.preferred(
            kernels,
            lambda kernel, rng, near: rounds.Found(kernel, values[kernel], np.zeros(2)),
            np.random.default_rng(0),
            Recorder(),
            margin,
        )
        for margin in (0.0, 0.03)
    ]
    assert [kernel.nu for kernel in chosen] == [0.5, 1.5]


def test_rounds_are_as_many_as_the_rows_allow():
    assert FEATURES.rounds(50_000) == [(600, 60), (1500, 30), (3000, 12), (10_000, 60)]
    # the last exact round is not cut short where it is the last of all
    assert FEATURES.rounds(2000) == [(600, 60), (1500, 60), (2000, 60)]
    assert EXACT.rounds(50_000) == [(600, 60), (1500, 60), (3000, 60)]
    assert EXACT.rounds(500) == [(500, 60)]
    assert FEATURES.with_most_landmarks(100).n_landmarks == 100
    assert FEATURES.with_most_landmarks(None) == FEATURES


def test_other_kernels_begin_near_the_first():
    """In the last round alone, and with noise where the first has none."""
    X, y = drawn_data(Matern(0.5, lengthscale=2.0), n=80, d=2, noise=0.1)
    recorder = Recorder()

    def found(kernel, near=None):
        options = {"rng": np.random.default_rng(0), "recorder": recorder, "schedule": schedule}
        return rounds.found_on_rows(
            kernel, X, y[:, None], None, per_column=True, near=near, **options
        )[0]

    schedule = SHORT_EXACT._replace(rows=(40, 80))
    first = found(Matern(1.5))
    noiseless = first._replace(logarithms=np.append(first.logarithms[:-1], np.log(1e-6)))
    assert [step.n_rows for step in recorder.steps] == [40, 40, 80]
    again = found(Matern(1.5), near=noiseless)
    assert [step.n_rows for step in recorder.steps[3:]] == [80]
    assert again.log_likelihood == pytest.approx(first.log_likelihood, abs=0.01)
    assert np.exp(again.logarithms[-1]) > 1e-3  # the noise
    # of another number of parameters: from the beginning
    found(Polynomial(2), near=first)
    assert [step.n_rows for step in recorder.steps[4:]] == [40, 40, 80]


def test_a_choice_without_time_takes_the_first_kernel():
    X, y = drawn_data(Gaussian(lengthscale=1.5), n=100, d=2)
    gp = FeatureGPRegressor(nystrom(Matern("auto"), 30), optimize=True, time_budget=1e-9)
    assert gp.fit(X, y).kernel_.nu == 1.5
    assert "ended the search early" in gp.search_.message


@pytest.mark.parametrize("by_row", [False, True])
@pytest.mark.parametrize(
    "kernel",
    [Matern(1.5, lengthscale=np.array([0.6, 1.0, 2.0])), Gaussian(lengthscale=1.3)],
    ids=["Matern", "Gaussian"],
)
def test_the_gradient_of_landmarks_that_move(kernel, by_row, rng):
    """Differences; and with every row a landmark nothing is missing: the bound is the evidence."""
    X, Y, B = (rng.standard_normal(shape) for shape in ((30, 3), (30, 2), (7, 3)))
    noise, counts = rng.uniform(0.1, 0.5, 30) if by_row else None, rng.integers(1, 4, 30)
    logarithms = kernel.logarithms if by_row else np.append(kernel.logarithms, np.log(0.3))
    bound = MovedLandmarks(kernel, B, X, Y, noise, counts)
    start = bound.start(logarithms)
    np.testing.assert_allclose(bound.moved(start), B)
    gradient = bound(start)[1]
    for i, step in enumerate(1e-5 * np.eye(len(start))):
        slope = (bound(start + step)[0] - bound(start - step)[0]) / 2e-5
        assert slope == pytest.approx(gradient[i], rel=1e-5, abs=1e-7)
    assert bound(start)[0] > LandmarkEvidence(kernel, B, X, Y, noise, counts)(logarithms)[0]
    every = MovedLandmarks(kernel, X, X, Y, noise, counts)
    exact = SubsetEvidence(kernel, X, Y, noise, counts)(logarithms)[0]
    assert every(every.start(logarithms))[0] == pytest.approx(exact, rel=1e-5)


def test_landmarks_that_are_learned(tmp_path, rng):
    """A few landmarks where the function varies do better than as many rows."""
    X = rng.uniform(-3, 3, (600, 2))
    y = np.exp(-4 * np.sum((X - 1) ** 2, axis=1)) + 0.01 * rng.standard_normal(600)
    scores = {}
    for rule in ("uniform", "learned"):
        features = NystromFeatures(
            Gaussian(), n_components=20, n_landmarks=1.0, landmarks=rule, random_state=0
        )
        gp = FeatureGPRegressor(features, optimize=True).fit(X[:400], y[:400])
        scores[rule] = gp.score(X[400:], y[400:])
    assert 1 - scores["learned"] < (1 - scores["uniform"]) / 2
    assert gp.features_.landmarks.shape == (20, 2)
    assert gp.search_.steps[-1].stage == "moved"
    assert "Landmarks moved: 20" in gp.search_.message
    np.testing.assert_array_equal(clone(gp).fit(X[:400], y[:400]).predict(X), gp.predict(X))
    save(gp, tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").predict(X), gp.predict(X))


@pytest.mark.parametrize(
    ("kind", "n_landmarks", "rule"),
    [("dense", 1.0, "kmeans"), ("sparse", 1.0, "uniform"), ("sparse", 2.0, "rpcholesky")],
)
def test_the_rule_of_landmarks_is_chosen_by_the_evidence(tmp_path, rng, kind, n_landmarks, rule):
    """Means of clusters are spread evenly over a line, and rows leave gaps."""
    X = rng.uniform(size=(300, 1))
    y = np.sin(40 * X[:, 0]) + 0.01 * rng.standard_normal(300)
    features = NystromFeatures(Matern(1.5), n_components=20, n_landmarks=n_landmarks)
    gp = FeatureGPRegressor(features.set_params(random_state=0), optimize="common")
    gp.fit(sp.csr_array(X) if kind == "sparse" else X, y)
    tried = [step for step in gp.search_.steps if step.stage == "kmeans"]
    assert len(tried) == (kind == "dense")
    assert gp.features_.landmarks == rule
    assert f"Landmarks: {gp.features_.landmarks}." in gp.search_.message
    if kind == "dense":
        others = [step.log_likelihood for step in gp.search_.steps if step.stage == "factor"]
        assert tried[0].log_likelihood > max(others)
        save(gp, tmp_path / "model.dsk")
        np.testing.assert_array_equal(load(tmp_path / "model.dsk").predict(X), gp.predict(X))


def test_kernels_are_compared_with_uniform_landmarks(rng):
    """Whichever landmarks follow: the margin of the comparison was found with them."""
    X = rng.uniform(size=(150, 2))
    y = np.sin(9 * X[:, 0]) + 0.1 * rng.standard_normal(150)
    found = []
    for rule in ("auto", "uniform"):
        features = NystromFeatures(Matern("auto"), n_components=12, landmarks=rule, random_state=0)
        steps = FeatureGPRegressor(features, optimize="common").fit(X, y).search_.steps
        found.append([step.log_likelihood for step in steps if step.stage == "kernel"])
    assert len(found[0]) == 4
    assert found[0] == found[1]


def test_landmarks_that_cannot_be_learned_stay_rows(rng):
    X = rng.standard_normal((60, 2))
    y = np.sin(X[:, 0])
    for kernel in (Polynomial(2), Gaussian() + Matern()):
        features = NystromFeatures(kernel, n_components=9, landmarks="learned", random_state=0)
        gp = FeatureGPRegressor(features, optimize=True).fit(X, y)
        assert gp.features_.landmarks == "learned"
        assert "landmarks stay rows" in gp.search_.message
    features = NystromFeatures(Gaussian(), n_components=9, landmarks="learned", random_state=0)
    uniform = clone(features).set_params(landmarks="uniform")
    np.testing.assert_array_equal(features.fit_transform(X), uniform.fit_transform(X))

"""A weight of 3 is three copies of the row, in everything; a weight of 0 is no row."""

import numpy as np
import pytest
import sklearn
from sklearn.model_selection import cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import dotsketch.gp.classification
import dotsketch.gp.regression
from dotsketch import (
    AutoFeatures,
    ExactGPClassifier,
    ExactGPRegressor,
    FeatureGPClassifier,
    FeatureGPRegressor,
    FourierFeatures,
    Gaussian,
    NystromFeatures,
    SufficientStatistics,
    load,
    save,
)
from dotsketch.gp.choice import HeldOut
from dotsketch.gp.class_sums import ClassSums
from dotsketch.gp.dirichlet import class_weights
from dotsketch.gp.solvers import ConjugateGradients
from dotsketch.kernels import median_distance
from dotsketch.rows.copies import copied_rows
from gp.data import class_data, gaussian_features, polynomial_features, regression_data

WEIGHTS = np.random.default_rng(3).integers(0, 4, 60).astype(float)


def repeated(*columns):
    """Every row as often as its weight says."""
    return [np.repeat(column, WEIGHTS.astype(int), axis=0) for column in columns]


@pytest.mark.parametrize(
    ("weights", "most", "numbers"),
    [
        ([2, 0, 1, 3], 10, [0, 0, 2, 3, 3, 3]),
        ([2, 0, 1, 3], 3, [0, 2, 3]),  # copies 0, 2 (2.5 is even) and 5
        ([0.1, 0.3, 0.2], 100, [*5 * [0], *15 * [1], *10 * [2]]),
        ([1e-9, 1.0], 100, [0, *20 * [1]]),
        ([5e-324, 1e-323], 100, [*7 * [0], *13 * [1]]),  # the least numbers that are not zero
        ([2.0**60, 0, 2.0**62], 100, [*6 * [0], *24 * [2]]),  # beyond 2⁵³ counts are not exact
        ([1e308, 1.5e308], 5, [0, 0, 1, 1, 1]),  # of which 8 + 12 are 20, evenly spaced
        ([2.0**53, 2.0**53 - 2], 3, [0, 1, 1]),
    ],
)
def test_copies_of_rows(weights, most, numbers):
    assert copied_rows(np.array(weights, dtype=float), most).tolist() == numbers


def test_copies_beyond_the_most_are_those_of_repeated_rows():
    """What looks at evenly spaced rows sees the same ones."""
    weights = np.random.default_rng(0).integers(0, 50, 300)
    expected = np.repeat(np.arange(300), weights)
    spaced = np.linspace(0, len(expected) - 1, 1000).round().astype(int)
    np.testing.assert_array_equal(copied_rows(weights, 1000), expected[spaced])


@pytest.mark.parametrize("of_stream", [False, True])
def test_features_see_weights(of_stream):
    """The median distance between copies, from arrays and from a stream of batches."""
    X, y = regression_data()
    names = ("X", "y", "sample_weight")
    stream = iter([dict(zip(names, (X, y, WEIGHTS), strict=True))])
    gp = FeatureGPRegressor(FourierFeatures(Gaussian(), n_components=10, random_state=0))
    gp.fit(stream) if of_stream else gp.fit(X, y, sample_weight=WEIGHTS)
    [copied] = repeated(X)
    assert gp.features_.kernel_.lengthscale == median_distance(copied) != median_distance(X)


def test_features_of_a_dask_array_see_weights():
    da = pytest.importorskip("dask.array")
    X, y = regression_data()
    columns = [da.from_array(column, chunks=20) for column in (X, y, WEIGHTS)]
    gp = FeatureGPRegressor(FourierFeatures(Gaussian(), n_components=10, random_state=0))
    gp.fit(*columns[:2], sample_weight=columns[2])
    [copied] = repeated(X)
    assert gp.features_.kernel_.lengthscale == median_distance(copied)


@pytest.mark.parametrize("weight", [0.5, 3.0])
def test_equal_weights_change_nothing_about_features(weight):
    X, y = regression_data()
    gp = FeatureGPRegressor(NystromFeatures(Gaussian(), n_components=50, random_state=0))
    expected = gp.fit(X, y).features_.transform(X)
    found = gp.fit(X, y, sample_weight=np.full(60, weight)).features_
    np.testing.assert_array_equal(found.transform(X), expected)


def nystrom(n_components=30, **options):
    return NystromFeatures(Gaussian(), n_components=n_components, random_state=0, **options)


@pytest.mark.parametrize("weights", [WEIGHTS, WEIGHTS * 0.7, np.where(WEIGHTS > 2, 1e9, WEIGHTS)])
@pytest.mark.parametrize(
    "features",
    [
        nystrom(),
        nystrom(landmarks="rpcholesky"),
        make_pipeline(StandardScaler(), make_pipeline(nystrom())),
        AutoFeatures(Gaussian(), n_components=30, candidates=["nystrom"], random_state=0),
    ],
    ids=["uniform", "rpcholesky", "pipeline", "auto"],
)
def test_landmarks_are_distinct_rows(features, weights):
    """Every row of positive weight is one of them here; copies would take the places of others."""
    X, y = regression_data()
    last = FeatureGPRegressor(features).fit(X, y, sample_weight=weights).features_
    while hasattr(last, "steps"):
        last = last[-1]
    last = getattr(last, "features_", last)
    assert len(np.unique(last.components_, axis=0)) == len(last.components_) == np.sum(WEIGHTS > 0)


def test_landmarks_need_as_many_rows_as_columns():
    """Copies are no rows of their own."""
    X, y = regression_data()
    with pytest.raises(ValueError, match="n_components=50 is more than n_samples=43"):
        FeatureGPRegressor(nystrom(50)).fit(X, y, sample_weight=WEIGHTS)
    auto = AutoFeatures(Gaussian(), n_components=50, candidates=["nystrom"], random_state=0)
    assert FeatureGPRegressor(auto).fit(X, y, sample_weight=WEIGHTS).n_columns_ == 50


def test_landmarks_that_are_given_or_frozen_stay():
    X, y = regression_data()
    given = FeatureGPRegressor(nystrom(5, landmarks=X[:8])).fit(X, y, sample_weight=WEIGHTS)
    np.testing.assert_array_equal(given.features_.components_, X[:8])
    frozen = sklearn.frozen.FrozenEstimator(nystrom(5).fit(X))
    expected = frozen.transform(X)
    FeatureGPRegressor(frozen).fit(X, y, sample_weight=WEIGHTS)
    np.testing.assert_array_equal(frozen.transform(X), expected)


@pytest.mark.parametrize("most", [40, 100])
@pytest.mark.parametrize(
    ("gp", "features"),
    [
        (FeatureGPRegressor, nystrom(8, landmarks="learned", n_landmarks=1.0)),
        (FeatureGPRegressor, FourierFeatures(Gaussian(), n_components=20, random_state=0)),
        (FeatureGPClassifier, nystrom(8)),
    ],
)
def test_a_search_sees_the_space_of_the_fit(gp, features, most, monkeypatch):
    """A scaler in a pipeline and one before it: the same numbers, also where rows are sampled."""
    X, y = class_data(60) if gp is FeatureGPClassifier else regression_data()
    for module in (dotsketch.gp.regression, dotsketch.gp.classification):
        monkeypatch.setattr(module, "SAMPLE_ROWS", most)
    weights = np.where(X[:, 0] > 0.5, 30.0, 1.0)
    scaler = StandardScaler().fit(np.repeat(X, weights.astype(int), axis=0))
    expected = gp(features, optimize=True).fit(scaler.transform(X), y, sample_weight=weights)
    steps = make_pipeline(make_pipeline(StandardScaler()), features)
    found = gp(steps, optimize=True).fit(X, y, sample_weight=weights)
    lengthscale = pytest.approx(expected.kernel_.lengthscale, rel=1e-6)
    assert found.kernel_.lengthscale == lengthscale
    predict = "predict_proba" if gp is FeatureGPClassifier else "predict"
    values = getattr(expected, predict)(scaler.transform(X))
    np.testing.assert_allclose(getattr(found, predict)(X), values, rtol=1e-5)


def features_gp(**options):
    return FeatureGPRegressor(**{"features": polynomial_features(), **options})


def exact_gp(**options):
    return ExactGPRegressor(Gaussian(lengthscale=1.5), **options)


@pytest.mark.parametrize("outputs", [1, 2])
@pytest.mark.parametrize(
    "make",
    [
        features_gp,
        exact_gp,
        lambda: features_gp(noise_variance=0.1),
        lambda: exact_gp(prior_variance=2.0, normalize_y="mean"),
        lambda: features_gp(features=polynomial_features("complex"), posterior="complex"),
        lambda: features_gp(normalize_y=None),
    ],
)
def test_a_weight_is_a_number_of_copies(make, outputs):
    """Chosen variances and the evidence included, to the tolerance of their search."""
    X, y = regression_data(outputs=outputs)
    found, expected = make().fit(X, y, sample_weight=WEIGHTS), make().fit(*repeated(X, y))
    for name in ("noise_variance_", "prior_variance_"):
        assert getattr(found, name) == pytest.approx(getattr(expected, name), rel=1e-4)
    for mine, theirs in zip(
        found.predict(X, return_std=True), expected.predict(X, return_std=True), strict=True
    ):
        np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-6)  # of a noise near zero
    assert found.log_marginal_likelihood() == pytest.approx(expected.log_marginal_likelihood())


@pytest.mark.parametrize("make", [features_gp, exact_gp])
def test_copies_with_noise_by_row(make):
    X, y = regression_data()
    noise = np.linspace(0.05, 0.5, 60)
    found = make().fit(X, y, WEIGHTS, noise_variance=noise)
    X_copies, y_copies, noise_copies = repeated(X, y, noise)
    expected = make().fit(X_copies, y_copies, noise_variance=noise_copies)
    assert found.prior_variance_ == pytest.approx(expected.prior_variance_, rel=1e-4)
    np.testing.assert_allclose(found.predict(X), expected.predict(X), rtol=1e-4)
    assert found.log_marginal_likelihood() == pytest.approx(expected.log_marginal_likelihood())


def test_copies_with_corrected_rows():
    X, y = regression_data()
    frozen = sklearn.frozen.FrozenEstimator(gaussian_features().fit(X))  # they depend on the rows
    gp, copies = (features_gp(features=frozen, variance_correction="fitc") for _ in range(2))
    found, expected = gp.fit(X, y, WEIGHTS), copies.fit(*repeated(X, y))
    assert found.noise_variance_ == pytest.approx(expected.noise_variance_, rel=1e-4)
    assert found.prior_variance_ == pytest.approx(expected.prior_variance_, rel=1e-4)
    np.testing.assert_allclose(found.predict(X), expected.predict(X), rtol=1e-4)


def test_copies_with_a_chosen_lengthscale():
    """With noise by row: copies of a target have none to learn from, which leaves C singular."""
    X, y = regression_data()
    noise = np.full(60, 0.02)
    found = exact_gp().fit(X, y, WEIGHTS, noise_variance=noise, optimize=True)
    X, y, noise = repeated(X, y, noise)
    expected = exact_gp().fit(X, y, noise_variance=noise, optimize=True)
    assert found.kernel_.lengthscale.shape == (3,)  # 83 rows with copies are enough, 43 are not
    relevances = pytest.approx(expected.relevances_, rel=1e-3, abs=1e-3)
    assert found.relevances_ == relevances


@pytest.mark.parametrize("alpha", [0.01, "evidence"])
@pytest.mark.parametrize("class_weight", [None, "balanced"])
@pytest.mark.parametrize("exact", [False, True])
def test_copies_of_labelled_rows(exact, alpha, class_weight):
    X, y = class_data(60)
    options = {"alpha": alpha, "temperature": 1.0, "class_weight": class_weight}
    options["prior_variance"] = "auto" if alpha == "evidence" else "labels"

    def make():
        if exact:
            return ExactGPClassifier(Gaussian(lengthscale=1.5), **options)
        return FeatureGPClassifier(polynomial_features(), **options)

    found, expected = make().fit(X, y, sample_weight=WEIGHTS), make().fit(*repeated(X, y))
    assert (found.alpha_, found.prior_variance_) == pytest.approx(
        (expected.alpha_, expected.prior_variance_)
    )
    np.testing.assert_allclose(found.predict_proba(X), expected.predict_proba(X), rtol=1e-7)
    assert found.log_marginal_likelihood() == pytest.approx(expected.log_marginal_likelihood())


@pytest.mark.parametrize(
    "gp",
    [
        FeatureGPRegressor(gaussian_features()),
        FeatureGPClassifier(gaussian_features()),
        ExactGPRegressor(Gaussian()),
        ExactGPClassifier(Gaussian()),
        FeatureGPRegressor(gaussian_features(), solver="cg"),
    ],
)
def test_a_weight_of_zero_removes_the_row(gp):
    """Also from what features and kernel are fitted to, and from the rows held out."""
    X, y = class_data(60)
    kept = WEIGHTS > 0
    found = sklearn.clone(gp).fit(X, y, sample_weight=kept.astype(float))
    expected = sklearn.clone(gp).fit(X[kept], y[kept])
    predict = "predict_proba" if hasattr(gp, "predict_proba") else "predict"
    np.testing.assert_allclose(getattr(found, predict)(X), getattr(expected, predict)(X))


def test_fractions_count():
    """Two copies of weight one half are one row."""
    X, y = regression_data()
    twice = [np.concatenate([column, column]) for column in (X, y)]
    found = features_gp().fit(*twice, sample_weight=np.full(120, 0.5))
    expected = features_gp().fit(X, y)
    assert found.noise_variance_ == pytest.approx(expected.noise_variance_, rel=1e-4)
    np.testing.assert_allclose(found.predict(X), expected.predict(X), rtol=1e-4)


@pytest.mark.parametrize("gp", [FeatureGPRegressor, FeatureGPClassifier])
def test_sources_of_weighted_rows(gp, tmp_path):
    """Streams of named columns, memory maps, parts, merged processes and files: the same."""
    X, y = class_data(60)
    y = y.astype(float) if gp is FeatureGPRegressor else y

    def make():
        return gp(polynomial_features(), chunk_rows=16)

    def batches():
        for start in range(0, 60, 7):
            rows = slice(start, start + 7)
            yield {"X": X[rows], "y": y[rows], "sample_weight": WEIGHTS[rows]}

    expected = make().fit(X, y, WEIGHTS).predict(X)
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    half = make().partial_fit(X[:30], y[:30], sample_weight=WEIGHTS[:30])
    save(half.partial_fit(X[30:], y[30:], sample_weight=WEIGHTS[30:]), tmp_path / "gp")
    for found in (
        make().fit(batches),
        make().fit(batches(), checkpoint=tmp_path / "sums.npz"),
        make().fit(mapped, y, WEIGHTS),
        load(tmp_path / "gp"),
    ):
        np.testing.assert_allclose(found.predict(X), expected, rtol=1e-4)
    again = make().fit(batches(), checkpoint=tmp_path / "sums.npz")  # from the checkpoint
    np.testing.assert_allclose(again.predict(X), expected, rtol=1e-4)


@pytest.mark.parametrize("exact", [False, True])
def test_held_out_rows_count_by_their_weights(exact):
    """The loss is that of copies, and the sums lose all copies of a row."""
    rng = np.random.default_rng(0)
    mean, codes, counts = rng.normal(size=(9, 3)), np.arange(9) % 3, np.arange(1.0, 10.0)
    found = HeldOut(mean, np.ones((9, 3)), codes, counts)
    copies = [np.repeat(column, counts.astype(int), axis=0) for column in found[:3]]
    expected = HeldOut(*copies, np.ones(45))
    assert found.loss(1.3) == pytest.approx(expected.loss(1.3))
    assert found.best_temperature() == pytest.approx(expected.best_temperature())
    Z, y = rng.normal(size=(60, 4)), np.arange(60) % 3
    sums = ClassSums.zeros(4, float, [], 0)
    sums.update(Z, y, 0, WEIGHTS + 1)
    kept, _, labels, weights = sums.split(4)
    assert kept.n + weights.sum() == pytest.approx(sums.n) == pytest.approx(np.sum(WEIGHTS + 1))
    assert len(labels) == 6


def test_conjugate_gradients_with_weights():
    X, y = class_data(60)
    solver = ConjugateGradients(tolerance=1e-9, n_samples=4)
    given = {"noise_variance": 0.1, "prior_variance": 1.0}
    found = features_gp(solver=solver, **given).fit(X, y.astype(float), WEIGHTS)
    expected = features_gp(**given).fit(X, y.astype(float), WEIGHTS)
    np.testing.assert_allclose(found.predict(X), expected.predict(X), rtol=1e-5, atol=1e-6)
    options = {"alpha": 0.01, "prior_variance": "labels", "temperature": 1.0}
    features = polynomial_features()
    classes = FeatureGPClassifier(features, solver=solver, **options).fit(X, y, WEIGHTS)
    direct = FeatureGPClassifier(features, **options).fit(X, y, WEIGHTS)
    np.testing.assert_allclose(
        classes.predict_latent(X)[0], direct.predict_latent(X)[0], rtol=1e-4, atol=1e-4
    )


def test_statistics_of_counts():
    rng = np.random.default_rng(0)
    Z, Y, w = rng.normal(size=(60, 3)), rng.normal(size=(60, 2)), rng.random(60) + 0.5
    keep = WEIGHTS > 0
    found = SufficientStatistics.of(Z[keep], Y[keep], w[keep], WEIGHTS[keep])
    expected = SufficientStatistics.of(*repeated(Z, Y, w))
    assert (found.n, found.log_weights) == pytest.approx((expected.n, expected.log_weights))
    for name in ("cross", "targets", "plain"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name))
    np.testing.assert_allclose(found.gram(), expected.gram())


@pytest.mark.parametrize(
    "weights", [-np.ones(60), np.full(60, np.nan), np.full(60, np.inf), np.ones((60, 2)), 2.0]
)
@pytest.mark.parametrize("gp", [features_gp(), exact_gp(), FeatureGPClassifier(gaussian_features()),
                                ExactGPClassifier(Gaussian())])  # fmt: skip
def test_wrong_weights(gp, weights):
    X, y = class_data(60)
    with pytest.raises(ValueError, match=r"sample_weight|one for every row is needed"):
        gp.fit(X, y, sample_weight=weights)


def test_wrong_batches_and_no_rows_at_all(tmp_path):
    X, y = regression_data()
    np.save(tmp_path / "X.npy", X)
    on_disk, none = np.load(tmp_path / "X.npy", mmap_mode="r"), np.zeros(60)
    for rows in ((on_disk, y, none), (iter([{"X": X, "y": y, "sample_weight": none}]),)):
        with pytest.raises(ValueError, match="All weights of the rows are zero"):
            features_gp().fit(*rows)
    with pytest.raises(ValueError, match=r"A batch has columns .* got \['X', 'y', 'weight'\]"):
        features_gp().fit(iter([{"X": X, "y": y, "weight": WEIGHTS}]))
    with pytest.raises(ValueError, match="leave y, noise_variance and sample_weight out"):
        features_gp().fit(iter([(X, y)]), sample_weight=WEIGHTS)
    with pytest.raises(ValueError, match="All weights of the rows are zero"):
        features_gp().fit(X, y, sample_weight=np.zeros(60))


def test_weights_and_noise_are_routed():
    """Through a pipeline in a cross-validation, to `fit`, in the rows of each fold."""
    X, y = regression_data()
    noise = np.linspace(0.05, 0.5, 60)
    with sklearn.config_context(enable_metadata_routing=True):
        gp = features_gp().set_fit_request(sample_weight=True, noise_variance=True)
        gp.set_score_request(sample_weight=True)
        found = cross_validate(
            make_pipeline(StandardScaler().set_fit_request(sample_weight=False), gp),
            X,
            y,
            cv=2,
            params={"sample_weight": WEIGHTS, "noise_variance": noise},
            return_estimator=True,
        )["estimator"][0]
    train = slice(30, None)
    scaled = StandardScaler().fit(X[train]).transform(X[train])
    expected = features_gp().fit(scaled, y[train], WEIGHTS[train], noise_variance=noise[train])
    np.testing.assert_allclose(found[-1].predict(X), expected.predict(X), rtol=1e-9)


def test_balanced_classes_of_small_weights():
    """Weights of all rows times a number: classes stay balanced."""
    classes, counts = np.array([0, 1, 2]), np.array([9.0, 1.0, 0.0])
    found = class_weights("balanced", classes, 0.01 * counts)
    assert found[0] * counts[0] == pytest.approx(found[1] * counts[1])
    np.testing.assert_allclose(found[:2], class_weights("balanced", classes, counts)[:2])

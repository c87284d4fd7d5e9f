"""Rows with missing values have intervals that cover, and complete rows keep theirs."""

import numpy as np
import pytest

from dotsketch import ExactGPRegressor, FeatureGPRegressor, Gaussian, NystromFeatures, load, save
from dotsketch.gp import ImputedGPRegressor

FEATURES = NystromFeatures(Gaussian(lengthscale=3.0), n_components=60, random_state=0)


def make_rows(rng, n):
    """Two numbers and a category of three levels; the first number matters most."""
    numbers = rng.gamma(4, 0.5, (n, 2)) - 2
    level = rng.integers(0, 3, n)
    X = np.concatenate([numbers, np.eye(3)[level]], axis=1)
    y = 1e6 + 3e4 * numbers[:, 0] ** 2 + 9e4 * numbers[:, 0] + 2e4 * numbers[:, 1]
    return X, y + 3e4 * (level == 1) + 1e4 * rng.standard_normal(n)


def without(X, rng, columns, share):
    """Rows of which a share lacks these columns: NaN for a number, zeros for a category."""
    X = X.copy()
    rows = rng.random(len(X)) < share
    X[np.ix_(rows, columns)] = np.nan if columns == [0] else 0.0
    return X, rows


def coverage(gp, X, y):
    mean, std = gp.predict(X, return_std=True, include_noise=True)
    return np.abs(y - mean) < 1.96 * std


@pytest.mark.parametrize("regressor", [FeatureGPRegressor(FEATURES), ExactGPRegressor(Gaussian())])
def test_both_kinds_of_rows_are_covered(rng, regressor):
    """5 % of the main predictor are missing; the bar is 0.90 to 0.99 for both kinds of rows."""
    X, y = make_rows(rng, 1000)
    X, _ = without(X, rng, [0], 0.05)
    gp = ImputedGPRegressor(regressor, one_hot=[(2, 5)]).fit(X, y)
    X, y = make_rows(rng, 2000)
    X, imputed = without(X, rng, [0], 0.3)
    covered = coverage(gp, X, y)
    assert 0.90 < covered[imputed].mean() < 0.99
    assert 0.90 < covered[~imputed].mean() < 0.99
    _, std = gp.predict(X, return_std=True, include_noise=True)
    assert std[imputed].min() > 10 * np.median(std[~imputed])
    assert 0.8e4 < np.sqrt(gp.noise_variance_) < 1.3e4  # 1e4 was put in
    function = gp.predict(X, return_std=True)[1]
    np.testing.assert_allclose(std**2 - function**2, gp.noise_variance_, rtol=1e-6)


def test_a_column_that_was_never_missing(rng):
    """What a missing value costs is known from rows that have it, also for a category."""
    X, y = make_rows(rng, 1000)
    gp = ImputedGPRegressor(FeatureGPRegressor(FEATURES), one_hot=[(2, 5)]).fit(X, y)
    X, y = make_rows(rng, 2000)
    for columns in ([0], [2, 3, 4]):
        gaps, imputed = without(X, rng, columns, 0.5)
        assert gp.missing(gaps).sum() == imputed.sum()
        covered = coverage(gp, gaps, y)
        assert 0.90 < covered[imputed].mean() <= 1
        assert 0.90 < covered[~imputed].mean() < 0.99


def test_values_that_are_not_missing_at_random(rng):
    """Only large values are missing: the residuals of the imputed rows widen their intervals."""
    X, y = make_rows(rng, 1000)
    X[X[:, 0] > np.quantile(X[:, 0], 0.95), 0] = np.nan
    gp = ImputedGPRegressor(FeatureGPRegressor(FEATURES), one_hot=[(2, 5)]).fit(X, y)
    assert coverage(gp, X, y)[np.isnan(X[:, 0])].mean() > 0.9


def test_streams_and_files(rng, tmp_path):
    X, y = make_rows(rng, 300)
    X, _ = without(X, rng, [0], 0.1)
    gp = ImputedGPRegressor(FeatureGPRegressor(FEATURES), one_hot=[(2, 5)]).fit(X, y)
    streamed = ImputedGPRegressor(FeatureGPRegressor(FEATURES), one_hot=[(2, 5)])
    streamed.fit(lambda: ((X[k : k + 70], y[k : k + 70]) for k in range(0, 300, 70)))
    np.testing.assert_allclose(streamed.predict(X), gp.predict(X), rtol=1e-8)
    save(gp, tmp_path / "gp.model")
    loaded = load(tmp_path / "gp.model")
    for a, b in zip(loaded.predict(X, True), gp.predict(X, True), strict=True):
        np.testing.assert_array_equal(a, b)


def test_leave_one_out_knows_the_noise_of_rows(rng):
    X, y = make_rows(rng, 400)
    X, imputed = without(X, rng, [0], 0.1)
    gp = ImputedGPRegressor(FeatureGPRegressor(FEATURES), one_hot=[(2, 5)]).fit(X, y)
    mean, std = gp.leave_one_out(X, y)
    covered = np.abs(y - mean) < 1.96 * std
    assert covered[imputed].mean() > 0.85
    assert std[imputed].min() > std[~imputed].max()


def test_too_few_complete_rows(rng):
    """All rows are taken then, and nothing is certain by mistake."""
    X, y = make_rows(rng, 200)
    X[::2, 0] = np.nan
    X[1::2, 1] = np.nan
    gp = ImputedGPRegressor(FeatureGPRegressor(FEATURES), one_hot=[(2, 5)]).fit(X, y)
    assert gp.n_complete_ == 0
    assert coverage(gp, X, y).mean() > 0.9


def test_mistakes(rng):
    X, y = make_rows(rng, 80)
    gp = ImputedGPRegressor(FeatureGPRegressor(FEATURES))
    with pytest.raises(ValueError, match="leave y out"):
        gp.fit(iter([(X, y)]), y)
    with pytest.raises(ValueError, match="requires y"):
        gp.fit(X)
    with pytest.raises(ValueError, match="features"):
        gp.fit(X, y).predict(X[:, :2])


@pytest.mark.parametrize("normalize_y", ["standard", "mean", None])
def test_units_of_a_prior_variance(rng, normalize_y):
    """The regressor normalises y; the units of a prior variance that is given stay those of it."""
    X, y = make_rows(rng, 300)
    given = FeatureGPRegressor(FEATURES, normalize_y=normalize_y).fit(X, y).prior_variance_
    gp = FeatureGPRegressor(FEATURES, normalize_y=normalize_y, prior_variance=given)
    found = ImputedGPRegressor(gp).fit(X, y)
    np.testing.assert_allclose(found.predict(X), gp.fit(X, y).predict(X), rtol=0.01)


def test_names_of_columns_are_those_of_the_first_rows(rng):
    pandas = pytest.importorskip("pandas")
    X, y = make_rows(rng, 100)
    frame = pandas.DataFrame(X, columns=list("abcde"))
    frame.iloc[0, 0] = np.nan
    gp = ImputedGPRegressor(FeatureGPRegressor(FEATURES)).fit(frame, y)
    assert list(gp.feature_names_in_) == list("abcde")
    with pytest.raises(ValueError, match="feature names should match"):
        gp.predict(frame[list("bacde")])


def test_batches_have_no_noise(rng):
    X, y = make_rows(rng, 100)
    gp = ImputedGPRegressor(FeatureGPRegressor(FEATURES))
    with pytest.raises(ValueError, match=r"give batches \(X, y\)"):
        gp.fit(iter([(X, y, np.ones(100))]))


def test_the_noise_of_rows_holds_what_landmarks_lack_already(rng):
    """Noise found with few landmarks is too large for f: variances must not add the lack again."""
    X = rng.uniform(-2, 2, (1500, 3))
    y = np.sin(3 * X[:, 0]) + np.cos(2 * X[:, 1]) + X[:, 2] + 0.05 * rng.standard_normal(1500)
    features = NystromFeatures(Gaussian(lengthscale=1.0), n_components=40, random_state=0)
    complete = FeatureGPRegressor(features).fit(X[:1000], y[:1000])
    _, expected = complete.predict(X[1000:], return_std=True, include_noise=True)
    gp = ImputedGPRegressor(FeatureGPRegressor(features)).fit(X[:1000], y[:1000])
    _, std = gp.predict(X[1000:], return_std=True, include_noise=True)
    assert np.median(np.abs(std / expected - 1)) < 0.02
    streamed = ImputedGPRegressor(FeatureGPRegressor(features)).fit(iter([(X[:1000], y[:1000])]))
    _, std = streamed.predict(X[1000:], return_std=True, include_noise=True)
    assert np.median(np.abs(std / expected - 1)) < 0.02


def test_leave_one_out_of_an_exact_process(rng):
    X, y = make_rows(rng, 80)
    X[::10, 0] = np.nan
    gp = ImputedGPRegressor(ExactGPRegressor(Gaussian(lengthscale=2.0), prior_variance=1.0))
    mean, std = gp.fit(X, y).leave_one_out(X, y)
    assert mean.shape == std.shape == (80,)
    assert std[::10].min() > np.median(std)

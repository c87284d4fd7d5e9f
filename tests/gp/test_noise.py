"""Noise that depends on x, tails, warped targets, and intervals of left-out rows."""

import numpy as np
import pytest
from scipy.stats import norm
from scipy.stats import t as student
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.preprocessing import FunctionTransformer, PowerTransformer

from dotsketch import (
    ExactGPRegressor,
    FeatureGPRegressor,
    FourierFeatures,
    Gaussian,
    Matern,
    NystromFeatures,
    load,
    save,
)
from dotsketch.gp import SufficientStatistics, best_kernel
from dotsketch.gp.algebra import posterior_of_sums
from dotsketch.gp.exact import left_out_of_search
from dotsketch.gp.noise import Jackknife, LeftOut, Tails, best_tails, noise_of_x

ONE = np.ones(1)
ZERO = np.zeros(1)


def features(n_components=40):
    return FourierFeatures(Gaussian(lengthscale=1.0), n_components=n_components, random_state=0)


def rows_of(noise, n=600, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n, 2))
    return X, np.sin(2 * X[:, 0]) + noise(X) * rng.standard_normal(n)


def constant(X):
    return 0.2


def heavy_tailed(X):
    """Noise of Student's t with 3 degrees of freedom, as factors of the normal noise."""
    return 0.2 / np.sqrt(np.random.default_rng(1).chisquare(3, len(X)) / 3)


def rising(X):
    return 0.2 * np.exp(0.8 * X[:, 0])


X, y_even = rows_of(constant)
_, y_rising = rows_of(rising)  # the same rows


def posterior_of(Z, Y, noise, prior=1.3):
    sums = SufficientStatistics.of(Z, Y, 1 / noise)
    return posterior_of_sums(sums, ZERO, ONE, ONE, np.array([prior]))


@pytest.fixture
def small(rng):
    """Features, targets and noise of 25 rows, and features of 4 others."""
    Z, noise = rng.standard_normal((25, 6)), rng.uniform(0.2, 1.0, 25)
    return Z, rng.standard_normal((25, 1)), noise, rng.standard_normal((4, 6))


def left_out_rows(residuals, noise):
    zero, every = np.zeros_like(residuals), np.full_like(residuals, noise)
    return LeftOut(residuals, zero, every, every, zero)


def test_jackknife_is_that_of_refits(small):
    """Means and variances at new rows without every row, and the ranks of the bounds."""
    Z, Y, noise, new = small
    posterior, new_noise = posterior_of(Z, Y, noise), 0.3
    rows = LeftOut.of(posterior, Z, Y, noise[:, None], False)
    jackknife = Jackknife.of(Z, rows, rows)
    low, high = [], []
    for i in range(25):
        rest = np.arange(25) != i
        without = posterior_of(Z[rest], Y[rest], noise[rest])
        own = without.variance(Z[i : i + 1])[0, 0] + noise[i]
        score = abs(Y[i, 0] - without.mean(Z[i : i + 1])[0, 0]) / np.sqrt(own)
        reach = score * np.sqrt(without.variance(new)[:, 0] + new_noise)
        low.append(without.mean(new)[:, 0] - reach)
        high.append(without.mean(new)[:, 0] + reach)
    mean, total = posterior.mean(new), posterior.variance(new) + new_noise
    ends = jackknife.interval(posterior, new, mean, total, 0.8)
    np.testing.assert_allclose(ends[0][:, 0], np.sort(low, axis=0)[4])  # ⌊0.2 · 26⌋ = 5
    np.testing.assert_allclose(ends[1][:, 0], np.sort(high, axis=0)[20])  # ⌈0.8 · 26⌉ = 21
    with pytest.raises(ValueError, match="With 25 rows left out"):
        jackknife.interval(posterior, new, mean, total, 0.99)


def test_tails_are_densities_of_variance_one():
    tails = Tails(np.array([3.5, np.inf]), np.ones(2))
    grid = np.linspace(-2000, 2000, 2_000_001)
    density = np.exp(tails.log_density(np.repeat(grid[:, None], 2, axis=1)))
    np.testing.assert_allclose(np.trapezoid(density, grid, axis=0), 1, rtol=1e-5)
    np.testing.assert_allclose(
        np.trapezoid(density * grid[:, None] ** 2, grid, axis=0), 1, rtol=2e-2
    )
    levels = np.array([0.05, 0.5, 0.975])
    [heavy, normal] = tails.quantiles(levels)
    np.testing.assert_allclose(normal, norm.ppf(levels), atol=1e-6)
    below = grid < heavy[2]
    np.testing.assert_allclose(np.trapezoid(density[below, 0], grid[below]), 0.975, atol=1e-3)


def test_left_out_rows_choose_level_and_tails(rng):
    """Of every output; where a Gaussian of the level of the model is right, it stays."""
    n = 4000
    heavy = student.rvs(4, size=n, random_state=rng)
    right, wide = rng.standard_normal((2, n))
    rows = left_out_rows(np.stack([heavy, right, wide], axis=1), 1.0)
    rows = rows._replace(noise=np.array([1.0, 1.0, 4.0]) * np.ones((n, 3)))
    tails = best_tails(rows)
    assert 2.5 < tails.degrees[0] < 6
    assert tails.degrees[2] > 30
    np.testing.assert_allclose(tails.levels[0], 2, rtol=0.3)  # the variance of t with 4 degrees
    assert (tails.degrees[1], tails.levels[1]) == (np.inf, 1.0)
    np.testing.assert_allclose(tails.levels[2], 0.25, rtol=0.1)
    best = rows.best_log_densities()
    at = rows.residuals / np.sqrt(rows.noise * tails.levels)
    expected = tails.log_density(at) - np.log(rows.noise * tails.levels) / 2
    np.testing.assert_allclose(best, expected.sum(axis=1))


def test_tails_of_few_rows(rng):
    """Student's t of n − 1 degrees; a new row is one of n + 1, of which 90 % are inside."""
    residuals = 1.5 * rng.standard_normal((50, 1))
    few = best_tails(left_out_rows(residuals, 1.0), is_few=True)
    assert few.degrees == 49
    reach = np.sqrt(few.levels[0]) * few.quantiles(np.array([0.95]))[0, 0]
    np.testing.assert_allclose(reach, np.sort(np.abs(residuals[:, 0]))[45])  # ⌈0.9 · 51⌉ = 46
    assert np.isinf(best_tails(left_out_rows(residuals / 1.5, 1.0)).degrees)
    tiny = best_tails(left_out_rows(np.full((4, 2), 1e-4), 1.0), is_few=True)
    assert np.all(tiny.degrees == 3)
    np.testing.assert_allclose(tiny.levels, 1)  # copies of rows do not narrow intervals


def test_folds_are_fits_of_the_other_rows(rng):
    """A search, variances and predictions of their own: those of exact processes."""
    X, y = rows_of(constant, 40)
    Y = np.stack([y, y[::-1]], axis=1)
    rows = left_out_of_search(Gaussian(), X, Y, np.random.default_rng(3))
    draws = np.random.default_rng(3)
    for held in np.array_split(draws.permutation(40), 5):
        rest = np.setdiff1d(np.arange(40), held)
        targets = Y[rest] - Y[rest].mean(axis=0)
        kernel = best_kernel(Gaussian(), X[rest], targets, rng=draws).kernel
        gp = ExactGPRegressor(kernel, normalize_y="mean").fit(X[rest], Y[rest])
        mean, std = gp.predict(X[held], return_std=True, include_noise=True)
        np.testing.assert_allclose(rows.residuals[held], Y[held] - mean, atol=1e-9)
        np.testing.assert_allclose(rows.deviations[held], std, rtol=1e-6)


@pytest.mark.parametrize("model", [FeatureGPRegressor, ExactGPRegressor])
def test_intervals_of_few_rows_hold_new_ones(model):
    """Ten lengthscales that 60 rows have chosen fit these better than new rows."""
    inside = {"auto": [], "chosen": []}
    for seed in range(8):
        rng = np.random.default_rng(seed)
        X, noise = rng.standard_normal((460, 10)), rng.standard_normal(460)
        y = X[:, 0] + 0.5 * noise
        gp = model(random_state=seed).fit(X[:60], y[:60])
        low, high = gp.predict_interval(X[60:], 0.9).T
        inside["auto"].append(np.mean((low <= y[60:]) & (y[60:] <= high)))
        # the variances that the likelihood chose, without a level
        levels, degrees = gp.outputs_.tails.levels[0], gp.outputs_.tails.degrees[0]
        middle = (low + high) / 2
        reach = (high - middle) / np.sqrt(levels)
        reach *= 1.645 / gp.outputs_.tails.quantiles(np.array([0.95]))[0, 0]
        inside["chosen"].append(np.mean(np.abs(y[60:] - middle) <= reach))
        assert degrees <= 59
    assert np.mean(inside["auto"]) > 0.86
    assert np.mean(inside["chosen"]) < 0.82


def test_levels_change_no_means():
    """The level is a factor of both variances; given ones have none."""
    X, y = rows_of(heavy_tailed, 500)
    frozen = FrozenEstimator(features().fit(X))
    gp = FeatureGPRegressor(frozen).fit(X, y)
    plain = FeatureGPRegressor(frozen, noise_variance="constant").fit(X, y)
    level = gp.outputs_.tails.levels[0]
    assert abs(level - 1) > 0.02
    np.testing.assert_allclose(gp.noise_variance_, level * plain.noise_variance_)
    np.testing.assert_allclose(gp.prior_variance_, level * plain.prior_variance_)
    means, deviations = zip(*(m.predict(X, return_std=True) for m in (gp, plain)), strict=True)
    np.testing.assert_allclose(*means, rtol=1e-9)
    np.testing.assert_allclose(deviations[0], np.sqrt(level) * deviations[1])
    gp.refit()
    np.testing.assert_allclose(gp.predict(X, return_std=True)[1], deviations[0])
    fixed = FeatureGPRegressor(frozen, prior_variance=1.0).fit(X, y)
    assert fixed.outputs_.tails.levels == 1


def test_noise_function_is_the_process_of_logarithms(rng):
    """exp(level) where features vanish, within the range of the rows elsewhere."""
    X, _ = rows_of(rising)
    Z = features().fit_transform(X)
    residuals = (rising(X) * rng.standard_normal(len(X)))[:, None]
    rows = left_out_rows(residuals, 0.1)
    function, unseen = noise_of_x(Z, rows)
    v = function(Z)
    ratios = np.log(v) - 2 * np.log(rising(X))
    assert np.std(ratios) < 0.5 < np.std(np.log(v))
    far = function(np.zeros((1, Z.shape[1])))
    np.testing.assert_allclose(far, np.exp(function.level))
    scaled = rows._replace(residuals=1e3 * residuals, noise=1e6 * rows.noise)
    np.testing.assert_allclose(noise_of_x(Z, scaled)[0](Z), v, rtol=1e-3)
    np.testing.assert_allclose(np.mean(residuals[:, 0] ** 2 / (0.1 * unseen)), 1, rtol=0.1)


def test_auto_varies_where_the_noise_does():
    chosen = FeatureGPRegressor(features()).fit(*rows_of(rising))
    assert chosen.noise_.function is not None
    assert FeatureGPRegressor(features()).fit(*rows_of(constant)).noise_.function is None
    X, y = rows_of(rising, 2000, seed=1)
    _, std = chosen.predict(X, return_std=True, include_noise=True)
    inner = np.abs(X[:, 0]) < 1.5
    assert np.mean(np.abs(np.log(std / rising(X)))[inner]) < 0.35
    for method in ("posterior", "jackknife+"):
        low, high = chosen.predict_interval(X, 0.9, method).T
        for part in (X[:, 0] > 0.1, X[:, 0] < -0.1):
            assert 0.8 < np.mean((y >= low) & (y <= high), where=part) < 0.97


def test_weighted_rows_are_those_of_noise_by_row():
    """The posterior is that of a fit with v(x) as the noise of every row."""
    gp = FeatureGPRegressor(features(), noise_variance="varying").fit(X, y_rising)
    assert gp.noise_.function.weighs_rows
    Z = gp.columns_(X)
    v = gp.noise_.function.typical(Z) * gp.noise_variance_
    other = FeatureGPRegressor(features(), prior_variance=gp.prior_variance_)
    other.fit(X, y_rising, noise_variance=v)
    np.testing.assert_allclose(gp.predict(X), other.predict(X), rtol=1e-8)
    np.testing.assert_allclose(
        gp.predict(X, return_std=True, include_noise=True)[1],
        other.predict(
            X,
            return_std=True,
            include_noise=True,
            noise_variance=gp.noise_.function(Z) * gp.noise_variance_,
        )[1],
    )
    left, given = gp.leave_one_out(X, y_rising), other.leave_one_out(X, y_rising, noise_variance=v)
    np.testing.assert_allclose(left[0], given[0], rtol=1e-6)


@pytest.mark.parametrize("source", ["function", "dask"])
def test_sources_learn_the_same_noise(source):
    def batches():
        for start in range(0, len(X), 70):
            yield X[start : start + 70], y_rising[start : start + 70]

    rows = (batches,)
    if source == "dask":
        dask = pytest.importorskip("dask.array")
        rows = tuple(dask.from_array(c, chunks=(100, *c.shape[1:])) for c in (X, y_rising))
    local = FeatureGPRegressor(features(), noise_variance="varying").fit(X, y_rising)
    other = FeatureGPRegressor(features(), noise_variance="varying").fit(*rows)
    for gp in (local, other):
        assert gp.noise_.function.weighs_rows
    np.testing.assert_allclose(local.predict_quantiles(X), other.predict_quantiles(X), rtol=1e-4)


def test_an_iterator_has_noise_for_predictions_only():
    gp = FeatureGPRegressor(features(), noise_variance="varying").fit(iter([(X, y_rising)]))
    assert not gp.noise_.function.weighs_rows
    low, high = gp.predict_interval(X, 0.9).T
    assert 0.85 < np.mean((y_rising >= low) & (y_rising <= high)) < 0.95


def test_more_rows_keep_the_noise_function(tmp_path):
    gp = FeatureGPRegressor(features()).partial_fit(X[:400], y_rising[:400])
    function = gp.noise_.function
    assert function is not None
    gp.partial_fit(X[400:], y_rising[400:])
    assert gp.noise_.function is function
    save(gp, tmp_path / "gp")
    copy = load(tmp_path / "gp")
    np.testing.assert_array_equal(copy.predict_quantiles(X), gp.predict_quantiles(X))
    with pytest.raises(ValueError, match="all rows at once"):
        gp.predict_interval(X, method="jackknife+")
    with pytest.raises(ValueError, match="weights of noise that depends on x"):
        gp.set_params(noise_variance=0.1).refit()


def test_density_and_quantiles_are_of_one_distribution():
    for options in ({}, {"target_transform": PowerTransformer()}):
        gp = FeatureGPRegressor(features(), **options).fit(X, np.exp(y_rising))
        points = np.linspace(1e-3, 40, 40_001)
        density = gp.predict_density(X[:5], points)
        assert density.shape == (5, len(points))
        low, high = gp.predict_interval(X[:5], 0.8).T
        for row, a, b in zip(density, low, high, strict=True):
            inside = (points >= a) & (points <= b)
            if a > points[0]:
                mass = np.trapezoid(row[inside], points[inside])
                np.testing.assert_allclose(mass, 0.8, atol=0.02)


def test_a_warp_gives_moments_of_y():
    """With w = log, y is log-normal: its mean is exp(μ + s²/2)."""
    warp = FunctionTransformer(np.log, np.exp)
    options = {"noise_variance": "constant"}
    gp = FeatureGPRegressor(features(), target_transform=warp, **options).fit(X, np.exp(y_even))
    plain = FeatureGPRegressor(features(), **options).fit(X, y_even)
    mean, std = plain.predict(X[:20], return_std=True, include_noise=True)
    expected = np.exp(mean + std**2 / 2)
    found, deviation = gp.predict(X[:20], return_std=True, include_noise=True)
    np.testing.assert_allclose(found, expected, rtol=2e-3)
    np.testing.assert_allclose(deviation, expected * np.sqrt(np.expm1(std**2)), rtol=0.02)
    np.testing.assert_allclose(
        gp.predict_quantiles(X[:20]), np.exp(plain.predict_quantiles(X[:20])), rtol=1e-7
    )
    draws = gp.sample_functions(3, random_state=0)(X[:20])
    np.testing.assert_allclose(
        draws, np.exp(plain.sample_functions(3, random_state=0)(X[:20])), rtol=1e-7
    )


def test_auto_warps_skewed_targets_only(tmp_path):
    chosen = FeatureGPRegressor(features(), target_transform="auto").fit(X, np.exp(2 * y_even))
    assert chosen.outputs_.warp is not None
    save(chosen, tmp_path / "warped")
    np.testing.assert_array_equal(load(tmp_path / "warped").predict(X), chosen.predict(X))
    assert (
        FeatureGPRegressor(features(), target_transform="auto").fit(X, y_even).outputs_.warp is None
    )


def test_several_outputs_share_v():
    Y = np.stack([y_rising, 3 * y_rising[::-1]], axis=1)
    gp = FeatureGPRegressor(features(), noise_variance="varying").fit(X, Y)
    assert gp.predict_quantiles(X[:4]).shape == (4, 2, 3)
    assert gp.predict_interval(X[:4], method="jackknife+").shape == (4, 2, 2)
    assert gp.predict_density(X[:4], [0.0, 1.0]).shape == (4, 2, 2)


def test_a_trend_continues():
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 1, (80, 1))
    y = 5 * X[:, 0] + 0.1 * rng.standard_normal(80)
    far = np.array([[10.0]])
    landmarks = NystromFeatures(Matern(1.5, lengthscale=0.3), n_components=30, random_state=0)
    with_trend = FeatureGPRegressor(landmarks, trend="linear").fit(X, y)
    mean, std = with_trend.predict(far, return_std=True)
    assert abs(mean[0] - 50) < 3 * std[0] < 30
    assert abs(FeatureGPRegressor(landmarks).fit(X, y).predict(far)[0] - y.mean()) < 1
    again = clone(with_trend).fit(iter([(X, y)]))
    np.testing.assert_allclose(again.predict(far), mean, rtol=1e-6)


def stds(gp, X):
    return gp.predict(X, return_std=True, include_noise=True)[1]


def test_weights_of_rows_do_not_change_the_noise_of_new_rows():
    plain = stds(FeatureGPRegressor(features()).fit(X, y_even), X)
    light = FeatureGPRegressor(features()).fit(X, y_even, sample_weight=np.full(len(X), 0.1))
    batches = (
        (X[i : i + 100], y_even[i : i + 100], None, np.full(100, 4.0)) for i in range(0, 600, 100)
    )
    heavy = FeatureGPRegressor(features()).fit(batches)
    for gp in (light, heavy):
        np.testing.assert_allclose(np.median(stds(gp, X)), np.median(plain), rtol=0.1)


def test_a_constant_output_leaves_the_others_alone():
    both = FeatureGPRegressor(features()).fit(
        X, np.stack([y_even, np.full(len(y_even), 3.0)], axis=1)
    )
    alone = FeatureGPRegressor(features()).fit(X, y_even)
    np.testing.assert_allclose(stds(both, X)[:, 0], stds(alone, X), rtol=1e-6)


def test_tails_of_few_rows_end_with_more_rows():
    X, y = rows_of(constant, 600)
    gp = FeatureGPRegressor(30).partial_fit(X[:60], y[:60])
    assert gp.outputs_.tails.degrees <= 59
    assert gp.partial_fit(X[60:100], y[60:100]).outputs_.tails.degrees <= 59
    gp.partial_fit(X[100:], y[100:])
    assert np.isinf(gp.outputs_.tails.degrees)
    assert gp.outputs_.tails.levels == 1


def test_a_warp_keeps_to_its_domain():
    """The square has an inverse on one side only: quantiles ascend, and cover."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (600, 1))
    y = rng.poisson(np.exp(X[:, 0])).astype(float)
    roots = FunctionTransformer(np.sqrt, np.square)
    gp = FeatureGPRegressor(features(), target_transform=roots).fit(X, y)
    assert np.all(np.diff(gp.predict_quantiles(X, [0.01, 0.1, 0.5, 0.9, 0.99])) >= 0)
    low, high = gp.predict_interval(X, 0.9).T
    assert np.mean((low <= y) & (y <= high)) > 0.85
    assert np.all(gp.predict_density(X[:3], [-1.0, -0.5]) == 0)


def test_densities_far_from_zero():
    offset = 1e6
    warp = FunctionTransformer(lambda v: np.log(v - offset), lambda u: np.exp(u) + offset)
    gp = FeatureGPRegressor(features(), target_transform=warp).fit(X, offset + np.exp(y_even))
    points = np.linspace(1e-3, 20, 4001)
    masses = np.trapezoid(gp.predict_density(X[:4], offset + points), points, axis=1)
    np.testing.assert_allclose(masses, 1, rtol=1e-3)


def test_noise_by_row_with_a_warp_and_intervals():
    by_row = np.full(len(X), 0.04)
    gp = FeatureGPRegressor(features(), target_transform=PowerTransformer(standardize=False))
    gp.fit(X, np.exp(y_even), noise_variance=by_row)
    assert gp.score(X, np.exp(y_even)) > 0.8
    assert gp.predict_interval(X[:2], 0.9, "jackknife+", noise_variance=[0.04, 0.04]).shape == (
        2,
        2,
    )
    with pytest.raises(ValueError, match="must be 2 positive finite numbers"):
        gp.predict_interval(X[:2], 0.9, "jackknife+", noise_variance=[0.04, 0.04, 9.0])


def test_trends_of_other_rows_do_not_merge():
    X, y = rows_of(constant)
    frozen = FrozenEstimator(features().fit(X))
    options = {"trend": "linear", "noise_variance": "constant"}
    parts = [
        FeatureGPRegressor(frozen, **options).fit(X[k], y[k])
        for k in (slice(300), slice(300, None))
    ]
    with pytest.raises(ValueError, match="different features"):
        parts[0].merge(parts[1])
    X = np.column_stack([X, np.full(len(X), 0.1)])  # not a number of binary digits
    gp = FeatureGPRegressor(features(), trend="linear").fit(X, y)
    assert np.all(np.abs(gp.predict(np.array([[0.5, 0.5, 0.1001], [0.5, 0.5, 0.2]]))) < 3)

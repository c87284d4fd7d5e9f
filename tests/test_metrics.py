"""The metrics on cases computed by hand."""

import numpy as np
import pytest
from scipy.stats import norm

from dotsketch import (
    FeatureGPRegressor,
    Gaussian,
    gaussian_kl,
    mean_negative_log_likelihood,
    metrics,
    relative_frobenius_error,
)
from dotsketch.metrics import error_rate, expected_calibration_error, normalized_mean_squared_error


def test_relative_frobenius_error_by_hand(library):
    K, K_approx = (
        library.asarray([[3.0, 0.0], [0.0, 4.0]]),
        library.asarray([[3.0, 1.0], [0.0, 2.0]]),
    )
    error = relative_frobenius_error(K, K_approx)
    assert float(library.numpy(error)) == pytest.approx(np.sqrt(5) / 5)
    assert float(library.numpy(relative_frobenius_error(K, K))) == 0


I2, ONE = np.eye(2), [1.0]


@pytest.mark.parametrize(
    ("K", "K_approx", "error"),
    [
        (I2, I2 + 1j * I2, 1.0),  # the imaginary part counts
        *((np.float32(s) * I2, np.float32(1.5 * s) * I2, 0.5) for s in (1e-30, 1e30)),
        (np.int32(100_000) * np.ones((2, 2), np.int32), np.full((2, 2), 150_000, np.int32), 0.5),
    ],
    ids=["complex", "tiny", "huge", "integers"],
)
def test_errors_of_every_kind_of_numbers(K, K_approx, error):
    assert relative_frobenius_error(K, K_approx) == pytest.approx(error)


REFUSED = [
    (relative_frobenius_error, (I2, np.eye(3)), r"shape \(2, 2\) and K_approx has \(3, 3\)"),
    *(
        (relative_frobenius_error, (I2, np.full((2, 2), bad)), "K_approx is not finite")
        for bad in (np.nan, np.inf)
    ),
    *(
        (relative_frobenius_error, (np.full((2, 2), bad), I2), "relative error has no meaning")
        for bad in (0.0, np.nan, np.inf)
    ),
    (gaussian_kl, ([0.0], [0.0], [0.0], ONE), "Variances must be positive"),
    (gaussian_kl, ([0.0, 1.0], ONE, [0.0], ONE), "one shape"),
    (mean_negative_log_likelihood, (np.zeros((2, 3)), np.zeros((2, 3)), np.ones(3)), "one shape"),
    (normalized_mean_squared_error, ([1.0, 1.0], [0.0, 1.0]), "constant"),
    (error_rate, ([1, 2], [1, 2, 3]), r"\(2,\) and prediction has \(3,\)"),
    (error_rate, ([], []), "shape"),
    *((gaussian_kl, ([bad], ONE, [0.0], ONE), "finite") for bad in (np.nan, np.inf)),
    *((mean_negative_log_likelihood, ([bad], ONE, ONE), "finite") for bad in (np.nan, np.inf)),
    *(
        (normalized_mean_squared_error, ([bad, 1.0], [1.0, 1.0]), "finite")
        for bad in (np.nan, np.inf)
    ),
    (metrics.crps_gaussian, (ONE, ONE, [0.0]), "must be positive"),
    (metrics.interval_score, (ONE, ONE, [0.0]), "low must not exceed high"),
]


@pytest.mark.parametrize(("metric", "arguments", "message"), REFUSED)
def test_what_has_no_value_is_refused(metric, arguments, message):
    with pytest.raises(ValueError, match=message):
        metric(*arguments)


def test_kl_by_hand():
    """½ [v/v' − log(v/v') − 1 + (μ − μ')²/v'] for one point: v = 2, v' = 4, μ − μ' = 3."""
    forward = gaussian_kl([3.0], [2.0], [0.0], [4.0])
    assert forward == pytest.approx(0.5 * (0.5 + np.log(2) - 1 + 9 / 4))
    backward = gaussian_kl([0.0], [4.0], [3.0], [2.0])
    assert backward == pytest.approx(0.5 * (2 - np.log(2) - 1 + 9 / 2))


def test_kl_is_summed_over_points_and_averaged_over_outputs(rng):
    mean, other = rng.standard_normal((2, 6, 3))
    variance, other_variance = rng.uniform(0.5, 2, (2, 6, 3))
    columns = [
        gaussian_kl(mean[:, c], variance[:, c], other[:, c], other_variance[:, c]) for c in range(3)
    ]
    assert gaussian_kl(mean, variance, other, other_variance) == pytest.approx(np.mean(columns))
    points = [
        gaussian_kl(mean[i, :1], variance[i, :1], other[i, :1], other_variance[i, :1])
        for i in range(6)
    ]
    assert columns[0] == pytest.approx(np.sum(points))


def test_kl_is_a_divergence(rng):
    """Never negative, zero for equal distributions; the paper's printed formula fails this."""
    mean, variance = rng.standard_normal(50), rng.uniform(0.1, 10, 50)
    assert gaussian_kl(mean, variance, mean, variance) == pytest.approx(0, abs=1e-12)
    for i in range(50):
        assert gaussian_kl([0.0], [variance[i]], [mean[i]], [1.0]) > 0
    ratio = 1 / variance  # exact over approximate, equal means
    assert np.any(ratio + np.log(ratio) - 1 < 0)


def test_gaussian_mnll_is_the_log_density(rng):
    y, mean, variance = rng.standard_normal((2, 3)), np.ones((2, 3)), rng.uniform(1, 2, (2, 3))
    expected = -norm(mean, np.sqrt(variance)).logpdf(y).mean()
    assert mean_negative_log_likelihood(y, mean, variance) == pytest.approx(expected)


def test_mnll_of_probabilities_by_hand():
    p = np.array([[0.2, 0.8], [0.5, 0.5]])
    expected = -(np.log(0.8) + np.log(0.5)) / 2
    assert mean_negative_log_likelihood([1, 0], p) == pytest.approx(expected)
    swapped = mean_negative_log_likelihood(["x", "y"], p, classes=["y", "x"])
    assert swapped == pytest.approx(expected)
    assert mean_negative_log_likelihood([1], [[1.0, 0.0]]) == np.inf
    for labels, classes in (([2, 0], None), (["x", "z"], ["x", "y"]), ([0.5, 1.0], None)):
        with pytest.raises(ValueError, match="classes"):
            mean_negative_log_likelihood(labels, p, classes=classes)


@pytest.mark.parametrize("p", [[[3.0, -2.0]], [[1.0, 1.0]], [[np.nan, 1.0]], np.empty((0, 2))])
@pytest.mark.parametrize("metric", [mean_negative_log_likelihood, expected_calibration_error])
def test_only_probabilities_are_measured(metric, p):
    with pytest.raises(ValueError, match=r"[Pp]robabilities must"):
        metric(np.zeros(len(p), dtype=int), p)


def test_normalized_mean_squared_error_by_hand():
    y = np.array([1.0, 3.0, 5.0])
    assert normalized_mean_squared_error(y, y) == 0
    assert normalized_mean_squared_error(y, np.full(3, 3.0)) == pytest.approx(1)
    assert normalized_mean_squared_error(y, y + 2) == pytest.approx(4 / (8 / 3))
    both = normalized_mean_squared_error(np.c_[y, 10 * y], np.c_[y, np.full(3, 30.0)])
    assert both == pytest.approx(0.5)


def test_error_rate_by_hand():
    assert error_rate([1, 2, 3], [1, 2, 4]) == pytest.approx(1 / 3)


def test_calibration_error_by_hand():
    """Two bins of two rows: (0.9 sure, half right) and (0.6 sure, all right)."""
    p = np.array([[0.9, 0.1], [0.9, 0.1], [0.6, 0.4], [0.4, 0.6]])
    y = np.array([0, 1, 0, 1])
    expected = (2 * abs(0.5 - 0.9) + 2 * abs(1 - 0.6)) / 4
    assert expected_calibration_error(y, p, n_bins=10) == pytest.approx(expected)
    assert expected_calibration_error(y, p, n_bins=1) == pytest.approx(abs(0.75 - 0.75))
    with pytest.raises(ValueError, match="n_bins"):
        expected_calibration_error(y, p, n_bins=0)


def test_crps_is_its_integral():
    y, mean, std = np.array([0.3, -2.0]), np.array([0.0, 1.0]), np.array([1.0, 0.5])
    t = np.linspace(-12, 12, 200_001)
    cdf = norm.cdf(t, mean[:, None], std[:, None])
    expected = np.trapezoid((cdf - (t >= y[:, None])) ** 2, t, axis=1)
    np.testing.assert_allclose(metrics.crps_gaussian(y, mean, std), expected, rtol=1e-4)
    density = norm.pdf(t, mean[:, None], std[:, None])
    np.testing.assert_allclose(metrics.crps_of_density(y, t, density), expected, rtol=1e-4)
    levels = (np.arange(20_000) + 0.5) / 20_000
    quantiles = norm.ppf(levels, mean[:, None], std[:, None])
    np.testing.assert_allclose(metrics.crps_of_quantiles(y, quantiles, levels), expected, rtol=1e-3)


def test_interval_score_is_that_of_two_quantiles():
    """Width + 2/α (l − y)₊ + 2/α (y − u)₊ is 2/α times the pinball losses of the two ends."""
    rng = np.random.default_rng(0)
    y, low = rng.standard_normal((2, 50))
    high = low + 1

    def pinball(q, level):
        return (y - q) * (level - (y < q))

    expected = 2 / 0.2 * (pinball(low, 0.1) + pinball(high, 0.9))
    np.testing.assert_allclose(metrics.interval_score(y, low, high, 0.8), expected)


def test_coverage_and_pit_of_a_right_model(rng):
    std = rng.uniform(0.1, 2.0, 20_000)
    y = std * rng.standard_normal(20_000)
    groups = metrics.coverage_by_width(y, -1.645 * std, 1.645 * std)
    np.testing.assert_allclose(groups, 0.9, atol=6 * np.sqrt(0.09 / 2000))
    levels = np.linspace(0.001, 0.999, 999)
    shares = metrics.pit_histogram(y, std[:, None] * norm.ppf(levels), levels)
    np.testing.assert_allclose(shares, 0.1, atol=6 * np.sqrt(0.09 / 20_000))
    narrow = metrics.pit_histogram(y, 0.5 * std[:, None] * norm.ppf(levels), levels)
    assert narrow[0] > 0.15 > 0.08 > narrow[4]


def test_plots_of_a_model(rng):
    pytest.importorskip("matplotlib")
    X = rng.uniform(-2, 2, (120, 2))
    y = np.sin(X[:, 0]) + 0.1 * rng.standard_normal(120)
    gp = FeatureGPRegressor(Gaussian(lengthscale=1.0)).fit(X, y)
    curve = metrics.plot_calibration(gp, X, y).get_lines()[1].get_ydata()
    assert np.all(np.diff(curve) >= 0)
    assert metrics.plot_predictions(gp, X, y).get_xlabel() == "y"
    with pytest.raises(ValueError, match="against y"):
        metrics.plot_predictions(gp, X)
    one = FeatureGPRegressor(Gaussian(lengthscale=1.0), optimize=True).fit(X[:, :1], y)
    assert metrics.plot_predictions(one, X[:, :1], y).get_xlabel() == "input"
    assert "<td" in one.search_._repr_html_()
    assert len(one.search_.plot().get_lines()[0].get_ydata()) == len(one.search_.steps)

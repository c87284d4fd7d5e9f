"""Cases that a reader of the code found wrong once."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.feature_selection import SelectKBest, f_regression
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, PowerTransformer, StandardScaler

from dotsketch import (
    DirichletGPClassifier,
    ExactGPRegressor,
    FeatureGPClassifier,
    FeatureGPRegressor,
    FourierFeatures,
    Gaussian,
    MaclaurinFeatures,
    NystromFeatures,
    Polynomial,
    PolynomialSketch,
)
from dotsketch.gp import ConjugateGradients
from dotsketch.gp.columns import digest_of
from gp.data import class_data, regression_data

X, y = regression_data()

WAVES = FourierFeatures(Gaussian(lengthscale=1.5), n_components=40, random_state=0)


def landmarks(n_components=20):
    return NystromFeatures(Gaussian(lengthscale=1.0), n_components=n_components, random_state=0)


def test_noise_by_row_contains_nothing_that_features_lack():
    X, y = regression_data(n=200)
    shared = FeatureGPRegressor(landmarks(), noise_variance=0.02, prior_variance=1.0).fit(X, y)
    by_row = FeatureGPRegressor(landmarks(), prior_variance=1.0)
    by_row.fit(X, y, noise_variance=np.full(200, 0.02))
    stds = [gp.predict(X[:9] * 1.1, return_std=True)[1] for gp in (shared, by_row)]
    np.testing.assert_allclose(*stds, rtol=1e-8)
    chosen = FeatureGPRegressor(landmarks()).fit(X, y)
    before = chosen.predict(X, return_std=True)[1]
    chosen.set_params(noise_variance=0.5)  # counts for the next fit only
    np.testing.assert_array_equal(chosen.predict(X, return_std=True)[1], before)


def test_rows_without_prior_variance():
    kernel = Polynomial(2, coef0=0.0)
    features = NystromFeatures(kernel, n_components=5, random_state=0)
    _, std = FeatureGPRegressor(features).fit(X, y).predict(np.zeros((2, 3)), return_std=True)
    np.testing.assert_array_equal(std, 0)


def test_weights_of_rows_that_are_left_out():
    """Weights whose sum is the number of rows are weights; those below one cannot lose a copy."""
    X, y = regression_data(n=40)
    weights = np.tile([0.5, 1.5], 20)
    fixed = {"noise_variance": 0.1, "prior_variance": 1.0}
    gp = FeatureGPRegressor(WAVES, **fixed).fit(X, y, sample_weight=weights)
    heavy = weights > 1
    whole, some = (
        gp.leave_one_out(X[rows], y[rows])[0] for rows in (heavy, np.flatnonzero(heavy)[:7])
    )
    np.testing.assert_allclose(whole[:7], some, rtol=1e-10)
    light = FeatureGPRegressor(WAVES, **fixed).fit(X, y, sample_weight=np.full(40, 0.05))
    with pytest.raises(ValueError, match="below one"):
        light.leave_one_out(X, y)
    exact = ExactGPRegressor(Gaussian(), **fixed).fit(X, y, sample_weight=weights)
    with pytest.raises(ValueError, match="without sample_weight"):
        exact.leave_one_out(X, y)


def test_the_complex_posterior_in_the_dimension_of_the_rows():
    X, y = regression_data(n=40)
    sketch = PolynomialSketch(3, coef0=1.0, n_components=64, output="complex", random_state=0)
    gp = FeatureGPRegressor(
        sketch, posterior="complex", noise_variance=0.1, prior_variance=1.0
    ).fit(X, y)
    for whole, some in zip(gp.leave_one_out(X, y), gp.leave_one_out(X[:39], y[:39]), strict=True):
        np.testing.assert_allclose(whole[:39], some, rtol=1e-6, atol=1e-8)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_features_that_vanish_with_noise_by_row():
    features = MaclaurinFeatures(Gaussian(lengthscale=0.01), n_components=20, random_state=0)
    noise = np.full(60, 0.01)
    with pytest.warns(UserWarning, match="carry"):
        gp = FeatureGPRegressor(features).fit(X, y, noise_variance=noise)
    assert gp.prior_variance_ == pytest.approx(1.0, rel=1e-6)
    assert gp.refit().prior_variance_ == pytest.approx(1.0, rel=1e-6)


def test_a_refit_that_fails_changes_nothing():
    X, y = class_data()
    gp = DirichletGPClassifier(WAVES, alpha=0.01).fit(X, y)
    with pytest.raises(ValueError, match="alpha must be"):
        gp.refit(alpha=-1.0)
    assert gp.alpha == 0.01
    assert gp.refit(alpha=0.1).alpha == gp.alpha_ == 0.1


@pytest.mark.parametrize("make", [FeatureGPRegressor, ExactGPRegressor])
def test_one_constant_output_among_several(make):
    gp = make(Gaussian(lengthscale=1.0)).fit(X, np.column_stack([y, np.full(60, 3.0)]))
    mean, std = gp.predict(X, return_std=True, include_noise=True)
    np.testing.assert_allclose(mean[:, 1], 3.0)
    assert np.all(std[:, 1] > 0.5)


def test_arrays_of_other_libraries_everywhere():
    torch = pytest.importorskip("torch")
    rows = torch.tensor(X, requires_grad=True)
    solver = ConjugateGradients(rank=10, n_samples=5)
    for gp in (FeatureGPRegressor(WAVES), FeatureGPRegressor(WAVES, solver=solver)):
        mean, std = gp.fit(X, y).predict(rows, return_std=True)
        (mean.sum() + std.sum()).backward()
        np.testing.assert_allclose(
            std.detach(), gp.predict(X, return_std=True)[1], rtol=1e-4, atol=1e-6
        )
        assert gp.sample_y(rows, 3).shape == (60, 3)
        with pytest.raises(ValueError, match="return_cov is for NumPy"):
            gp.predict(rows, return_cov=True)
    for make in (FeatureGPClassifier, DirichletGPClassifier):
        gp = make(WAVES).fit(X, y > 5)
        np.testing.assert_array_equal(gp.predict(rows), gp.predict(X))
        np.testing.assert_allclose(gp.predict_latent(rows)[1], gp.predict_latent(X)[1], rtol=1e-6)


def test_the_likelihood_of_almost_no_noise_is_finite():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1200, 3))
    features = FourierFeatures(Gaussian(lengthscale=1.0), n_components=1100, random_state=0)
    gp = FeatureGPRegressor(features, noise_variance=1e-12, prior_variance=1.0)
    assert np.isfinite(gp.fit(X, np.sin(X[:, 0])).log_marginal_likelihood())


def test_functions_know_the_names_of_inputs():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=[*"abc"])
    f = FeatureGPRegressor(Gaussian(lengthscale=1.0)).fit(frame, y).sample_functions(2)
    assert f(frame[[*"abc"]]).shape == (60, 2)
    with pytest.raises(ValueError, match="The inputs must be"):
        f(frame[[*"cba"]])


def test_parameters_that_need_other_columns():
    gp = FeatureGPRegressor(WAVES).fit(X, y).set_params(posterior="complex")
    with pytest.raises(ValueError, match="fit again"):
        gp.refit()


def test_a_search_is_silent_and_scales_are_warned_of_once(rng):
    """Lengthscales that a search tries may be far too short, and those it finds suit the inputs."""
    X = rng.standard_normal((60, 3)) * [0.1, 1.0, 1e3]
    features = NystromFeatures(Gaussian(), n_components=20, random_state=0)
    with pytest.warns(UserWarning, match="scale") as caught:
        FeatureGPRegressor(features).fit(X, X[:, 0])
    assert len(caught) == 1
    FeatureGPRegressor(features, optimize=True).fit(X, X[:, 0])


def test_rows_that_are_added_lose_no_digits():
    """Sums are taken about the mean of the first rows, those of later rows, too."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (400, 1))
    y = np.sin(2 * X[:, 0]) + 0.1 * rng.standard_normal(400)
    options = {"features": WAVES, "noise_variance": "constant"}
    whole = FeatureGPRegressor(**options).fit(X, y)
    parts = FeatureGPRegressor(**options).partial_fit(X[:200], 1e8 + y[:200])
    parts.partial_fit(X[200:], 1e8 + y[200:])
    np.testing.assert_allclose(parts.noise_variance_, whole.noise_variance_, rtol=1e-3)
    np.testing.assert_allclose(parts.predict(X) - 1e8, whole.predict(X), atol=0.01)
    constant = FeatureGPRegressor(WAVES).fit(X, np.full(400, 7.3))
    assert constant.partial_fit(X, np.full(400, 7.3)).outputs_.constant.all()


@pytest.mark.parametrize("random_state", [3, None, np.random.default_rng(0)])
def test_a_warp_is_judged_by_the_same_rows(random_state):
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (600, 1))
    y = np.exp(np.sin(2 * X[:, 0]) + 0.5 * rng.standard_normal(600))
    gp = FeatureGPRegressor(WAVES, target_transform="auto", random_state=random_state)
    assert gp.fit(X, y).outputs_.warp is not None


@pytest.mark.parametrize("transform", ["auto", PowerTransformer()])
def test_constant_targets_under_a_warp_vary(transform):
    X = np.random.default_rng(0).uniform(-2, 2, (120, 1))
    gp = FeatureGPRegressor(WAVES, target_transform=transform).fit(X, np.full(120, 5.0))
    mean, std = gp.predict(X, return_std=True, include_noise=True)
    np.testing.assert_allclose(mean, 5, atol=0.2)
    assert np.all(std > 0.1)


@pytest.mark.parametrize("make", [FeatureGPRegressor, ExactGPRegressor])
def test_targets_that_are_constant_in_a_fold(make):
    """The other row of a fold does not decide how wide all intervals are."""
    X, y = np.random.default_rng(0).standard_normal((6, 2)), np.eye(6)[0]
    std = make().fit(X, y).predict(X, return_std=True, include_noise=True)[1]
    assert np.all(std < 5)


def test_complex_columns_have_no_jackknife():
    X = np.random.default_rng(0).uniform(-2, 2, (150, 1))
    complex_waves = FourierFeatures(Gaussian(), n_components=20, output="complex", random_state=0)
    gp = FeatureGPRegressor(complex_waves, posterior="complex").fit(X, np.sin(X[:, 0]))
    with pytest.raises(ValueError, match='posterior="real"'):
        gp.predict_interval(X, method="jackknife+")
    labels = DirichletGPClassifier(complex_waves, posterior="complex").fit(X, X[:, 0] > 0)
    with pytest.raises(ValueError, match="needs other columns"):
        labels.set_params(posterior="real").refit()


def test_features_of_frames_and_functions():
    """The same features have the same digest elsewhere; other inputs are refused."""
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(np.random.default_rng(0).uniform(-2, 2, (60, 2)), columns=["a", "b"])
    steps = FunctionTransformer(np.tanh), FunctionTransformer(doubled), clone(WAVES)
    fitted = make_pipeline(*steps).fit(frame)
    assert digest_of(fitted) == digest_of(pickle.loads(pickle.dumps(fitted)))
    frozen = FrozenEstimator(clone(WAVES).fit(frame))
    assert digest_of(frozen) == digest_of(pickle.loads(pickle.dumps(frozen)))
    FeatureGPRegressor(frozen).fit(frame, frame["a"])
    with pytest.raises(ValueError, match=r"fitted to the inputs \['a', 'b'\]"):
        FeatureGPRegressor(frozen).fit(frame[["b", "a"]], frame["a"])


def doubled(X):
    return 2 * X


def times(factor):
    return lambda X: factor * X


def test_functions_are_told_apart_by_what_they_compute():
    same = [times(2), times(2)]
    others = [times(3), lambda X: 2 * X, lambda X: 3 * X, lambda X: np.sin(X), lambda X: np.cos(X)]
    digests = [digest_of(FunctionTransformer(function)) for function in same + others]
    assert digests[0] == digests[1]
    assert len(set(digests)) == 6


@pytest.mark.parametrize(
    "before",
    [
        SelectKBest(f_regression, k=1),
        StandardScaler().set_output(transform="pandas"),
        "passthrough",
    ],
)
def test_steps_before_a_kernel_that_is_searched(before):
    X = np.random.default_rng(0).uniform(-2, 2, (60, 3))
    features = make_pipeline(before, NystromFeatures(Gaussian(), n_components=20))
    gp = FeatureGPRegressor(features, optimize=True).fit(X, np.sin(X[:, 0]))
    assert gp.score(X, np.sin(X[:, 0])) > 0.9


def test_a_pipeline_that_keeps_rows_as_they_are():
    X = np.random.default_rng(0).uniform(-2, 2, (60, 3))
    gp = FeatureGPRegressor(Pipeline([("as they are", "passthrough")])).fit(X, X[:, 0])
    assert gp.score(X, X[:, 0]) > 0.9


def test_overflow_of_an_exact_process():
    X = np.random.default_rng(0).uniform(-2, 2, (30, 3))
    gp = ExactGPRegressor(Polynomial(5)).fit(X, X[:, 0])
    with pytest.raises(ValueError, match="overflows"):
        gp.predict(np.full((1, 3), 1e80))


def test_collections_where_rows_are_needed():
    array = pytest.importorskip("dask.array")
    X = np.random.default_rng(0).uniform(-2, 2, (30, 3))
    gp = FeatureGPRegressor(WAVES).fit(X, X[:, 0])
    for method in (gp.predict_quantiles, gp.predict_interval, gp.sample_y):
        with pytest.raises(TypeError, match=r"X\.compute\(\)"):
            method(array.from_array(X))

"""What has no meaning is refused by every Gaussian process, with what was given and what to do."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.gaussian_process.kernels import RBF
from sklearn.kernel_approximation import Nystroem
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler, StandardScaler

from dotsketch import (
    DirichletGPClassifier,
    ExactGPClassifier,
    ExactGPRegressor,
    FeatureGPClassifier,
    FeatureGPRegressor,
    FourierFeatures,
    Gaussian,
    PolynomialSketch,
)
from dotsketch.gp import ConjugateGradients

from .subjects import (
    CLASSIFIERS,
    GAUSSIAN_PROCESSES,
    LABELS,
    ON_FEATURES,
    REGRESSORS,
    X_TEST,
    X,
    fixed,
    target_of,
    y,
)

processes = pytest.mark.parametrize("gp", GAUSSIAN_PROCESSES.values(), ids=GAUSSIAN_PROCESSES)
regressors = pytest.mark.parametrize("gp", REGRESSORS.values(), ids=REGRESSORS)
classifiers = pytest.mark.parametrize("gp", CLASSIFIERS.values(), ids=CLASSIFIERS)
on_features = pytest.mark.parametrize("gp", ON_FEATURES.values(), ids=ON_FEATURES)
SKETCH = PolynomialSketch(2, coef0=1.0, n_components=10, random_state=0)
COMPLEX = FourierFeatures(Gaussian(), n_components=20, output="complex", random_state=0)
N = len(X)


def named(*changes):
    return [pytest.param(*change, id=f"{change[0]}-{change[-1]}"[:60]) for change in changes]


@pytest.mark.parametrize(
    ("options", "message"),
    named(
        ({"features": 0}, 'must be "auto", a number of columns'),
        ({"noise_variance": 0.0}, 'noise_variance must be a positive number or "auto"'),
        ({"noise_variance": "changing"}, "noise_variance must be a positive number"),
        ({"prior_variance": "big"}, "prior_variance must be"),
        ({"posterior": "both"}, "posterior must be one of 'real', 'complex'"),
        ({"variance_correction": "all"}, "variance_correction must be one of"),
        ({"normalize_y": True}, "normalize_y must be one of"),
        ({"optimize": "ard"}, "optimize must be one of"),
        ({"optimize": True}, "searches the parameters of one kernel"),
        ({"optimize": True, "features": StandardScaler()}, "searches the parameters of one kernel"),
        ({"target_transform": "log"}, "target_transform must be None"),
        ({"target_transform": FunctionTransformer(np.negative, np.negative)}, "increasing"),
        ({"trend": "quadratic"}, "trend must be one of"),
        ({"noise_variance": "varying", "solver": "cg"}, 'needs solver="cholesky"'),
        ({"target_transform": "auto", "solver": "cg"}, 'use solver="cholesky"'),
        (
            {"features": Nystroem(n_components=10), "variance_correction": "posterior"},
            "Nystroem does not have",
        ),
        ({"features": COMPLEX, "posterior": "complex", "solver": "cg"}, "works with real columns"),
    ),
)
def test_options_of_a_regressor(options, message):
    with pytest.raises((TypeError, ValueError), match=message):
        FeatureGPRegressor(**{"features": SKETCH, **options}).fit(X, y)


@pytest.mark.parametrize(
    ("make", "options", "message"),
    named(
        (FeatureGPClassifier, {"prior_variance": "labels"}, "prior_variance must be"),
        (FeatureGPClassifier, {"class_weight": {9: 1.0}}, "class_weight names 9"),
        (FeatureGPClassifier, {"class_weight": "even"}, "class_weight must be"),
        (FeatureGPClassifier, {"class_weight": {0: -1.0}}, "must be positive"),
        (DirichletGPClassifier, {"alpha": 0.0}, "alpha must be a positive number"),
        (DirichletGPClassifier, {"posterior": "both"}, "posterior must be one of"),
        (DirichletGPClassifier, {"variance_correction": "fitc"}, "variance_correction must be"),
    ),
)
def test_options_of_a_classifier(make, options, message):
    with pytest.raises(ValueError, match=message):
        make(SKETCH, **options).fit(X, LABELS)


@pytest.mark.parametrize(
    "parameters", [{"tolerance": 0}, {"rank": 0}, {"n_samples": 1.5}, {"max_iterations": 0}]
)
def test_options_of_a_solver(parameters):
    with pytest.raises(ValueError, match=r"must be"):
        ConjugateGradients(**parameters)


@on_features
@pytest.mark.parametrize("features", ["none", -3, True, object()])
def test_features(gp, features):
    with pytest.raises(TypeError, match='features must be "auto"'):
        clone(gp).set_params(features=features).fit(X, target_of(gp))


@on_features
def test_frozen_features_of_another_width(gp):
    features = FrozenEstimator(FourierFeatures(Gaussian(), n_components=10).fit(X[:, :2]))
    with pytest.raises(ValueError, match="X has 5 features, but FourierFeatures is expecting 2"):
        clone(gp).set_params(features=features).fit(X, target_of(gp))


@pytest.mark.parametrize("make", [ExactGPRegressor, ExactGPClassifier])
@pytest.mark.parametrize("kernel", ["rbf", Gaussian])
def test_kernels(make, kernel):
    with pytest.raises(TypeError, match='kernel must be "auto" or a kernel'):
        make(kernel).fit(X, LABELS)
    with pytest.raises(ValueError, match="kernels of this library"):
        make(RBF(), optimize=True).fit(X, LABELS)


@processes
@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.zeros(N), "weight is not zero"),
        (-np.ones(N), "sample_weight"),
        (np.full(N, np.nan), "sample_weight"),
        (np.ones(N - 1), "inconsistent|sample_weight"),
        (np.full(N, 1e-300), r"sample_weight must be .* not below 1e-154"),
    ],
)
def test_weights(gp, weights, message):
    with pytest.raises(ValueError, match=message):
        fixed(clone(gp)).fit(X, target_of(gp), sample_weight=weights)


@regressors
@pytest.mark.parametrize("noise", [np.zeros(N), -np.ones(N), np.ones(N - 1), np.full(N, np.nan)])
def test_noise_by_row(gp, noise):
    with pytest.raises(ValueError, match=r"inconsistent numbers|80 positive finite numbers"):
        clone(gp).fit(X, y, noise_variance=noise)


@regressors
def test_noise_of_rows_to_predict(gp):
    gp = clone(gp).fit(X, y, noise_variance=np.full(N, 0.1))
    options = {"return_std": True, "include_noise": True}
    for noise in (-np.ones(3), np.ones(1), np.full(3, np.nan)):
        with pytest.raises(ValueError, match="3 positive finite numbers"):
            gp.predict(X[:3], noise_variance=noise, **options)
    with pytest.raises(ValueError, match="include_noise=True"):
        gp.predict(X[:3], return_std=True, noise_variance=np.ones(3))


@regressors
def test_targets_whose_squares_overflow(gp):
    with pytest.raises(ValueError, match="squares overflow"):
        clone(gp).set_params(normalize_y="standard").fit(X, 1e160 * y)


@classifiers
@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (np.zeros(N), "at least two classes"),
        (np.array(["a", None] * (N // 2), dtype=object), "labels that are None: remove these rows"),
    ],
)
def test_labels(gp, labels, message):
    with pytest.raises(ValueError, match=message):
        clone(gp).fit(X, labels)


@pytest.mark.parametrize("make", [FeatureGPClassifier, DirichletGPClassifier])
def test_numbers_and_then_texts(make):
    first, second = (X[:20], np.array([0, 1] * 10)), (X[20:40], np.array(["neg", "pos"] * 10))
    with pytest.raises(ValueError, match="must not mix strings and numbers"):
        make(SKETCH).fit(lambda: iter([first, second]))
    if make is DirichletGPClassifier:
        with pytest.raises(ValueError, match="must not mix strings and numbers"):
            make(SKETCH).fit(*first).partial_fit(*second)


@processes
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_rows_that_are_not_finite(gp, bad):
    fitted, rows = fixed(clone(gp)).fit(X, target_of(gp)), X_TEST.copy()
    rows[2, 1] = bad
    with pytest.raises(ValueError, match=r"Input X contains (NaN|infinity)"):
        fitted.predict(rows)


@processes
def test_rows_that_would_be_taken_for_numbers(gp):
    with pytest.raises(ValueError, match="masked"):
        clone(gp).fit(np.ma.masked_array(X, mask=X > 0.5), target_of(gp))
    dates = np.array("2024-01-01", dtype="datetime64[D]") + np.arange(N)
    with pytest.raises(TypeError, match="Dates"):
        clone(gp).fit(dates[:, None], target_of(gp))


def test_rows_that_are_read_once_or_are_few():
    for options, message in (
        ({"solver": "cg"}, "reads the rows many times"),
        ({"target_transform": "auto"}, "reads the rows more than once"),
    ):
        with pytest.raises(ValueError, match=message):
            FeatureGPRegressor(SKETCH, **options).fit(iter([(X, y)]))
    with pytest.raises(ValueError, match="use DirichletGPClassifier"):
        FeatureGPClassifier(SKETCH).fit(iter([(X, LABELS)]))
    with pytest.raises(ValueError, match="partial_fit needs sums"):
        FeatureGPRegressor(SKETCH, solver="cg").partial_fit(X, y)
    with pytest.raises(ValueError, match="needs 100 rows"):
        FeatureGPRegressor(SKETCH, noise_variance="varying").fit(X, y)


@regressors
def test_numbers_of_samples(gp):
    with pytest.raises(ValueError, match="n_samples must be a positive integer; got 'a'"):
        clone(gp).fit(X, y).sample_y(X, n_samples="a")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda gp: gp.predict_density(X, [[0.0]]), "points must be finite numbers"),
        (lambda gp: gp.predict_interval(X, 1.5), "coverage must lie between 0 and 1"),
        (lambda gp: gp.predict_interval(X, method="split"), "method must be one of"),
        (lambda gp: gp.predict(X, return_cov=True), "targets without a warp"),
        (lambda gp: gp.predict(X, return_std=True, return_cov=True), "At most one"),
        *(
            (lambda gp, n=n: gp.sample_functions(n), "n_functions must be a positive integer")
            for n in (0, 1.5, True)
        ),
    ],
)
def test_what_is_asked_of_a_model(call, message):
    with pytest.raises((RuntimeError, ValueError), match=message):
        call(FeatureGPRegressor(SKETCH, target_transform=MinMaxScaler()).fit(X, y))

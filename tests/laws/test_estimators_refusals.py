"""What has no meaning is refused by every feature map, with what was given and what to do."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

from dotsketch import (
    Exponential,
    FourierFeatures,
    Gaussian,
    Maclaurin,
    MaclaurinFeatures,
    Matern,
    NystromFeatures,
    Periodic,
    Polynomial,
    PolynomialSketch,
    PositiveFeatures,
    SphericalFeatures,
)

from .subjects import FEATURE_MAPS, X

maps = pytest.mark.parametrize("features", FEATURE_MAPS.values(), ids=FEATURE_MAPS)
WITH_KERNEL = {n: f for n, f in FEATURE_MAPS.items() if "kernel" in f.get_params()}
WITH_OUTPUT = {n: f for n, f in FEATURE_MAPS.items() if "output" in f.get_params()}
KERNEL = Polynomial(3, gamma=0.5, coef0=0.5)


@pytest.mark.parametrize("features", WITH_KERNEL.values(), ids=WITH_KERNEL)
@pytest.mark.parametrize("kernel", ["rbf", None, Gaussian])
def test_what_is_no_kernel(features, kernel):
    with pytest.raises(TypeError, match=r"kernel must be a kernel of dotsketch, such as Gaussian"):
        clone(features).set_params(kernel=kernel).fit(X)


@maps
@pytest.mark.parametrize("number", [0, -3, 2.0, True, "many"])
def test_numbers_of_columns(features, number):
    with pytest.raises(ValueError, match="n_components must be a positive integer; got"):
        clone(features).set_params(n_components=number).fit(X)


@maps
@pytest.mark.parametrize("n_jobs", ["2", 1.5, 0])
def test_numbers_of_threads(features, n_jobs):
    with pytest.raises(ValueError, match="n_jobs must be None or an integer other than 0; got"):
        clone(features).set_params(n_jobs=n_jobs).fit(X).transform(X)


@pytest.mark.parametrize("features", WITH_OUTPUT.values(), ids=WITH_OUTPUT)
def test_outputs(features):
    with pytest.raises(ValueError, match=r"output must be one of .*; got 'imaginary'"):
        clone(features).set_params(output="imaginary").fit(X)
    with pytest.raises(ValueError, match="n_components=7 must be even; use 8"):
        clone(features).set_params(output="complex_to_real", n_components=7).fit(X)
    with pytest.raises(ValueError, match=r"part must be one of 'real', 'complex'; got"):
        clone(features).fit(X).variance(X, part="imaginary")


@maps
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda X: np.where(np.arange(5) == 2, np.nan, X), "NaN"),
        (lambda X: np.where(np.arange(5) == 2, np.inf, X), "infinity"),
        (lambda X: X[:, :4], "X has 4 features, but .* is expecting 5"),
        (lambda X: X[0], "Expected 2D array, got 1D array"),
        (lambda X: X[:0], r"0 sample\(s\)"),
        (lambda X: X[:, :0], r"0 feature\(s\)"),
        (lambda X: X * 1j, "Complex data not supported"),
    ],
    ids=["nan", "inf", "width", "1-D", "no rows", "no columns", "complex"],
)
def test_rows_of_every_library(features, change, message, library):
    fitted = clone(features).fit(X)
    with pytest.raises(ValueError, match=message):
        fitted.transform(library.asarray(change(X)))


@maps
def test_rows_that_are_no_numbers(features):
    for rows in (np.array([["a", "b"]]), np.array([[None, 1.0]]), [[{}, {}]]):
        with pytest.raises((TypeError, ValueError)):
            clone(features).fit(rows)


PARAMETERS = [
    (FourierFeatures(Polynomial(2)), TypeError, r"Matern\(\); Maclaurin.*; got Polynomial"),
    (FourierFeatures(Periodic()), TypeError, r"kernels of the distance.* NystromFeatures every"),
    (FourierFeatures(Gaussian(), projection="srht"), ValueError, "projection must be one of"),
    (FourierFeatures(Gaussian(), norms="unit"), ValueError, "norms must be one of .*; got 'unit'"),
    (FourierFeatures(Gaussian(lengthscale=[1.0, 2.0])), ValueError, "lengthscale has 2 values"),
    (PositiveFeatures(Gaussian(lengthscale=[1.0, 2.0])), ValueError, "lengthscale has 2 values"),
    (PositiveFeatures(Polynomial(2)), TypeError, r"Exponential\(\) and Gaussian.*; got Polynomial"),
    (PositiveFeatures(Exponential(), projection="srht"), ValueError, "projection must be one of"),
    (
        PositiveFeatures(Exponential(), n_components=5, hyperbolic=True),
        ValueError,
        "n_components=5 must be even; use 6",
    ),
    (SphericalFeatures(Matern()), TypeError, r"dot product kernels.* got Matern"),
    (SphericalFeatures(KERNEL, projection="dense"), ValueError, "projection must be one of"),
    (SphericalFeatures(Gaussian(lengthscale=np.ones(5))), ValueError, "for every coordinate"),
    (SphericalFeatures(Maclaurin([0.0, 0.0])), ValueError, "positive and finite"),
    (SphericalFeatures(Exponential(lengthscale=0.01)), ValueError, "positive and finite"),
    (MaclaurinFeatures(Matern()), TypeError, r"dot product kernels.* got Matern"),
    (MaclaurinFeatures(Gaussian(), sketch="tree_srht"), ValueError, "use one of .*tensor_srht"),
    (MaclaurinFeatures(Gaussian(), sketch="none"), ValueError, "sketch must be one of"),
    (MaclaurinFeatures(Gaussian(), allocation="best"), ValueError, "must be one of 'optimal'"),
    (MaclaurinFeatures(Gaussian(), allocation=[1, 2]), ValueError, "must be one of 'optimal'"),
    (MaclaurinFeatures(Gaussian(), coefficients="guessed"), ValueError, "coefficients must be"),
    (MaclaurinFeatures(Gaussian(), max_degree=0), ValueError, "max_degree must be a positive"),
    (
        MaclaurinFeatures(Gaussian(), allocation="random", coefficients="fitted"),
        ValueError,
        'need allocation="optimal"',
    ),
    (NystromFeatures(Gaussian(), landmarks="kmedoids"), ValueError, "rows, must be one of 'auto'"),
    (NystromFeatures(Gaussian(), landmarks=X + np.nan), ValueError, "landmarks contains NaN"),
    *(
        (NystromFeatures(Gaussian(), n_components=4, n_landmarks=n), ValueError, "n_landmarks.*")
        for n in (3, 0.9, "all", True, -2, np.nan)
    ),
    (PolynomialSketch(0), ValueError, "degree must be a positive integer; got 0"),
    (PolynomialSketch(1.5), ValueError, "degree must be a positive integer; got 1.5"),
    (PolynomialSketch(gamma=-1.0), ValueError, "gamma must be a positive number; got -1.0"),
    (PolynomialSketch(coef0=-1.0), ValueError, "coef0 must be a nonnegative number; got -1.0: a"),
    (PolynomialSketch(sketch="srht"), ValueError, "sketch must be one of .*'tree_srht'.*; got"),
    (PolynomialSketch(sketch=None), ValueError, "sketch must be one of .*; got None"),
    (PolynomialSketch(weights="circle"), ValueError, 'weights= is for sketch="rademacher"'),
    (PolynomialSketch(sketch="rademacher", weights="cube"), ValueError, "weights must be .*cube"),
    (PolynomialSketch(sketch="rademacher", weights=1.5), ValueError, r"in \[0, 1\]; got 1.5"),
    (PolynomialSketch(sketch="rademacher", weights="circle"), ValueError, "use field="),
    (PolynomialSketch(compact=0), ValueError, "compact must be a positive integer; got 0"),
]


@pytest.mark.parametrize(("features", "error", "message"), PARAMETERS, ids=str)
def test_parameters(features, error, message):
    with pytest.raises(error, match=message):
        features.fit(X)


@pytest.mark.parametrize(
    "make",
    [
        lambda a: (MaclaurinFeatures(Polynomial(3, coef0=a)), "coef0"),
        lambda a: (MaclaurinFeatures(Polynomial(2) + Exponential(lengthscale=a)), "right__length"),
        lambda a: (SphericalFeatures(Polynomial(3, gamma=a)), "no gradient flows to gamma"),
    ],
)
def test_parameters_to_which_no_gradient_flows(make):
    features, message = make(pytest.importorskip("torch").tensor(0.5))
    with pytest.raises(TypeError, match=message):
        features.fit(X)


def test_a_trained_lengthscale_with_numpy_rows():
    torch = pytest.importorskip("torch")
    kernel = Gaussian(lengthscale=torch.tensor(1.0, requires_grad=True))
    for call in (lambda: kernel(X), lambda: FourierFeatures(kernel).fit(X).transform(X)):
        with pytest.raises(TypeError, match="give rows of torch, or the parameter without"):
            call()


def test_rows_of_zeros_have_no_direction(library):
    rows = np.where(np.arange(len(X))[:, None] == 3, 0.0, X)
    for normalize, message in ((True, "row of zeros"), (False, "need rows of unit norm")):
        features = SphericalFeatures(KERNEL, normalize=normalize, n_components=4).fit(X)
        for kind in (library.asarray, sparse.csr_array):
            with pytest.raises(ValueError, match=message):
                features.transform(kind(rows))

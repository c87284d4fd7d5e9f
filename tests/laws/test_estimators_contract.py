"""What every configuration of every family promises: scikit-learn's conventions, the same features
from every array library, from sparse rows and from copies, and gradients."""

import pickle

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

from dotsketch import (
    AutoFeatures,
    Exponential,
    FourierFeatures,
    Gaussian,
    MaclaurinFeatures,
    NystromFeatures,
    Polynomial,
    PolynomialSketch,
    PositiveFeatures,
    SphericalFeatures,
    load,
    save,
)
from dotsketch.projections import PROJECTIONS
from dotsketch.sketches import SKETCHES

from .subjects import CONFIGURATIONS, FEATURE_MAPS, OTHERS, X_TEST, X

EVERY = [*CONFIGURATIONS, FEATURE_MAPS["auto"]]
every = pytest.mark.parametrize("features", EVERY, ids=str)
pytestmark = pytest.mark.filterwarnings("ignore:projection=.sorf. in:UserWarning")

ODD_COLUMNS = "scikit-learn sets n_components=1, and complex_to_real needs an even number"
FEW_COLUMNS_CHECKS = (
    "check_dont_overwrite_parameters",
    "check_methods_sample_order_invariance",
    "check_methods_subset_invariance",
    "check_fit2d_1sample",
    "check_fit2d_1feature",
    "check_fit2d_predict1d",
)
ZERO_ROWS = "scikit-learn's data have rows of zeros here, which have no direction"
ZERO_ROWS_CHECKS = (
    "check_estimators_dtypes",
    "check_estimator_sparse_tag",
    "check_estimator_sparse_array",
    "check_estimator_sparse_matrix",
)
SIX = {"n_components": 6, "random_state": 0}


def expected_failures(features):
    if isinstance(features, SphericalFeatures):
        return dict.fromkeys(ZERO_ROWS_CHECKS, ZERO_ROWS)
    is_paired = features.output == "complex_to_real"
    return dict.fromkeys(FEW_COLUMNS_CHECKS, ODD_COLUMNS) if is_paired else {}


@parametrize_with_checks(
    [
        *(PolynomialSketch(sketch=name, **SIX) for name in SKETCHES),
        PolynomialSketch(2, coef0=1.0, output="complex_to_real", **SIX),
        PolynomialSketch(2, compact=2, **SIX),
        *(FourierFeatures(Gaussian(), projection=name, **SIX) for name in PROJECTIONS),
        FourierFeatures(Gaussian(), output="complex_to_real", **SIX),
        *(
            SphericalFeatures(Polynomial(3, gamma=0.5, coef0=0.5), projection=name, **SIX)
            for name in PROJECTIONS
        ),
        MaclaurinFeatures(Gaussian(), n_components=20, random_state=0),
        MaclaurinFeatures(Polynomial(2), n_components=20, mean_split=True, coefficients="fitted"),
        PositiveFeatures(Gaussian(), n_components=7, random_state=0),
        PositiveFeatures(Gaussian(lengthscale=30.0), projection="sorf", n_components=6),
        PositiveFeatures(Exponential(lengthscale=300.0), **SIX),
        NystromFeatures(Gaussian(), **SIX),
        NystromFeatures(Polynomial(2), **SIX),
        AutoFeatures(Polynomial(2), candidates=["maclaurin", "polynomial"], **SIX),
        *OTHERS,
    ],
    expected_failed_checks=expected_failures,
)
def test_scikit_learn_contract(estimator, check):
    """scikit-learn's own checks, those of the array API among them."""
    check(estimator)


@every
def test_every_library_has_the_same_features(features, foreign):
    """In double and single precision, and for a fit to rows of that library."""
    fitted = clone(features).fit(X)
    Z, single = fitted.transform(X_TEST), fitted.transform(X_TEST.astype(np.float32))
    assert single.dtype == (np.complex64 if features.output == "complex" else np.float32)
    np.testing.assert_allclose(single, Z, rtol=0, atol=2e-4)
    A, B = foreign.asarray(X_TEST), foreign.asarray(X_TEST.astype(np.float32))
    np.testing.assert_allclose(foreign.numpy(fitted.transform(A)), Z, rtol=0, atol=1e-9)
    of_single = foreign.numpy(fitted.transform(B))
    assert of_single.dtype == single.dtype
    np.testing.assert_allclose(of_single, Z, rtol=0, atol=2e-4)
    again = clone(features).fit(foreign.asarray(X))
    np.testing.assert_allclose(again.transform(X_TEST), Z, rtol=0, atol=1e-6)
    if fitted.design_.has_formula:
        for of in (fitted.variance, fitted.bias):
            np.testing.assert_allclose(foreign.numpy(of(A)), of(X_TEST), rtol=1e-9, atol=1e-12)


@every
def test_jax_compiles_the_features(features):
    jax = pytest.importorskip("jax")
    fitted = clone(features).fit(X)
    Z = jax.jit(fitted.transform)(jax.numpy.asarray(X_TEST))
    np.testing.assert_allclose(Z, fitted.transform(X_TEST), rtol=0, atol=1e-9)


@every
def test_gradients_flow_to_rows(features):
    torch = pytest.importorskip("torch")
    fitted = clone(features).fit(X)
    rows = torch.tensor(X_TEST[:2] + 0.1, requires_grad=True)  # Tanimoto needs them positive
    assert torch.autograd.gradcheck(fitted.transform, (rows,))


@every
def test_copies_and_later_parameters(features, tmp_path):
    """Copies have the bits of the original, and nothing but a fit changes a fitted map."""
    with pytest.raises(NotFittedError):
        clone(features).transform(X)
    fitted = clone(features).fit(X)
    Z = fitted.transform(X_TEST)
    copy = clone(fitted)
    assert not hasattr(copy, "weights_")
    save(fitted, tmp_path / "features")
    copies = pickle.loads(pickle.dumps(fitted)), load(tmp_path / "features")
    for same in (*copies, copy.fit(X), copy.fit(X[:40]).fit(X)):
        np.testing.assert_array_equal(same.transform(X_TEST), Z)
    if hasattr(fitted, "kernel"):
        fitted.kernel.set_params(variance=7.0)
    fitted.set_params(n_components=4)
    np.testing.assert_array_equal(fitted.transform(X_TEST), Z)
    assert fitted.get_feature_names_out().shape == (Z.shape[1],)


@every
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sparse_rows_have_the_features_of_dense_ones(features, dtype):
    rows, test_rows = X.astype(dtype), X_TEST.astype(dtype)
    fitted = clone(features).fit(scipy.sparse.csr_array(rows))
    Z = fitted.transform(scipy.sparse.csr_array(test_rows))
    assert isinstance(Z, np.ndarray)
    is_complex = features.output == "complex"
    assert Z.dtype == np.result_type(dtype, np.complex64 if is_complex else dtype)
    close = {"rtol": 0, "atol": 1e-9 if dtype == np.float64 else 2e-4}
    np.testing.assert_allclose(Z, clone(features).fit(rows).transform(test_rows), **close)
    for other in (scipy.sparse.coo_array, scipy.sparse.csc_array):
        np.testing.assert_allclose(fitted.transform(other(test_rows)), Z, **close)
    if fitted.design_.has_formula:
        expected = fitted.variance(test_rows)
        np.testing.assert_allclose(
            fitted.variance(other(test_rows)), expected, rtol=1e-4, atol=1e-6
        )

"""Copies of an estimator are that estimator: clone, refit, pickle, a file, sparse rows, float32."""

import pickle

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone

from dotsketch import load, save

from .subjects import FEATURE_MAPS, GAUSSIAN_PROCESSES, X_TEST, X, fixed, predictions, target_of

maps = pytest.mark.parametrize("features", FEATURE_MAPS.values(), ids=FEATURE_MAPS)
processes = pytest.mark.parametrize("gp", GAUSSIAN_PROCESSES.values(), ids=GAUSSIAN_PROCESSES)


def saved(estimator, folder):
    save(estimator, folder / "estimator")
    return load(folder / "estimator")


@maps
def test_features_fitted_twice_are_those_fitted_once(features):
    once = clone(features).fit(X)
    twice = clone(features).fit(X[:40]).fit(X)
    np.testing.assert_array_equal(twice.transform(X_TEST), once.transform(X_TEST))


@maps
def test_copies_of_features_give_the_same_bits(features, tmp_path):
    fitted = clone(features).fit(X)
    expected = fitted.transform(X_TEST)
    for copy in (pickle.loads(pickle.dumps(fitted)), saved(fitted, tmp_path)):
        np.testing.assert_array_equal(copy.transform(X_TEST), expected)
    np.testing.assert_array_equal(clone(fitted).fit(X).transform(X_TEST), expected)


@maps
def test_sparse_rows_have_the_features_of_dense_ones(features):
    dense = clone(features).fit(X)
    sparse = clone(features).fit(csr_array(X))
    expected = dense.transform(X_TEST)
    np.testing.assert_allclose(sparse.transform(csr_array(X_TEST)), expected, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(dense.transform(csr_array(X_TEST)), expected, rtol=1e-8, atol=1e-10)


@maps
def test_single_precision_has_the_kernel_of_double_precision(features):
    """Features of float32 are float32; their Gram matrix is that of float64 to single precision."""
    fitted = clone(features).fit(X)
    Z, single = fitted.transform(X_TEST), fitted.transform(X_TEST.astype(np.float32))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single @ single.T, Z @ Z.T, rtol=0, atol=2e-4 * np.max(Z @ Z.T))


@processes
def test_a_process_fitted_twice_is_the_one_fitted_once(gp):
    y = target_of(gp)
    once = fixed(clone(gp)).fit(X, y)
    twice = fixed(clone(gp)).fit(X[:50], y[:50]).fit(X, y)
    np.testing.assert_allclose(predictions(twice), predictions(once), rtol=1e-9, atol=1e-11)


@processes
def test_copies_of_a_process_predict_the_same(gp, tmp_path):
    fitted = clone(gp).fit(X, target_of(gp))
    expected = predictions(fitted)
    for copy in (pickle.loads(pickle.dumps(fitted)), saved(fitted, tmp_path)):
        np.testing.assert_allclose(predictions(copy), expected, rtol=1e-9, atol=1e-11)


@processes
def test_a_process_of_sparse_rows_is_that_of_dense_ones(gp):
    y = target_of(gp)
    expected = predictions(fixed(clone(gp)).fit(X, y))
    found = predictions(fixed(clone(gp)).fit(csr_array(X), y), csr_array(X_TEST))
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-8)

"""Copies of an estimator are that estimator: clone, refit, pickle, a file, sparse rows, float32."""

import pickle

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone

from dotsketch import load, save

from .subjects import GAUSSIAN_PROCESSES, X_TEST, X, fixed, predictions, target_of

processes = pytest.mark.parametrize("gp", GAUSSIAN_PROCESSES.values(), ids=GAUSSIAN_PROCESSES)


def saved(estimator, folder):
    save(estimator, folder / "estimator")
    return load(folder / "estimator")


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

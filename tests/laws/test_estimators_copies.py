"""Copies of an estimator are that estimator: pickle, a file, sparse rows."""

import pickle

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dotsketch import ExactGPRegressor, load, save
from rounding import assert_same_to_rounding

from .subjects import (
    ADDITIVE,
    CLASSIFIERS,
    GAUSSIAN_PROCESSES,
    KERNELS,
    WITH_OPTIONS,
    X_TEST,
    X,
    fixed,
    frozen,
    predictions,
    target_of,
    y,
)

BEHIND = make_pipeline(StandardScaler(), GAUSSIAN_PROCESSES["FeatureGPRegressor"])
EVERY = WITH_OPTIONS | {"pipeline": BEHIND}
processes = pytest.mark.parametrize("gp", GAUSSIAN_PROCESSES.values(), ids=GAUSSIAN_PROCESSES)


def saved(estimator, folder):
    save(estimator, folder / "estimator")
    return load(folder / "estimator")


@pytest.mark.parametrize("gp", EVERY.values(), ids=EVERY)
def test_copies_of_a_process_predict_the_same(gp, tmp_path):
    fitted = clone(gp).fit(X, target_of(gp))
    expected = predictions(fitted)
    for copy in (pickle.loads(pickle.dumps(fitted)), saved(fitted, tmp_path)):
        np.testing.assert_allclose(predictions(copy), expected, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("gp", ADDITIVE.values(), ids=ADDITIVE)
def test_a_loaded_process_goes_on(gp, tmp_path):
    """What the parts of a merge are made of."""
    y = target_of(gp)
    fitted = frozen(gp).fit(X, y)
    merged, expected = (
        first.merge(fitted).partial_fit(X[::-1] / 2, y)
        for first in (saved(fitted, tmp_path), fitted)
    )
    np.testing.assert_allclose(predictions(merged), predictions(expected), rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("labels", [["a", "b", "c"], [False, True], [1.0, 3.0], [2**40, -3]])
@pytest.mark.parametrize("gp", CLASSIFIERS.values(), ids=CLASSIFIERS)
def test_labels_of_every_kind_round_trip(labels, gp, tmp_path):
    model = clone(gp).fit(X, np.array(labels)[np.arange(len(X)) % len(labels)])
    np.testing.assert_array_equal(saved(model, tmp_path).classes_, model.classes_)


@processes
def test_a_process_of_sparse_rows_is_that_of_dense_ones(gp):
    y = target_of(gp)
    expected = predictions(fixed(clone(gp)).fit(X, y))
    found = predictions(
        fixed(clone(gp)).fit(scipy.sparse.csr_array(X), y), scipy.sparse.csr_array(X_TEST)
    )
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("make", [scipy.sparse.csr_array, scipy.sparse.csr_matrix])
def test_an_exact_process_keeps_sparse_rows_as_they_were(make, tmp_path):
    gp = ExactGPRegressor(KERNELS[0], noise_variance=0.1).fit(make(X), y)
    again = saved(gp, tmp_path)
    assert type(again.columns_.rows) is make
    np.testing.assert_array_equal(again.columns_.rows.toarray(), X)
    assert_same_to_rounding(again.predict(X), gp.predict(X))

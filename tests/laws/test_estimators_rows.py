"""Rows in any order, in any chunks and on any number of threads give the same features."""

import numpy as np
import pytest
import sklearn.utils.validation
from sklearn.base import clone

from dotsketch import FeatureGPRegressor

from .subjects import FEATURE_MAPS, GAUSSIAN_PROCESSES, X_TEST, X, fixed, predictions, target_of, y

maps = pytest.mark.parametrize("features", FEATURE_MAPS.values(), ids=FEATURE_MAPS)
processes = pytest.mark.parametrize("gp", GAUSSIAN_PROCESSES.values(), ids=GAUSSIAN_PROCESSES)
CLOSE = {"rtol": 1e-9, "atol": 1e-11}  # BLAS rounds by the shape of its operands


@maps
def test_the_order_of_rows_does_not_matter(features):
    order = np.random.default_rng(1).permutation(len(X_TEST))
    fitted = clone(features).fit(X)
    np.testing.assert_allclose(
        fitted.transform(X_TEST[order]), fitted.transform(X_TEST)[order], **CLOSE
    )


@maps
def test_the_chunks_of_rows_do_not_matter(features):
    fitted = clone(features).fit(X)
    pieces = [fitted.transform(rows) for rows in (X_TEST[:1], X_TEST[1:5], X_TEST[5:])]
    np.testing.assert_allclose(np.concatenate(pieces), fitted.transform(X_TEST), **CLOSE)


@maps
def test_threads_change_no_bit(features):
    """Each thread computes the same chunks as one thread would."""
    rows = np.tile(X, (60, 1))
    one = clone(features).set_params(n_jobs=1).fit(X).transform(rows)
    two = clone(features).set_params(n_jobs=2).fit(X).transform(rows)
    np.testing.assert_array_equal(one, two)


@processes
def test_a_process_does_not_depend_on_the_order_of_its_rows(gp):
    order = np.random.default_rng(1).permutation(len(X))
    y = target_of(gp)
    gp = fixed(clone(gp))
    expected = predictions(clone(gp).fit(X, y))
    found = predictions(clone(gp).fit(X[order], y[order]))
    np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-9)


@processes
def test_predictions_of_rows_do_not_depend_on_other_rows(gp):
    fitted = fixed(clone(gp)).fit(X, target_of(gp))
    if hasattr(fitted, "predict_proba"):
        alone = np.concatenate([predictions(fitted, x[None]) for x in X_TEST])
    else:
        alone = np.concatenate([predictions(fitted, x[None]) for x in X_TEST], axis=1)
    np.testing.assert_allclose(alone, predictions(fitted), rtol=1e-8, atol=1e-10)


@pytest.fixture
def scans(monkeypatch):
    """The shapes of the arrays that scikit-learn looks through for NaN and infinity."""
    found = []
    original = sklearn.utils.validation._assert_all_finite

    def counting(values, **options):
        found.append(values.shape)
        original(values, **options)

    monkeypatch.setattr(sklearn.utils.validation, "_assert_all_finite", counting)
    return found


@maps
def test_rows_are_looked_through_once(features, scans):
    """By whom the user calls; a plain array needs none of scikit-learn's checks."""
    gp = FeatureGPRegressor(clone(features), noise_variance=0.1).fit(X, y)
    scans.clear()
    expected = gp.predict(X_TEST)
    assert scans == []
    np.testing.assert_array_equal(gp.predict(X_TEST.tolist()), expected)
    assert scans == [X_TEST.shape]
    scans.clear()
    gp.features_.transform(X_TEST.tolist())
    assert scans == [X_TEST.shape]

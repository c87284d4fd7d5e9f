"""What targets and rows mean to a Gaussian process: units, additions, copies."""

import numpy as np
import pytest
from sklearn.base import clone, is_classifier
from sklearn.frozen import FrozenEstimator

from .subjects import (
    GAUSSIAN_PROCESSES,
    ON_FEATURES,
    X_TEST,
    X,
    fixed,
    predictions,
    target_of,
)

REGRESSORS = {n: gp for n, gp in GAUSSIAN_PROCESSES.items() if not is_classifier(gp)}
CLASSIFIERS = {n: gp for n, gp in GAUSSIAN_PROCESSES.items() if is_classifier(gp)}
ADDITIVE = {name: gp for name, gp in ON_FEATURES.items() if hasattr(gp, "merge")}
additive = pytest.mark.parametrize("gp", ADDITIVE.values(), ids=ADDITIVE)


def frozen(gp):
    """With features that are fitted once, as additions and merges need."""
    return fixed(clone(gp).set_params(features=FrozenEstimator(clone(gp.features).fit(X))))


@pytest.mark.parametrize("gp", REGRESSORS.values(), ids=REGRESSORS)
@pytest.mark.parametrize(("a", "b"), [(1e4, 0.0), (-3.0, 7.0), (1e-5, 1e3 * 1e-5)])
def test_predictions_move_with_the_units_of_y(gp, a, b):
    """y → a y + b, defaults included: means become a m + b, deviations |a| s."""
    y = target_of(gp)
    mean, deviation = predictions(clone(gp).fit(X, y))
    moved, stretched = predictions(clone(gp).fit(X, a * y + b))
    np.testing.assert_allclose(moved, a * mean + b, rtol=0, atol=2e-4 * abs(a) * np.ptp(y))
    np.testing.assert_allclose(stretched, abs(a) * deviation, rtol=2e-3)


@pytest.mark.parametrize("gp", CLASSIFIERS.values(), ids=CLASSIFIERS)
def test_names_of_classes_do_not_matter(gp):
    y = target_of(gp)
    names = np.array(["b", "c", "d"])
    expected = clone(gp).set_params(random_state=0).fit(X, y)
    found = clone(gp).set_params(random_state=0).fit(X, names[y])
    np.testing.assert_allclose(
        found.predict_proba(X_TEST), expected.predict_proba(X_TEST), rtol=1e-9, atol=1e-11
    )
    np.testing.assert_array_equal(found.predict(X_TEST), names[expected.predict(X_TEST)])


@additive
@pytest.mark.parametrize("sizes", [(80,), (30, 50), (1, 9, 40, 30)])
def test_rows_added_in_any_split_are_those_of_one_fit(gp, sizes):
    y = target_of(gp)
    expected = predictions(frozen(gp).fit(X, y))
    online = frozen(gp)
    named = {"classes": [0, 1, 2]} if is_classifier(gp) else {}
    for rows in np.split(np.arange(len(X)), np.cumsum(sizes)[:-1]):
        online.partial_fit(X[rows], y[rows], **named)
    np.testing.assert_allclose(predictions(online), expected, rtol=1e-6, atol=1e-8)


@additive
def test_merging_in_any_order_is_one_fit(gp):
    y = target_of(gp)
    expected = predictions(frozen(gp).fit(X, y))
    halves = slice(0, 40), slice(40, None)
    for order in (halves, halves[::-1]):
        first, second = (frozen(gp).fit(X[rows], y[rows]) for rows in order)
        np.testing.assert_allclose(predictions(first.merge(second)), expected, rtol=1e-6, atol=1e-8)

"""What targets, rows and weights mean to a Gaussian process: units, additions, copies."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone, is_classifier

from .subjects import (
    ADDITIVE,
    CLASSIFIERS,
    GAUSSIAN_PROCESSES,
    REGRESSORS,
    WITH_OPTIONS,
    X_TEST,
    X,
    fixed,
    frozen,
    predictions,
    target_of,
    y,
)

regressors = pytest.mark.parametrize("gp", REGRESSORS.values(), ids=REGRESSORS)
additive = pytest.mark.parametrize("gp", ADDITIVE.values(), ids=ADDITIVE)


@regressors
@pytest.mark.parametrize("a", [1e4, -3.0, 1e-6, 1e6])
@pytest.mark.parametrize("shift", [0.0, 7.0])
def test_predictions_move_with_the_units_of_y(gp, a, shift):
    """y → a (y + b), defaults included: means become a (m + b), deviations |a| s."""
    y = target_of(gp)
    first, second = clone(gp).fit(X, y), clone(gp).fit(X, a * (y + shift))
    (mean, deviation), (moved, stretched) = predictions(first), predictions(second)
    # the search for the variances ends within 1e-6 of the logarithm of the best
    np.testing.assert_allclose(moved, a * (mean + shift), rtol=1e-5)
    np.testing.assert_allclose(stretched, abs(a) * deviation, rtol=1e-4)
    for name in ("noise_variance_", "prior_variance_"):
        in_units = [getattr(gp, name) * gp.outputs_.scales[0] ** 2 for gp in (first, second)]
        assert in_units[1] == pytest.approx(a**2 * in_units[0], rel=1e-4)


@pytest.mark.parametrize("name", [*REGRESSORS, "complex"])
@pytest.mark.parametrize("by_row", [False, True])
@pytest.mark.parametrize("prior_variance", [0.7, "auto"])
def test_chosen_variances_maximise_the_likelihood(name, by_row, prior_variance):
    noise = np.linspace(0.01, 0.1, len(X)) if by_row else None
    gp = clone(WITH_OPTIONS[name]).set_params(prior_variance=prior_variance)
    best = gp.fit(X, y, noise_variance=noise).log_marginal_likelihood()
    for noise_factor in (1.0,) if by_row else (0.8, 1.0, 1.25):
        for prior_factor in (0.8, 1.0, 1.25) if prior_variance == "auto" else (1.0,):
            other = clone(gp).set_params(prior_variance=prior_factor * gp.prior_variance_)
            if not by_row:
                other.set_params(noise_variance=noise_factor * gp.noise_variance_)
            value = other.fit(X, y, noise_variance=noise).log_marginal_likelihood()
            if noise_factor == prior_factor == 1:
                assert value == pytest.approx(best)
            else:
                assert value < best


@regressors
def test_outputs_of_different_units(gp):
    y, scales = np.stack([target_of(gp), np.cos(3 * X[:, 1])], axis=1), np.array([1e-6, 1e6])
    mean, deviation = predictions(clone(gp).fit(X, y))
    moved, stretched = predictions(clone(gp).fit(X, scales * y))
    np.testing.assert_allclose(moved, scales * mean, rtol=1e-5)
    np.testing.assert_allclose(stretched, scales * deviation, rtol=1e-4)


@regressors
@pytest.mark.parametrize("n", [1, 20, 80])
@pytest.mark.parametrize("value", [0.0, 3.1, 7.0])  # 20 times 3.1 has a deviation of rounding
def test_constant_targets(gp, n, value):
    gp = clone(gp).fit(X[:n], np.full(n, value))
    mean, deviation = predictions(gp)
    np.testing.assert_allclose(mean, value, atol=1e-12)
    assert (gp.outputs_.scales[0], gp.noise_variance_, gp.prior_variance_) == (1, 1, 1)
    assert np.all(np.isfinite(deviation))
    assert np.all(deviation > 0.01)


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


@pytest.mark.parametrize("gp", GAUSSIAN_PROCESSES.values(), ids=GAUSSIAN_PROCESSES)
@pytest.mark.parametrize("kind", [np.asarray, csr_array])
@pytest.mark.parametrize("is_chosen", [False, True])
def test_weights_are_copies(gp, kind, is_chosen):
    """A weight of three is three copies; rows of weight zero are not there."""
    if is_chosen and is_classifier(gp):
        pytest.skip("folds see rows, not their weights")
    gp = frozen(gp) if hasattr(gp, "features") else fixed(clone(gp))
    if is_chosen:
        gp.set_params(noise_variance="auto", prior_variance="auto")
    weights = np.random.default_rng(0).integers(0, 4, len(X))
    copies = np.repeat(np.arange(len(X)), weights)
    rows, y = kind(X), target_of(gp)
    weighted = clone(gp).fit(rows, y, sample_weight=weights)
    copied = clone(gp).fit(rows[copies], y[copies])
    found, expected = predictions(weighted), predictions(copied)
    if is_chosen:  # to the tolerance of the search; tails are those of the number of rows
        np.testing.assert_allclose(found[0], expected[0], rtol=2e-4, atol=1e-5)
        return
    np.testing.assert_allclose(found, expected, rtol=2e-4, atol=1e-5)
    if not is_classifier(gp):
        likelihood = copied.log_marginal_likelihood()
        assert weighted.log_marginal_likelihood() == pytest.approx(likelihood)

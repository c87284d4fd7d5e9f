"""Which rows become landmarks: the distribution of pivots, and the features they give."""

import numpy as np
import pytest
import scipy.sparse

from dotsketch import Gaussian, NystromFeatures, Polynomial, plan
from dotsketch.features.nystrom import RULES, pivoted_rows

KERNEL = Gaussian(lengthscale=1.0)


@pytest.fixture
def X():
    return np.random.default_rng(0).standard_normal((200, 3))


def pivot_probabilities(K):
    """Of the ordered pairs of first two pivots, one at a time: diagonal, then what it leaves."""
    first = np.diag(K) / np.trace(K)
    pairs = np.zeros_like(K)
    for i in range(len(K)):
        left = np.maximum(np.diag(K) - K[:, i] ** 2 / K[i, i], 0)
        pairs[i] = first[i] * left / left.sum()
    return pairs


def test_pairs_of_pivots_have_the_probabilities_of_one_at_a_time():
    """Blocks with rejection change nothing: 4000 draws against the enumeration, by χ²."""
    rows = np.array([[0.0], [0.1], [1.0], [3.0]])
    kernel = Polynomial(2, coef0=0.5)
    expected = pivot_probabilities(kernel(rows))
    counts = np.zeros((4, 4))
    rng = np.random.default_rng(0)
    for _ in range(4000):
        i, j = pivoted_rows(kernel, rows, 2, rng)
        counts[i, j] += 1
    possible = expected > 0
    assert not counts[~possible].any()
    likely = 4000 * expected >= 5
    square = np.sum((counts - 4000 * expected)[likely] ** 2 / (4000 * expected[likely]))
    n = likely.sum() - 1
    assert square < n + 5 * np.sqrt(2 * n)


@pytest.mark.parametrize("rule", RULES)
def test_rules_return_different_rows_and_repeat(X, rule):
    chosen = RULES[rule](KERNEL, X, 150, np.random.default_rng(1))
    assert len(set(chosen.tolist())) == 150
    assert np.array_equal(chosen, RULES[rule](KERNEL, X, 150, np.random.default_rng(1)))
    sparse = RULES[rule](KERNEL, scipy.sparse.csr_array(X), 150, np.random.default_rng(1))
    assert np.array_equal(chosen, sparse)


def test_repeated_rows_are_taken_only_when_nothing_else_is_left(X):
    repeated = np.repeat(X[:30], 10, axis=0)
    chosen = pivoted_rows(KERNEL, repeated, 60, np.random.default_rng(0))
    assert len(set(chosen.tolist())) == 60
    assert len(set((chosen[:30] // 10).tolist())) == 30


def test_pivots_find_small_clusters():
    """Five rows of 1000 are far from all others: uniform landmarks miss them."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1000, 2))
    X[:5] += 20
    kernel = Gaussian(lengthscale=2.0)
    lost = {}
    for rule in RULES:
        features = NystromFeatures(kernel, n_components=30, landmarks=rule, random_state=0).fit(X)
        lost[rule] = np.max(1 - np.sum(features.transform(X) ** 2, axis=1))
    assert lost["rpcholesky"] < 0.2
    assert lost["uniform"] > 0.99


def test_landmarks_that_are_given(X):
    features = NystromFeatures(KERNEL, n_components=40, landmarks=X[:40]).fit(X[100:102])
    assert np.array_equal(features.components_, X[:40])
    assert np.array_equal(features.component_indices_, np.full(40, -1))
    Z = features.transform(X[:40])
    np.testing.assert_allclose(Z @ Z.T, KERNEL(X[:40]), atol=1e-7)
    sparse = NystromFeatures(KERNEL, n_components=40, landmarks=scipy.sparse.csr_array(X[:40]))
    np.testing.assert_allclose(np.abs(sparse.fit(X).transform(X[:9])), np.abs(Z[:9]), atol=1e-7)
    fewer = NystromFeatures(KERNEL, n_components=39, landmarks=X[:40]).fit(X)
    assert fewer.transform(X).shape == (200, 39)
    with pytest.raises(ValueError, match=r"n_components=41 rows or more.* the shape \(40, 3\)"):
        NystromFeatures(KERNEL, n_components=41, landmarks=X[:40]).fit(X)


def test_a_plan_measures_the_rule_that_is_asked_for():
    """A cluster of every 20th row: one landmark in it is what uniform ones may lack."""
    X = np.random.default_rng(0).standard_normal((400, 2))
    X[::20] = 20 + X[::20] / 10
    candidates = [NystromFeatures(KERNEL, n_landmarks=1.0, landmarks=rule) for rule in RULES]
    rows = plan(KERNEL, X, n_components=30, candidates=candidates)
    by_rule = {row.candidate.landmarks: row for row in rows}
    assert by_rule["rpcholesky"].relative_error < 0.7 * by_rule["uniform"].relative_error
    assert by_rule["rpcholesky"].candidate.label() == "nystrom: D rpcholesky landmarks"

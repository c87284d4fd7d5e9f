"""Which rows become landmarks: the distribution of pivots, and the features they give."""

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone

from dotsketch import Gaussian, Matern, NystromFeatures, Polynomial, load, plan, save
from dotsketch.features import landmarks
from dotsketch.features.landmarks import RULES, pivoted_rows

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


def test_pivots_end_where_all_that_is_left_is_rounding(X, monkeypatch):
    nothing = np.empty(0, dtype=np.intp), np.empty((0, 0))
    monkeypatch.setattr(landmarks, "_accepted", lambda *arguments: nothing)
    assert len(set(pivoted_rows(KERNEL, X, 20, np.random.default_rng(0)).tolist())) == 20


def test_candidates_are_bounded(X, monkeypatch):
    monkeypatch.setattr(landmarks, "_CANDIDATES", 20)
    rng = np.random.default_rng(0)
    expected = set(np.random.default_rng(0).permutation(200)[:20].tolist())
    assert set(pivoted_rows(KERNEL, X, 10, rng).tolist()) <= expected


def test_pivots_find_small_clusters(tmp_path):
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
    save(features, tmp_path / "model")
    assert np.array_equal(load(tmp_path / "model").transform(X), features.transform(X))


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
    names = ", ".join(map(repr, sorted(["auto", *RULES, "kmeans"])))
    with pytest.raises(ValueError, match=f"one of {names}, or an"):
        NystromFeatures(KERNEL, landmarks="kmedoids").fit(X)


def test_a_plan_measures_the_rule_that_is_asked_for():
    """A cluster of every 20th row: one landmark in it is what uniform ones may lack."""
    X = np.random.default_rng(0).standard_normal((400, 2))
    X[::20] = 20 + X[::20] / 10
    learned, *candidates = (
        NystromFeatures(KERNEL, n_landmarks=1.0, landmarks=rule)
        for rule in ("learned", "rpcholesky", "uniform")
    )
    with pytest.raises(ValueError, match="learned by a Gaussian process that searches"):
        plan(KERNEL, X, n_components=30, candidates=[learned])
    rows = plan(KERNEL, X, n_components=30, candidates=candidates)
    by_rule = {row.candidate.landmarks: row for row in rows}
    assert by_rule["rpcholesky"].relative_error < 0.7 * by_rule["uniform"].relative_error
    assert by_rule["rpcholesky"].candidate.label() == "nystrom: D rpcholesky landmarks"


def test_means_of_clusters_are_those_that_the_kernel_sees(rng):
    """Columns of a long lengthscale do not tell rows apart."""
    side = np.where(np.arange(200) % 2 == 0, -1.0, 1.0)
    X = np.stack([side, 100 * rng.standard_normal(200)], axis=1)
    kernel = Gaussian(lengthscale=np.array([0.1, 1e6]))
    options = {"n_components": 2, "n_landmarks": 1.0, "landmarks": "kmeans", "random_state": 0}
    features = NystromFeatures(kernel, **options).fit(X)
    expected = [X[side < 0].mean(axis=0), X[side > 0].mean(axis=0)]
    order = np.argsort(features.components_[:, 0])
    np.testing.assert_allclose(features.components_[order], expected)
    assert features.component_indices_.tolist() == [-1, -1]
    again = clone(features).fit(X)
    np.testing.assert_array_equal(again.components_, features.components_)
    given = NystromFeatures(kernel, n_components=2, landmarks=features.components_).fit(X)
    np.testing.assert_array_equal(given.transform(X), features.transform(X))


@pytest.mark.parametrize("kernel", [Polynomial(2), Gaussian() + Matern(0.5)], ids=str)
def test_means_of_clusters_for_every_kernel(rng, kernel):
    """Also where there are fewer distinct rows than clusters."""
    X = np.repeat(rng.standard_normal((5, 3)), 6, axis=0)
    features = NystromFeatures(kernel, n_components=8, landmarks="kmeans", random_state=0).fit(X)
    Z = features.transform(X)
    np.testing.assert_allclose(Z @ Z.T, features.kernel_(X), rtol=1e-5)


def test_where_means_of_clusters_are_not_offered(rng):
    X = np.abs(rng.standard_normal((60, 4)))
    features = NystromFeatures(KERNEL, n_components=5, landmarks="kmeans", random_state=0)
    with pytest.raises(ValueError, match="those of sparse rows are dense"):
        features.fit(scipy.sparse.csr_array(X))
    with pytest.raises(ValueError, match="means of clusters are no rows"):
        plan(KERNEL, X, n_components=30, candidates=[features])

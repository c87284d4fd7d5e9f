"""PairStatistics are the three sums over coordinates that variances depend on."""

import numpy as np
import pytest

import reference
from dotsketch.pairs import PairStatistics


def test_statistics_of_all_pairs(X, rng, library):
    Y = rng.standard_normal((4, 5))
    pairs = PairStatistics.between(library.asarray(X), library.asarray(Y))
    assert pairs.dimension == 5
    for i, x in enumerate(X):
        for j, y in enumerate(Y):
            expected = reference.Pair.of(x, y)
            values = [pairs.dot, pairs.norms, pairs.squares, pairs.beta, pairs.gamma]
            actual = [float(library.numpy(a)[i, j]) for a in values]
            exact = [expected.s, expected.N, expected.S, expected.beta, expected.gamma]
            np.testing.assert_allclose(actual, exact, rtol=1e-9, atol=1e-12)


def test_statistics_of_one_set_are_symmetric(X):
    pairs, both = PairStatistics.between(X), PairStatistics.between(X, X)
    for name in ("dot", "norms", "squares"):
        values = getattr(pairs, name)
        np.testing.assert_allclose(values, values.T)
        np.testing.assert_allclose(values, getattr(both, name))


def test_float32_is_widened():
    """Variances are differences of powers: statistics are double precision."""
    pairs = PairStatistics.between(np.ones((2, 3), dtype=np.float32))
    assert pairs.dot.dtype == pairs.norms.dtype == pairs.squares.dtype == np.float64


def test_beta_is_never_negative():
    x = np.array([[1e8, 1e-8]])
    assert PairStatistics.between(x).beta[0, 0] >= 0


def test_statistics_are_immutable(X):
    with pytest.raises(AttributeError):
        PairStatistics.between(X).dot = 0

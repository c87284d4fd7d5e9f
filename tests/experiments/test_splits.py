"""Splits of data sets: disjoint, and the same for the same seed."""

import numpy as np
import pytest

from dotsketch.datasets import Dataset
from experiments.harness.data import train_test_split


def numbered(n, n_test=0):
    rows = np.arange(n + n_test, dtype=np.float32)[:, None]
    y = np.arange(n + n_test)
    test = (rows[n:], y[n:]) if n_test else ()
    return Dataset("numbered", "classification", rows[:n], y[:n], *test)


@pytest.mark.parametrize("n", [2, 10, 105])
def test_parts_are_disjoint_and_together_everything(n):
    for seed in range(5):
        X, y, X_test, y_test = train_test_split(numbered(n), seed=seed)
        assert sorted([*y, *y_test]) == list(range(n))
        assert len(y_test) == max(1, round(n / 10))
        for rows, numbers in ((X, y), (X_test, y_test)):
            np.testing.assert_array_equal(rows[:, 0], numbers)


def test_splits_follow_the_seed():
    first, again, other = (train_test_split(numbered(100), seed=s) for s in (1, 1, 2))
    np.testing.assert_array_equal(first[1], again[1])
    assert set(first[3]) != set(other[3])
    assert list(first[1]) != sorted(first[1])


def test_predefined_parts_and_limits_of_random_rows():
    _, y, _, y_test = train_test_split(numbered(200, 100), seed=0, max_train=30, max_test=7)
    assert (len(y), len(y_test)) == (30, 7)
    assert 30 < max(y) < 200 <= min(y_test)
    _, y, _, y_test = train_test_split(numbered(50, 20), seed=0)
    assert (sorted(y), sorted(y_test)) == (list(range(50)), list(range(50, 70)))


def test_one_row_cannot_be_split():
    with pytest.raises(ValueError, match="too few"):
        train_test_split(numbered(1), seed=0)

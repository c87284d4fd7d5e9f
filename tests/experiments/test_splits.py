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
        split = train_test_split(numbered(n), seed=seed)
        assert sorted([*split.y_train, *split.y_test]) == list(range(n))
        assert len(split.y_test) == max(1, round(n / 10))
        for rows, y in ((split.X_train, split.y_train), (split.X_test, split.y_test)):
            np.testing.assert_array_equal(rows[:, 0], y)


def test_splits_follow_the_seed():
    first, again, other = (train_test_split(numbered(100), seed=s) for s in (1, 1, 2))
    np.testing.assert_array_equal(first.y_train, again.y_train)
    assert set(first.y_test) != set(other.y_test)
    assert list(first.y_train) != sorted(first.y_train)


def test_a_predefined_test_part_is_respected():
    split = train_test_split(numbered(50, 20), seed=0, validation_size=0.2)
    assert sorted(split.y_test) == list(range(50, 70))
    assert len(split.y_validation) == 10
    assert sorted([*split.y_train, *split.y_validation]) == list(range(50))


def test_limits_take_random_rows():
    split = train_test_split(numbered(200, 100), seed=0, max_train=30, max_test=7)
    assert (len(split.y_train), len(split.y_test)) == (30, 7)
    assert max(split.y_train) > 30
    assert not set(split.y_train) & set(split.y_test)


def test_one_row_cannot_be_split():
    with pytest.raises(ValueError, match="too few"):
        train_test_split(numbered(1), seed=0)

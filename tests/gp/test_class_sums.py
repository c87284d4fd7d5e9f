"""Sums by class and the rows held out: any blocks, any order of merging, the same result."""

import itertools

import numpy as np
import pytest
from scipy.stats import chi2

from dotsketch import PersistenceError, load
from dotsketch.gp.class_sums import ClassSums, HeldOutRows, row_hashes
from dotsketch.gp.dirichlet import DirichletLabels
from dotsketch.gp.sums import sampled_columns
from dotsketch.persistence import container

D = 4


def sums(Z, y, first=0, *, blocks=1, labels=(), seed=3):
    found = ClassSums.zeros(D, Z.dtype, list(labels), seed)
    for part in np.array_split(np.arange(len(Z)), blocks):
        if len(part):
            found.update(Z[part], y[part], first + part[0])
    return found


@pytest.fixture
def Z(rng):
    return rng.standard_normal((50, D))


@pytest.fixture
def y(rng):
    return rng.integers(0, 3, 50)


def held(size, n, *, seed=0, cuts=(), order=None):
    """The numbers of the rows held out, for rows in pieces that are merged in an order."""
    bounds = [0, *cuts, n]
    pieces = []
    for start, stop in itertools.pairwise(bounds):
        piece = HeldOutRows.none(size, seed)
        piece.update(np.arange(start, stop, dtype=float)[:, None], np.arange(start, stop), start)
        pieces.append(piece)
    total = HeldOutRows.none(size, seed)
    for k in order or range(len(pieces)):
        total = total + pieces[k]
    np.testing.assert_array_equal(total.rows[:, 0], total.labels)
    return total.labels


def test_rows_held_out_are_those_of_the_smallest_hashes():
    expected = np.argsort(row_hashes(7, 0, 100))[:10]
    np.testing.assert_array_equal(held(10, 100, seed=7), expected)
    stream = HeldOutRows.none(10, 7)
    for part in np.array_split(np.arange(100), 9):
        stream.update(part[:, None].astype(float), part, part[0])
    np.testing.assert_array_equal(stream.labels, expected)
    for order in itertools.permutations(range(4)):
        found = held(10, 100, seed=7, cuts=(3, 40, 41), order=order)
        np.testing.assert_array_equal(found, expected)


def test_rows_with_one_number_merge_in_any_order():
    """Two processes with one seed: their rows have the same hashes."""
    first, second = HeldOutRows.none(5, 0), HeldOutRows.none(5, 0)
    first.update(np.arange(10.0)[:, None], np.arange(10), 0)
    second.update(np.arange(10.0, 20.0)[:, None], np.arange(10, 20), 0)
    found = (first + second).labels
    np.testing.assert_array_equal(found, (second + first).labels)
    assert len(np.unique(found)) == 5
    assert len(first.labels) == 5  # left alone


def test_hashes_are_uniform():
    """Counts of the upper 8 bits over seeds and rows; the threshold has a chance of 1e-9."""
    hashes = np.concatenate([row_hashes(seed, 0, 64) for seed in range(1000)])
    assert len(np.unique(hashes)) == len(hashes)
    counts = np.bincount((hashes >> np.uint64(56)).astype(int), minlength=256)
    statistic = np.sum((counts - 250) ** 2) / 250
    assert chi2.ppf(1e-9, 255) < statistic < chi2.isf(1e-9, 255)


def test_every_row_is_held_out_equally_often():
    """40 rows, 10 held out, 1500 seeds: every count within 6 standard errors."""
    counts = sum(np.bincount(held(10, 40, seed=seed), minlength=40) for seed in range(1500))
    assert np.all(np.abs(counts - 375) < 6 * np.sqrt(1500 * 0.25 * 0.75))


def assert_same(found, expected):
    assert found.n == expected.n
    assert found.by_label.keys() == expected.by_label.keys()
    for label, statistics in expected.by_label.items():
        np.testing.assert_allclose(found.by_label[label].gram(), statistics.gram(), atol=1e-12)
    np.testing.assert_array_equal(found.held.labels, expected.held.labels)


def test_parts_merge_in_any_order(Z, y):
    whole = sums(Z, y)
    a, b, c = (sums(Z[s], y[s], s.start) for s in (slice(0, 5), slice(5, 30), slice(30, 50)))
    for found in (a + b + c, c + (b + a), sums(Z, y, blocks=7)):
        assert_same(found, whole)
    assert a.n == 5
    b += c
    b += a
    assert_same(b, whole)


def test_arrays_and_back(Z, y):
    names = np.array(["ant", "bee", "cat"])[y]
    for whole in (sums(Z, names), sums(Z[:0], y[:0]), sums(Z.astype(complex), y)):
        found = ClassSums.restored({k: np.asarray(v) for k, v in whole.arrays().items()})
        assert_same(found, whole)
        assert (found.n_features, found.dtype) == (whole.n_features, whole.dtype)


def test_strings_do_not_join_numbers(Z, y):
    with pytest.raises(ValueError, match="strings and numbers"):
        sums(Z, y) + sums(Z, y.astype(str))
    with pytest.raises(ValueError, match="strings and numbers"):
        sums(Z, y).update(Z, y.astype(str), 50)


def test_systems_without_the_rows_held_out(Z, y):
    """They are the systems of the other rows."""
    labels = DirichletLabels.of(0.1, [0.2, 0.3, 0.5])
    weights = np.array([1.0, 2.0, 0.5])
    whole = sums(Z, y)
    out = np.argsort(row_hashes(3, 0, 50))[:5]
    rest = np.setdiff1d(np.arange(50), out)
    np.testing.assert_array_equal(whole.held_out()[1], y[out])
    expected = sums(Z[rest], y[rest], labels=[0, 1, 2]).systems(labels, weights)
    kept, held_Z, held_y, _ = whole.split(D)
    np.testing.assert_array_equal(held_Z, Z[out])
    np.testing.assert_array_equal(held_y, y[out])
    for mine, theirs in zip(kept.systems(labels, weights), expected, strict=True):
        np.testing.assert_allclose(mine.moment.full(), theirs.moment.full(), atol=1e-11)
        np.testing.assert_allclose(mine.cross, theirs.cross, atol=1e-11)


def test_sampled_columns():
    """Large columns as they are, others weighted so that the energy is that of all columns."""
    energies = np.array([1.0, 50.0, 1.0, 2.0, 0.0, 1.0, 1.0, 30.0, 1.0, 1.0])
    places, factors = sampled_columns(energies, 6)
    assert len(places) == 6
    assert np.all(np.diff(places) > 0)
    assert {1, 7} <= set(places.tolist())
    assert 4 not in places
    np.testing.assert_allclose(factors[np.isin(places, [1, 7])], 1)
    np.testing.assert_allclose(np.sum(energies[places] * factors**2), energies.sum())
    places, factors = sampled_columns(np.array([0.0, 2.0, 0.0, 1.0, 0.0]), 4)  # zeros are left out
    np.testing.assert_array_equal(places, [1, 3])
    np.testing.assert_array_equal(factors, 1)
    for size in (10, 11):
        places, factors = sampled_columns(energies, size)
        np.testing.assert_array_equal(places, np.arange(10))
        np.testing.assert_array_equal(factors, 1)


@pytest.mark.parametrize("field", [float, complex])
def test_split_with_fewer_columns(Z, y, field):
    """The sums of the columns that are drawn, of the rows that are not held out."""
    Z = Z.astype(field) * (1 + (1j if field is complex else 0))
    whole = sums(Z, y)
    kept, held_Z, held_y, _ = whole.split(3)
    out = np.argsort(row_hashes(3, 0, 50))[:5]
    rest = np.setdiff1d(np.arange(50), out)
    energies = np.sum(np.abs(Z) ** 2, axis=0)
    places, factors = sampled_columns(energies, 3)
    thinned = Z[:, places] * factors
    np.testing.assert_allclose(held_Z, thinned[out])
    np.testing.assert_array_equal(held_y, y[out])
    assert kept.n_features == 3
    for label, statistics in kept.by_label.items():
        rows = thinned[rest][y[rest] == label]
        np.testing.assert_allclose(statistics.gram(), rows.conj().T @ rows, atol=1e-11)
        np.testing.assert_allclose(statistics.cross[:, 0], rows.sum(axis=0), atol=1e-11)


@pytest.mark.parametrize("name", ["Reservoir", "Posterior"])
def test_files_of_the_version_before_are_refused(name, tmp_path):
    """They name classes that are gone."""
    container.write(
        tmp_path / "f",
        {
            "versions": {},
            "value": {"kind": "object", "class": f"dotsketch.{name}", "state": {}},
            "classes": [],
        },
        [],
    )
    with pytest.raises(PersistenceError, match="another version: fit and save it again"):
        load(tmp_path / "f")

"""Files made on purpose to crash, to hang or to fill the memory: they are refused before that."""

import copy
import json
import zipfile

import numpy as np
import pytest
from sklearn.preprocessing import KBinsDiscretizer, OneHotEncoder, PolynomialFeatures

from dotsketch import Gaussian, PersistenceError, Polynomial, load
from dotsketch.persistence import container
from dotsketch.persistence.encoding import Encoder
from dotsketch.persistence.files import _versions
from dotsketch.persistence.registry import Registry

COLORS = np.array([["red"], ["green"], ["blue"]], dtype=object)
NUMBERS = np.linspace(0, 1, 30).reshape(10, 3)


def write(path, value):
    """A file of the value, without the checks of `save`."""
    encoder = Encoder(Registry())
    tree = {"versions": _versions(), "value": encoder.encode(value, "value"), "classes": []}
    container.write(path, tree, encoder.arrays)


def write_changed(path, estimator, **changes):
    estimator = copy.deepcopy(estimator)
    vars(estimator).update(changes)
    write(path, estimator)


def write_tree(path, value):
    container.write(path, {"versions": {}, "value": value, "classes": []}, [])


ENCODER = OneHotEncoder().fit(COLORS)
GROUPED = OneHotEncoder(max_categories=2).fit(COLORS)
BINS = KBinsDiscretizer(n_bins=3).fit(NUMBERS)
POWERS = PolynomialFeatures(2).fit(NUMBERS)


@pytest.mark.parametrize(
    ("estimator", "changes"),
    [
        (ENCODER, {"categories_": []}),
        (ENCODER, {"categories_": [np.array([["red"]], dtype=object)]}),
        (ENCODER, {"categories_": [["red", "green"]]}),
        (ENCODER, {"categories_": [np.array([3.0, 1.0, 2.0])]}),
        (ENCODER, {"n_features_in_": 2}),
        (ENCODER, {"drop_idx_": np.array([7], dtype=object)}),
        (GROUPED, {"_infrequent_indices": [np.array([0, 9])]}),
        (GROUPED, {"_default_to_infrequent_mappings": [np.array([0, 1, 1 << 40])]}),
        (GROUPED, {"_default_to_infrequent_mappings": [np.array([0, 1])]}),
        (BINS, {"_encoder": ENCODER}),
        (BINS, {"_encoder": OneHotEncoder()}),
        (BINS, {"n_bins_": np.array([3, 3, 9])}),
        (BINS, {"bin_edges_": BINS.bin_edges_[:2]}),
        (POWERS, {"_max_degree": 2**62}),
        (POWERS, {"n_features_in_": 2**20}),
        (Polynomial(degree=3), {"degree": 2**63}),
    ],
    ids=lambda value: str(value)[:50].replace("\n", " "),
)
def test_forged_attributes_are_refused(estimator, changes, tmp_path):
    write_changed(tmp_path / "f", estimator)
    load(tmp_path / "f")
    write_changed(tmp_path / "f", estimator, **changes)
    with pytest.raises(PersistenceError, match="cannot be loaded"):
        load(tmp_path / "f")


def test_the_columns_of_an_encoder_are_counted_and_not_read(tmp_path):
    """scikit-learn allocates by `_n_features_outs` and writes by `categories_`."""
    write_changed(tmp_path / "f", ENCODER, _n_features_outs=[1])
    again = load(tmp_path / "f")
    assert again._n_features_outs == [3]
    np.testing.assert_array_equal(
        again.transform(COLORS).toarray(), ENCODER.transform(COLORS).toarray()
    )


def test_the_columns_of_powers_are_counted_and_not_read(tmp_path):
    write_changed(tmp_path / "f", POWERS, n_output_features_=1, _n_out_full=1)
    again = load(tmp_path / "f")
    np.testing.assert_array_equal(again.transform(NUMBERS), POWERS.transform(NUMBERS))


def test_a_tree_of_many_values_is_refused_before_it_is_parsed(tmp_path, monkeypatch):
    """A list of two bytes takes 56 in memory."""
    bound = 1000
    text = json.dumps({"versions": {}, "value": [[]] * (2 * bound), "classes": []}).encode()
    monkeypatch.setattr(container, "MAX_NODES", 10 * bound)
    container.write(tmp_path / "f", json.loads(text), [])
    monkeypatch.setattr(container, "MAX_NODES", bound)
    parsed = []
    monkeypatch.setattr(container.json, "loads", lambda *args, **kwargs: parsed.append(args))
    with pytest.raises(PersistenceError, match="values, more than"):
        load(tmp_path / "f")
    assert not parsed


def test_the_names_of_the_members_are_listed_once_however_many_arrays(tmp_path, monkeypatch):
    """One search of a list per array would be quadratic."""
    calls = []
    original = zipfile.ZipFile.namelist
    monkeypatch.setattr(zipfile.ZipFile, "namelist", lambda z: calls.append(1) or original(z))
    found = []
    for count in (1, 50):
        write(tmp_path / "f", [np.zeros(1) for _ in range(count)])
        calls.clear()
        load(tmp_path / "f")
        found.append(len(calls))
    assert found[0] == found[1]


@pytest.mark.parametrize("kind", ["dict", "set", "frozenset"])
def test_keys_that_collide_are_refused(kind, tmp_path):
    """Multiples of 2⁶¹ − 1 all have the hash 0: each is compared with all before it."""
    keys = [n * (2**61 - 1) for n in range(100)]
    assert len({hash(key) for key in keys}) == 1
    items = [[key, 1] for key in keys] if kind == "dict" else keys
    write_tree(tmp_path / "f", {"kind": kind, "items": items})
    with pytest.raises(PersistenceError, match="collide"):
        load(tmp_path / "f")


def test_a_class_of_the_caller_is_not_checked(tmp_path):
    write_changed(tmp_path / "f", Gaussian(), extra=2**40)
    with pytest.raises(PersistenceError, match="beyond"):
        load(tmp_path / "f")
    assert load(tmp_path / "f", classes=(Gaussian,)).extra == 2**40

"""The mutations of the fuzz target: checksums are right, and only the one error is raised."""

import random

import pytest
from sklearn.preprocessing import StandardScaler

pytest.importorskip("resource", reason="the fuzz targets limit the memory")

from attacks.forging import Encoder, bytes_of, known_classes, sealed
from benchmarks import fuzz_bytes
from benchmarks.fuzz_subjects import X

MODEL = bytes_of(StandardScaler().fit(X), Encoder(known_classes()))


def test_mutations_have_right_checksums_and_are_refused_or_used():
    outcomes = set()
    for seed in range(60):
        data = fuzz_bytes.mutated(MODEL, random.Random(seed), fuzz_bytes.changed_bytes)
        assert data == sealed(data)
        outcomes.add(fuzz_bytes.one_file(data))
    assert outcomes == {"refused", "used"}
    assert fuzz_bytes.one_file(MODEL) == "used"


def test_other_exceptions_are_findings(monkeypatch):
    def broken(data, name):
        raise RuntimeError("not the one error")

    monkeypatch.setattr(fuzz_bytes, "load_bytes", broken)
    with pytest.raises(RuntimeError):
        fuzz_bytes.one_file(MODEL)


def test_nodes_are_changed_anywhere_in_a_tree():
    found = set()
    for seed in range(200):
        tree = {"a": [1, {"b": 2}], "c": 3}
        fuzz_bytes.change_node(tree, random.Random(seed))
        found.add(repr(tree))
    assert len(found) > 50

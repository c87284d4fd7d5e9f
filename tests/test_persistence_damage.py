"""Files that are damaged, or made on purpose, are refused and never act."""

import io
import zipfile

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from attacks.forging import ARRAY, UNSEALED, forge, npy, obj, seal, sealed, tree_of
from dotsketch import Gaussian, PersistenceError, load, save

X = np.random.default_rng(0).random((60, 5))


def small_file(path):
    save(Gaussian(lengthscale=2.0), path)
    return path.read_bytes()


def damaged(data):
    """Every truncation, and flipped bits, each of the eight places in turn."""
    yield from (data[:length] for length in range(len(data)))
    for bit in range(0, 8 * len(data), 3):
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        yield changed


def test_every_damage_is_refused(tmp_path):
    path = tmp_path / "model"
    for data in damaged(small_file(path)):
        path.write_bytes(data)
        with pytest.raises(PersistenceError, match="cannot be loaded"):
            load(path)


@given(data=st.binary(max_size=300), sealed=st.booleans())
@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
def test_random_bytes_are_refused(data, sealed, tmp_path):
    path = tmp_path / "model"
    path.write_bytes(seal(data) if sealed else data)
    with pytest.raises(PersistenceError, match="cannot be loaded"):
        load(path)


def test_a_newer_format_is_refused(tmp_path):
    path = tmp_path / "model"
    data = small_file(path)
    path.write_bytes(sealed(data.replace(b"format=0001", b"format=0002")))
    with pytest.raises(PersistenceError, match=r"format 2.*update dotsketch"):
        load(path)


# Files made on purpose, whose checksum is right


GAUSSIAN = {"lengthscale": 1.0, "variance": 1.0}
MEMBERS = [
    [],
    [("model.json", b"")],
    [("model.json", b"[]")],
    [("model.json", b"{}")],
    [("model.json", b"\xff\xfe")],
    [("model.json", b'{"versions": {}, "classes": [], "value": NaN}')],
    [("model.json", b'{"versions": {}, "classes": [], "value": 1, "value": 2}')],
    [("model.json", tree_of(1)), ("arrays/1.npy", npy(X))],
    [("arrays/0.npy", npy(X)), ("model.json", tree_of(1))],
    [("model.json", tree_of(ARRAY))],
    [("model.json", tree_of(ARRAY)), ("arrays/0.npy", b"")],
    [("model.json", tree_of(ARRAY)), ("arrays/0.npy", npy(X)[:-1])],
    [("model.json", tree_of(ARRAY)), ("arrays/0.npy", npy(X) + b"x")],
    [("model.json", tree_of(ARRAY)), ("arrays/0.npy", npy(X, shape=(60.0, 5)))],
    [("model.json", tree_of(ARRAY)), ("arrays/0.npy", npy(X, descr="|V8"))],
    [("model.json", tree_of(ARRAY)), ("arrays/0.npy", npy(X, descr="<M8[s]"))],
]
VALUES = [
    {"kind": "unknown"},
    {"kind": ["list"]},
    {"no kind": 1},
    {"kind": "array", "number": 0, "more": 1},
    {"kind": "array", "number": "0"},
    {"kind": "array", "number": True},
    {"kind": "array", "number": -1},
    {"kind": "tuple", "items": 3},
    {"kind": "dict", "items": [[1]]},
    {"kind": "dict", "items": [[1, 2], [1, 3]]},
    {"kind": "dict", "items": [[[], 2]]},
    {"kind": "float", "value": "1e3"},
    {"kind": "scalar", "dtype": "<f8", "bits": "00"},
    {"kind": "scalar", "dtype": "O", "bits": "0000000000000000"},
    {"kind": "scalar", "dtype": "<U1000000000", "bits": ""},
    {"kind": "object_array", "shape": [1 << 60], "items": [1]},
    {"kind": "object_array", "shape": [-1], "items": [1]},
    {"kind": "generator", "state": {}},
    {"kind": "random_state", "state": None},
    obj("dotsketch.kernels.Gaussian", **GAUSSIAN),
    obj(["dotsketch.Gaussian"], **GAUSSIAN),
    obj("dotsketch.Gaussian"),
    obj("dotsketch.Gaussian", **GAUSSIAN, **{"a b": 1}),
    obj("dotsketch.SRHTWeights", turns=1),
    obj("dotsketch.sketches.TensorSRHT", degree=1, n_projections=2),
    {"kind": "object", "class": "dotsketch.Gaussian", "state": []},
]


@pytest.mark.parametrize(
    "members",
    [
        *MEMBERS,
        *([("model.json", tree_of(value)), ("arrays/0.npy", npy(X))] for value in VALUES),
    ],
    ids=lambda members: str(members)[:100],
)
def test_forged_members_are_refused(members, tmp_path):
    forge(tmp_path / "f", members)
    with pytest.raises(PersistenceError, match="cannot be loaded"):
        load(tmp_path / "f")
    assert [p.name for p in tmp_path.iterdir()] == ["f"]


def test_compressed_members_are_refused(tmp_path):
    """A member cannot be larger than the file, so that no file is a bomb."""
    members = [("model.json", tree_of(ARRAY)), ("arrays/0.npy", npy(np.zeros(10**6)))]
    forge(tmp_path / "f", members, compression=zipfile.ZIP_DEFLATED)
    assert (tmp_path / "f").stat().st_size < 20_000
    with pytest.raises(PersistenceError, match="is compressed"):
        load(tmp_path / "f")


@pytest.mark.parametrize("field", ["extra", "comment"])
def test_headers_hold_no_other_data(field, tmp_path):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        member = zipfile.ZipInfo("model.json")
        setattr(member, field, b"\xff\xff\x04\x00data")
        archive.writestr(member, tree_of(1))
        archive.comment = UNSEALED
    (tmp_path / "f").write_bytes(sealed(buffer.getvalue()))
    with pytest.raises(PersistenceError, match=r"There are bytes|holds other data"):
        load(tmp_path / "f")


def test_members_with_sizes_of_64_bits_are_read(tmp_path):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(zipfile.ZipInfo("model.json"), tree_of(ARRAY))
        with archive.open(zipfile.ZipInfo("arrays/0.npy"), "w", force_zip64=True) as out:
            out.write(npy(X))
        archive.comment = UNSEALED
    (tmp_path / "f").write_bytes(sealed(buffer.getvalue()))
    assert np.array_equal(load(tmp_path / "f"), X)

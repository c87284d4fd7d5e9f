"""Files that are damaged, or made on purpose, are refused and never act."""

import contextlib
import hashlib
import io
import json
import pickle
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.preprocessing import StandardScaler

from dotsketch import Gaussian, PersistenceError, load, save
from dotsketch.persistence import FORMAT, container, registry
from dotsketch.persistence.encoding import Encoder

X = np.random.default_rng(0).random((60, 5))


def small_file(path):
    save(Gaussian(lengthscale=2.0), path)
    return path.read_bytes()


def test_every_truncation_is_refused(tmp_path):
    path = tmp_path / "model"
    data = small_file(path)
    for length in range(len(data)):
        path.write_bytes(data[:length])
        with pytest.raises(PersistenceError, match="cannot be loaded"):
            load(path)


def test_flipped_bits_are_refused(tmp_path):
    path = tmp_path / "model"
    data = small_file(path)
    for bit in range(0, 8 * len(data), 3):  # each of the eight places in turn
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        path.write_bytes(changed)
        with pytest.raises(PersistenceError, match="cannot be loaded"):
            load(path)


@pytest.mark.parametrize("extra", [b"\0", b"x" * 100])
def test_bytes_before_or_behind_are_refused(extra, tmp_path):
    path = tmp_path / "model"
    data = small_file(path)
    for changed in (extra + data, data + extra):
        path.write_bytes(changed)
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
    head = data[: -container.DIGITS].replace(b"format=0001", b"format=0002")
    path.write_bytes(head + digest(head))
    with pytest.raises(PersistenceError, match=r"format 2.*update dotsketch"):
        load(path)


# Files made on purpose, whose checksum is right


def digest(head):
    return hashlib.sha256(head).hexdigest().encode()


def seal(data):
    """Bytes with a right checksum behind them."""
    head = data + b"dotsketch-model format=%04d sha256=" % FORMAT
    return head + digest(head)


def forge(path, members, *, compression=zipfile.ZIP_STORED):
    """A sealed zip of any members, [(name, bytes)]."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        for name, data in members:
            archive.writestr(zipfile.ZipInfo(name), data, compression)
        archive.comment = b"dotsketch-model format=%04d sha256=" % FORMAT + b"0" * container.DIGITS
    head = buffer.getvalue()[: -container.DIGITS]
    path.write_bytes(head + digest(head))


def tree_of(value):
    head = {"versions": {"scikit-learn": "1.0"}, "classes": []}
    return json.dumps(head | {"value": value}).encode()


def npy(array, **changes):
    """The bytes of an npy file, with its header's fields changed."""
    out = io.BytesIO()
    header = np.lib.format.header_data_from_array_1_0(array) | changes
    np.lib.format.write_array_header_1_0(out, header)
    return out.getvalue() + array.tobytes()


ARRAY = {"kind": "array", "number": 0}


def test_a_forged_file_that_is_right_is_read(tmp_path):
    forge(tmp_path / "f", [("model.json", tree_of([1, ARRAY])), ("arrays/0.npy", npy(X))])
    one, array = load(tmp_path / "f")
    assert one == 1
    assert np.array_equal(array, X)


@pytest.mark.parametrize(
    "members",
    [
        [],
        [("model.json", b"")],
        [("model.json", b"[]")],
        [("model.json", b"{}")],
        [("model.json", b"\xff\xfe")],
        [("model.json", b'{"versions": {}, "classes": [], "value": NaN}')],
        [("model.json", b'{"versions": {}, "classes": [], "value": 1, "value": 2}')],
        [("model.json", b'{"versions": {}, "classes": [], "value": ' + b"9" * 5000 + b"}")],
        [("model.json", b"[" * 200_000)],
        [("model.json", tree_of(1)), ("model.json", tree_of(2))],
        [("model.json", tree_of(1)), ("../../evil", b"x")],
        [("model.json", tree_of(1)), ("/etc/evil", b"x")],
        [("model.json", tree_of(1)), ("arrays/1.npy", npy(X))],
        [("arrays/0.npy", npy(X)), ("model.json", tree_of(1))],
        [("model.json", tree_of(ARRAY))],
        [("model.json", tree_of(ARRAY)), ("arrays/0.npy", b"")],
        [("model.json", tree_of(ARRAY)), ("arrays/0.npy", npy(X)[:-1])],
        [("model.json", tree_of(ARRAY)), ("arrays/0.npy", npy(X) + b"x")],
        [("model.json", tree_of(ARRAY)), ("arrays/0.npy", npy(X, shape=(1 << 40, 1 << 20)))],
        [("model.json", tree_of(ARRAY)), ("arrays/0.npy", npy(X, shape=(-60, -5)))],
        [("model.json", tree_of(ARRAY)), ("arrays/0.npy", npy(X, shape=(60.0, 5)))],
        [("model.json", tree_of(ARRAY)), ("arrays/0.npy", npy(X, descr="<U0", shape=(1 << 60,)))],
        [("model.json", tree_of(ARRAY)), ("arrays/0.npy", npy(X, descr="O"))],
        [("model.json", tree_of(ARRAY)), ("arrays/0.npy", npy(X, descr="|V8"))],
        [("model.json", tree_of(ARRAY)), ("arrays/0.npy", npy(X, descr="<M8[s]"))],
    ],
    ids=lambda members: str(members)[:60],
)
def test_forged_members_are_refused(members, tmp_path):
    with warnings.catch_warnings(action="ignore"):  # zipfile warns of a name that is there twice
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


def obj(name, **state):
    return {"kind": "object", "class": name, "state": state}


GAUSSIAN = {"lengthscale": 1.0, "variance": 1.0}


def nested(depth):
    value = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    "value",
    [
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
        {"kind": "complex", "items": [1, 2, 3]},
        {"kind": "complex", "items": ["1", "2"]},
        {"kind": "scalar", "dtype": "<f8", "bits": "00"},
        {"kind": "scalar", "dtype": "O", "bits": "0000000000000000"},
        {"kind": "scalar", "dtype": "<U1000000000", "bits": ""},
        {"kind": "dtype", "name": "M8[s]"},
        {"kind": "numpy_type", "name": "memmap"},
        {"kind": "python_type", "name": "eval"},
        {"kind": "object_array", "shape": [1 << 60], "items": [1]},
        {"kind": "object_array", "shape": [-1], "items": [1]},
        {"kind": "slice", "items": [1]},
        {"kind": "generator", "state": {}},
        {"kind": "random_state", "state": None},
        obj("os.system"),
        obj("builtins.eval"),
        obj("subprocess.Popen", args="true"),
        obj("dotsketch.kernels.Gaussian", **GAUSSIAN),
        obj("sklearn.FunctionTransformer"),
        obj(["dotsketch.Gaussian"], **GAUSSIAN),
        obj("dotsketch.Gaussian"),
        obj("dotsketch.Gaussian", **GAUSSIAN, __class__=1),
        obj("dotsketch.Gaussian", **GAUSSIAN, resolve=1),
        obj("dotsketch.Gaussian", **GAUSSIAN, is_differentiable=1),
        obj("dotsketch.Gaussian", **GAUSSIAN, **{"a b": 1}),
        obj("dotsketch.SRHTWeights", turns=1),
        obj("dotsketch.sketches.TensorSRHT", degree=1, n_projections=2),
        {"kind": "object", "class": "dotsketch.Gaussian", "state": []},
        nested(100),
    ],
    ids=lambda value: json.dumps(value)[:70],
)
def test_forged_values_are_refused(value, tmp_path):
    forge(tmp_path / "f", [("model.json", tree_of(value)), ("arrays/0.npy", npy(X))])
    with pytest.raises(PersistenceError, match="cannot be loaded"):
        load(tmp_path / "f")


SPARSE_ROWS = {"data": np.ones(2), "indices": np.array([0, 1]), "indptr": np.array([0, 1, 2])}


@pytest.mark.parametrize(
    ("changes", "shape", "name"),
    [
        ({"indices": np.array([0, 3])}, [2, 3], "csr_array"),
        ({"indices": np.array([0, -1])}, [2, 3], "csr_array"),
        ({"indices": np.array([0.0, 1.0])}, [2, 3], "csr_array"),
        ({"indptr": np.array([0, 2, 1])}, [2, 3], "csr_array"),
        ({"indptr": np.array([0, 1, 9])}, [2, 3], "csr_array"),
        ({"indptr": np.array([-4, 1, 2])}, [2, 3], "csr_array"),
        ({"data": np.ones(1)}, [2, 3], "csr_array"),
        ({"data": np.array(["a", "b"])}, [2, 3], "csr_array"),
        ({}, [1 << 40, 3], "csr_array"),
        ({}, [2, -3], "csr_array"),
        ({}, [2, 3.0], "csr_array"),
        ({}, [2, 3], "coo_array"),
    ],
)
def test_indices_that_scipy_does_not_check_are_checked(changes, shape, name, tmp_path):
    def write(arrays, shape, name):
        items = [{"kind": "array", "number": number} for number in range(3)]
        tree = tree_of({"kind": "sparse", "name": name, "shape": shape, "items": items})
        members = [(f"arrays/{k}.npy", npy(array)) for k, array in enumerate(arrays.values())]
        forge(tmp_path / "f", [("model.json", tree), *members])

    write(SPARSE_ROWS, [2, 3], "csr_array")
    np.testing.assert_array_equal(load(tmp_path / "f").toarray(), [[1, 0, 0], [0, 1, 0]])
    write(SPARSE_ROWS | changes, shape, name)
    with pytest.raises(PersistenceError, match="cannot be loaded"):
        load(tmp_path / "f")


@pytest.mark.parametrize("position", [-1, 625, 2**40])
def test_counters_that_numpy_does_not_check_are_checked(position, tmp_path):
    encoder = Encoder(registry.Registry())
    state = np.random.RandomState(0).get_state(legacy=False)
    state["state"]["pos"] = position
    node = {"kind": "random_state", "state": encoder.encode(state, "state")}
    forge(tmp_path / "f", [("model.json", tree_of(node)), ("arrays/0.npy", npy(encoder.arrays[0]))])
    with pytest.raises(PersistenceError, match="cannot be loaded"):
        load(tmp_path / "f")


class Bomb:
    """An object whose pickle writes a file when it is read."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (Path.touch, (self.path,))


def test_a_pickle_inside_is_never_read(tmp_path):
    mark = tmp_path / "mark"
    payload = pickle.dumps(np.array([Bomb(mark)], dtype=object))
    pickle.loads(payload)
    assert mark.exists(), "the bomb is one"
    mark.unlink()
    out = io.BytesIO()
    header = {"descr": "|O", "fortran_order": False, "shape": (1,)}
    np.lib.format.write_array_header_1_0(out, header)
    for member in (payload, out.getvalue() + payload):
        forge(tmp_path / "f", [("model.json", tree_of(ARRAY)), ("arrays/0.npy", member)])
        with pytest.raises(PersistenceError):
            load(tmp_path / "f")
    (tmp_path / "f").write_bytes(payload)
    with pytest.raises(PersistenceError):
        load(tmp_path / "f")
    assert not mark.exists()


def test_members_may_not_overlap(tmp_path):
    """Two entries of the directory for the same bytes would be a way around the bound."""
    members = [("model.json", tree_of(ARRAY)), ("arrays/0.npy", npy(np.zeros(4000)))]
    forge(tmp_path / "f", members)
    data = bytearray((tmp_path / "f").read_bytes())
    # Claim, in the directory, that the first member has the size of the whole file
    at = data.rindex(b"PK\x01\x02", 0, data.rindex(b"arrays/0.npy"))
    first = data.index(b"PK\x01\x02")
    assert first < at
    for offset in (20, 24):
        data[first + offset : first + offset + 4] = len(data).to_bytes(4, "little")
    head = bytes(data[: -container.DIGITS])
    (tmp_path / "f").write_bytes(head + digest(head))
    with pytest.raises(PersistenceError, match="Members of the file overlap"):
        load(tmp_path / "f")


def sealed(archive_bytes):
    """The archive with a checksum that is right."""
    head = archive_bytes[: -container.DIGITS]
    return head + digest(head)


def hidden_before(data):
    return b"#!/bin/sh\n" + data


def hidden_between(data):
    """Bytes between the last member and the directory, which the end of the file points to."""
    start = data.index(b"PK\x01\x02")
    moved = bytearray(data[:start] + b"hidden" + data[start:])
    end = moved.rindex(b"PK\x05\x06")
    moved[end + 16 : end + 20] = (start + 6).to_bytes(4, "little")
    return bytes(moved)


def hidden_in_a_gap(data):
    """Bytes between two members: the directory knows where the second begins."""
    second = data.index(b"PK\x03\x04", 4)
    moved = bytearray(data[:second] + b"hidden" + data[second:])
    entry = moved.rindex(b"PK\x01\x02")
    moved[entry + 42 : entry + 46] = (second + 6).to_bytes(4, "little")
    end = moved.rindex(b"PK\x05\x06")
    start = int.from_bytes(moved[end + 16 : end + 20], "little") + 6
    moved[end + 16 : end + 20] = start.to_bytes(4, "little")
    return bytes(moved)


@pytest.mark.parametrize("hide", [hidden_before, hidden_between, hidden_in_a_gap])
def test_a_file_of_two_formats_is_refused(hide, tmp_path):
    members = [("model.json", tree_of(ARRAY)), ("arrays/0.npy", npy(X))]
    forge(tmp_path / "f", members)
    changed = sealed(hide((tmp_path / "f").read_bytes()))
    with zipfile.ZipFile(io.BytesIO(changed)) as archive:  # which others can read
        assert archive.read("arrays/0.npy") == members[1][1]
    (tmp_path / "f").write_bytes(changed)
    with pytest.raises(PersistenceError, match="There are bytes"):
        load(tmp_path / "f")


@pytest.mark.parametrize("field", ["extra", "comment"])
def test_headers_hold_no_other_data(field, tmp_path):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        member = zipfile.ZipInfo("model.json")
        setattr(member, field, b"\xff\xff\x04\x00data")
        archive.writestr(member, tree_of(1))
        archive.comment = b"dotsketch-model format=%04d sha256=" % FORMAT + b"0" * container.DIGITS
    (tmp_path / "f").write_bytes(sealed(buffer.getvalue()))
    with pytest.raises(PersistenceError, match=r"There are bytes|holds other data"):
        load(tmp_path / "f")


def test_members_with_sizes_of_64_bits_are_read(tmp_path):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(zipfile.ZipInfo("model.json"), tree_of(ARRAY))
        with archive.open(zipfile.ZipInfo("arrays/0.npy"), "w", force_zip64=True) as out:
            out.write(npy(X))
        archive.comment = b"dotsketch-model format=%04d sha256=" % FORMAT + b"0" * container.DIGITS
    (tmp_path / "f").write_bytes(sealed(buffer.getvalue()))
    assert np.array_equal(load(tmp_path / "f"), X)


def test_a_file_is_read_once(tmp_path, monkeypatch):
    """What was checked is what is used, whatever happens to the file meanwhile."""
    save(StandardScaler().fit(X), tmp_path / "f")
    check = container._check_seal

    def replace(data):
        check(data)
        (tmp_path / "f").write_bytes(b"another file")

    monkeypatch.setattr(container, "_check_seal", replace)
    assert np.array_equal(load(tmp_path / "f").mean_, X.mean(axis=0))


@given(data=st.data())
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
def test_a_changed_member_is_refused_or_read(data, tmp_path):
    """Behind a right checksum, no change of bytes gives anything but the one error."""
    path = tmp_path / "model"
    save(StandardScaler().fit(X), path)
    with zipfile.ZipFile(path) as archive:
        members = [(name, bytearray(archive.read(name))) for name in archive.namelist()]
    for _ in range(data.draw(st.integers(1, 3))):
        _, content = data.draw(st.sampled_from(members))
        place = data.draw(st.integers(0, len(content) - 1))
        content[place] = data.draw(st.integers(0, 255))
    forge(path, [(name, bytes(content)) for name, content in members])
    with contextlib.suppress(PersistenceError):
        load(path)

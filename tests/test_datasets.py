"""Named data sets: looked up, checked, fetched; every mistake is one clear line."""

import io
import urllib.error

import numpy as np
import pandas as pd
import pytest

import dotsketch.datasets
from dotsketch.datasets import DatasetError, fetch_dataset, list_datasets, load_dataset

RNG = np.random.default_rng(0)
X = RNG.integers(0, 200, (20, 3)).astype(np.uint8)
LABELS = np.arange(20, dtype=np.uint8) % 3


@pytest.fixture(autouse=True)
def _own_places(tmp_path, monkeypatch):
    """No test sees the folder or the cache of the machine."""
    monkeypatch.delenv("DOTSKETCH_DATA", raising=False)
    monkeypatch.setenv("DOTSKETCH_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def folder(tmp_path):
    """Two sets: labels with a predefined test part, and numbers."""
    path = tmp_path / "folder"
    path.mkdir()
    arrays = {"X_train": np.asfortranarray(X), "y_train": LABELS}
    np.savez_compressed(path / "small.npz", **arrays, X_test=X[:5], y_test=LABELS[:5])
    np.savez(path / "plain.npz", X_train=X, y_train=X[:, 0] / 2)
    return path


def info_of(name, folder=None):
    return next(info for info in list_datasets(folder) if info.name == name)


def test_a_folder_is_read_cast_and_in_order(folder):
    small = load_dataset("small", folder=folder)
    assert (small.X.dtype, small.y.dtype, small.X.flags.c_contiguous) == ("float32", "int64", True)
    np.testing.assert_array_equal(small.X, X)
    np.testing.assert_array_equal(small.X_test, X[:5])
    assert (small.task, small.y_test.dtype) == ("classification", "int64")
    plain = load_dataset("plain", folder=folder)
    assert (plain.task, plain.y.dtype, plain.X_test) == ("regression", "float64", None)


@pytest.mark.parametrize(
    ("name", "shape", "task"),
    [
        ("breast_cancer", (569, 30), "classification"),
        ("diabetes", (442, 10), "regression"),
        ("digits", (1797, 64), "classification"),
        ("iris", (150, 4), "classification"),
        ("wine", (178, 13), "classification"),
    ],
)
def test_bundled_sets(name, shape, task):
    assert (info_of(name).where, info_of(name).available) == ("scikit-learn", True)
    assert (load_dataset(name).X.shape, load_dataset(name).task) == (shape, task)


def test_the_order_of_places(folder, monkeypatch, tmp_path):
    np.savez(folder / "iris.npz", X_train=X, y_train=LABELS)
    assert load_dataset("iris").X.shape == (150, 4)
    monkeypatch.setenv("DOTSKETCH_DATA", str(folder))
    assert load_dataset("iris").X.shape == (20, 3)
    assert info_of("iris").where == "folder"
    other = tmp_path / "other"
    other.mkdir()
    assert load_dataset("iris", folder=other).X.shape == (150, 4)  # an argument comes first
    (tmp_path / "cache").mkdir()
    np.savez(tmp_path / "cache" / "wine.npz", X_train=X, y_train=LABELS)
    assert load_dataset("wine").X.shape == (20, 3)
    assert info_of("wine").where == "OpenML"
    assert not info_of("miniboone").available
    names = [info.name for info in list_datasets()]
    assert names == sorted(set(names))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("smal", "did you mean small"),
        ("zzzzzz", r"did you mean .*digits.*small"),
        ("letter", r"fetch_dataset\('letter'\)"),
        ("../folder/small", "There is no data set"),
    ],
)
def test_unknown_names(name, message, folder):
    with pytest.raises(DatasetError, match=message):
        load_dataset(name, folder=folder)


def test_a_missing_folder(tmp_path, monkeypatch):
    with pytest.raises(DatasetError, match=r"no folder of data sets at .*nowhere"):
        load_dataset("iris", folder=tmp_path / "nowhere")
    monkeypatch.setenv("DOTSKETCH_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(DatasetError, match="no folder"):
        list_datasets()


def damaged_files():
    whole = io.BytesIO()
    np.savez_compressed(whole, X_train=X, y_train=LABELS)
    data = whole.getvalue()
    pickled = io.BytesIO()
    np.savez(pickled, X_train=np.array([[{}]], dtype=object), y_train=LABELS)
    return {
        "empty": b"",
        "text": b"not a zip",
        "cut": data[: len(data) // 2],
        "inside": data[:60] + b"\xff" * 40 + data[100:],
        "pickle": pickled.getvalue(),
        "npy": b"\x93NUMPY\x01\x00",
    }


@pytest.mark.parametrize("kind", ["empty", "text", "cut", "inside", "pickle", "npy"])
def test_damaged_files(kind, tmp_path):
    (tmp_path / "bad.npz").write_bytes(damaged_files()[kind])
    with pytest.raises(DatasetError, match="bad") as caught:
        load_dataset("bad", folder=tmp_path)
    assert "\n" not in str(caught.value)
    assert load_dataset("iris", folder=tmp_path).X.shape == (150, 4)  # the others can be read


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"A": X}, "no 'y_train'; it has A"),
        ({"X_train": X}, "no 'y_train'"),
        ({"X_train": X, "y_train": LABELS, "X_test": X}, "no 'y_test'"),
        ({"X_train": X, "y_train": LABELS[:-1]}, "inconsistent numbers of samples"),
        ({"X_train": X[:0], "y_train": LABELS[:0]}, "0 sample"),
        ({"X_train": X[:, 0], "y_train": LABELS}, "Expected 2D array"),
        ({"X_train": X, "y_train": np.stack([LABELS] * 2, 1)}, "should be a 1d array"),
        ({"X_train": np.full(X.shape, "a"), "y_train": LABELS}, "could not convert"),
        ({"X_train": X, "y_train": LABELS, "X_test": X[:, :2], "y_test": LABELS}, "columns"),
        ({"X_train": X + np.nan, "y_train": LABELS}, "contains NaN"),
        ({"X_train": X * 1e300, "y_train": LABELS}, "infinity|too large"),
        ({"X_train": X, "y_train": LABELS.astype(int) - 1}, "labels"),
    ],
)
def test_wrong_arrays(arrays, message, tmp_path):
    np.savez(tmp_path / "bad.npz", **arrays)
    with pytest.raises(DatasetError, match=f"^bad: .*({message})"):
        load_dataset("bad", folder=tmp_path)


# OpenML, without a network


def give(monkeypatch, table, target):
    """Let OpenML answer with a table."""
    monkeypatch.setattr(dotsketch.datasets, "fetch_openml", lambda **_: (table, target))


def mixed_table():
    table = pd.DataFrame(
        {
            "number": [1.5, 2.0, 3.0, 4.0],
            "digit": pd.Categorical(["0", "1", "1", "0"]),
            "word": pd.Categorical(["b", None, "a", "b"]),
        }
    )
    return table, pd.Series(pd.Categorical(["10", "2", "10", "2"]))


def test_fetched_sets_are_encoded_and_cached(monkeypatch, tmp_path):
    give(monkeypatch, *mixed_table())
    path = fetch_dataset("letter")
    assert path == tmp_path / "cache" / "letter.npz"
    letter = load_dataset("letter")
    # the categories of "word" in sorted order, and a column for missing ones
    expected = [[1.5, 0, 0, 1, 0], [2, 1, 0, 0, 1], [3, 1, 1, 0, 0], [4, 0, 0, 1, 0]]
    np.testing.assert_array_equal(letter.X, expected)
    np.testing.assert_array_equal(letter.y, [1, 0, 1, 0])  # 2 before 10
    assert info_of("letter").available
    monkeypatch.setattr(dotsketch.datasets, "fetch_openml", None)
    assert fetch_dataset("letter") == path  # not downloaded again


def test_fetched_regression_keeps_its_numbers(monkeypatch, tmp_path):
    give(monkeypatch, mixed_table()[0][["number"]], pd.Series([1.0, 2.5, 3, 4]))
    fetch_dataset("kin8nm", folder=tmp_path)
    np.testing.assert_array_equal(load_dataset("kin8nm", folder=tmp_path).y, [1.0, 2.5, 3, 4])


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (urllib.error.URLError("Name or service not known"), "Name or service not known"),
        (urllib.error.HTTPError("u", 404, "Not Found", {}, None), "Not Found"),
        (TimeoutError("timed out"), "timed out"),
        (ValueError("md5 checksum of local file does not match"), "md5"),
        (ImportError("pandas"), "pandas"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_without_a_network_there_is_one_line(error, message, monkeypatch, tmp_path):
    def fail(**_):
        raise error

    monkeypatch.setattr(dotsketch.datasets, "fetch_openml", fail)
    with pytest.raises(DatasetError, match=message) as caught:
        fetch_dataset("letter")
    assert "\n" not in str(caught.value)
    assert caught.value.__suppress_context__
    assert not (tmp_path / "cache").exists()


def test_names_and_folders_that_cannot_be(monkeypatch, tmp_path):
    with pytest.raises(DatasetError, match=r"'nothing' is not one of the pinned sets: .*letter"):
        fetch_dataset("nothing")
    (tmp_path / "file").touch()
    give(monkeypatch, *mixed_table())
    with pytest.raises(DatasetError, match="cannot be written"):
        fetch_dataset("letter", folder=tmp_path / "file")

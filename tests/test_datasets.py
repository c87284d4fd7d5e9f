"""Named data sets: found, checked, split; every mistake is one clear line."""

import hashlib
import io
import json
import os
import types
import urllib.error
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from dotsketch import Gaussian, MaclaurinFeatures, Polynomial
from dotsketch.datasets import (
    Dataset,
    DatasetError,
    cache_folder,
    dataset_path,
    fetch_dataset,
    list_datasets,
    load_dataset,
    openml,
    train_test_split,
)
from draws import redrawn

RNG = np.random.default_rng(0)
X = RNG.integers(0, 200, (20, 3)).astype(np.uint8)
LABELS = np.arange(20, dtype=np.uint8) % 3

REAL = Path(os.environ.get("DOTSKETCH_DATA") or Path(__file__).parents[2] / "shared" / "datasets")
_MANIFEST_FILE = REAL / "manifest.json"
MANIFEST = json.loads(_MANIFEST_FILE.read_text()) if _MANIFEST_FILE.is_file() else {}
needs_real = pytest.mark.skipif(not MANIFEST, reason="no folder of real data sets here")


@pytest.fixture(autouse=True)
def _own_places(tmp_path, monkeypatch):
    """No test sees the folder or the cache of the machine."""
    monkeypatch.delenv("DOTSKETCH_DATA", raising=False)
    monkeypatch.setenv("DOTSKETCH_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def folder(tmp_path):
    """Two sets: one with a manifest's line, one without."""
    path = tmp_path / "folder"
    path.mkdir()
    arrays = {"X_train": np.asfortranarray(X), "y_train": LABELS}
    np.savez_compressed(path / "small.npz", **arrays, X_test=X[:5], y_test=LABELS[:5])
    np.savez(path / "plain.npz", X_train=X, y_train=X[:, 0] / 2)
    digest = hashlib.sha256((path / "small.npz").read_bytes()).hexdigest()
    entry = {"file": "small.npz", "task": "classification", "n": 25, "d": 3, "n_classes": 3}
    (path / "manifest.json").write_text(json.dumps({"small": entry | {"sha256": digest}}))
    return path


def info_of(name, folder=None):
    return next(info for info in list_datasets(folder) if info.name == name)


def test_a_folder_is_read_cast_and_in_order(folder):
    found = load_dataset("small", folder=folder)
    assert (found.X.dtype, found.y.dtype, found.X.flags.c_contiguous) == ("float32", "int64", True)
    np.testing.assert_array_equal(found.X, X)
    np.testing.assert_array_equal(found.X_test, X[:5])
    assert (found.task, found.n_rows, found.dimension, found.n_classes) == (
        "classification", 25, 3, 3,
    )  # fmt: skip
    plain = load_dataset("plain", folder=folder)
    assert (plain.task, plain.y.dtype, plain.X_test, plain.n_classes) == (
        "regression", "float64", None, None,
    )  # fmt: skip


@pytest.mark.parametrize("name", ["breast_cancer", "diabetes", "digits", "iris", "wine"])
def test_bundled_sets_have_the_listed_sizes(name):
    found, info = load_dataset(name), info_of(name)
    assert (info.where, info.available) == ("scikit-learn", True)
    assert (found.task, found.n_rows, found.dimension, found.n_classes) == (
        info.task, info.rows, info.dimension, info.classes,
    )  # fmt: skip


def test_the_order_of_places(folder, monkeypatch, tmp_path):
    np.savez(folder / "iris.npz", X_train=X, y_train=LABELS)
    assert load_dataset("iris").X.shape == (150, 4)
    monkeypatch.setenv("DOTSKETCH_DATA", str(folder))
    assert load_dataset("iris").X.shape == (20, 3)
    other = tmp_path / "other"
    other.mkdir()
    assert load_dataset("iris", folder=other).X.shape == (150, 4)  # an argument comes first
    (tmp_path / "cache").mkdir()
    np.savez(tmp_path / "cache" / "wine.npz", X_train=X, y_train=LABELS)
    assert load_dataset("wine").X.shape == (20, 3)
    assert info_of("wine").where == "OpenML"
    assert dataset_path("wine") == tmp_path / "cache" / "wine.npz"
    assert dataset_path("iris") == folder / "iris.npz"


def test_the_list_reads_headers_where_there_is_no_manifest(folder):
    info = info_of("plain", folder)
    assert (info.task, info.rows, info.dimension, info.where, info.available) == (
        "regression", 20, 3, "folder", True,
    )  # fmt: skip
    assert info_of("small", folder).rows == 25
    names = [info.name for info in list_datasets(folder)]
    assert names == sorted(set(names))
    assert not info_of("miniboone", folder).available


def test_files_of_others_do_not_hide_the_data_sets(folder):
    """Another npz, a damaged one and a single array in the folder: told, and nothing more."""
    np.savez(folder / "foreign.npz", X=X, y=LABELS)
    (folder / "damaged.npz").write_bytes(b"PK\x03\x04 and no more")
    with (folder / "array.npz").open("wb") as file:
        np.save(file, X)
    for name in ("foreign", "damaged", "array"):
        info = info_of(name, folder)
        assert (info.task, info.rows, info.where, info.available) == ("", None, "folder", False)
        with pytest.raises(DatasetError, match=f"{name}: "):
            load_dataset(name, folder=folder)
    with pytest.raises(DatasetError, match="has no X_train; it has X, y"):
        load_dataset("foreign", folder=folder)
    with pytest.raises(DatasetError, match="did you mean small"):
        load_dataset("smal", folder=folder)
    assert load_dataset("iris", folder=folder).X.shape == (150, 4)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("smal", "did you mean small"),
        ("zzzzzz", "there are .*digits.*small"),
        ("letter", r'fetch_dataset\("letter"\)'),
        ("../folder/small", "There is no data set"),
    ],
)
def test_unknown_names(name, message, folder):
    for function in (load_dataset, dataset_path):
        with pytest.raises(DatasetError, match=message):
            function(name, folder=folder)


def test_a_missing_folder(tmp_path, monkeypatch):
    with pytest.raises(DatasetError, match=r"no folder of data sets at .*nowhere"):
        load_dataset("iris", folder=tmp_path / "nowhere")
    monkeypatch.setenv("DOTSKETCH_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(DatasetError, match="no folder"):
        list_datasets()


def test_bundled_sets_have_no_path():
    with pytest.raises(DatasetError, match="comes with scikit-learn"):
        dataset_path("iris")


def test_a_changed_file_is_refused(folder):
    data = bytearray((folder / "small.npz").read_bytes())
    data[100] ^= 1
    (folder / "small.npz").write_bytes(data)
    with pytest.raises(DatasetError, match="sha256"):
        load_dataset("small", folder=folder)


def test_a_file_that_the_manifest_only_promises(folder):
    (folder / "small.npz").unlink()
    assert not info_of("small", folder).available
    with pytest.raises(DatasetError, match="no such file"):
        load_dataset("small", folder=folder)


def test_a_manifest_cannot_point_out_of_its_folder(folder):
    (folder / "manifest.json").write_text(json.dumps({"out": {"file": "../../plain.npz"}}))
    assert dataset_path("out", folder=folder) == folder / "plain.npz"


@pytest.mark.parametrize("text", ["{", "[]", '{"a": 1}', "[" * 100_000])
def test_a_damaged_manifest(text, folder):
    (folder / "manifest.json").write_text(text)
    with pytest.raises(DatasetError, match=r"manifest\.json"):
        load_dataset("plain", folder=folder)


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
        "npy": data[:0] + b"\x93NUMPY\x01\x00",
    }


@pytest.mark.parametrize("kind", ["empty", "text", "cut", "inside", "pickle", "npy"])
def test_damaged_files(kind, tmp_path):
    (tmp_path / "bad.npz").write_bytes(damaged_files()[kind])
    with pytest.raises(DatasetError, match="bad") as caught:
        load_dataset("bad", folder=tmp_path)
    assert "\n" not in str(caught.value)
    if kind != "pickle" and kind != "inside":  # whose headers are fine
        assert not info_of("bad", tmp_path).available


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"A": X}, "no X_train"),
        ({"X_train": X}, "only one of X_train and y_train"),
        ({"X_train": X, "y_train": LABELS, "X_test": X}, "only one of X_test"),
        ({"X_train": X, "y_train": LABELS[:-1]}, "as many rows"),
        ({"X_train": X[:0], "y_train": LABELS[:0]}, "and some"),
        ({"X_train": X[:, 0], "y_train": LABELS}, "2 dimension"),
        ({"X_train": X, "y_train": LABELS[:, None]}, "1 dimension"),
        ({"X_train": X.astype(str), "y_train": LABELS}, "numeric"),
        ({"X_train": X, "y_train": LABELS, "X_test": X[:, :2], "y_test": LABELS}, "columns"),
        ({"X_train": X + np.nan, "y_train": LABELS}, "missing or infinite"),
        ({"X_train": X * 1e300, "y_train": LABELS}, "missing or infinite"),
        ({"X_train": X, "y_train": LABELS.astype(int) - 1}, "labels"),
    ],
)
def test_wrong_arrays(arrays, message, tmp_path):
    np.savez(tmp_path / "bad.npz", **arrays)
    with pytest.raises(DatasetError, match=message):
        load_dataset("bad", folder=tmp_path)


# Splits


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


@pytest.mark.parametrize(
    "options", [{"test_size": 0}, {"test_size": 1}, {"validation_size": 1}, {"max_train": 0}]
)
def test_wrong_sizes_of_parts(options):
    with pytest.raises(ValueError, match="must be"):
        train_test_split(numbered(10), seed=0, **options)


def test_one_row_cannot_be_split():
    with pytest.raises(ValueError, match="too few"):
        train_test_split(numbered(1), seed=0)


# OpenML, without a network


def give(monkeypatch, table, target, **entry):
    """Let OpenML answer with a table."""
    answer = types.SimpleNamespace(data=table, target=target)
    monkeypatch.setattr(openml, "fetch_openml", lambda **_: answer)
    known = {"data_id": 6, "task": "classification", "rows": len(table)} | entry
    monkeypatch.setitem(openml.CATALOGUE, "letter", openml.OpenMLEntry(**known))


def mixed_table():
    table = pd.DataFrame(
        {
            "number": [1.5, 2.0, 3.0, 4.0],
            "digit": pd.Categorical(["0", "1", "1", "0"]),
            "word": pd.Categorical(["b", None, "a", "b"]),
        }
    )
    return table, pd.Series(pd.Categorical(["10", "2", "10", "2"]))


def test_fetched_sets_are_encoded_cached_and_verified(monkeypatch):
    table, target = mixed_table()
    give(monkeypatch, table, target, dimension=5, classes=2, n_test=1)
    path = fetch_dataset("letter")
    assert path == cache_folder() / "letter.npz"
    found = load_dataset("letter")
    # the categories of "word" in sorted order, missing ("?") among them
    expected = [[1.5, 0, 0, 0, 1], [2, 1, 1, 0, 0], [3, 1, 0, 1, 0], [4, 0, 0, 0, 1]]
    np.testing.assert_array_equal(np.vstack([found.X, found.X_test]), expected)
    np.testing.assert_array_equal([*found.y, *found.y_test], [1, 0, 1, 0])  # 2 before 10
    assert info_of("letter").available

    def fail(**_):
        raise AssertionError("downloaded again")

    monkeypatch.setattr(openml, "fetch_openml", fail)
    assert fetch_dataset("letter") == path
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(DatasetError, match="sha256"):
        load_dataset("letter")
    with pytest.raises(AssertionError, match="again"):  # a damaged copy is fetched anew
        fetch_dataset("letter")


def test_fetched_regression_keeps_its_numbers(monkeypatch, tmp_path):
    table, _ = mixed_table()
    give(monkeypatch, table[["number"]], pd.Series([1.0, 2.5, 3, 4]), task="regression")
    fetch_dataset("letter", folder=tmp_path)
    np.testing.assert_array_equal(load_dataset("letter", folder=tmp_path).y, [1.0, 2.5, 3, 4])


def test_a_set_of_other_sizes_is_not_stored(monkeypatch):
    give(monkeypatch, *mixed_table(), rows=5, dimension=5, classes=2)
    with pytest.raises(DatasetError, match=r"\(4, 5, 2\).*\(5, 5, 2\)"):
        fetch_dataset("letter")
    assert not cache_folder().exists()


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (urllib.error.URLError("Name or service not known"), "Name or service not known.*network"),
        (urllib.error.HTTPError("u", 404, "Not Found", {}, None), "Not Found"),
        (TimeoutError("timed out"), "timed out"),
        (ValueError("md5 checksum of local file does not match"), "md5"),
        (ImportError("pandas"), r"dotsketch\[cli\]"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_without_a_network_there_is_one_line(error, message, monkeypatch):
    def fail(**_):
        raise error

    monkeypatch.setattr(openml, "fetch_openml", fail)
    with pytest.raises(DatasetError, match=message) as caught:
        fetch_dataset("letter")
    assert "\n" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


def test_names_that_openml_does_not_have():
    with pytest.raises(DatasetError, match=r"'nothing' has no pinned.*letter"):
        fetch_dataset("nothing")


def test_a_cache_that_cannot_be_written(monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    give(monkeypatch, *mixed_table(), classes=2)
    with pytest.raises(DatasetError, match="cannot be written"):
        fetch_dataset("letter", folder=tmp_path / "file")


@pytest.mark.parametrize(
    ("platform", "variable", "part"),
    [
        ("linux", "XDG_CACHE_HOME", "dotsketch"),
        ("darwin", None, "Library/Caches/dotsketch"),
        ("win32", "LOCALAPPDATA", "dotsketch"),
    ],
)
def test_the_cache_of_a_platform(platform, variable, part, monkeypatch, tmp_path):
    monkeypatch.delenv("DOTSKETCH_CACHE")
    monkeypatch.setattr(openml.sys, "platform", platform)
    if variable:
        monkeypatch.setenv(variable, str(tmp_path))
        assert cache_folder().is_relative_to(tmp_path)
    assert part in cache_folder().as_posix()


# Real data


@needs_real
@pytest.mark.parametrize("name", sorted(MANIFEST))
def test_real_sets_have_the_sizes_of_the_manifest(name):
    entry, info = MANIFEST[name], info_of(name, REAL)
    sizes = (entry["task"], entry["n"], entry["d"], entry["n_classes"])
    assert (info.task, info.rows, info.dimension, info.classes) == sizes
    if entry["n"] * entry["d"] > 5e6:
        return  # its checksum and its rows take a while to read
    found = load_dataset(name, folder=REAL)
    assert (found.task, found.n_rows, found.dimension, found.n_classes) == sizes
    assert len(found.X) == entry["n_train"]


@needs_real
@pytest.mark.filterwarnings("ignore:The scales of the columns differ")  # they are raw on purpose
@pytest.mark.parametrize(
    ("name", "kernel", "options"),
    [
        ("letter", Gaussian(), {}),
        ("letter", Polynomial(2, gamma=1 / 256), {"mean_split": True}),
        ("magic", Gaussian(), {}),
        ("eeg", Gaussian(), {"output": "complex_to_real"}),
    ],
    ids=["letter", "letter, mean split", "magic", "eeg"],
)
def test_the_predicted_error_holds_on_raw_data(name, kernel, options):
    """Neither centred nor scaled, with gross outliers in eeg: as predicted within 6 deviations."""
    if name not in MANIFEST:
        pytest.skip(f"{name} is not in the folder")
    rows = train_test_split(load_dataset(name, folder=REAL), seed=0, max_train=150).X_train
    rows = rows.astype(np.float64)
    features = MaclaurinFeatures(kernel, n_components=64, random_state=0, **options).fit(rows)
    K = features.kernel_(rows)
    off_diagonal = ~np.eye(len(rows), dtype=bool)
    errors = []
    for seed in range(200):
        Z = redrawn(features, seed).transform(rows)
        errors.append(np.mean((K - Z @ Z.T)[off_diagonal] ** 2))
    predicted = features.expected_squared_error_
    threshold = 6 * np.std(errors, ddof=1) / np.sqrt(len(errors))
    assert threshold < 0.25 * predicted, "the test could not see a wrong formula"
    assert abs(np.mean(errors) - predicted) <= threshold

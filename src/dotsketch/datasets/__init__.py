"""Named data sets: a local folder, scikit-learn's bundled sets, OpenML.

A name is looked up in this order, and the first place that has it is read:

1. the folder given as `folder`, else the one named by the environment variable `DOTSKETCH_DATA`
2. the cache of sets fetched from OpenML (`DOTSKETCH_CACHE`, by default ~/.cache/dotsketch)
3. the sets that come with scikit-learn

A folder holds `<name>.npz` files with X_train (n, d) and y_train (n,), and with X_test and y_test
if the split is predefined. Nothing is downloaded unless `fetch_dataset` is called, and no file is
ever unpickled.

>>> from dotsketch.datasets import load_dataset
>>> digits = load_dataset("digits")
>>> digits.X.shape, digits.task
((1797, 64), 'classification')
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any

import numpy as np
import sklearn.datasets
from sklearn.datasets import fetch_openml
from sklearn.utils import check_X_y

from .._support.files import atomic_write

__all__ = ["Dataset", "DatasetError", "DatasetInfo"]
__all__ += ["fetch_dataset", "list_datasets", "load_dataset"]

BUNDLED = ("breast_cancer", "diabetes", "digits", "iris", "wine")  # sklearn.datasets.load_<name>
# Task, data id (one version of one set, for good), and rows of the predefined test part (the last)
OPENML = {
    "adult": ("classification", 1590, 0),
    "boston": ("regression", 531, 0),
    "concrete": ("regression", 44959, 0),
    "covertype": ("classification", 1596, 0),
    "eeg": ("classification", 1471, 0),
    "energy": ("regression", 44960, 0),
    "fashion_mnist": ("classification", 40996, 10000),
    "kin8nm": ("regression", 189, 0),
    "letter": ("classification", 6, 0),
    "magic": ("classification", 1120, 0),
    "miniboone": ("classification", 41150, 0),
    "mnist": ("classification", 554, 10000),
    "naval": ("regression", 44969, 0),
    "protein": ("regression", 44963, 0),
}


class DatasetError(ValueError):
    """A data set that is unknown, unreachable or damaged; the message is one line."""


@dataclass(frozen=True, eq=False)
class Dataset:
    """Rows and targets of one data set, neither scaled nor shuffled.

    X is (n, d) float32 in C order. y is (n,): int64 labels 0 … C−1 for classification, float64 for
    regression. X_test and y_test are the predefined test part, or None.
    """

    name: str
    task: str
    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray | None = None
    y_test: np.ndarray | None = None


@dataclass(frozen=True)
class DatasetInfo:
    """One line of `list_datasets`.

    where is "folder", "scikit-learn" or "OpenML"; available says whether `load_dataset` finds it
    now, without a network.
    """

    name: str
    where: str
    available: bool


def load_dataset(name: str, *, folder: str | os.PathLike[str] | None = None) -> Dataset:
    """A data set by its name, from the first place that has it (see `dotsketch.datasets`).

    >>> load_dataset("iris").X.shape
    (150, 4)
    """
    places = [(place / f"{name}.npz") for place, _ in _places(folder)]
    path = next((path for path in places if path.stem == name and path.is_file()), None)
    if path is None and name in BUNDLED:
        X, y = getattr(sklearn.datasets, f"load_{name}")(return_X_y=True)
        return _checked(name, {"X_train": X, "y_train": y})
    if path is None and name in OPENML:
        raise DatasetError(f"{name!r} is on OpenML: call fetch_dataset({name!r}) first.")
    if path is None:
        names = [info.name for info in list_datasets(folder)]
        close = difflib.get_close_matches(str(name), names, n=3) or names
        raise DatasetError(f"There is no data set {name!r}; did you mean {' or '.join(close)}?")
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as members:
            arrays = dict(members)
    except Exception as error:  # zipfile, zlib and NumPy raise many kinds
        raise DatasetError(f"{name}: {path} is not a readable npz: {_line(error)}") from None
    return _checked(name, arrays)


def list_datasets(folder: str | os.PathLike[str] | None = None) -> list[DatasetInfo]:
    """Every known set, sorted by name, each with the place `load_dataset` would read."""
    infos = {name: DatasetInfo(name, "OpenML", False) for name in OPENML}
    infos |= {name: DatasetInfo(name, "scikit-learn", True) for name in BUNDLED}
    for place, where in reversed([*_places(folder)]):
        infos |= {file.stem: DatasetInfo(file.stem, where, True) for file in place.glob("*.npz")}
    return sorted(infos.values(), key=lambda info: info.name)


def fetch_dataset(name: str, *, folder: Any = None, force: bool = False) -> Path:
    """The npz file of a set of OpenML in the cache (or `folder`), downloaded if it is not there.

    scikit-learn compares the download with OpenML's checksum. Columns of categories become one-hot
    columns, one of them for missing values; labels become 0 … C−1 in sorted order.
    """
    if name not in OPENML:
        raise DatasetError(f"{name!r} is not one of the pinned sets: {', '.join(OPENML)}.")
    task, data_id, n_test = OPENML[name]
    place = cache_folder() if folder is None else Path(folder).expanduser()
    path = place / f"{name}.npz"
    if path.is_file() and not force:
        return path
    try:
        table, y = fetch_openml(data_id=data_id, as_frame=True, cache=False, return_X_y=True)
    except (ImportError, OSError, ValueError, HTTPException) as error:
        raise DatasetError(f"{name} cannot be fetched from OpenML: {_line(error)}") from None
    X = np.hstack([_numbers(table[column]) for column in table])
    y = _values(y if y.ndim == 1 else y.iloc[:, 0])
    y = np.unique(y, return_inverse=True)[1] if task == "classification" else y
    n = len(X) - n_test
    test = {"X_test": X[n:], "y_test": y[n:]} if n_test else {}
    arrays = {"X_train": X[:n], "y_train": y[:n], **test}
    _checked(name, arrays)
    try:
        place.mkdir(parents=True, exist_ok=True)
        with atomic_write(path) as file:
            np.savez_compressed(file, allow_pickle=False, **arrays)
    except OSError as error:
        raise DatasetError(f"{path} cannot be written: {_line(error)}") from None
    return path


def cache_folder() -> Path:
    """Where fetched sets are kept."""
    return Path(os.environ.get("DOTSKETCH_CACHE") or "~/.cache/dotsketch").expanduser()


def _places(folder: str | os.PathLike[str] | None) -> Iterator[tuple[Path, str]]:
    """The folders to look in, first to last, and what `DatasetInfo.where` calls them."""
    given = folder if folder is not None else os.environ.get("DOTSKETCH_DATA")
    if given:
        path = Path(given).expanduser()
        if not path.is_dir():
            raise DatasetError(f"There is no folder of data sets at {path}.")
        yield path, "folder"
    yield cache_folder(), "OpenML"


def _checked(name: str, arrays: dict[str, np.ndarray]) -> Dataset:
    """A Dataset of X_train, y_train and perhaps X_test, y_test; integer targets are labels."""
    try:
        is_label = arrays["y_train"].dtype.kind in "iub"
        parts: list[np.ndarray] = []
        for part in ("train", "test") if {"X_test", "y_test"} & set(arrays) else ("train",):
            with np.errstate(over="ignore"):  # values beyond float32 are refused as infinite
                X, y = check_X_y(
                    arrays[f"X_{part}"], arrays[f"y_{part}"], dtype=np.float32, order="C"
                )
            if is_label and y.min() < 0:
                raise ValueError(f"labels must be integers 0, 1, …; one is {y.min()}.")
            parts += [X, y.astype(np.int64 if is_label else np.float64)]
        if parts[0].shape[1] != parts[-2].shape[1]:
            raise ValueError("X_train and X_test have different numbers of columns.")
    except KeyError as error:
        raise DatasetError(f"{name}: there is no {error}; it has {', '.join(arrays)}.") from None
    except ValueError as error:
        raise DatasetError(f"{name}: {_line(error)}") from None
    return Dataset(name, "classification" if is_label else "regression", *parts)


def _numbers(column: Any) -> np.ndarray:  # (n,) -> (n, columns)
    """A column of numbers, or one-hot columns of its categories (missing is one of them)."""
    import pandas

    values = _values(column)
    if values.dtype.kind == "f":
        return values[:, None]
    return np.asarray(pandas.get_dummies(column, dummy_na=column.isna().any()), dtype=np.float32)


def _values(column: Any) -> np.ndarray:
    """Numbers, or words."""
    try:
        return np.asarray(column.astype(np.float64))
    except (TypeError, ValueError):
        return np.asarray(column.astype(str))


def _line(error: BaseException) -> str:
    """The cause in one line."""
    return " ".join(str(error).split())[:200] or type(error).__name__

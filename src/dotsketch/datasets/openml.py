"""Sets from OpenML: pinned by their data id, checked, and kept in a cache folder.

scikit-learn downloads and compares with OpenML's own checksum; here the sizes are compared with
the catalogue, and the npz is written to the cache with its sha256, which every later load verifies.
Columns of categories become one-hot columns (one of them for missing), unless all their categories
are numbers; labels become 0 … C−1 in sorted order.
"""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import fetch_openml

from .base import Dataset, DatasetError, make_dataset
from .folder import data_file, one_line, read_manifest, sha256, write_dataset

Frame = Any  # pandas is optional


@dataclass(frozen=True)
class OpenMLEntry:
    """One pinned set; the last `n_test` rows are its predefined test part."""

    data_id: int
    task: str
    rows: int
    dimension: int | None = None
    classes: int | None = None
    target: str | None = None  # None: OpenML's default target
    n_test: int = 0


# A data id of OpenML names one version of one set, for good.
CATALOGUE = {
    "adult": OpenMLEntry(1590, "classification", 48842, 108, 2),
    "boston": OpenMLEntry(531, "regression", 506, 13),
    "concrete": OpenMLEntry(44959, "regression", 1030, 8),
    "covertype": OpenMLEntry(1596, "classification", 581012, 54, 7),
    "eeg": OpenMLEntry(1471, "classification", 14980, 14, 2),
    "energy": OpenMLEntry(44960, "regression", 768, 8),
    "fashion_mnist": OpenMLEntry(40996, "classification", 70000, 784, 10, n_test=10000),
    "kin8nm": OpenMLEntry(189, "regression", 8192, 8),
    "letter": OpenMLEntry(6, "classification", 20000, 16, 26),
    "magic": OpenMLEntry(1120, "classification", 19020, 10, 2),
    "miniboone": OpenMLEntry(41150, "classification", 130064, 50, 2),
    "mnist": OpenMLEntry(554, "classification", 70000, 784, 10, n_test=10000),
    "naval": OpenMLEntry(44969, "regression", 11934),
    "protein": OpenMLEntry(44963, "regression", 45730, 9),
}


def cache_folder() -> Path:
    """Where fetched sets are kept: `DOTSKETCH_CACHE`, else the platform's cache folder."""
    given = os.environ.get("DOTSKETCH_CACHE")
    if given:
        return Path(given).expanduser()
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local"))
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "dotsketch" / "datasets"


def fetch_dataset(name: str, *, folder: Any = None, force: bool = False) -> Path:
    """The npz of a set of OpenML in the cache, downloaded if it is not there or is damaged.

    Parameters
    ----------
    name : one of the names that `list_datasets` places on OpenML
    folder : where to keep it; the cache folder if None
    force : download again even if it is there
    """
    if name not in CATALOGUE:
        known = ", ".join(sorted(CATALOGUE))
        raise DatasetError(f"{name!r} has no pinned OpenML set; these have one: {known}.")
    entry = CATALOGUE[name]
    target = cache_folder() if folder is None else Path(folder).expanduser()
    if not force:
        facts = read_manifest(target).get(name, {})
        path = data_file(target, name, facts)
        if path.is_file() and facts.get("sha256") == sha256(path):
            return path
    dataset = _as_dataset(name, entry, *_download(name, entry))
    _check_sizes(dataset, entry)
    return write_dataset(target, dataset, {"source": f"OpenML data id {entry.data_id}"})


def _download(name: str, entry: OpenMLEntry) -> tuple[Frame, Any]:
    """The table and its target as pandas objects; every failure becomes one line."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # notices of newer versions, of retries
            bunch = fetch_openml(
                data_id=entry.data_id,
                target_column=entry.target or "default-target",
                as_frame=True,
                cache=False,
                n_retries=2,
                parser="auto",
            )
    except ImportError:
        raise DatasetError(
            'Sets of OpenML are read with pandas: pip install "dotsketch[cli]".'
        ) from None
    except (OSError, ValueError, HTTPException) as error:
        cause = one_line(getattr(error, "reason", None) or error)
        raise DatasetError(
            f"{name} (OpenML data id {entry.data_id}) cannot be fetched: {cause}. Is there a "
            "network? A folder of data sets can be given by DOTSKETCH_DATA."
        ) from None
    return bunch.data, bunch.target


def _as_dataset(name: str, entry: OpenMLEntry, table: Frame, target: Any) -> Dataset:
    """Numbers from a table of numbers and categories."""
    if getattr(target, "ndim", 1) != 1:
        target = target.iloc[:, 0]  # several targets: the first is the paper's
    X = np.hstack([_numbers(table[column]) for column in table.columns])
    y = _codes(target) if entry.task == "classification" else target.to_numpy(dtype=np.float64)
    stop = len(X) - entry.n_test
    arrays = {"X_train": X[:stop], "y_train": y[:stop]}
    if entry.n_test:
        arrays |= {"X_test": X[stop:], "y_test": y[stop:]}
    return make_dataset(name, entry.task, arrays)


def _numbers(column: Any) -> np.ndarray:  # (n,) -> (n, columns)
    """A column of numbers, or one-hot columns of its categories (missing is one of them)."""
    if column.dtype.kind in "iufb":
        numbers: np.ndarray = column.to_numpy(dtype=np.float32)
        return numbers[:, None]
    values: np.ndarray = column.astype(object).where(column.notna(), "?").to_numpy()
    try:
        return values.astype(np.float32)[:, None]
    except ValueError:
        categories, codes = np.unique(values.astype(str), return_inverse=True)
        return np.eye(len(categories), dtype=np.float32)[codes]


def _codes(target: Any) -> np.ndarray:  # (n,) -> (n,)
    """Labels 0 … C−1 in the order of the numbers, or of the words."""
    values = np.asarray(target.astype(object).to_numpy(), dtype=str)
    with contextlib.suppress(ValueError):
        values = values.astype(np.float64)
    return np.unique(values, return_inverse=True)[1]


def _check_sizes(dataset: Dataset, entry: OpenMLEntry) -> None:
    found = (dataset.n_rows, dataset.dimension, dataset.n_classes)
    expected = (entry.rows, entry.dimension or dataset.dimension, entry.classes)
    if found != expected:
        raise DatasetError(
            f"{dataset.name}: OpenML gave (rows, columns, classes) {found}, and not {expected} as "
            "in the catalogue; it is not stored."
        )

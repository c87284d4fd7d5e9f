"""The folder format: `<name>.npz` files, and perhaps a `manifest.json`.

A file holds X_train (n, d) and y_train (n,), and X_test, y_test where the split is predefined;
integer dtypes and column order are fine. The manifest maps names to objects; what is read of them
is `file`, `task`, `n`, `d`, `n_classes` and `sha256`, all optional. Where it gives a checksum, a
file that differs from it is refused.
"""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from .._support.files import atomic_write
from .base import Dataset, DatasetError, DatasetInfo, infer_task, make_dataset

MANIFEST = "manifest.json"
ARRAYS = ("X_train", "y_train", "X_test", "y_test")
# What reading a file that is no npz, or a damaged one, may raise
DAMAGE = (OSError, ValueError, TypeError, AttributeError, EOFError, KeyError, NotImplementedError,
          RuntimeError, zipfile.BadZipFile, zlib.error)  # fmt: skip


def check_folder(folder: str | os.PathLike[str]) -> Path:
    path = Path(folder).expanduser()
    if not path.is_dir():
        raise DatasetError(f"There is no folder of data sets at {path}.")
    return path


def read_manifest(folder: Path) -> dict[str, dict[str, Any]]:
    """The manifest of a folder, empty if it has none."""
    path = folder / MANIFEST
    if not path.exists():
        return {}
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise DatasetError(f"{path} cannot be read: {one_line(error)}") from None
    if not isinstance(manifest, dict) or not all(isinstance(e, dict) for e in manifest.values()):
        raise DatasetError(f"{path} must be an object that maps names to objects.")
    return manifest


def data_file(folder: Path, name: str, entry: dict[str, Any]) -> Path:
    """The file of a name; a manifest cannot point out of its folder."""
    return folder / Path(str(entry.get("file", f"{name}.npz"))).name


def names_in(folder: Path) -> list[str]:
    """Every name of the manifest and of the files, sorted."""
    return sorted({*read_manifest(folder), *(path.stem for path in folder.glob("*.npz"))})


def read_dataset(folder: Path, name: str) -> Dataset:
    """One set, its checksum verified where the manifest gives one."""
    entry = read_manifest(folder).get(name, {})
    path = data_file(folder, name, entry)
    if not path.is_file():
        raise DatasetError(f"{name}: {path} is in the manifest, but there is no such file.")
    if "sha256" in entry and sha256(path) != entry["sha256"]:
        raise DatasetError(
            f"{name}: the sha256 of {path} differs from the manifest's; get the file again."
        )
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as members:
            found = sorted(members.files)
            arrays = {key: members[key] for key in ARRAYS if key in found}
    except DAMAGE as error:
        raise DatasetError(f"{name}: {path} is no readable npz: {one_line(error)}") from None
    if "X_train" not in arrays:
        raise DatasetError(
            f"{name}: {path} has no X_train; it has {', '.join(found) or 'nothing'}."
        )
    return make_dataset(name, entry.get("task"), arrays)


def describe(folder: Path, name: str, where: str) -> DatasetInfo:
    """Sizes from the manifest, else from the headers in the file; no data are read."""
    entry = read_manifest(folder).get(name, {})
    path = data_file(folder, name, entry)
    if {"task", "n", "d"} <= set(entry):
        rows, dimension, task = entry["n"], entry["d"], entry["task"]
    else:
        try:
            rows, dimension, task = _sizes_of(path)
        except (*DAMAGE, IndexError):
            return DatasetInfo(name, entry.get("task", ""), None, None, None, where, False)
        task = entry.get("task", task)
    classes = entry.get("n_classes")
    return DatasetInfo(name, task, rows, dimension, classes, where, path.is_file())


def write_dataset(folder: Path, dataset: Dataset, facts: dict[str, Any]) -> Path:
    """Store a set and its line of the manifest (with `facts`); each file appears whole or not."""
    arrays = {"X_train": dataset.X, "y_train": dataset.y}
    if dataset.X_test is not None and dataset.y_test is not None:
        arrays |= {"X_test": dataset.X_test, "y_test": dataset.y_test}
    path = folder / f"{dataset.name}.npz"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with atomic_write(path) as file:
            np.savez_compressed(file, allow_pickle=False, **arrays)
        entry = {
            "file": path.name,
            "task": dataset.task,
            "n": dataset.n_rows,
            "d": dataset.dimension,
            "n_classes": dataset.n_classes,
            "sha256": sha256(path),
        }
        manifest = read_manifest(folder) | {dataset.name: entry | facts}
        with atomic_write(folder / MANIFEST) as file:
            file.write(json.dumps(manifest, indent=1).encode())
    except OSError as error:
        raise DatasetError(f"{path} cannot be written: {one_line(error)}") from None
    return path


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def one_line(error: BaseException) -> str:
    """The cause in one line."""
    return " ".join(str(error).split())[:200] or type(error).__name__


def _sizes_of(path: Path) -> tuple[int, int, str]:
    """Rows, columns and task, from the headers of the arrays."""
    headers = {}
    with zipfile.ZipFile(path) as archive:
        for key in ARRAYS:
            if f"{key}.npy" in archive.namelist():
                with archive.open(f"{key}.npy") as member:
                    version = np.lib.format.read_magic(member)
                    read = {
                        (1, 0): np.lib.format.read_array_header_1_0,
                        (2, 0): np.lib.format.read_array_header_2_0,
                    }[version]
                    headers[key] = read(member)
    rows = sum(headers[key][0][0] for key in ("X_train", "X_test") if key in headers)
    return rows, headers["X_train"][0][1], infer_task(headers["y_train"][2])

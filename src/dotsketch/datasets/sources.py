"""Where a name is found: the folder, the cache, scikit-learn."""

from __future__ import annotations

import difflib
import os
from pathlib import Path

from sklearn import datasets as bundled

from .base import Dataset, DatasetError, DatasetInfo, make_dataset
from .folder import check_folder, data_file, describe, names_in, read_dataset, read_manifest
from .openml import CATALOGUE, cache_folder

# name -> (function of scikit-learn, facts); these need no network
BUNDLED = {
    "breast_cancer": (bundled.load_breast_cancer, ("classification", 569, 30, 2)),
    "diabetes": (bundled.load_diabetes, ("regression", 442, 10, None)),
    "digits": (bundled.load_digits, ("classification", 1797, 64, 10)),
    "iris": (bundled.load_iris, ("classification", 150, 4, 3)),
    "wine": (bundled.load_wine, ("classification", 178, 13, 3)),
}


def load_dataset(name: str, *, folder: str | os.PathLike[str] | None = None) -> Dataset:
    """A data set by its name, from the first place that has it (see `dotsketch.datasets`).

    >>> load_dataset("iris").X.shape
    (150, 4)
    """
    place = _place_of(name, folder)
    if place is not None:
        return read_dataset(place, name)
    if name in BUNDLED:
        X, y = BUNDLED[name][0](return_X_y=True)
        return make_dataset(name, BUNDLED[name][1][0], {"X_train": X, "y_train": y})
    raise _missing(name, folder)


def dataset_path(name: str, *, folder: str | os.PathLike[str] | None = None) -> Path:
    """The npz file of a set in the folder or in the cache."""
    place = _place_of(name, folder)
    if place is not None:
        return data_file(place, name, read_manifest(place).get(name, {}))
    if name in BUNDLED:
        raise DatasetError(f"{name!r} comes with scikit-learn and has no npz file.")
    raise _missing(name, folder)


def list_datasets(folder: str | os.PathLike[str] | None = None) -> list[DatasetInfo]:
    """Every known set, sorted by name, each with the place `load_dataset` would read."""
    found: dict[str, DatasetInfo] = {}
    for place, where in _places(folder):
        for name in names_in(place):
            found.setdefault(name, describe(place, name, where))
    for name, (_, facts) in BUNDLED.items():
        found.setdefault(name, DatasetInfo(name, *facts, "scikit-learn", True))
    for name, entry in CATALOGUE.items():
        sizes = (entry.rows, entry.dimension, entry.classes)
        found.setdefault(name, DatasetInfo(name, entry.task, *sizes, "OpenML", False))
    return sorted(found.values(), key=lambda info: info.name)


def _places(folder: str | os.PathLike[str] | None) -> list[tuple[Path, str]]:
    """The folders to look in, first to last, and what `DatasetInfo.where` calls them."""
    places = []
    given = folder if folder is not None else os.environ.get("DOTSKETCH_DATA")
    if given:
        places.append((check_folder(given), "folder"))
    if cache_folder().is_dir():
        places.append((cache_folder(), "OpenML"))
    return places


def _place_of(name: str, folder: str | os.PathLike[str] | None) -> Path | None:
    """The first folder that has the name."""
    return next((place for place, _ in _places(folder) if name in names_in(place)), None)


def _missing(name: str, folder: str | os.PathLike[str] | None) -> DatasetError:
    """Why a name is not here, and what to do."""
    if name in CATALOGUE:
        return DatasetError(
            f'{name!r} is on OpenML and not here yet: fetch it with fetch_dataset("{name}"), or '
            "give a folder that has it by DOTSKETCH_DATA."
        )
    infos = list_datasets(folder)
    close = difflib.get_close_matches(str(name), [info.name for info in infos], n=3)
    here = ", ".join(info.name for info in infos if info.available)
    hint = f"did you mean {' or '.join(close)}?" if close else f"there are {here}."
    return DatasetError(f"There is no data set {name!r}; {hint}")

"""`save`, `load` and `read_info`: from an estimator to a file, and back."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .._versions import installed_versions
from .container import FORMAT, PersistenceError, read, write
from .objects import known_classes
from .values import Decoder, Encoder


def save(estimator: Any, path: str | os.PathLike[str], *, classes: Iterable[type] = ()) -> None:
    """Write a fitted (or unfitted) estimator to a file, which replaces an older one at once.

    Parameters
    ----------
    estimator : an estimator or kernel of dotsketch, a pipeline of such with scikit-learn's
        preprocessing, or a list, tuple or dictionary of these and of plain values
    path : where; the folder must exist
    classes : classes of your own that the estimator holds (`load` has to be given them, too)

    Raises PersistenceError if there is something in it that has no plain form (a function, say) or
    that `load` would refuse, and OSError if the file cannot be written; an older file then stays as
    it was.
    """
    classes = tuple(classes)
    known = known_classes(classes)
    encoder = Encoder(known)
    tree = {
        "versions": written_versions(),
        "value": encoder.encode(estimator, type(estimator).__name__),
        "classes": sorted(encoder.names),
    }
    try:  # what load does, so that nothing is saved that it refuses
        Decoder(known, encoder.arrays.__getitem__, classes).decode(tree["value"])
    except Exception as error:
        raise PersistenceError(f"{type(estimator).__name__} cannot be saved. {error}") from error
    write(path, tree, encoder.arrays)


def load(path: str | os.PathLike[str], *, classes: Iterable[type] = ()) -> Any:
    """The estimator in a file. Nothing that the file chooses is executed.

    Raises PersistenceError if the file is damaged, was changed, is of a newer format or holds
    something unknown, and OSError if it cannot be read.
    """
    # Read once: nothing can change between check and use
    return load_bytes(Path(path).read_bytes(), path, classes)


def load_bytes(data: bytes, name: str | os.PathLike[str], classes: Iterable[type] = ()) -> Any:
    """The value in the bytes of a file, whose name is for messages; raises as `load` does."""
    with _reading(data, name) as (tree, read_array):
        classes = tuple(classes)
        return Decoder(known_classes(classes), read_array, classes).decode(tree["value"])


def read_info(path: str | os.PathLike[str]) -> dict[str, Any]:
    """What a file says of itself, without building anything.

    format, size (bytes), versions (of the libraries that wrote it) and classes (their names).
    """
    data = Path(path).read_bytes()
    with _reading(data, path) as (tree, _):
        head = {"versions": tree["versions"], "classes": tree["classes"]}
        return {"format": FORMAT, "size": len(data), **head}


@contextmanager
def _reading(data: bytes, name: str | os.PathLike[str]) -> Iterator[tuple[dict[str, Any], Any]]:
    """The tree of a file and its arrays by number; whatever is wrong is a PersistenceError."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of parsers, on what is refused next
            tree, read_array = read(data)
            _check_head(tree)
            yield tree, read_array
    except PersistenceError as error:
        raise PersistenceError(f"{name} cannot be loaded. {error}") from None
    except Exception as error:  # parsers of untrusted bytes: whatever they raise is damage
        cause = " ".join(str(error).split())[:200]
        raise PersistenceError(
            f"{name} cannot be loaded. It is damaged: {type(error).__name__} {cause}"
        ) from error


def _check_head(tree: dict[str, Any]) -> None:
    """Raise unless the tree has versions, classes and a value."""
    versions, classes = tree.get("versions"), tree.get("classes")
    if (
        set(tree) != {"versions", "classes", "value"}
        or not isinstance(versions, dict)
        or not isinstance(classes, list)
        or not all(isinstance(text, str) for text in (*versions.values(), *classes))
    ):
        raise PersistenceError("The head of model.json is not that of a model.")


def written_versions() -> dict[str, str]:
    return installed_versions("dotsketch", "numpy", "scikit-learn")

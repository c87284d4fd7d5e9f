"""Model files with any content whose checksums are right, as an attacker would make them."""

from __future__ import annotations

import copy
import hashlib
import io
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from dotsketch.persistence import FORMAT, container
from dotsketch.persistence.files import written_versions
from dotsketch.persistence.objects import is_named_tuple, known_classes, state_of
from dotsketch.persistence.values import Encoder

__all__ = ["Encoder", "known_classes", "state_of"]  # for the tests
ARRAY = {"kind": "array", "number": 0}  # in a tree: the first array of the file
VERSIONS = written_versions()
UNSEALED = b"dotsketch-model format=%04d sha256=" % FORMAT + b"0" * container.DIGITS


def digest(head: bytes) -> bytes:
    return hashlib.sha256(head).hexdigest().encode()


def seal(data: bytes) -> bytes:
    """Bytes with a right checksum behind them."""
    head = data + UNSEALED[: -container.DIGITS]
    return head + digest(head)


def sealed(archive: bytes) -> bytes:
    """The archive with a checksum that is right."""
    head = archive[: -container.DIGITS]
    return head + digest(head)


def forge(path: Path, members: list[tuple[str, bytes]], **options: Any) -> None:
    """Write a sealed zip of any members, [(name, bytes)]."""
    path.write_bytes(archive_of(members, **options))


def archive_of(members: list[tuple[str, bytes]], *, compression: int = zipfile.ZIP_STORED) -> bytes:
    """The bytes of a sealed zip of any members, [(name, bytes)]."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        for name, data in members:
            archive.writestr(zipfile.ZipInfo(name), data, compression)
        archive.comment = UNSEALED
    return sealed(buffer.getvalue())


def tree_of(value: Any) -> bytes:
    """The text of model.json."""
    head = {"versions": {"scikit-learn": "1.0"}, "classes": []}
    return json.dumps(head | {"value": value}).encode()


def npy(array: np.ndarray, **changes: Any) -> bytes:
    """The bytes of an npy file, with its header's fields changed."""
    out = io.BytesIO()
    header = np.lib.format.header_data_from_array_1_0(array) | changes
    np.lib.format.write_array_header_1_0(out, header)
    return out.getvalue() + array.tobytes()


def obj(name: Any, **state: Any) -> dict[str, Any]:
    """An object in a tree."""
    return {"kind": "object", "class": name, "state": state}


def write(path: Path, value: Any) -> None:
    """Write a file of the value, without the checks of `save`."""
    path.write_bytes(bytes_of(value, Encoder(known_classes())))


def bytes_of(value: Any, encoder: Encoder) -> bytes:
    """The bytes of a file of the value."""
    node = encoder.encode(value, "value")
    file = io.BytesIO()
    tree = {"versions": VERSIONS, "value": node, "classes": []}
    container.write_to(file, tree, encoder.arrays)
    return file.getvalue()


def write_changed(path: Path, estimator: Any, **changes: Any) -> None:
    """Write a file of the estimator with other attributes."""
    estimator = copy.deepcopy(estimator)
    vars(estimator).update(changes)
    write(path, estimator)


def write_tree(path: Path, value: Any) -> None:
    """Write a file of a tree that no encoder made."""
    container.write(path, {"versions": {}, "value": value, "classes": []}, [])


def changed(value: Any, **changes: Any) -> Any:
    """A copy of a named tuple or dataclass with other fields, without its own checks."""
    if is_named_tuple(type(value)):
        return value._replace(**changes)
    result = copy.copy(value)
    for name, change in changes.items():
        object.__setattr__(result, name, change)
    return result


def write_state(path: Path, estimator: Any, **changes: Any) -> None:
    """Write a file of the estimator whose state in the tree has other values."""
    encoder = Encoder(known_classes())
    tree = encoder.encode(estimator, "estimator")
    tree["state"] |= {name: encoder.encode(value, name) for name, value in changes.items()}
    members = [(f"arrays/{k}.npy", npy(array)) for k, array in enumerate(encoder.arrays)]
    forge(path, [("model.json", tree_of(tree)), *members])

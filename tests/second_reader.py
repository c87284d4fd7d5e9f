"""A reader of model files, written from docs/persistence.md alone: no code of dotsketch, no NumPy.

Objects become `(class name, {attribute: value})`, arrays `Array(descr, shape, fortran, bytes)`.
"""

import ast
import hashlib
import json
import math
import struct
from typing import NamedTuple

SEAL = b"dotsketch-model format=0001 sha256="


class Array(NamedTuple):
    descr: str
    shape: tuple
    fortran: bool
    data: bytes


class Refused(ValueError):
    pass


def read(path):
    """The head of a model (versions, classes) and its value."""
    with open(path, "rb") as file:
        data = file.read()
    if data[-64 - len(SEAL) : -64] != SEAL:
        raise Refused("no seal")
    if hashlib.sha256(data[:-64]).hexdigest().encode() != data[-64:]:
        raise Refused("checksum")
    members = dict(read_members(data))
    names = ["model.json", *(f"arrays/{k}.npy" for k in range(len(members) - 1))]
    if list(members) != names:
        raise Refused("members")
    tree = json.loads(members["model.json"].decode(), object_pairs_hook=unique)
    if set(tree) != {"versions", "classes", "value"}:
        raise Refused("head")
    return tree, value_of(tree["value"], members)


def read_members(data):
    """(name, bytes) of every member, read from the front: there is nothing else in the file."""
    at = 0
    while data[at : at + 4] == b"PK\x03\x04":
        _, flags, method, _, _, _, packed, size, name_bytes, extra_bytes = struct.unpack_from(
            "<5H3L2H", data, at + 4
        )
        if flags & 0x9 or method != 0 or extra_bytes not in (0, 20):
            raise Refused("header")
        at += 30
        name = data[at : at + name_bytes].decode()
        at += name_bytes
        if extra_bytes:
            kind, _, size, packed = struct.unpack_from("<2H2Q", data, at)
            if kind != 1:
                raise Refused("extra field")
        at += extra_bytes
        if size != packed:
            raise Refused("compressed")
        yield name, data[at : at + size]
        at += size
    if data[at : at + 4] != b"PK\x01\x02":
        raise Refused("bytes between members and directory")


def unique(pairs):
    if len(dict(pairs)) != len(pairs):
        raise Refused("a name twice")
    return dict(pairs)


def array_of(data):
    if data[:8] != b"\x93NUMPY\x01\x00":
        raise Refused("npy")
    (length,) = struct.unpack_from("<H", data, 8)
    header = ast.literal_eval(data[10 : 10 + length].decode("latin1"))
    numbers = data[10 + length :]
    kind, width = header["descr"][1], int(header["descr"][2:])
    width *= 4 if kind == "U" else 1
    if kind not in "biufcUS" or math.prod(header["shape"]) * width != len(numbers):
        raise Refused("array")
    return Array(header["descr"], header["shape"], header["fortran_order"], numbers)


KEYS = {
    "array": {"number"}, "scalar": {"dtype", "bits"}, "float": {"value"},
    "tuple": {"items"}, "dict": {"items"},
    "object_array": {"shape", "items"}, "sparse": {"name", "shape", "items"},
    "random_state": {"state"}, "generator": {"state"}, "object": {"class", "state"},
}  # fmt: skip


def value_of(node, members, depth=0):
    """The value of a node of the tree."""
    if depth > 60:
        raise Refused("depth")

    def inner(child):
        return value_of(child, members, depth + 1)

    if isinstance(node, list):
        return [inner(child) for child in node]
    if not isinstance(node, dict):
        return node
    kind = node.get("kind")
    if kind not in KEYS or set(node) != KEYS[kind] | {"kind"}:
        raise Refused(f"kind {kind}")
    if kind == "array":
        return array_of(members[f"arrays/{node['number']}.npy"])
    if kind == "scalar":
        return Array(node["dtype"], (), False, bytes.fromhex(node["bits"]))
    if kind == "float":
        return float(node["value"])
    if kind == "tuple":
        return tuple(inner(node["items"]))
    if kind == "dict":
        return dict(map(tuple, inner(node["items"])))
    if kind == "object":
        return node["class"], {name: inner(child) for name, child in node["state"].items()}
    return (kind, *(inner(node[key]) for key in sorted(KEYS[kind])))

"""Values from a tree of JSON and arrays: the inverse of `encoding`, trusting nothing.

Every kind of node has one function here, with the fields that it must have; a tree that has
anything else is refused. No function calls what the file chooses.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .checks import check
from .encoding import COLLECTIONS, MAX_DEPTH, NUMPY_TYPES, PYTHON_TYPES, SPARSE, is_numeric
from .errors import PersistenceError
from .random_states import generator_of, random_state_of
from .registry import Registry, rebuild

MAX_COLLISIONS = 16  # keys of one dictionary with the same hash
FLOATS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


class Decoder:
    """Trees to values. `read_array` gives the array of a number; `names` collects the classes."""

    def __init__(self, registry: Registry, read_array: Callable[[int], np.ndarray]):
        self.registry = registry
        self.names: set[str] = set()
        self._read_array = read_array
        self._arrays: dict[int, np.ndarray] = {}

    def decode(self, node: Any, depth: int = 0) -> Any:
        if depth > MAX_DEPTH:
            raise PersistenceError("The values are nested too deeply.")
        if not isinstance(node, (dict, list)):
            return node
        if isinstance(node, list):
            return [self.decode(item, depth + 1) for item in node]
        kind = node.get("kind")
        fields, function = DECODERS.get(kind if isinstance(kind, str) else "", ((), None))
        if function is None or set(node) != {"kind", *fields}:
            raise PersistenceError(f"There is no value of kind {kind!r} with {sorted(node)}.")
        return function(self, *(node[field] for field in fields), depth + 1)

    def items(self, node: Any, depth: int, count: int | None = None) -> list[Any]:
        """The values of a list, so many if that is fixed."""
        if not isinstance(node, list) or (count is not None and len(node) != count):
            raise PersistenceError("A list of values has the wrong length, or is none.")
        return [self.decode(item, depth) for item in node]

    def array(self, number: Any, depth: int) -> np.ndarray:
        if type(number) is not int:
            raise PersistenceError(f"There is no array {number!r}.")
        if number not in self._arrays:
            self._arrays[number] = self._read_array(number)
        return self._arrays[number]

    def object_array(self, shape: Any, items: Any, depth: int) -> np.ndarray:
        values = self.items(items, depth)
        _check_shape(shape)
        if math.prod(shape) != len(values):
            raise PersistenceError(f"An array of shape {shape} has {len(values)} values.")
        array = np.empty(len(values), dtype=object)
        for i, value in enumerate(values):  # a slice would look into values that are sequences
            array[i] = value
        return array.reshape(shape)

    def sparse(self, name: Any, shape: Any, items: Any, depth: int) -> Any:
        arrays = self.items(items, depth, count=3)
        _check_shape(shape)
        if not all(isinstance(a, np.ndarray) and a.ndim == 1 for a in arrays) or not (
            is_numeric(arrays[0].dtype) and arrays[1].dtype.kind == arrays[2].dtype.kind == "i"
        ):
            raise PersistenceError("The arrays of a sparse matrix are of the wrong kind.")
        matrix = SPARSE[name](tuple(arrays), shape=shape)
        matrix.check_format(full_check=True)  # SciPy's own code would trust the indices
        return matrix

    def scalar(self, dtype: Any, bits: Any, depth: int) -> Any:
        found = np.dtype(str(dtype))
        data = bytes.fromhex(bits)
        if not is_numeric(found) or len(data) != found.itemsize:
            raise PersistenceError(f"{len(data)} bytes are no scalar of dtype {dtype!r}.")
        return np.frombuffer(data, dtype=found).astype(found.newbyteorder("="))[0]

    def float(self, value: Any, depth: int) -> float:
        return FLOATS[value]

    def complex(self, items: Any, depth: int) -> complex:
        return complex(*self.items(items, depth, count=2))

    def dict(self, items: Any, depth: int) -> dict[Any, Any]:
        pairs = self.items(items, depth)
        _check_hashes([key for key, _ in pairs])
        found = dict(pairs)
        if len(found) != len(pairs):
            raise PersistenceError("A dictionary has a key twice.")
        return found

    def slice(self, items: Any, depth: int) -> slice:
        return slice(*self.items(items, depth, count=3))

    def dtype(self, name: Any, depth: int) -> np.dtype:
        found = np.dtype(str(name))
        if not is_numeric(found) and found.kind not in "OUS":
            raise PersistenceError(f"The dtype {name!r} is not one of a model.")
        return found

    def object(self, name: Any, state: Any, depth: int) -> Any:
        cls = self.registry.find(name)
        self.names.add(name)
        if not isinstance(state, dict):
            raise PersistenceError(f"The state of {name} is no object.")
        values = {key: self.decode(v, depth) for key, v in state.items()}
        instance = rebuild(cls, values)
        if name not in self.registry.trusted:
            check(name, instance, values)
        return instance

    def random_state(self, state: Any, depth: int) -> np.random.RandomState:
        return random_state_of(self.decode(state, depth))

    def generator(self, state: Any, depth: int) -> np.random.Generator:
        return generator_of(self.decode(state, depth))


def _check_shape(shape: Any) -> None:
    if not isinstance(shape, list) or not all(type(n) is int and n >= 0 for n in shape):
        raise PersistenceError(f"{shape!r} is no shape.")


def _check_hashes(keys: list[Any]) -> None:
    """Raise for keys chosen to collide: each would be compared with all that came before."""
    hashes = sorted(hash(key) for key in keys)
    if any(a == b for a, b in zip(hashes, hashes[MAX_COLLISIONS:], strict=False)):
        raise PersistenceError("The keys of a dictionary or set collide.")


def _collection(cls: Any) -> Callable[..., Any]:
    def collect(decoder: Decoder, items: Any, depth: int) -> Any:
        found = decoder.items(items, depth)
        if cls is not tuple:
            _check_hashes(found)
        return cls(found)

    return collect


def _named(types: dict[str, Any]) -> Callable[..., Any]:
    return lambda decoder, name, depth: types[name]


DECODERS: dict[str, tuple[tuple[str, ...], Callable[..., Any] | None]] = {
    "array": (("number",), Decoder.array),
    "complex": (("items",), Decoder.complex),
    "dict": (("items",), Decoder.dict),
    "dtype": (("name",), Decoder.dtype),
    "float": (("value",), Decoder.float),
    "generator": (("state",), Decoder.generator),
    "numpy_type": (("name",), _named(NUMPY_TYPES)),
    "object": (("class", "state"), Decoder.object),
    "object_array": (("shape", "items"), Decoder.object_array),
    "python_type": (("name",), _named(PYTHON_TYPES)),
    "random_state": (("state",), Decoder.random_state),
    "scalar": (("dtype", "bits"), Decoder.scalar),
    "slice": (("items",), Decoder.slice),
    "sparse": (("name", "shape", "items"), Decoder.sparse),
    **{name: (("items",), _collection(cls)) for name, cls in COLLECTIONS.items()},
}

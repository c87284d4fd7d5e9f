"""Values as a tree of JSON and a list of arrays.

None, booleans, integers, finite floats, strings and lists are themselves. Everything else is an
object `{"kind": …, …}`; `decoding.DECODERS` names all kinds there are. NumPy scalars are stored by
their bits; arrays of strings and other objects, which `.npy` would pickle, as lists; sparse rows
(CSR) by their three arrays. Arrays of other libraries are stored as NumPy arrays, their scalars as
numbers.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.sparse

from .._arrays import host, is_foreign, is_traced
from .errors import PersistenceError
from .random_states import generator_state, random_state_state
from .registry import Registry, state_of

MAX_DEPTH = 60
NUMPY_TYPES = {
    t.__name__: t
    for t in (
        np.bool_, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64,
        np.float16, np.float32, np.float64, np.complex64, np.complex128, np.str_, np.object_,
    )
}  # fmt: skip
PYTHON_TYPES = {t.__name__: t for t in (bool, int, float, complex, str, object)}
SPARSE = {t.__name__: t for t in (scipy.sparse.csr_array, scipy.sparse.csr_matrix)}
COLLECTIONS = {t.__name__: t for t in (tuple, set, frozenset)}
# Dtypes that mean the same on every machine: no long double, no objects, no structures
DTYPES = {np.dtype(t).str[1:] for t in NUMPY_TYPES.values() if t not in (np.str_, np.object_)}


def is_numeric(dtype: np.dtype) -> bool:
    """Whether scalars of a dtype are stored by their bits."""
    return dtype.str[1:] in DTYPES


def is_storable(dtype: np.dtype) -> bool:
    """Whether arrays of a dtype are stored as `.npy`."""
    return is_numeric(dtype) or (dtype.kind in "US" and dtype.itemsize > 0)


class Encoder:
    """Values to trees. `arrays` collects the arrays, each once, and `names` the classes."""

    def __init__(self, registry: Registry):
        self.registry = registry
        self.arrays: list[np.ndarray] = []
        self.names: set[str] = set()
        self._numbers: dict[int, int] = {}  # id of an array -> its place in `arrays`

    def encode(self, value: Any, where: str, depth: int = 0) -> Any:
        """The tree of a value; `where` is what messages call it."""
        if depth > MAX_DEPTH:
            raise PersistenceError(f"{where[:80]}… is nested too deeply, or refers to itself.")
        if value is None or type(value) in (bool, int, str):
            return value
        if type(value) is float:
            return value if math.isfinite(value) else {"kind": "float", "value": repr(value)}
        if type(value) is complex:
            parts = self.encode([value.real, value.imag], where, depth + 1)
            return {"kind": "complex", "items": parts}
        if isinstance(value, (np.generic, np.ndarray)):
            return self._array(value, where, depth)
        if is_foreign(value) and not isinstance(value, type):  # NumPy's types look like arrays
            if is_traced(value):
                raise PersistenceError(f"{where} is an array without values: it is being traced.")
            array = host(value)
            return self.encode(array if array.ndim else array.item(), where, depth)
        return self._collection(value, where, depth)

    def _array(self, value: Any, where: str, depth: int) -> Any:
        if isinstance(value, np.str_):
            return str(value)
        if isinstance(value, np.generic) and is_numeric(value.dtype):
            dtype = value.dtype.newbyteorder("<")
            bits = np.asarray(value, dtype=dtype).tobytes().hex()
            return {"kind": "scalar", "dtype": dtype.str, "bits": bits}
        if isinstance(value, np.ndarray) and value.dtype.kind == "O":
            items = self.encode(value.ravel().tolist(), where, depth + 1)
            return {"kind": "object_array", "shape": list(value.shape), "items": items}
        is_plain = isinstance(value, np.ndarray) and not isinstance(value, np.ma.MaskedArray)
        if not is_plain or not is_storable(value.dtype):
            raise PersistenceError(
                f"{where} is a {type(value).__name__} of dtype {value.dtype}, which has no plain "
                "form; convert it."
            )
        if id(value) not in self._numbers:
            self._numbers[id(value)] = len(self.arrays)
            self.arrays.append(value)  # which keeps its id its own
        return {"kind": "array", "number": self._numbers[id(value)]}

    def _collection(self, value: Any, where: str, depth: int) -> Any:
        cls = type(value)
        if cls is list or cls in COLLECTIONS.values():
            ordered = sorted(value, key=repr) if cls in (set, frozenset) else value
            items = [self.encode(v, f"{where}[{i}]", depth + 1) for i, v in enumerate(ordered)]
            return items if cls is list else {"kind": cls.__name__, "items": items}
        if cls is dict:
            pairs = [[k, v] for k, v in value.items()]
            items = [self.encode(pair, f"{where}[{pair[0]!r}]", depth + 1) for pair in pairs]
            return {"kind": "dict", "items": items}
        if cls in SPARSE.values():
            parts = self.encode([value.data, value.indices, value.indptr], where, depth + 1)
            shape = [int(n) for n in value.shape]
            return {"kind": "sparse", "name": cls.__name__, "shape": shape, "items": parts}
        if cls is slice:
            parts = [value.start, value.stop, value.step]
            return {"kind": "slice", "items": self.encode(parts, where, depth + 1)}
        if isinstance(value, np.dtype) and (is_numeric(value) or value.kind in "OUS"):
            return {"kind": "dtype", "name": value.str}
        for kind, types in (("numpy_type", NUMPY_TYPES), ("python_type", PYTHON_TYPES)):
            name = getattr(value, "__name__", "")
            if isinstance(value, type) and types.get(name) is value:
                return {"kind": kind, "name": name}
        for generator, kind, state_of_generator in (
            (np.random.RandomState, "random_state", random_state_state),
            (np.random.Generator, "generator", generator_state),
        ):
            if cls is generator:
                state = state_of_generator(value, where)
                return {"kind": kind, "state": self.encode(state, where, depth + 1)}
        return self._object(value, where, depth)

    def _object(self, value: Any, where: str, depth: int) -> Any:
        name = self.registry.names.get(type(value))
        if name is None:
            kind = f"{type(value).__module__}.{type(value).__qualname__}"
            raise PersistenceError(
                f"{where} is a {kind}, which cannot be saved: arrays, plain values, classes of "
                "dotsketch and scikit-learn's preprocessing can. A class of your own is passed as "
                "classes=(Class,) to save and to load."
            )
        self.names.add(name)
        state = {
            key: self.encode(v, f"{where}.{key}", depth + 1) for key, v in state_of(value).items()
        }
        return {"kind": "object", "class": name, "state": state}

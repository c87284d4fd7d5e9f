"""Values as a tree of JSON and a list of arrays, and back: trusting nothing.

None, booleans, integers, finite floats, strings and lists are themselves. Everything else is an
object `{"kind": …, …}`; `KINDS` names all that there are, and a tree with anything else is refused.
NumPy scalars are stored by their bits; arrays of strings and other objects, which `.npy` would
pickle, as lists; sparse rows (CSR) by their three arrays; instances by the name of their class and
their attributes (`objects`). Arrays of other libraries are stored as NumPy arrays.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse

from .._arrays import host, is_foreign, is_traced
from .container import DTYPES, PersistenceError, is_storable
from .objects import check, rebuild, state_of

MAX_DEPTH = 60
MAX_COLLISIONS = 16  # keys of one dictionary with the same hash
WORDS = 624  # of the state of the Mersenne twister
SPARSE = {t.__name__: t for t in (scipy.sparse.csr_array, scipy.sparse.csr_matrix)}


class Encoder:
    """Values to trees. `arrays` collects the arrays, each once, and `names` the classes."""

    def __init__(self, classes: dict[str, type]):
        self._class_names = {cls: name for name, cls in classes.items()}
        self.arrays: list[np.ndarray] = []
        self.names: set[str] = set()
        self._numbers: dict[int, int] = {}  # id of an array -> its place in `arrays`

    def encode(self, value: Any, where: str, depth: int = 0) -> Any:
        """The tree of a value; `where` is what messages call it."""
        if depth > MAX_DEPTH:
            raise PersistenceError(f"{where[:80]}… is nested too deeply, or refers to itself.")

        def inner(part: Any) -> Any:
            return self.encode(part, where, depth + 1)

        cls = type(value)
        if value is None or cls in (bool, int, str):
            return value
        if cls is float:
            return value if math.isfinite(value) else {"kind": "float", "value": repr(value)}
        if isinstance(value, (np.generic, np.ndarray)):
            return self._array(value, where, depth)
        if is_foreign(value) and not isinstance(value, type):  # NumPy's types look like arrays
            if is_traced(value):
                raise PersistenceError(f"{where} is an array without values: it is being traced.")
            values = host(value)
            return inner(values if values.ndim else values.item())
        if cls in (list, tuple):
            items = [self.encode(v, f"{where}[{i}]", depth + 1) for i, v in enumerate(value)]
            return items if cls is list else {"kind": "tuple", "items": items}
        if cls is dict:
            return {"kind": "dict", "items": [inner([key, v]) for key, v in value.items()]}
        if cls in SPARSE.values():
            parts = inner([value.data, value.indices, value.indptr])
            shape = [int(n) for n in value.shape]
            return {"kind": "sparse", "name": cls.__name__, "shape": shape, "items": parts}
        if cls is np.random.RandomState:
            return {"kind": "random_state", "state": inner(_twister_state(value, where))}
        if cls is np.random.Generator:
            return {"kind": "generator", "state": inner(_generator_state(value, where))}
        name = self._class_names.get(cls)
        if name is None:
            raise PersistenceError(
                f"{where} is a {cls.__module__}.{cls.__qualname__}, which cannot be saved: arrays, "
                "plain values, classes of dotsketch and some of scikit-learn can. A class of your "
                "own is passed as classes=(Class,) to save and to load."
            )
        self.names.add(name)
        state = self.state_of(name, value)
        tree = {key: self.encode(v, f"{where}.{key}", depth + 1) for key, v in state.items()}
        return {"kind": "object", "class": name, "state": tree}

    def state_of(self, name: str, value: Any) -> dict[str, Any]:
        """The attributes of an instance of a class; the fuzz targets change them."""
        return state_of(value)

    def _array(self, value: Any, where: str, depth: int) -> Any:
        if isinstance(value, np.str_):
            return str(value)
        if isinstance(value, np.generic) and value.dtype.str[1:] in DTYPES:
            dtype = value.dtype.newbyteorder("<")
            bits = np.asarray(value, dtype=dtype).tobytes().hex()
            return {"kind": "scalar", "dtype": dtype.str, "bits": bits}
        if isinstance(value, np.ndarray) and value.dtype.kind == "O":
            items = self.encode(value.ravel().tolist(), where, depth + 1)
            return {"kind": "object_array", "shape": list(value.shape), "items": items}
        is_plain = isinstance(value, np.ndarray) and not isinstance(value, np.ma.MaskedArray)
        if not is_plain or not is_storable(value.dtype):
            kind = f"{type(value).__name__} of dtype {value.dtype}"
            raise PersistenceError(f"{where} is a {kind}, which has no plain form; convert it.")
        if id(value) not in self._numbers:
            self._numbers[id(value)] = len(self.arrays)
            self.arrays.append(value)  # which keeps its id its own
        return {"kind": "array", "number": self._numbers[id(value)]}


class Decoder:
    """Trees to values. `read_array` gives the array of a number; `trusted` are not checked."""

    def __init__(
        self,
        classes: dict[str, type],
        read_array: Callable[[int], np.ndarray],
        trusted: tuple[type, ...] = (),
    ):
        self._classes, self._trusted = classes, trusted
        self._read_array = read_array
        self._arrays: dict[int, np.ndarray] = {}

    def decode(self, node: Any, depth: int = 0) -> Any:
        if depth > MAX_DEPTH:
            raise PersistenceError("The values are nested too deeply.")
        if isinstance(node, list):
            return [self.decode(item, depth + 1) for item in node]
        if not isinstance(node, dict):
            return node
        kind = node.get("kind")
        if not isinstance(kind, str) or set(node) != {"kind", *KINDS.get(kind, ("no such kind",))}:
            raise PersistenceError(f"There is no value of kind {kind!r} with {sorted(node)}.")
        fields = {name: node[name] for name in KINDS[kind]}
        if kind not in ("array", "scalar", "float"):  # whose fields are plain
            for name in ("items", "state"):
                if name in fields and kind != "object":
                    fields[name] = self.decode(fields[name], depth + 1)
        if "items" in fields and not isinstance(fields["items"], list):
            raise PersistenceError(f"The values of a {kind} are not a list.")
        if "shape" in fields and not (
            isinstance(fields["shape"], list)
            and all(type(n) is int and n >= 0 for n in fields["shape"])
        ):
            raise PersistenceError(f"{fields['shape']!r} is not a shape.")
        if kind == "object":
            return self._object(fields["class"], fields["state"], depth)
        return getattr(self, f"_{kind}")(**fields)

    def _array(self, number: Any) -> np.ndarray:
        if type(number) is not int:
            raise PersistenceError(f"There is no array {number!r}.")
        if number not in self._arrays:
            self._arrays[number] = self._read_array(number)
        return self._arrays[number]

    def _dict(self, items: list[Any]) -> dict[Any, Any]:
        hashes = sorted(hash(key) for key, _ in items)
        # each of them would be compared with all that came before
        if any(a == b for a, b in zip(hashes, hashes[MAX_COLLISIONS:], strict=False)):
            raise PersistenceError("The keys of a dictionary collide.")
        if len(dict(items)) != len(items):
            raise PersistenceError("A dictionary has a key twice.")
        return dict(items)

    def _float(self, value: Any) -> float:
        return {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}[value]

    def _generator(self, state: Any) -> np.random.Generator:
        if not 4 <= state["pool_size"] <= 64:
            raise PersistenceError("A Generator in the file has no valid state.")
        bits = np.random.PCG64(
            np.random.SeedSequence(
                state["entropy"],
                spawn_key=state["spawn_key"],
                pool_size=state["pool_size"],
                n_children_spawned=state["n_children_spawned"],
            )
        )
        bits.state = state["state"]
        return np.random.Generator(bits)

    def _object(self, name: Any, state: Any, depth: int) -> Any:
        if not isinstance(name, str) or name not in self._classes or not isinstance(state, dict):
            raise PersistenceError(
                f"The file holds a {name!r}, which is no class of dotsketch or scikit-learn that "
                "files hold. Fit and save it again if another version made it; a class of your own "
                "is passed as classes=(Class,)."
            )
        cls = self._classes[name]
        values = {key: self.decode(v, depth + 1) for key, v in state.items()}
        instance = rebuild(cls, values)
        if cls not in self._trusted:
            check(instance, values)
        return instance

    def _object_array(self, shape: list[int], items: list[Any]) -> np.ndarray:
        if math.prod(shape) != len(items):
            raise PersistenceError(f"An array of shape {shape} has {len(items)} values.")
        array = np.empty(len(items), dtype=object)
        for i, value in enumerate(items):  # a slice would look into values that are sequences
            array[i] = value
        return array.reshape(shape)

    def _random_state(self, state: Any) -> np.random.RandomState:
        key, position = state["state"]["key"], state["state"]["pos"]
        # NumPy does not check the counter, which indexes its memory
        if key.shape != (WORDS,) or key.dtype != np.uint32 or not 0 <= position <= WORDS:
            raise PersistenceError("A RandomState in the file has no valid state.")
        result = np.random.RandomState()
        result.set_state(state)
        return result

    def _scalar(self, dtype: Any, bits: Any) -> Any:
        kind, data = np.dtype(str(dtype)), bytes.fromhex(bits)
        if kind.str[1:] not in DTYPES or len(data) != kind.itemsize:
            raise PersistenceError(f"{len(data)} bytes are no scalar of dtype {dtype!r}.")
        return np.frombuffer(data, dtype=kind).astype(kind.newbyteorder("="))[0]

    def _sparse(self, name: Any, shape: list[int], items: list[Any]) -> Any:
        data, *indices = items
        if not all(isinstance(a, np.ndarray) and a.ndim == 1 for a in items) or not (
            data.dtype.str[1:] in DTYPES and [a.dtype.kind for a in indices] == ["i", "i"]
        ):
            raise PersistenceError("The arrays of a sparse matrix are of the wrong kind.")
        matrix = SPARSE[name](tuple(items), shape=shape)
        matrix.check_format(full_check=True)  # SciPy's own code would trust the indices
        return matrix

    def _tuple(self, items: list[Any]) -> tuple[Any, ...]:
        return tuple(items)


KINDS = {
    "array": ("number",),
    "dict": ("items",),
    "float": ("value",),
    "generator": ("state",),
    "object": ("class", "state"),
    "object_array": ("shape", "items"),
    "random_state": ("state",),
    "scalar": ("dtype", "bits"),
    "sparse": ("name", "shape", "items"),
    "tuple": ("items",),
}


def _twister_state(value: np.random.RandomState, where: str) -> dict[str, Any]:
    state: Any = value.get_state(legacy=False)
    if not isinstance(state, dict) or state["bit_generator"] != "MT19937":
        raise PersistenceError(f"{where} is a RandomState of another bit generator than MT19937.")
    return state


def _generator_state(value: np.random.Generator, where: str) -> dict[str, Any]:
    """The state, and that of the sequence of seeds, from which `spawn` draws."""
    bits, seeds = value.bit_generator, value.bit_generator.seed_seq
    if type(bits) is not np.random.PCG64 or type(seeds) is not np.random.SeedSequence:
        raise PersistenceError(f"{where} is a Generator that default_rng does not make.")
    return {
        "state": bits.state,
        "entropy": seeds.entropy,
        "spawn_key": list(seeds.spawn_key),
        "pool_size": seeds.pool_size,
        "n_children_spawned": seeds.n_children_spawned,
    }

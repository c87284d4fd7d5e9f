"""The array libraries that the tests run on, behind one small interface."""

import numpy as np
import pytest

NAMES = ("numpy", "torch", "jax", "array_api_strict")


class Library:
    """Arrays of one library: `asarray` makes them, `numpy` brings them back, `owns` knows them."""

    def __init__(self, name):
        self.name = name
        self.module = pytest.importorskip("jax.numpy" if name == "jax" else name)

    def asarray(self, values):
        return self.module.asarray(np.asarray(values))

    def numpy(self, array):
        assert self.owns(array), f"{type(array)} is no array of {self.name}"
        if self.name == "torch":
            return array.detach().resolve_conj().numpy()
        return np.from_dlpack(array) if self.name == "array_api_strict" else np.asarray(array)

    def owns(self, array):
        root = type(array).__module__.split(".")[0]
        roots = {"jax": ("jax", "jaxlib"), "array_api_strict": ("array_api_strict",)}
        return root in roots.get(self.name, (self.name,))

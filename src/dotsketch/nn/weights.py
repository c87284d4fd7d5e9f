"""Random weights as buffers or parameters of a module.

Weights are nested named tuples of NumPy arrays. Every array becomes a buffer, named after its place
(`weights_turns`), and `Weighted.weights` puts the tensors back into the same nest: they are part of
the `state_dict` and follow the module to other devices.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from copy import copy
from typing import Any

import numpy as np
import torch
from torch import nn

from .._arrays import as_generator, dense
from ..features import FeatureMap

PLACE = np.empty(0)  # where a tensor belongs in a nest
Seed = int | np.random.Generator | torch.Generator | None


def host_generator(generator: Seed) -> np.random.Generator:
    """A NumPy generator, seeded by torch (its global generator for None) unless one is given."""
    if generator is None or isinstance(generator, torch.Generator):
        device = "cpu" if generator is None else generator.device
        words = torch.randint(2**31 - 1, (4,), generator=generator, device=device)
        return np.random.default_rng(words.tolist())
    return as_generator(generator)


def working_rows(x: torch.Tensor, width: int) -> torch.Tensor:  # (…, d) -> (n, d)
    """The rows of x in float64 if they are, otherwise in float32: products of half precision
    numbers would lose their digits."""
    if x.ndim == 0 or x.shape[-1] != width:
        raise ValueError(
            f"The last axis of x must have {width} entries; its shape is {tuple(x.shape)}."
        )
    dtype = torch.float64 if x.dtype == torch.float64 else torch.float32
    return x.reshape(-1, width).to(dtype)


def full_precision(x: torch.Tensor) -> AbstractContextManager[Any]:
    """No autocast: transforms are done in the dtype of `working_rows`."""
    return torch.autocast(x.device.type, enabled=False)


def replace_arrays(value: Any, path: str, function: Callable[[str, np.ndarray], Any]) -> Any:
    """A nest of lists, named tuples and feature maps, with function(path, array) for every array.

    What a named tuple lists in `on_host` stays as it is: code looks at its values. Sparse matrices
    become dense.
    """
    value = dense(value)
    if isinstance(value, np.ndarray):
        return function(path, value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        on_host = getattr(value, "on_host", ())
        fields = {
            name: field if name in on_host else replace_arrays(field, f"{path}_{name}", function)
            for name, field in zip(value._fields, value, strict=True)
        }
        return type(value)(**fields)
    if isinstance(value, (list, tuple)):
        return type(value)(
            replace_arrays(item, f"{path}_{i}", function) for i, item in enumerate(value)
        )
    if isinstance(value, FeatureMap):
        return replace_fitted(value, path, function)
    return value


def replace_fitted(
    features: FeatureMap, path: str, function: Callable[[str, np.ndarray], Any]
) -> FeatureMap:
    """A copy of fitted features with the arrays of their random weights replaced."""
    other = copy(features)
    parameters = features.get_params(deep=False)
    for name, value in vars(features).items():
        if name not in parameters and isinstance(value, (tuple, list, FeatureMap)):
            setattr(other, name, replace_arrays(value, f"{path}_{name.strip('_')}", function))
    return other


class Weighted(nn.Module):
    """A module whose buffers (or parameters) are the arrays of a nest of weights."""

    def register_weights(
        self, weights: Any, *, trainable: bool = False, dtype: torch.dtype | None = None
    ) -> None:
        self._trainable = trainable

        def register(path: str, array: np.ndarray) -> np.ndarray:
            tensor = torch.tensor(self._trained(path, array))
            if tensor.is_floating_point() and dtype is not None:
                tensor = tensor.to(dtype)
            if trainable and tensor.is_floating_point():
                self.register_parameter(path, nn.Parameter(tensor))
            else:
                self.register_buffer(path, tensor)
            return PLACE

        self._nest = replace_arrays(weights, "weights", register)
        if trainable and not any(True for _ in self.parameters()):
            raise ValueError(
                "trainable=True needs weights that are numbers or signs; these have none."
            )

    def _trained(self, path: str, array: np.ndarray) -> np.ndarray:
        """What stands for an array: signs that are trained become real numbers."""
        if not self._trainable:
            return array
        if path.endswith("turns"):
            if np.any(array % 2):
                raise ValueError('trainable=True is for real weights: use output="real".')
            return (1 - array).astype(np.float32)
        return array.astype(np.float32) if path.endswith("signs") else array

    def assembled(self) -> Any:
        """The nest of weights with the tensors of this module."""
        return replace_arrays(self._nest, "weights", lambda path, _: getattr(self, path))

    @torch.no_grad()
    def set_weights(self, weights: Any) -> None:
        """Copy the arrays of another draw into the buffers and parameters, in place."""

        def assign(path: str, array: np.ndarray) -> None:
            if array is not PLACE:  # what does not depend on the draw
                values = torch.tensor(self._trained(path, array))
                getattr(self, path).copy_(values)

        replace_arrays(weights, "weights", assign)

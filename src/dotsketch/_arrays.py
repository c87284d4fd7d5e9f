"""Array libraries: one code for NumPy, PyTorch, JAX and every other array API library.

Portable code asks an array for its namespace and calls only the array API standard. What the
standard does not offer stands here: moving host arrays to the library and device of another
array, and joining a real and an imaginary part.

Random numbers are always drawn by NumPy on the host, so that one seed gives the same features on
every library.
"""

from __future__ import annotations

import math
from typing import Any, TypeGuard, overload

import array_api_compat
import array_api_compat.numpy
import numpy as np
import scipy.sparse
from array_api_compat import is_cupy_array, is_jax_array, is_numpy_array, is_torch_array
from sklearn.utils import check_random_state

from ._typing import Array as Array
from ._typing import ArrayT as ArrayT
from ._typing import FloatArray as FloatArray
from ._typing import HostParts as HostParts
from ._typing import IntArray as IntArray
from ._typing import Parts as Parts

OUTPUTS = ("real", "complex", "complex_to_real")


def namespace(*arrays: Array | None) -> Any:
    """The array API namespace that all arrays (None is passed over) belong to."""
    kinds = set(map(type, arrays))
    if kinds == {np.ndarray}:  # the usual case, at once: one row is asked for it ten times
        return array_api_compat.numpy
    return array_api_compat.array_namespace(*[a for a in arrays if a is not None])


def is_sparse(X: object) -> TypeGuard[Any]:  # SciPy has no annotations
    return scipy.sparse.issparse(X)


def dense(X: ArrayT) -> ArrayT:
    """X, of which CSR rows are made dense."""
    return X.toarray() if is_sparse(X) else X


def share_of_entries(X: Any) -> float:
    """The share of entries of a sparse matrix that are stored; 1 for a dense one."""
    return X.nnz / max(X.shape[0] * X.shape[1], 1) if is_sparse(X) else 1.0


def is_foreign(X: Array) -> bool:
    """Whether X is an array of a library other than NumPy (torch, JAX, array-api-strict, …)."""
    return array_api_compat.is_array_api_obj(X) and not is_numpy_array(X) and not is_sparse(X)


def is_traced(X: Array) -> bool:
    """Whether X has no values to look at, as under `jax.jit` or `torch.compile`."""
    if is_jax_array(X):
        import jax

        return isinstance(X, jax.core.Tracer)
    if is_torch_array(X):
        import torch

        return torch.compiler.is_compiling() or torch._C._functorch.is_functorch_wrapped_tensor(X)
    return False


def like(values: Any, X: ArrayT) -> ArrayT:
    """`values` (of the host) in the library and on the device of X; floating ones in X's dtype."""
    moved: Any  # is of the library of X
    if is_sparse(X) or is_numpy_array(X):
        moved = np.asarray(values)
        return moved.astype(X.dtype, copy=False) if moved.dtype.kind == "f" else moved
    xp = namespace(X)
    if array_api_compat.is_array_api_obj(values) and not is_numpy_array(values):
        # Weights that are arrays of the library of X already: buffers of a module
        is_floating = xp.isdtype(values.dtype, "real floating")
        moved = xp.astype(values, X.dtype) if is_floating else values
        return moved
    dtype = X.dtype if values.dtype.kind == "f" else None
    if not values.flags.writeable:  # weights are read-only once prepared; torch warns of that
        values = values.copy()
    # torch and strict libraries index with 64-bit integers
    values = values.astype(np.int64) if values.dtype.kind in "iu" else values
    return xp.asarray(values, dtype=dtype, device=array_api_compat.device(X))


_NO_VALUES = (
    "An array inside of {} has no values, and these are needed here: features that look at the "
    "data (an allocation, landmarks, a median) are fitted outside of it; transform works inside."
)


@overload
def host(X: Array) -> np.ndarray: ...
@overload
def host(X: Any) -> Any: ...
def host(X: Any) -> Any:
    """X as a NumPy array (a sparse matrix, and what is no array, stays as it is)."""
    if is_sparse(X) or is_numpy_array(X) or not array_api_compat.is_array_api_obj(X):
        return X
    if is_torch_array(X):
        return _host_of_tensor(X)
    if is_cupy_array(X):
        return X.get()
    return _host_of_jax(X) if is_jax_array(X) else np.from_dlpack(X)


def _host_of_tensor(X: Any) -> np.ndarray:
    X = _unwrapped(X)
    X = _unwrapped(X.detach()) if X.requires_grad else X
    X = X if X.device.type == "cpu" else _unwrapped(X.cpu())
    try:
        return X.numpy()
    except (
        RuntimeError
    ):  # inside of torch.func.grad every operation wraps its result: this has none
        return np.from_dlpack(X)


def _unwrapped(X: Any) -> Any:
    import torch

    functorch = torch._C._functorch
    while functorch.is_functorch_wrapped_tensor(X):
        if functorch.is_batchedtensor(X):
            raise ValueError(_NO_VALUES.format("torch.func.vmap"))
        X = functorch.get_unwrapped(X)
    return X


def _host_of_jax(X: Any) -> np.ndarray:
    import jax

    X = jax.lax.stop_gradient(X)  # has values inside of jax.grad then, but not inside of jax.jit
    if isinstance(X, jax.core.Tracer):
        raise ValueError(_NO_VALUES.format("jax.jit or jax.vmap"))
    return np.asarray(X)


def plain(value: Any) -> Any:
    """A NumPy scalar as a Python number, which leaves the dtype of arrays alone."""
    is_scalar = isinstance(value, (np.generic, np.ndarray)) and value.ndim == 0
    return value.item() if is_scalar else value


def suited(value: Any, X: Any) -> Any:
    """A parameter as `plain` gives it; TypeError if its gradient would be lost to NumPy rows."""
    if getattr(value, "requires_grad", False) and not is_foreign(X):
        raise TypeError(
            "A parameter is a tensor that is trained, and the rows are not tensors: give rows of "
            "torch, or the parameter without its gradient (tensor.detach())."
        )
    return plain(value)


def double(X: ArrayT) -> ArrayT:
    """X in the widest real floating dtype that its library offers (float64 wherever possible)."""
    xp = namespace(X)
    dtypes = xp.__array_namespace_info__().dtypes(kind="real floating")
    return xp.astype(X, dtypes.get("float64", X.dtype))


def nonnegative(X: ArrayT) -> ArrayT:
    """X with zeros in the place of what is negative."""
    xp = namespace(X)
    return xp.maximum(X, xp.zeros_like(X))


def without_gradient(X: ArrayT) -> ArrayT:
    """The values of X, through which no gradient flows."""
    values: Any = X
    if is_torch_array(X):
        values = X.detach()
    elif is_jax_array(X):
        import jax

        values = jax.lax.stop_gradient(X)
    return values


def square_root(value: Any) -> Any:
    """√value of a Python number or of a scalar array (a hyperparameter that has a gradient)."""
    value = plain(value)
    if array_api_compat.is_array_api_obj(value):
        return namespace(value).sqrt(value)
    return math.sqrt(value)


def as_generator(random_state: Any) -> np.random.Generator:
    """A NumPy Generator from scikit-learn's `random_state`, or the Generator that was given.

    >>> as_generator(3).integers(100) == as_generator(3).integers(100)
    np.True_
    """
    if isinstance(random_state, np.random.Generator):
        return random_state
    if random_state is None or isinstance(random_state, np.random.RandomState):
        random_state = check_random_state(random_state).randint(2**31 - 1, size=4).tolist()
    return np.random.default_rng(random_state)


def join(parts: Parts, output: str) -> Array:  # (n, D), (n, D) -> (n, D) or (n, 2D)
    """Real and imaginary part as one array: real, complex, or the columns [Re, Im]."""
    real: Any
    imaginary: Any
    real, imaginary = parts
    xp = namespace(real)
    if output == "real":
        return real
    if imaginary is None:
        raise ValueError(f'output="{output}" needs a complex sketch; this one is real.')
    if output == "complex_to_real":
        return xp.concat([real, imaginary], axis=1)
    if is_torch_array(real):
        import torch

        return torch.complex(real, imaginary)
    if is_jax_array(real):
        import jax

        return jax.lax.complex(real, imaginary)
    dtype = xp.result_type(real.dtype, xp.complex64)
    return xp.astype(real, dtype) + 1j * xp.astype(imaginary, dtype)


def from_host(Z: np.ndarray) -> Any:
    """A NumPy result as a torch tensor, without a copy."""
    import torch

    return torch.from_numpy(Z)

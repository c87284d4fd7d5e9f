"""Array libraries: one code for NumPy, PyTorch, JAX and every other array API library.

Portable code asks an array for its namespace and calls only the array API standard. What the
standard does not offer stands here: moving host arrays to the library and device of another
array, joining a real and an imaginary part, and evaluating a function in chunks of rows.

Random numbers are always drawn by NumPy on the host, so that one seed gives the same features on
every library.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from numbers import Integral
from typing import Any, TypeGuard, overload

import array_api_compat
import array_api_compat.numpy
import numpy as np
import scipy.sparse
from array_api_compat import is_cupy_array, is_jax_array, is_numpy_array, is_torch_array
from joblib import effective_n_jobs
from sklearn.utils import check_random_state

from ._support.threads import run_all
from ._typing import Array as Array
from ._typing import ArrayT as ArrayT
from ._typing import FloatArray as FloatArray
from ._typing import HostParts as HostParts
from ._typing import IntArray as IntArray
from ._typing import Parts as Parts

OUTPUTS = ("real", "complex", "complex_to_real")
LEAST_FEATURES = 1 << 18  # as many are worth handing to a thread: some tenths of a millisecond


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


def evenly_spaced(n: int, most: int) -> np.ndarray:
    """The numbers of all n rows, or of `most` of them from the first to the last."""
    return np.unique(np.linspace(0, n - 1, most).round().astype(int))


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


def double(X: ArrayT) -> ArrayT:
    """X in the widest real floating dtype that its library offers (float64 wherever possible)."""
    xp = namespace(X)
    dtypes = xp.__array_namespace_info__().dtypes(kind="real floating")
    return xp.astype(X, dtypes.get("float64", X.dtype))


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


def positive_integer(name: str, value: Any) -> int:
    """`value`, which may be an integer of NumPy, as a Python int; ValueError for all else."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
        raise ValueError(f"{name} must be a positive integer; got {value!r}.")
    return int(value)


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


def map_rows(
    function: Callable[[Array], Parts],
    X: ArrayT,
    output: str,
    width: int,
    chunk: int,
    *,
    write: Callable[[Array, HostParts], object] | None = None,
    n_jobs: int | None = None,
    may_split: bool = False,
) -> ArrayT:
    """`join(function(X), output)`, evaluated on `chunk` rows at a time into one result.

    `function` maps (m, d) to parts of shape (m, width), row by row. For NumPy and sparse X,
    `write(rows, out)` may stand in for it: it fills the parts `out`, views of the result, and
    chunks run on `n_jobs` threads. `may_split` says that the bits of a row do not depend on its
    chunk (with BLAS they do): then threads take smaller ones. Beside X and the result only the
    temporaries of the chunks at work are in memory (with gradients in torch: those of the graph).
    """
    n = X.shape[0]
    result: Any = None  # is of the library of X
    if is_numpy_array(X) or is_sparse(X):
        workers = 1 if n == 1 and n_jobs is None else effective_n_jobs(n_jobs)
        if workers > 1 and may_split:  # several for each, so that all end at about the same time
            least = max(1, LEAST_FEATURES // width)
            chunk = min(chunk, max(least, -(-n // (4 * workers))))
        result = _map_rows_host(write or _writer(function), X, output, width, chunk, workers)
        return result
    if n <= chunk:
        Z: Any = join(function(X), output)
        result = Z.contiguous() if is_torch_array(Z) else Z
        return result
    if is_jax_array(X):
        result = _map_rows_jax(function, X, output, chunk)
        return result
    chunks = (join(function(X[a : min(a + chunk, n), :]), output) for a in range(0, n, chunk))
    if is_torch_array(X) and (X.requires_grad or is_traced(X)):
        return namespace(X).concat(list(chunks), axis=0)
    for step, Z in enumerate(chunks):
        if result is None:
            device = array_api_compat.device(Z)
            result = namespace(Z).empty((n, Z.shape[1]), dtype=Z.dtype, device=device)
        result[step * chunk : step * chunk + Z.shape[0], :] = Z
    return result


def _map_rows_host(
    write: Callable[[Array, HostParts], object],
    X: Array,
    output: str,
    width: int,
    chunk: int,
    workers: int,
) -> np.ndarray:
    """The loop over chunks for NumPy and sparse rows, on threads if asked."""
    n = X.shape[0]
    columns = 2 * width if output == "complex_to_real" else width
    dtype = np.result_type(X.dtype, np.complex64) if output == "complex" else X.dtype
    result = np.empty((n, columns), dtype=dtype)

    def run(start: int) -> None:
        rows = slice(start, min(start + chunk, n))
        write(X[rows], _views(result[rows], output, width))

    run_all(run, range(0, n, chunk), workers)
    return result


def _views(result: np.ndarray, output: str, width: int) -> HostParts:
    """Where the real and the imaginary parts of the features stand in a result."""
    if output == "complex":
        return result.real, result.imag
    if output == "complex_to_real":
        return result[:, :width], result[:, width:]
    return result, None


def _writer(function: Callable[[Array], Parts]) -> Callable[[Array, HostParts], None]:
    return lambda rows, out: fill(out, function(rows))


def fill(out: HostParts, parts: tuple[Array | float, Array | float | None]) -> None:
    """Write parts into views of a result."""
    for view, part in zip(out, parts, strict=True):
        if view is not None:
            view[...] = part


def column_views(out: HostParts, start: int, stop: int | None) -> HostParts:
    """Some of the columns of the parts."""
    real, imaginary = out
    return real[:, start:stop], None if imaginary is None else imaginary[:, start:stop]


def from_host(Z: np.ndarray) -> Any:
    """A NumPy result as a torch tensor, without a copy."""
    import torch

    return torch.from_numpy(Z)


def _map_rows_jax(function: Callable[[Array], Parts], X: Any, output: str, chunk: int) -> Array:
    """The loop over chunks as one XLA loop that writes into its carry in place."""
    import jax
    import jax.numpy as jnp

    n = X.shape[0]

    def evaluate(start: Any) -> Any:
        rows = jax.lax.dynamic_slice_in_dim(X, start, chunk)
        return join(function(rows), output)

    def body(step: Any, result: Any) -> Any:
        # The last chunk begins early enough to be full: its first rows are computed twice.
        start = jnp.minimum(step * chunk, n - chunk)
        return jax.lax.dynamic_update_slice_in_dim(result, evaluate(start), start, axis=0)

    shape = jax.eval_shape(evaluate, 0)
    result = jnp.zeros((n, shape.shape[1]), dtype=shape.dtype)
    return jax.lax.fori_loop(0, -(-n // chunk), body, result)

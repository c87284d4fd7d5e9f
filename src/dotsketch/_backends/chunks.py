"""The loop over chunks of rows: features are computed a chunk at a time into one result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import array_api_compat
import numpy as np
from array_api_compat import is_jax_array, is_numpy_array, is_torch_array

from .._arrays import Array, ArrayT, HostParts, Parts, is_sparse, is_traced, join, namespace
from .._support.threads import run_all, workers_for

LEAST_FEATURES = 1 << 18  # as many are worth handing to a thread: some tenths of a millisecond


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
    if is_numpy_array(X) or is_sparse(X):
        workers = 1 if n == 1 and n_jobs is None else workers_for(n_jobs)
        if workers > 1 and may_split:  # several for each, so that all end at about the same time
            least = max(1, LEAST_FEATURES // width)
            chunk = min(chunk, max(least, -(-n // (4 * workers))))
        fills = write or (lambda rows, out: fill(out, function(rows)))
        return cast(ArrayT, _map_rows_host(fills, X, output, width, chunk, workers))
    if n <= chunk:
        Z: Any = join(function(X), output)
        return cast(ArrayT, Z.contiguous() if is_torch_array(Z) else Z)
    if is_jax_array(X):
        return cast(ArrayT, _map_rows_jax(function, X, output, chunk))
    chunks = (join(function(X[a : min(a + chunk, n), :]), output) for a in range(0, n, chunk))
    if is_torch_array(X) and (X.requires_grad or is_traced(X)):
        return namespace(X).concat(list(chunks), axis=0)
    result: Any = None  # is of the library of X
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


def fill(out: HostParts, parts: tuple[Array | float, Array | float | None]) -> None:
    """Write parts into views of a result."""
    for view, part in zip(out, parts, strict=True):
        if view is not None:
            view[...] = part


def column_views(out: HostParts, start: int, stop: int | None) -> HostParts:
    """Some of the columns of the parts."""
    real, imaginary = out
    return real[:, start:stop], None if imaginary is None else imaginary[:, start:stop]


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

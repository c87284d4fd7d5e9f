"""Prepared weights: a function of one chunk of rows, and the loop over all chunks.

Weights are moved, checked and laid out once for rows of one kind, as a `Prepared`. Weights own
their prepared forms (`keeps_prepared`, `kept`), so that these are made once and not at every call.
A form is no part of their value: equality, copies, pickles and model files know the arrays only.
Since a form would not see a change of the arrays, they become read-only with the first one.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import array_api_compat
import numpy as np
import scipy.sparse
from array_api_compat import is_jax_array, is_numpy_array, is_torch_array

from .._arrays import Array, ArrayT, HostParts, Parts, dense, is_sparse, is_traced, join, namespace
from .._support.threads import run_all, workers_for

Weights = TypeVar("Weights")
Write = Callable[[Any, Any, HostParts], object]


@dataclass(eq=False)
class Prepared:
    """Weights laid out for one kind of rows: a function of a chunk of them.

    `prepared(rows)` returns the real and the imaginary part (None for real weights) of its columns.
    It may be called from several threads.

    Parameters
    ----------
    columns : maps a chunk (m, d) to parts (m, D), in new arrays
    widest : the numbers per row of the widest array
    write : (rows, row_scale, out) does the same in place, in views (m, D) of a NumPy result, times
        row_scale (m, 1) unless that is None
    accepts_sparse : whether chunks may be CSR; otherwise they are made dense
    depends_on_chunk : whether the bits of a row depend on the other rows of its chunk, as those of
        BLAS do
    chunk_bytes : the best size of the widest array of a chunk: by default about an L2 cache
    least_rows : of a chunk
    """

    columns: Callable[[Any], Parts]
    widest: int
    write: Write | None = None
    accepts_sparse: bool = False
    depends_on_chunk: bool = True
    chunk_bytes: int = 1 << 19
    least_rows: int = 16

    def __call__(
        self, rows: Array, *, row_scale: Array | None = None, out: HostParts | None = None
    ) -> Parts:  # (n, d) -> (n, D), (n, D) | None
        """Columns of a chunk of rows times row_scale (n, 1), in new arrays or in `out`."""
        rows = rows if self.accepts_sparse else dense(rows)
        if out is not None and self.write is not None:
            self.write(rows, row_scale, out)
            return out
        parts = self.columns(rows)
        if row_scale is not None:
            parts = scaled(parts, row_scale)
        if out is None:
            return parts
        fill(out, parts)
        return out

    @property
    def chunk_rows(self) -> int:
        """How many rows to work on at a time."""
        return max(self.least_rows, self.chunk_bytes // (8 * self.widest))

    def map(
        self,
        X: ArrayT,
        output: str,
        width: int,
        inputs: Callable[[Array], Array] | None = None,
        n_jobs: int | None = None,
    ) -> ArrayT:  # (n, d) -> (n, width), or (n, 2 width) for "complex_to_real"
        """The columns of all rows, chunk by chunk; `inputs` maps a chunk of X to our own rows.

        Chunks of NumPy and sparse X are written into one result, on `n_jobs` threads. Where the
        bits of a row do not depend on its chunk, threads take smaller ones. Beside X and the result
        only the temporaries of the chunks at work are in memory (with gradients in torch: those of
        the graph).
        """

        def of(rows: Any) -> Any:
            return rows if inputs is None else inputs(rows)

        n, chunk = X.shape[0], self.chunk_rows
        if not (is_numpy_array(X) or is_sparse(X)):
            return _map_foreign(lambda rows: join(self(of(rows)), output), X, chunk)
        workers = 1 if n == 1 and n_jobs is None else workers_for(n_jobs)
        if workers > 1 and not self.depends_on_chunk:
            # several chunks for each thread, so that all end at about the same time; fewer features
            # than 2¹⁸, some tenths of a millisecond, are not worth a turn
            chunk = min(chunk, max(1, (1 << 18) // width, -(-n // (4 * workers))))
        n_columns = 2 * width if output == "complex_to_real" else width
        dtype = np.result_type(X.dtype, np.complex64) if output == "complex" else X.dtype
        result: Any = np.empty((n, n_columns), dtype=dtype)
        if output == "complex":
            real, imaginary = result.real, result.imag
        elif output == "complex_to_real":
            real, imaginary = result[:, :width], result[:, width:]
        else:
            real, imaginary = result, None

        def run(start: int) -> None:
            rows = slice(start, min(start + chunk, n))
            out = real[rows], None if imaginary is None else imaginary[rows]
            self(of(X[rows]), out=out)

        run_all(run, range(0, n, chunk), workers)
        return result


def _map_foreign(features: Callable[[Any], Any], X: Any, chunk: int) -> Any:
    """`features` of X, of a library other than NumPy, `chunk` rows at a time."""
    n = X.shape[0]
    if n <= chunk:
        Z = features(X)
        return Z.contiguous() if is_torch_array(Z) else Z
    if is_jax_array(X):
        return _map_jax(features, X, chunk)
    chunks = (features(X[a : min(a + chunk, n), :]) for a in range(0, n, chunk))
    if is_torch_array(X) and (X.requires_grad or is_traced(X)):
        return namespace(X).concat(list(chunks), axis=0)
    result: Any = None
    for step, Z in enumerate(chunks):
        if result is None:
            device = array_api_compat.device(Z)
            result = namespace(Z).empty((n, Z.shape[1]), dtype=Z.dtype, device=device)
        result[step * chunk : step * chunk + Z.shape[0], :] = Z
    return result


def _map_jax(features: Callable[[Any], Any], X: Any, chunk: int) -> Any:
    """The loop over chunks as one XLA loop that writes into its carry in place."""
    import jax
    import jax.numpy as jnp

    n = X.shape[0]

    def evaluate(start: Any) -> Any:
        return features(jax.lax.dynamic_slice_in_dim(X, start, chunk))

    def body(step: Any, result: Any) -> Any:
        # The last chunk begins early enough to be full: its first rows are computed twice.
        start = jnp.minimum(step * chunk, n - chunk)
        return jax.lax.dynamic_update_slice_in_dim(result, evaluate(start), start, axis=0)

    shape = jax.eval_shape(evaluate, 0)
    result = jnp.zeros((n, shape.shape[1]), dtype=shape.dtype)
    return jax.lax.fori_loop(0, -(-n // chunk), body, result)


# -- weights own their prepared forms --------------------------------------------------------------


class Owner:
    """What gives a named tuple room for its prepared forms."""

    def __getstate__(self) -> None:
        """Copies and pickles are made of the fields alone."""


def keeps_prepared(cls: type[Weights]) -> type[Weights]:
    """A named tuple of arrays, as a class whose instances own their prepared forms."""
    names = {"__module__": cls.__module__, "__qualname__": cls.__qualname__, "__doc__": cls.__doc__}
    return type(cls.__name__, (Owner, cls), names)


def kept(weights: Any, key: Hashable, rows: Array, make: Callable[[], Prepared]) -> Prepared:
    """The form of the weights for rows like these and a key: kept, or made and kept.

    Only forms of NumPy weights for NumPy or CSR rows are kept: those of other libraries may have
    gradients, or live on devices.
    """
    is_host = is_numpy_array(rows)
    if not isinstance(weights, Owner) or not (is_host or is_sparse(rows)):
        return make()
    # Operations of dictionaries are atomic: two threads may make a form, and one of them is kept.
    forms: dict[Any, Any] = vars(weights)
    key = (key, rows.dtype.char, is_host)
    form: Prepared | None = forms.get(key)
    if form is not None:
        return form
    arrays = list(_arrays(weights))
    if not all(map(is_numpy_array, arrays)):
        return make()
    for array in arrays:
        array.flags.writeable = False
    if len(forms) >= 4:  # float32 and float64, dense and sparse; more only if a lengthscale changes
        forms.clear()
    return forms.setdefault(key, make())


def _arrays(weights: Any) -> Iterator[np.ndarray]:
    """The arrays of nested named tuples, which may have numbers and sparse rows beside them."""
    for value in weights:
        if isinstance(value, tuple):
            yield from _arrays(value)
        elif (
            value is not None and not isinstance(value, float) and not scipy.sparse.issparse(value)
        ):
            yield value


# -- complex arrays as two parts -------------------------------------------------------------------


def fill(out: HostParts, parts: tuple[Array | float, Array | float | None]) -> None:
    """Write parts into views of a result."""
    for view, part in zip(out, parts, strict=True):
        if view is not None:
            view[...] = part


def scale_in_place(out: HostParts, *scales: Any) -> None:
    """Multiply views of a result by numbers or columns (n, 1); None is passed over."""
    for view in out:
        for scale in scales:
            if view is not None and scale is not None:
                np.multiply(view, scale, out=view)


def wave_views(out: HostParts, n_pairs: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Where cosines, sines, and the cosine of a last angle without a pair go."""
    real, imaginary = out
    if imaginary is not None:
        return real, imaginary, real[:, :0]
    return real[:, :n_pairs], real[:, n_pairs : 2 * n_pairs], real[:, 2 * n_pairs :]


def multiply(a: Parts, b: Parts) -> Parts:
    """The entrywise product of two complex arrays given by their parts."""
    if a[1] is None or b[1] is None:
        return a[0] * b[0], None
    return a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]


def scaled(parts: Parts, scale: Any) -> Parts:
    real, imaginary = parts
    return real * scale, None if imaginary is None else imaginary * scale


def transposed(parts: Parts) -> Parts:  # (D, n) -> (n, D)
    real, imaginary = parts
    return real.T, None if imaginary is None else imaginary.T


def linear_on_parts(function: Callable[[Array], Parts], parts: Parts) -> Parts:
    """A complex linear map that is given on real arrays, on a complex array."""
    real, imaginary = parts
    if imaginary is None:
        return function(real)
    (a, b), (c, d) = function(real), function(imaginary)
    return (a, c) if b is None else (a - d, b + c)


def dense_like(rows: Array) -> Array:
    """An array that stands for chunks of these rows once they are made dense."""
    return np.empty((0, rows.shape[1]), dtype=rows.dtype) if is_sparse(rows) else rows


def empty_parts(n: int, width: int, dtype: Any, is_complex: bool) -> HostParts:
    real = np.empty((n, width), dtype=dtype)
    return real, np.empty_like(real) if is_complex else None


def power_of_two(dimension: int) -> int:
    """The least power of two that is at least `dimension`."""
    return 1 << max(dimension - 1, 0).bit_length()

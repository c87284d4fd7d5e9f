"""What both backends share: the interface of prepared weights, and complex arrays as two parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .._arrays import Array, ArrayT, HostParts, Parts, dense, is_sparse
from .chunks import fill, map_rows


class Prepared:
    """Weights that are moved, checked and laid out for one kind of rows, once for all chunks.

    It is a function of one chunk of rows: `prepared(rows)` returns the real and the imaginary part
    (None for real weights) of its columns. It may be called from several threads.
    """

    accepts_sparse: bool = False  # whether chunks may be CSR; otherwise they are made dense
    # Whether the bits of a row depend on the other rows of its chunk, as those of BLAS do
    depends_on_chunk: bool = True
    chunk_bytes: int = 1 << 19  # best size of the widest array of a chunk: about an L2 cache
    widest: int  # numbers per row of the widest array

    def __call__(
        self, rows: Array, *, row_scale: Array | None = None, out: HostParts | None = None
    ) -> Parts:  # (n, d) -> (n, D), (n, D) | None
        """Columns of a chunk of rows times row_scale (n, 1), in new arrays or in `out`.

        `out` are writable views (n, D) of a NumPy result.
        """
        parts = self.columns(self.dense(rows))
        if row_scale is not None:
            parts = scaled(parts, row_scale)
        if out is None:
            return parts
        fill(out, parts)
        return out

    def map(
        self,
        X: ArrayT,
        output: str,
        width: int,
        inputs: Callable[[Array], Array] | None = None,
        n_jobs: int | None = None,
    ) -> ArrayT:  # (n, d) -> (n, width), or (n, 2 width) for "complex_to_real"
        """The columns of all rows, chunk by chunk; `inputs` maps a chunk of X to our own rows."""

        def ours(rows: Array) -> Array:
            return rows if inputs is None else inputs(rows)

        return map_rows(
            lambda rows: self(ours(rows)),
            X,
            output,
            width,
            self.chunk_rows,
            write=lambda rows, out: self(ours(rows), out=out),
            n_jobs=n_jobs,
            may_split=not self.depends_on_chunk,
        )

    @property
    def chunk_rows(self) -> int:
        """How many rows to work on at a time."""
        return max(16, self.chunk_bytes // (8 * self.widest))

    def dense(self, rows: Array) -> Array:
        """The rows, which only stay CSR if these weights accept that."""
        return rows if self.accepts_sparse else dense(rows)

    def columns(self, rows: Array) -> Parts:
        """The columns without row_scale and out, for what is not written in place."""
        raise NotImplementedError


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

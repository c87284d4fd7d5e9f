"""The backend for NumPy rows (and CSR rows, made dense chunk by chunk): the C++ kernels.

A row has the same bits in any chunk, on any number of threads, except where SciPy or BLAS compute
it: products of dense matrices, and TensorSketch of a length with a large prime factor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from array_api_compat import is_numpy_array

from .._arrays import Array, HostParts, Parts, is_foreign, is_sparse
from .._support.threads import blas_threads
from . import cpp, portable, transforms
from .portable import dense_product as dense_product
from .portable import linear as linear
from .prepared import Prepared, Write, empty_parts, scale_in_place, wave_views


def _in_place(
    write: Write, n_columns: int, is_complex: bool, widest: int, **layout: Any
) -> Prepared:
    """A kernel that writes its columns in place, each row by itself."""

    def columns(rows: Array) -> Parts:
        out = empty_parts(rows.shape[0], n_columns, rows.dtype, is_complex)
        write(rows, None, out)
        return out

    layout = {"depends_on_chunk": False, "chunk_bytes": 1 << 23} | layout
    return Prepared(columns, widest, write, **layout)


def _sketch(
    apply: Callable[..., None],
    d: int,
    n_columns: int,
    is_complex: bool,
    scale: float = 1.0,
    **layout: Any,
) -> Prepared:
    """A kernel whose weights are checked and laid out by compiled code; threads may share them."""

    def write(rows: Array, row_scale: Any, out: HostParts) -> None:
        apply(aligned(rows), scale, *out, None if row_scale is None else row_scale.reshape(-1))

    # it has no temporaries of the size of a chunk
    return _in_place(write, n_columns, is_complex, max(d, n_columns) * (1 + is_complex), **layout)


def hadamard_product(
    turns: Any, places: Any, n_columns: int, is_complex: bool, scale: float, rows: Array
) -> Prepared:
    d = turns.shape[2]
    if d > cpp.LARGEST_HADAMARD:
        return portable.hadamard_product(turns, places, n_columns, is_complex, scale, rows)
    apply = cpp.prepare_tensor_srht(turns, places, n_columns, is_complex, _is_single(rows))
    return _sketch(apply, d, n_columns, is_complex, scale)


def sign_product(turns: np.ndarray, is_complex: bool, scale: float, rows: Array) -> Prepared:
    if is_sparse(rows):  # a sparse product does less work than any dense one
        return portable.sign_product(turns, is_complex, scale, rows)
    _, n_columns, d = turns.shape
    apply = cpp.prepare_sign_projection(turns, is_complex, _is_single(rows))
    # all weights are read for every chunk: many rows share that
    return _sketch(apply, d, n_columns, is_complex, scale, chunk_bytes=1 << 25)


def count_product(
    buckets: Any, turns: Any, n_columns: int, is_complex: bool, rows: Array
) -> Prepared:
    if is_sparse(rows):
        return portable.count_product(buckets, turns, n_columns, is_complex, rows)
    if len(buckets) == 1 or not cpp.has_small_factors(n_columns):
        return _spectral_count_product(buckets, turns, n_columns, is_complex)
    apply = cpp.prepare_tensor_sketch(buckets, turns, n_columns, is_complex, _is_single(rows))
    return _sketch(apply, buckets.shape[1], n_columns, is_complex)


def _spectral_count_product(buckets: Any, turns: Any, n_columns: int, is_complex: bool) -> Prepared:
    """Compiled count sketches, and SciPy's transforms for D with a large prime factor."""

    def columns(rows: Array) -> Parts:
        spectrum: Any = None
        for counts in count_sketches(rows, buckets, turns, n_columns, is_complex):
            if len(buckets) == 1:  # nothing to convolve
                return counts
            transformed = transforms.fourier(counts, axis=1)
            if spectrum is None:
                spectrum = transformed
            else:
                spectrum *= transformed
        return transforms.inverse_fourier(spectrum, n_columns, is_complex, axis=1)

    return Prepared(columns, max(buckets.shape[1], n_columns) * (1 + is_complex))


def count_sketches(
    rows: Array, buckets: Any, turns: Any, n_columns: int, is_complex: bool
) -> Iterator[Parts]:
    """The count sketch of every factor; complex ones are the two views of one complex array."""
    shape, X = (rows.shape[0], n_columns), aligned(rows)
    for hashes in zip(buckets, turns, strict=True):
        dtype = np.result_type(X.dtype, np.complex64) if is_complex else X.dtype
        counts = np.empty(shape, dtype=dtype)
        parts = (counts.real, counts.imag) if is_complex else (counts, None)
        cpp.count_sketch(X, *hashes, *parts)
        yield parts


def sorf(signs: np.ndarray, scales: np.ndarray, rows: Array) -> Prepared:
    if signs.shape[2] > cpp.LARGEST_HADAMARD:
        return portable.sorf(signs, scales, rows)
    signs = np.ascontiguousarray(signs, dtype=np.int8)
    scales = np.asarray(scales).astype(rows.dtype, copy=False)

    def write(rows: Array, row_scale: Any, out: HostParts) -> None:
        cpp.sorf(aligned(rows), signs, out[0])
        scale_in_place(out, scales, row_scale)

    # the transforms of a chunk stay in an L2 cache
    return _in_place(write, len(scales), False, len(scales), chunk_bytes=1 << 19)


def waves(
    frequencies: tuple[Any, ...],
    phase: Any,
    lengthscale: Any,
    scale: Any,
    is_complex: bool,
    rows: Array,
) -> Prepared:
    """Cosines and sines by compiled code, and their angles too where d is small.

    Frequencies are in quarter turns, and divided by the lengthscale: the reduction of an angle is
    then exact, and rows are used as they are.
    """
    is_dense, d = len(frequencies) == 1, rows.shape[1]
    if (
        is_foreign(lengthscale)  # with a gradient, perhaps
        or is_foreign(scale)
        or rows.dtype not in (np.float32, np.float64)
        or (not is_dense and isinstance(lengthscale, np.ndarray))  # sorf scales angles
    ):
        return portable.waves(frequencies, phase, lengthscale, scale, is_complex, rows)
    scale, has_phase = float(scale), len(phase) > 0
    n_pairs = len(frequencies[-1]) - has_phase
    n_columns = n_pairs if is_complex else 2 * n_pairs + has_phase
    quarter_turns = 2 / np.pi / (1.0 if lengthscale is None else np.asarray(lengthscale))
    last = frequencies[-1] * quarter_turns  # the matrix, or the scales of sorf
    phases = _in_blocks(2 / np.pi * phase, rows.dtype)
    if is_dense and d <= 64:  # beyond, a BLAS computes angles as fast
        pairs = _in_blocks(last[:n_pairs].T, rows.dtype)
        alone = _in_blocks(last[n_pairs:].T, rows.dtype)

        def write_fused(rows: Array, row_scale: Any, out: HostParts) -> None:
            cosines, sines, rest = wave_views(out, n_pairs)
            X = aligned(rows)
            cpp.waves(X, scale, cosines, sines, pairs)
            if has_phase:
                cpp.waves(X, scale, rest, None, alone, phases)
            scale_in_place(out, row_scale)

        return _in_place(write_fused, n_columns, is_complex, max(d, n_columns))
    angles = linear(last, rows) if is_dense else sorf(frequencies[0], last, rows)

    def write(rows: Array, row_scale: Any, out: HostParts) -> None:
        cosines, sines, rest = wave_views(out, n_pairs)
        theta = angles(rows)[0]
        cpp.waves(theta[:, :n_pairs], scale, cosines, sines)
        if has_phase:
            cpp.waves(theta[:, n_pairs:], scale, rest, None, None, phases)
        scale_in_place(out, row_scale)

    widest = max(d, n_pairs if is_dense else n_columns)
    # products by BLAS have temporaries of the size of a chunk
    chunk_bytes = 1 << (21 if is_dense else 23)
    return _in_place(
        write,
        n_columns,
        is_complex,
        widest,
        accepts_sparse=is_dense,
        depends_on_chunk=is_dense,
        chunk_bytes=chunk_bytes,
    )


def _in_blocks(values: np.ndarray, dtype: Any) -> np.ndarray:  # (..., m) -> (blocks, ..., 16)
    """Columns in blocks of 16, the last one padded with zeros, as the kernel reads them."""
    size = cpp.WAVE_BLOCK
    missing = -values.shape[-1] % size
    padded = np.pad(values, [(0, 0)] * (values.ndim - 1) + [(0, missing)])
    blocks = padded.reshape(*values.shape[:-1], -1, size)
    return np.ascontiguousarray(np.moveaxis(blocks, -2, 0), dtype=dtype)


def hadamard(X: np.ndarray) -> np.ndarray:  # (n, d) -> (n, d)
    if X.shape[1] > cpp.LARGEST_HADAMARD or X.dtype not in (np.float32, np.float64):
        return portable.hadamard(X)
    out = np.empty(X.shape, dtype=X.dtype)
    cpp.fwht(aligned(X), out)
    return out


def largest_entry(X: Array) -> float:
    if is_numpy_array(X) and X.strides[1] == X.itemsize and X.flags.aligned:
        return cpp.largest_entry(X)
    return portable.largest_entry(X)


def add_adjoint(Z: np.ndarray, R: np.ndarray, total: np.ndarray) -> None:
    is_single = Z.dtype == R.dtype == total.dtype == np.float32
    is_few = R.shape[1] <= 64 and total.strides[1] == total.itemsize
    # with shorter vectors, more columns or several threads, a BLAS is as fast
    if cpp.ISA == "v4" and is_single and is_few and blas_threads() == 1:
        cpp.add_adjoint(aligned(Z), aligned(R), total)
    else:
        portable.add_adjoint(Z, R, total)


def _has_room(degrees: np.ndarray) -> bool:
    """Whether the sums over pairs have room for so many blocks and such degrees."""
    return len(degrees) <= 128 and degrees.max() <= 64


def pair_gram(
    dot: np.ndarray,
    values: np.ndarray,
    left: np.ndarray,
    right: np.ndarray,
    degrees: np.ndarray,
    skips_diagonal: bool,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    arguments = (dot, values, left, right)
    if not _has_room(degrees):
        return portable.pair_gram(*arguments, degrees, skips_diagonal)
    n = len(degrees)
    sums = np.zeros((n, n)), np.zeros(n), np.zeros(2)
    cpp.pair_gram(*arguments, degrees.astype(np.int32), skips_diagonal, *sums)
    return sums


def pair_terms(
    dot: np.ndarray,
    squares: np.ndarray,
    left: np.ndarray,
    right: np.ndarray,
    degrees: np.ndarray,
    *arguments: Any,
    shape: tuple[int, int],
) -> np.ndarray | None:
    if not _has_room(degrees):
        return None
    terms = np.zeros(shape)
    cpp.pair_terms(dot, squares, left, right, degrees.astype(np.int32), *arguments, terms)
    return terms


def _is_single(rows: Array) -> bool:
    return rows.dtype == np.float32


def aligned(X: Any) -> np.ndarray:
    """X with contiguous, aligned rows, as the kernels need them."""
    contiguous = X.strides[-1] == X.itemsize or X.shape[-1] == 1
    return X if contiguous and X.flags.aligned else np.require(X, requirements=("C", "A"))

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
from .prepared import CountFactors, HadamardFactors, Prepared, WaveFactors, empty_parts

MOST_ADJOINT = 64  # columns; a BLAS multiplies more of them as fast
LARGEST_FUSED = 64  # up to so many coordinates angles are computed with their waves, not by BLAS


class _Kernel(Prepared):
    """A kernel that writes its columns in place, each row by itself."""

    depends_on_chunk = False
    n_columns: int
    is_complex: bool = False

    def __call__(
        self, rows: Array, *, row_scale: Any = None, out: HostParts | None = None
    ) -> Parts:
        rows = self.dense(rows)
        if out is None:
            out = empty_parts(rows.shape[0], self.n_columns, rows.dtype, self.is_complex)
        self.write(rows, out, None if row_scale is None else row_scale.reshape(-1))
        return out

    def write(self, rows: Array, out: HostParts, row_scale: np.ndarray | None) -> None:
        raise NotImplementedError


class _Sketch(_Kernel):
    """A kernel whose weights are checked and laid out by compiled code; threads may share them."""

    def __init__(
        self,
        apply: Callable[..., None],
        width: int,
        n_columns: int,
        is_complex: bool,
        scale: float = 1.0,
    ):
        self.apply, self.scale = apply, scale
        self.n_columns, self.is_complex = n_columns, is_complex
        self.widest = max(width, n_columns) * (1 + is_complex)
        self.chunk_bytes = 1 << 23  # it has no temporaries of the size of a chunk

    def write(self, rows: Array, out: HostParts, row_scale: np.ndarray | None) -> None:
        self.apply(aligned(rows), self.scale, *out, row_scale)


class SpectralCountProduct(Prepared):
    """Compiled count sketches, and SciPy's transforms for D with a large prime factor."""

    def __init__(self, factors: CountFactors):
        buckets, turns, self.n_columns, self.is_complex = factors
        self.hashes = list(zip(buckets, turns, strict=True))
        self.widest = max(buckets.shape[1], self.n_columns) * (1 + self.is_complex)

    def columns(self, rows: Array) -> Parts:
        spectrum: Any = None
        if len(self.hashes) == 1:  # nothing to convolve
            return next(iter(self.counts(rows)))
        for counts in self.counts(rows):
            transformed = transforms.fourier(counts, axis=1)
            if spectrum is None:
                spectrum = transformed
            else:
                spectrum *= transformed
        return transforms.inverse_fourier(spectrum, self.n_columns, self.is_complex, axis=1)

    def counts(self, rows: Array) -> Iterator[Parts]:
        """The count sketch of every factor."""
        for hashes in self.hashes:
            yield self._counts(aligned(rows), *hashes)

    def _counts(self, rows: np.ndarray, buckets: np.ndarray, turns: np.ndarray) -> Parts:
        """The counts; complex ones are the two views of one complex array."""
        shape = (rows.shape[0], self.n_columns)
        if not self.is_complex:
            real = np.empty(shape, dtype=rows.dtype)
            cpp.count_sketch(rows, buckets, turns, real, None)
            return real, None
        counts = np.empty(shape, dtype=np.result_type(rows.dtype, np.complex64))
        cpp.count_sketch(rows, buckets, turns, counts.real, counts.imag)
        return counts.real, counts.imag


class CompiledSorf(_Kernel):
    def __init__(self, signs: np.ndarray, scales: np.ndarray, rows: Array):
        self.signs = np.ascontiguousarray(signs, dtype=np.int8)
        self.scales = np.asarray(scales).astype(rows.dtype, copy=False)
        self.n_columns = self.widest = len(self.scales)

    def write(self, rows: Array, out: HostParts, row_scale: np.ndarray | None) -> None:
        cpp.sorf(aligned(rows), self.signs, out[0])
        np.multiply(out[0], self.scales, out=out[0])
        if row_scale is not None:
            np.multiply(out[0], row_scale[:, None], out=out[0])


class CompiledWaves(_Kernel):
    """Cosines and sines by compiled code, and their angles too where d is small.

    Frequencies are in quarter turns, and divided by the lengthscale: the reduction of an angle is
    then exact, and rows are used as they are.
    """

    def __init__(self, factors: WaveFactors, rows: Array):
        frequencies, phase, lengthscale, scale, self.is_complex = factors
        self.scale = float(scale)
        self.n_pairs = len(frequencies[-1]) - len(phase)
        self.n_columns = self.n_pairs if self.is_complex else 2 * self.n_pairs + len(phase)
        self.has_phase = len(phase) > 0
        is_dense = len(frequencies) == 1
        self.is_fused = is_dense and rows.shape[1] <= LARGEST_FUSED
        self.accepts_sparse = is_dense and not self.is_fused
        self.depends_on_chunk = self.accepts_sparse
        self.widest = max(rows.shape[1], self.n_pairs if self.accepts_sparse else self.n_columns)
        # without products by BLAS only the result is large
        self.chunk_bytes = 1 << (21 if self.accepts_sparse else 23)

        quarter_turns = 2 / np.pi / (1.0 if lengthscale is None else np.asarray(lengthscale))
        last = frequencies[-1] * quarter_turns  # the matrix, or the scales of sorf
        if self.is_fused:
            self.pairs = _in_blocks(last[: self.n_pairs].T, rows.dtype)
            self.last = _in_blocks(last[self.n_pairs :].T, rows.dtype)
        else:
            self.angles = linear(last, rows) if is_dense else sorf(frequencies[0], last, rows)
        self.phase = _in_blocks(2 / np.pi * phase, rows.dtype)

    def write(self, rows: Array, out: HostParts, row_scale: np.ndarray | None) -> None:
        cosines, sines, last = portable.wave_views(out, self.n_pairs)
        if self.is_fused:
            rows = aligned(rows)
            cpp.waves(rows, self.scale, cosines, sines, self.pairs)
            if self.has_phase:
                cpp.waves(rows, self.scale, last, None, self.last, self.phase)
        else:
            angles = self.angles(rows)[0]
            cpp.waves(angles[:, : self.n_pairs], self.scale, cosines, sines)
            if self.has_phase:
                cpp.waves(angles[:, self.n_pairs :], self.scale, last, None, None, self.phase)
        if row_scale is not None:
            for part in out:
                if part is not None:
                    part *= row_scale[:, None]


def _in_blocks(values: np.ndarray, dtype: Any) -> np.ndarray:  # (..., m) -> (blocks, ..., 16)
    """Columns in blocks of 16, the last one padded with zeros, as the kernel reads them."""
    size = cpp.WAVE_BLOCK
    missing = -values.shape[-1] % size
    padded = np.pad(values, [(0, 0)] * (values.ndim - 1) + [(0, missing)])
    blocks = padded.reshape(*values.shape[:-1], -1, size)
    return np.ascontiguousarray(np.moveaxis(blocks, -2, 0), dtype=dtype)


def hadamard_product(factors: HadamardFactors, rows: Array) -> Prepared:
    *weights, n_columns, is_complex, scale = factors
    d = factors.turns.shape[2]
    if d > cpp.LARGEST_HADAMARD:
        return portable.HadamardProduct(factors, rows)
    apply = cpp.prepare_tensor_srht(*weights, n_columns, is_complex, _is_single(rows))
    return _Sketch(apply, d, n_columns, is_complex, scale)


def sign_product(turns: np.ndarray, is_complex: bool, scale: float, rows: Array) -> Prepared:
    if is_sparse(rows):  # a sparse product does less work than any dense one
        return portable.SignProduct(turns, is_complex, scale, rows)
    _, n_columns, d = turns.shape
    apply = cpp.prepare_sign_projection(turns, is_complex, _is_single(rows))
    found = _Sketch(apply, d, n_columns, is_complex, scale)
    found.chunk_bytes = 1 << 25  # all weights are read for every chunk: many rows share that
    return found


def count_product(factors: CountFactors, rows: Array) -> Prepared:
    buckets, _, n_columns, is_complex = factors
    if is_sparse(rows):
        return portable.CountProduct(factors, rows)
    if len(buckets) == 1 or not cpp.has_small_factors(n_columns):
        return SpectralCountProduct(factors)
    apply = cpp.prepare_tensor_sketch(*factors, _is_single(rows))
    return _Sketch(apply, buckets.shape[1], n_columns, is_complex)


def sorf(signs: np.ndarray, *others: Any) -> Prepared:
    is_long = signs.shape[2] > cpp.LARGEST_HADAMARD
    return (portable.Sorf if is_long else CompiledSorf)(signs, *others)


def waves(factors: WaveFactors, rows: Array) -> Prepared:
    is_array = isinstance(factors.lengthscale, np.ndarray)
    if (
        is_foreign(factors.lengthscale)  # with a gradient, perhaps
        or is_foreign(factors.scale)
        or rows.dtype not in (np.float32, np.float64)
        or (len(factors.frequencies) == 2 and is_array)  # the scales of sorf are of angles
    ):
        return portable.Waves(factors, rows)
    return CompiledWaves(factors, rows)


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
    is_few = R.shape[1] <= MOST_ADJOINT and total.strides[1] == total.itemsize
    # with shorter vectors, or several threads, a BLAS is as fast
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

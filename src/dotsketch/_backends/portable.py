"""The backend for every array library, in array API code: the oracle of the compiled one.

Inside, rows of data are the *last* axis: arrays have shape (coordinates, rows). Then a sign flip
is a scaling of rows, a permutation or a hash is a gather of whole rows, and a Walsh–Hadamard
transform is a few large matrix products. Functions here take X as (rows, coordinates) and return
transposed views, which the caller writes straight into its result.

Weights with values in {1, i, −1, −i} are stored as `turns`, small integers t that mean iᵗ; real
signs are the turns 0 and 2.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

import numpy as np
import scipy.fft
import scipy.sparse
from array_api_compat import device, is_numpy_array, is_torch_array

from .._arrays import (
    Array,
    ArrayT,
    HostParts,
    Parts,
    host,
    is_sparse,
    is_traced,
    join,
    like,
    namespace,
)
from .prepared import Prepared, multiply, scaled, transposed

_LARGEST_FACTOR = 5  # a Walsh–Hadamard transform is done in factors of at most 2⁵ = 32


@lru_cache(maxsize=16)
def _hadamard_matrix(bits: int) -> np.ndarray:
    H = np.ones((1, 1))
    for _ in range(bits):
        H = np.block([[H, H], [H, -H]])
    return H


def _hadamard_like(bits: int, A: Array) -> Array:
    """The Hadamard matrix of order 2^bits in the library of A."""
    if not (is_torch_array(A) and is_traced(A)):
        return like(_hadamard_matrix(bits), A)
    xp = namespace(A)  # NumPy's constants would end a graph of torch.compile
    H = xp.ones((1, 1), dtype=A.dtype, device=A.device)
    for _ in range(bits):
        H = xp.concat([xp.concat([H, H], axis=1), xp.concat([H, -H], axis=1)], axis=0)
    return H


def hadamard_middle(A: ArrayT) -> ArrayT:  # (B, d, n) -> (B, d, n)
    """H_d applied along the middle axis: H = H_f ⊗ H_g ⊗ …, one matrix product per factor."""
    xp = namespace(A)
    blocks, d, n = A.shape
    bits = d.bit_length() - 1
    n_factors = max(1, math.ceil(bits / _LARGEST_FACTOR))
    before = blocks
    for step in range(n_factors):
        factor_bits = bits // n_factors + (step < bits % n_factors)
        H = _hadamard_like(factor_bits, A)
        after = blocks * d * n // (before * H.shape[0])
        A = xp.matmul(H, xp.reshape(A, (before, H.shape[0], after)))
        before *= H.shape[0]
    return xp.reshape(A, (blocks, d, n))


def hadamard(X: ArrayT) -> ArrayT:  # (n, d) -> (n, d)
    """Unnormalised Walsh–Hadamard transform of every row; d is a power of two."""
    return hadamard_middle(X.T[None, :, :])[0, :, :].T


def signs(turns: Any, X: Array) -> tuple[Array, Array]:
    """Real and imaginary part of iᵗ, in the library and dtype of X.

    Floating `turns` are real weights themselves, which were signs before they were trained.
    """
    xp = namespace(turns)
    if xp.isdtype(turns.dtype, "real floating"):
        return xp.astype(turns, X.dtype), xp.zeros_like(turns, dtype=X.dtype)
    real = xp.astype(turns == 0, X.dtype) - xp.astype(turns == 2, X.dtype)
    imaginary = xp.astype(turns == 1, X.dtype) - xp.astype(turns == 3, X.dtype)
    return real, imaginary


def columns(X: Array, width: int) -> Array:  # (n, d) -> (width, n)
    """X with one coordinate per row, zero rows appended up to `width`."""
    xp = namespace(X)
    missing = width - X.shape[1]
    if is_numpy_array(X):
        A = (
            np.zeros((width, X.shape[0]), dtype=X.dtype)
            if missing
            else np.empty_like(X.T, order="C")
        )
        A[: X.shape[1]] = X.T
        return A
    if not missing:
        return X.T
    zeros = xp.zeros_like(X[:, :1])
    return xp.concat([X, xp.broadcast_to(zeros, (X.shape[0], missing))], axis=1).T


def srht(
    A: Array,
    turns: Array,
    places: Array,
    is_complex: bool,
    transform: Callable[[Array], Array] = hadamard_middle,
) -> Parts:
    """Random projections by a signed Hadamard matrix, (d, n) -> (D, n) parts.

    Block b is H (z_b ∘ x) with z = i^turns[b]; row l of the result is coordinate `places[l]` of
    all blocks laid end to end (`places` holds D numbers below B·d).
    """
    xp = namespace(A)
    n_blocks, d = turns.shape
    n = A.shape[1]
    real, imaginary = (part[:, :, None] for part in signs(turns, A))
    if not is_complex:
        T = transform(real * A[None, :, :])
        return xp.take(xp.reshape(T, (n_blocks * d, n)), places, axis=0), None
    # Re z and Im z are never both nonzero: two real transforms, side by side
    both = xp.concat([real * A[None, :, :], imaginary * A[None, :, :]], axis=2)
    T = xp.take(xp.reshape(transform(both), (n_blocks * d, 2 * n)), places, axis=0)
    return T[:, :n], T[:, n:]


def project(X: Array, real: Array, imaginary: Array | None) -> Parts:
    """Dense random projections, (n, d) and weights (D, d) -> (D, n) parts."""
    if is_sparse(X):
        X = X.T  # CSC: the product runs over the rows of the weights
        return (real @ X), None if imaginary is None else (imaginary @ X)
    X = X.T
    return real @ X, None if imaginary is None else imaginary @ X


def count_sketch(X: Array, table: CountTable, is_complex: bool) -> Parts:
    """Σ over the coordinates k of every bucket of iᵗ⁽ᵏ⁾ x_k, (n, d) -> (D, n) parts."""
    if is_sparse(X):
        real = (table.real @ X.T).toarray()
        return real, (table.imaginary @ X.T).toarray() if is_complex else None
    A = X.T
    if is_numpy_array(X):
        A = np.ascontiguousarray(A)
        return table.real @ A, table.imaginary @ A if is_complex else None
    real, imaginary = signs(table.turns, X)
    return (
        table.counts(real[:, None] * A),
        table.counts(imaginary[:, None] * A) if is_complex else None,
    )


class CountTable:
    """One hash of d coordinates into D buckets, laid out for the library of X.

    NumPy and sparse arrays use two (D, d) sparse matrices; other libraries a table of gathers:
    `members[j, b]` is the j-th coordinate of bucket b, or d (a zero) where it has fewer. Hashes
    that are tensors themselves stay where they are.
    """

    members: Array | None = None
    buckets: Array
    turns: Array

    def __init__(self, buckets: Any, turns: Any, n_buckets: int, X: Array):
        d = buckets.shape[0]
        self.n_buckets = n_buckets
        if is_torch_array(buckets):
            self.buckets, self.turns = buckets, turns
            return
        if is_sparse(X) or is_numpy_array(X):
            real, imaginary = signs(turns, X)
            where = (buckets, np.arange(d))
            shape = (n_buckets, d)
            self.real = scipy.sparse.csr_matrix((real, where), shape=shape)
            self.imaginary = scipy.sparse.csr_matrix((imaginary, where), shape=shape)
            return
        order = np.argsort(buckets, kind="stable")
        loads = np.bincount(buckets, minlength=n_buckets)
        rank = np.arange(d) - np.repeat(np.cumsum(loads) - loads, loads)
        members = np.full((int(loads.max(initial=1)), n_buckets), d)
        members[rank, buckets[order]] = order
        self.members = like(members, X)
        self.turns = like(turns, X)

    def counts(self, A: Array) -> Array:  # (d, n) -> (D, n)
        """The sums over the coordinates of every bucket, for libraries without sparse matrices."""
        xp = namespace(A)
        if self.members is None:
            empty = xp.zeros((self.n_buckets, A.shape[1]), dtype=A.dtype, device=A.device)
            return empty.index_add(0, self.buckets, A)
        A = xp.concat([A, xp.zeros_like(A[:1, :])], axis=0)
        total = xp.take(A, self.members[0, :], axis=0)
        for j in range(1, self.members.shape[0]):
            total = total + xp.take(A, self.members[j, :], axis=0)
        return total


def fourier(parts: Parts, axis: int = 0) -> Array:  # D -> D // 2 + 1 (real) or D, complex
    """Discrete Fourier transform along an axis; half of it for a real array."""
    real, imaginary = parts
    if is_numpy_array(real):
        if imaginary is None:
            return scipy.fft.rfft(real, axis=axis)
        values = real.base if is_complex_view(real) else real + np.complex64(1j) * imaginary
        return scipy.fft.fft(values, axis=axis, overwrite_x=True)
    xp = namespace(real)
    if imaginary is None:
        return xp.fft.rfft(real, axis=axis)
    return xp.fft.fft(join(parts, "complex"), axis=axis)


def is_complex_view(real: np.ndarray) -> bool:
    """Whether this is the real part of a whole complex array."""
    base = real.base
    return base is not None and np.iscomplexobj(base) and base.shape == real.shape


def inverse_fourier(spectrum: Array, length: int, is_complex: bool, axis: int = 0) -> Parts:
    """Inverse of `fourier`, as parts with `length` entries along the axis."""
    if is_numpy_array(spectrum):
        if not is_complex:
            return scipy.fft.irfft(spectrum, n=length, axis=axis, overwrite_x=True), None
        values = scipy.fft.ifft(spectrum, axis=axis, overwrite_x=True)
        return values.real, values.imag
    xp = namespace(spectrum)
    if not is_complex:
        return xp.fft.irfft(spectrum, n=length, axis=axis), None
    values = xp.fft.ifft(spectrum, axis=axis)
    return xp.real(values), xp.imag(values)


class HadamardProduct(Prepared):
    """Products of projections by signed, permuted Hadamard blocks."""

    transform = staticmethod(hadamard_middle)

    def __init__(
        self,
        turns: Array,
        places: Array,
        n_columns: int,
        is_complex: bool,
        scale: float,
        rows: Array,
    ):
        n_factors, n_blocks, self.width = places.shape
        # counted over all blocks laid end to end, for the columns that are kept
        places = like(places, rows)
        xp = namespace(places)
        blocks = xp.arange(n_blocks, dtype=places.dtype, device=device(places))
        places = xp.reshape(places + self.width * blocks[:, None], (n_factors, -1))[:, :n_columns]
        turns = like(turns, rows)
        self.factors = [(turns[i, :, :], places[i, :]) for i in range(turns.shape[0])]
        self.is_complex, self.scale = is_complex, scale
        self.widest = max(self.width, n_columns) * (1 + is_complex)

    def columns(self, rows: Array) -> Parts:
        A = columns(rows, self.width)
        return _product(
            (srht(A, *factor, self.is_complex, self.transform) for factor in self.factors),
            self.scale,
        )


class DenseProduct(Prepared):
    """Products of projections by dense matrices."""

    accepts_sparse = True
    chunk_bytes = 1 << 25  # all weights are read for every chunk: many rows share that

    def __init__(self, real: Array, imaginary: Array | None, scale: float, rows: Array):
        real = like(real, rows)
        imaginary = None if imaginary is None else like(imaginary, rows)
        self.factors: list[tuple[Array, Array | None]] = [
            (real[i, :, :], None if imaginary is None else imaginary[i, :, :])
            for i in range(real.shape[0])
        ]
        self.scale = scale
        self.widest = max(real.shape[1:]) * (1 if imaginary is None else 2)

    def columns(self, rows: Array) -> Parts:
        return _product((project(rows, *factor) for factor in self.factors), self.scale)


class SignProduct(DenseProduct):
    """Products of dense projections by weights iᵗ."""

    def __init__(self, turns: np.ndarray, is_complex: bool, scale: float, rows: Array):
        pairs = (signs(like(factor, rows), rows) for factor in turns)
        self.factors = [(real, imaginary if is_complex else None) for real, imaginary in pairs]
        self.scale = scale
        self.widest = max(turns.shape[1:]) * (1 + is_complex)


class CountProduct(Prepared):
    """Count sketches, convolved by the Fourier transform."""

    accepts_sparse = True

    def __init__(
        self,
        buckets: Array,
        turns: Array,
        n_columns: int,
        is_complex: bool,
        rows: Array,
    ):
        self.tables = [
            CountTable(buckets[i], turns[i], n_columns, rows) for i in range(buckets.shape[0])
        ]
        self.n_columns, self.is_complex = n_columns, is_complex
        self.widest = max(buckets.shape[1], n_columns) * (1 + is_complex)

    def columns(self, rows: Array) -> Parts:
        spectrum: Any = None
        if len(self.tables) == 1:  # nothing to convolve
            return transposed(count_sketch(rows, self.tables[0], self.is_complex))
        for table in self.tables:
            transformed = fourier(count_sketch(rows, table, self.is_complex))
            spectrum = transformed if spectrum is None else spectrum * transformed
        return transposed(inverse_fourier(spectrum, self.n_columns, self.is_complex))


class Sorf(Prepared):
    """H D₃ H D₂ H D₁ x, block by block, times one scale per column."""

    transform = staticmethod(hadamard_middle)

    def __init__(self, signs: Array, scales: Array, rows: Array):
        self.signs, self.scales = like(signs, rows), like(scales, rows)
        self.widest = signs.shape[0] * signs.shape[2]

    def columns(self, rows: Array) -> Parts:
        xp = namespace(rows)
        n_blocks, _, d = self.signs.shape
        A = columns(rows, d)
        A = xp.broadcast_to(A[None, :, :], (n_blocks, *A.shape))
        D = xp.astype(self.signs, rows.dtype)
        for step in range(3):
            A = self.transform(D[:, step, :, None] * A)
        n_columns = self.scales.shape[0]
        return xp.reshape(A, (n_blocks * d, rows.shape[0]))[:n_columns, :].T * self.scales, None


class Linear(Prepared):
    """One projection by a dense real matrix."""

    accepts_sparse = True

    def __init__(self, matrix: Array, rows: Array):
        self.matrix: Any = like(matrix, rows)
        self.widest = max(matrix.shape)

    def __call__(
        self, rows: Array, *, row_scale: Array | None = None, out: HostParts | None = None
    ) -> Parts:
        if out is None or row_scale is not None or not is_numpy_array(rows):
            return super().__call__(rows, row_scale=row_scale, out=out)
        np.matmul(rows, self.matrix.T, out=out[0])
        return out

    def columns(self, rows: Array) -> Parts:
        return rows @ self.matrix.T, None


class Waves(Prepared):
    """Cosines and sines of products with frequencies."""

    structured: Callable[..., Prepared] = Sorf
    chunk_bytes = 1 << 23  # all frequencies are read for every chunk: many rows share that

    def __init__(
        self,
        frequencies: tuple[np.ndarray, ...],
        phase: np.ndarray,
        lengthscale: Any,
        scale: Any,
        is_complex: bool,
        rows: Array,
    ):
        *signs, last = frequencies
        self.angles: Prepared = self.structured(*signs, last, rows) if signs else Linear(last, rows)
        is_array = isinstance(lengthscale, np.ndarray)
        self.lengthscale = like(lengthscale, rows) if is_array else lengthscale
        self.phase, self.scale = like(phase, rows), scale
        self.has_phase, self.is_complex = len(phase) > 0, is_complex
        self.widest = max(rows.shape[1], len(frequencies[-1]))
        self.accepts_sparse = self.angles.accepts_sparse and not is_array

    def columns(self, rows: Array) -> Parts:
        angles = self._angles(rows)
        xp = namespace(angles)
        n_pairs = angles.shape[1] - self.has_phase
        cosines, sines = xp.cos(angles[:, :n_pairs]), xp.sin(angles[:, :n_pairs])
        if self.is_complex:
            return self.scale * cosines, self.scale * sines
        last = [xp.cos(angles[:, n_pairs:] + self.phase)] if self.has_phase else []
        return self.scale * xp.concat([cosines, sines, *last], axis=1), None

    def __call__(
        self, rows: Array, *, row_scale: Array | None = None, out: HostParts | None = None
    ) -> Parts:
        """For NumPy results the columns are written in place, without temporaries of their size."""
        if out is None or row_scale is not None:
            return super().__call__(rows, row_scale=row_scale, out=out)
        angles: Any = self._angles(self.dense(rows))
        n_pairs = angles.shape[1] - self.has_phase
        cosines, sines, last = wave_views(out, n_pairs)
        np.cos(angles[:, :n_pairs], out=cosines)
        np.sin(angles[:, :n_pairs], out=sines)
        if self.has_phase:
            np.cos(angles[:, n_pairs:] + self.phase, out=last)
        for part in out:
            if part is not None:
                part *= self.scale
        return out

    def _angles(self, rows: Array) -> Array:  # (n, d) -> (n, D)
        return self.angles(rows if self.lengthscale is None else rows / self.lengthscale)[0]


def wave_views(out: HostParts, n_pairs: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Where cosines, sines, and the cosine of a last angle without a pair go."""
    real, imaginary = out
    if imaginary is not None:
        return real, imaginary, real[:, :0]
    return real[:, :n_pairs], real[:, n_pairs : 2 * n_pairs], real[:, 2 * n_pairs :]


def _product(factors: Iterable[Parts], scale: float) -> Parts:  # of (D, n) -> (n, D)
    product: Any = None
    for factor in factors:
        product = factor if product is None else multiply(product, factor)
    return transposed(product if scale == 1 else scaled(product, scale))


def pair_gram(
    dot: np.ndarray,
    values: np.ndarray,
    left: np.ndarray,
    right: np.ndarray,
    degrees: np.ndarray,
    skips_diagonal: bool,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Sums over pairs of t tᵀ, t R and (R², k²), with t_b = u_b v_b sⁿ and R = k − Σ t_b."""
    powers = np.empty((len(degrees), *dot.shape))
    power = np.ones_like(dot)
    for n in range(int(degrees.max()) + 1):
        for b in np.flatnonzero(degrees == n):
            np.multiply(left[:, b, None] * power, right[None, :, b], out=powers[b])
        power = power * dot
    if skips_diagonal:  # k(x, x) may overflow where k(x, y) does not
        values = values.copy()
        for table in (values, *powers):
            np.fill_diagonal(table, 0.0)
    rest = (values - powers.sum(axis=0)).ravel()
    flat = powers.reshape(len(powers), -1)
    return flat @ flat.T, flat @ rest, np.array([rest @ rest, np.sum(values**2)])


def pair_terms(*arguments: Any, shape: tuple[int, int]) -> None:
    """No sums: the terms of a sketch are arrays here, which the caller sums itself."""


def largest_entry(X: Array) -> float:
    if is_sparse(X) or is_numpy_array(X):
        return max(float(X.max()), -float(X.min()))
    xp = namespace(X)
    return max(float(host(xp.max(X))), -float(host(xp.min(X))))


hadamard_product = HadamardProduct
sign_product = SignProduct
dense_product = DenseProduct
count_product = CountProduct
sorf = Sorf
linear = Linear
waves = Waves

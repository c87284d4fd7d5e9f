"""Linear maps of arrays of any library: Hadamard and Fourier transforms, projections, counts.

Inside, rows of data are the *last* axis: arrays have shape (coordinates, rows). Then a sign flip
is a scaling of rows, a permutation or a hash is a gather of whole rows, and a Walsh–Hadamard
transform is a few large matrix products. Functions here take X as (rows, coordinates) and return
transposed views, which the caller writes straight into its result.

Weights with values in {1, i, −1, −i} are stored as `turns`, small integers t that mean iᵗ; real
signs are the turns 0 and 2.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import scipy.fft
import scipy.sparse
from array_api_compat import is_numpy_array, is_torch_array

from .._arrays import Array, ArrayT, Parts, is_sparse, is_traced, join, like, namespace


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
    n_factors = max(1, math.ceil(bits / 5))  # of at most 2⁵ = 32
    before = blocks
    for step in range(n_factors):
        factor_bits = bits // n_factors + (step < bits % n_factors)
        H = _hadamard_like(factor_bits, A)
        after = blocks * d * n // (before * H.shape[0])
        A = xp.matmul(H, xp.reshape(A, (before, H.shape[0], after)))
        before *= H.shape[0]
    return xp.reshape(A, (blocks, d, n))


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
    X = X.T  # CSC, where X is CSR: the product runs over the rows of the weights
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

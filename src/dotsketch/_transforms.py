"""The linear transforms inside the sketches, as portable array code.

Inside, rows of data are the *last* axis: arrays have shape (coordinates, rows). Then a sign flip
is a scaling of rows, a permutation or a hash is a gather of whole rows, and a Walsh–Hadamard
transform is a few large matrix products. Functions here take X as (rows, coordinates) and return
transposed views, which the caller writes straight into its result.

Where the compiled kernels of `_fast` are there, NumPy rows go to them instead, through the
functions `…_into`; the code here is their oracle and is used for everything else.

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

from . import _fast
from ._arrays import Array, Parts, is_sparse, is_traced, join, like, namespace

_LARGEST_FACTOR = 5  # a Walsh–Hadamard transform is done in factors of at most 2⁵ = 32


def power_of_two(dimension: int) -> int:
    """The least power of two that is at least `dimension`."""
    return 1 << max(dimension - 1, 0).bit_length()


@lru_cache(maxsize=16)
def _hadamard_matrix(bits: int) -> np.ndarray:
    H = np.ones((1, 1))
    for _ in range(bits):
        H = np.block([[H, H], [H, -H]])
    return H


def _fwht_middle(A: Array) -> Array:  # (B, d, n) -> (B, d, n)
    """H_d applied along the middle axis: H = H_f ⊗ H_g ⊗ … as one matrix product a factor."""
    if uses_fast_autograd(A) and A.shape[1] <= 1 << 20:
        return _torch_fwht(A)
    xp = namespace(A)
    blocks, d, n = A.shape
    bits = d.bit_length() - 1
    n_factors = max(1, math.ceil(bits / _LARGEST_FACTOR))
    before = blocks
    for step in range(n_factors):
        factor_bits = bits // n_factors + (step < bits % n_factors)
        H = like(_hadamard_matrix(factor_bits), A)
        after = blocks * d * n // (before * H.shape[0])
        A = xp.matmul(H, xp.reshape(A, (before, H.shape[0], after)))
        before *= H.shape[0]
    return xp.reshape(A, (blocks, d, n))


def uses_fast(X: Array) -> bool:
    """Whether compiled kernels apply to X: NumPy rows (or sparse ones, made dense by chunks)."""
    return _fast.AVAILABLE and (is_numpy_array(X) or is_sparse(X))


def uses_fast_hadamard(X: Array, length: int) -> bool:
    """Whether the compiled Walsh–Hadamard transform serves X: it takes lengths up to 2²⁰."""
    return uses_fast(X) and length <= 1 << 20


def uses_fast_autograd(A: Array) -> bool:
    """Whether A is a CPU tensor with a gradient, which the compiled transform can carry."""
    if not _fast.AVAILABLE or not is_torch_array(A) or is_traced(A):
        return False
    import torch

    plain = A.device.type == "cpu" and A.dtype in (torch.float32, torch.float64)
    return plain and A.requires_grad and not torch._C._functorch.is_functorch_wrapped_tensor(A)


def _torch_fwht(A: Array) -> Array:  # (B, d, n) -> (B, d, n)
    """The compiled transform under autograd: H is symmetric, so its gradient is itself."""
    import torch

    class Transform(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, rows: Array) -> Array:
            out = torch.empty_like(rows)
            d = rows.shape[-1]
            _fast.fwht(rows.detach().numpy().reshape(-1, d), out.numpy().reshape(-1, d))
            return out

        @staticmethod
        def backward(ctx: Any, gradient: Array) -> Array:
            return Transform.apply(gradient.contiguous())

    return Transform.apply(A.transpose(1, 2).contiguous()).transpose(1, 2)


def tensor_srht_into(
    X: np.ndarray,
    turns: np.ndarray,
    places: np.ndarray,
    scale: float,
    out: Parts,
    row_scale: np.ndarray | None = None,
) -> None:
    """Compiled TensorSRHT of the rows of X, weights (p, B, d), into views (n, D)."""
    _fast.tensor_srht(_rows(X), turns, places, scale, *out, _column(row_scale))


def sign_projection_into(
    X: np.ndarray,
    turns: np.ndarray,
    scale: float,
    out: Parts,
    row_scale: np.ndarray | None = None,
) -> None:
    """Compiled products of dense projections by iᵗ, turns (p, D, d), into views (n, D)."""
    _fast.sign_projection(_rows(X), turns, scale, *out, _column(row_scale))


def tensor_sketch_into(
    X: np.ndarray,
    buckets: np.ndarray,
    turns: np.ndarray,
    out: Parts,
    row_scale: np.ndarray | None = None,
) -> None:
    """Compiled TensorSketch of the rows of X, hashes (p, d), into views (n, D)."""
    _fast.tensor_sketch(_rows(X), buckets, turns, 1.0, *out, _column(row_scale))


def has_fast_convolution(length: int) -> bool:
    """Whether `tensor_sketch_into` takes D = length: no prime factor above 127."""
    return _fast.AVAILABLE and _fast.has_small_factors(length)


def pair_gram_into(arguments: tuple, totals: tuple[np.ndarray, ...], weight: float) -> None:
    """Compiled sums over a block of pairs (`_fast.pair_gram`), added to the totals times weight."""
    sums = [np.zeros_like(total) for total in totals]
    _fast.pair_gram(*arguments, *sums)
    for total, found in zip(totals, sums, strict=True):
        total += weight * found


def pair_terms(arguments: tuple, shape: tuple[int, int]) -> np.ndarray:
    """Compiled sums of variance terms over a block of pairs (`_fast.pair_terms`)."""
    terms = np.zeros(shape)
    _fast.pair_terms(*arguments, terms)
    return terms


def empty_parts(n: int, width: int, dtype: Any, is_complex: bool) -> Parts:
    real = np.empty((n, width), dtype=dtype)
    return real, np.empty_like(real) if is_complex else None


def _rows(X: np.ndarray) -> np.ndarray:
    """X with contiguous, aligned rows, as the compiled kernels want them."""
    contiguous = X.strides[-1] == X.itemsize or X.shape[-1] == 1
    return X if contiguous and X.flags.aligned else np.require(X, requirements=("C", "A"))


def _column(row_scale: np.ndarray | None) -> np.ndarray | None:
    return None if row_scale is None else row_scale.reshape(-1)


def fwht(X: Array) -> Array:  # (n, d) -> (n, d)
    """Unnormalised Walsh–Hadamard transform of every row; d is a power of two.

    The matrix is Sylvester's, H_2d = [[H_d, H_d], [H_d, −H_d]], so fwht(fwht(x)) = d·x.

    >>> import numpy as np
    >>> fwht(np.array([[1.0, 2.0, 3.0, 4.0]]))
    array([[10., -2., -4.,  0.]])
    """
    d = X.shape[1]
    if d != power_of_two(d):
        raise ValueError(
            f"The Walsh–Hadamard transform needs a power of two; X has {d} columns: "
            f"pad it with zeros to {power_of_two(d)}."
        )
    if uses_fast_hadamard(X, d) and X.dtype in (np.float32, np.float64):
        out = np.empty(X.shape, dtype=X.dtype)
        _fast.fwht(_rows(X), out)
        return out
    return _fwht_middle(X.T[None, :, :])[0, :, :].T


def sorf(X: Array, signs: Array, n_projections: int) -> Array:  # (n, d) -> (n, D)
    """Structured orthogonal projections H D₃ H D₂ H D₁ x, block by block, not normalised.

    `signs` (B, 3, d) are ±1, d a power of two; X is padded to d with zeros, and the first D
    columns of all blocks are kept.
    """
    n_blocks, _, d = signs.shape
    if uses_fast_hadamard(X, d) and X.dtype in (np.float32, np.float64):
        out = np.empty((X.shape[0], n_projections), dtype=X.dtype)
        _fast.sorf(_rows(X), np.ascontiguousarray(signs, dtype=np.int8), out)
        return out
    xp = namespace(X)
    A = columns(X, d)
    A = xp.broadcast_to(A[None, :, :], (n_blocks, *A.shape))
    D = xp.astype(like(signs, X), X.dtype)
    for step in range(3):
        A = _fwht_middle(D[:, step, :, None] * A)
    return xp.reshape(A, (n_blocks * d, X.shape[0]))[:n_projections, :].T


def signs(turns: Array, X: Array) -> tuple[Array, Array]:
    """Real and imaginary part of iᵗ, in the library and dtype of X."""
    xp = namespace(turns)
    real = xp.astype(turns == 0, X.dtype) - xp.astype(turns == 2, X.dtype)
    imaginary = xp.astype(turns == 1, X.dtype) - xp.astype(turns == 3, X.dtype)
    return real, imaginary


def multiply(a: Parts, b: Parts) -> Parts:
    """The entrywise product of two complex arrays given by their parts."""
    if a[1] is None or b[1] is None:
        return a[0] * b[0], None
    return a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]


def scaled(parts: Parts, scale: Any) -> Parts:
    real, imaginary = parts
    return real * scale, None if imaginary is None else imaginary * scale


def transposed(parts: Parts, scale: float | None = None) -> Parts:  # (D, n) -> (n, D)
    """Parts, times a scale if one is given, as transposed views."""
    real, imaginary = parts if scale is None else scaled(parts, scale)
    return real.T, None if imaginary is None else imaginary.T


def linear_on_parts(function: Callable[[Array], Parts], parts: Parts) -> Parts:
    """A complex linear map that is given on real arrays, on a complex array."""
    real, imaginary = parts
    if imaginary is None:
        return function(real)
    (a, b), (c, d) = function(real), function(imaginary)
    return (a, c) if b is None else (a - d, b + c)


def columns(X: Array, width: int) -> Array:  # (n, d) -> (width, n)
    """X with one coordinate a row, zero rows appended up to `width`."""
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


def srht(A: Array, turns: Array, places: Array, is_complex: bool) -> Parts:
    """Random projections by a signed Hadamard matrix, (d, n) -> (D, n) parts.

    Block b is H (z_b ∘ x) with z = i^turns[b]; row l of the result is coordinate `places[l]` of
    all blocks laid end to end (`places` holds D numbers below B·d).
    """
    xp = namespace(A)
    n_blocks, d = turns.shape
    n = A.shape[1]
    real, imaginary = (part[:, :, None] for part in signs(turns, A))
    if not is_complex:
        T = _fwht_middle(real * A[None, :, :])
        return xp.take(xp.reshape(T, (n_blocks * d, n)), places, axis=0), None
    # Re z and Im z are never both nonzero: two real transforms, side by side
    both = xp.concat([real * A[None, :, :], imaginary * A[None, :, :]], axis=2)
    T = xp.take(xp.reshape(_fwht_middle(both), (n_blocks * d, 2 * n)), places, axis=0)
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
        _gather_buckets(real[:, None] * A, table.members),
        _gather_buckets(imaginary[:, None] * A, table.members) if is_complex else None,
    )


class CountTable:
    """One hash of d coordinates into D buckets, laid out for the library of X.

    NumPy and sparse arrays use two (D, d) sparse matrices; other libraries a table of gathers:
    `members[j, b]` is the j-th coordinate of bucket b, or d (a zero) where it has fewer.
    """

    def __init__(self, buckets: np.ndarray, turns: np.ndarray, n_buckets: int, X: Array):
        d = buckets.shape[0]
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


def _gather_buckets(A: Array, members: Array) -> Array:  # (d, n), (load, D) -> (D, n)
    xp = namespace(A)
    A = xp.concat([A, xp.zeros_like(A[:1, :])], axis=0)
    total = xp.take(A, members[0, :], axis=0)
    for j in range(1, members.shape[0]):
        total = total + xp.take(A, members[j, :], axis=0)
    return total


def count_sketch_rows(
    X: np.ndarray, buckets: np.ndarray, turns: np.ndarray, n_buckets: int, is_complex: bool
) -> Parts:  # (n, d) -> (n, D) parts
    """The compiled count sketch; complex counts are the two views of one complex array."""
    if not is_complex:
        real = np.empty((X.shape[0], n_buckets), dtype=X.dtype)
        _fast.count_sketch(_rows(X), buckets, turns, real, None)
        return real, None
    counts = np.empty((X.shape[0], n_buckets), dtype=np.result_type(X.dtype, np.complex64))
    _fast.count_sketch(_rows(X), buckets, turns, counts.real, counts.imag)
    return counts.real, counts.imag


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

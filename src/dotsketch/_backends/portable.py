"""The backend for every array library, in array API code: the oracle of the compiled one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from array_api_compat import device, is_numpy_array
from scipy.linalg.blas import sgemm

from .._arrays import (
    Array,
    ArrayT,
    HostParts,
    Parts,
    host,
    is_sparse,
    like,
    namespace,
)
from .prepared import Prepared, multiply, scale_in_place, scaled, transposed, wave_views
from .transforms import (
    CountTable,
    columns,
    count_sketch,
    fourier,
    hadamard_middle,
    inverse_fourier,
    project,
    signs,
    srht,
)

Transform = Callable[[Any], Any]


def hadamard(X: ArrayT) -> ArrayT:  # (n, d) -> (n, d)
    """Unnormalised Walsh–Hadamard transform of every row; d is a power of two."""
    return hadamard_middle(X.T[None, :, :])[0, :, :].T


def hadamard_product(
    turns: Any,
    places: Any,
    n_columns: int,
    is_complex: bool,
    scale: float,
    rows: Array,
    transform: Transform = hadamard_middle,
) -> Prepared:
    n_factors, n_blocks, width = places.shape
    # counted over all blocks laid end to end, for the columns that are kept
    places = like(places, rows)
    xp = namespace(places)
    blocks = xp.arange(n_blocks, dtype=places.dtype, device=device(places))
    places = xp.reshape(places + width * blocks[:, None], (n_factors, -1))[:, :n_columns]
    turns = like(turns, rows)
    factors = [(turns[i, :, :], places[i, :]) for i in range(turns.shape[0])]

    def of(rows: Array) -> Parts:
        A = columns(rows, width)
        return _product((srht(A, *factor, is_complex, transform) for factor in factors), scale)

    return Prepared(of, max(width, n_columns) * (1 + is_complex))


def dense_product(real: Any, imaginary: Any, scale: float, rows: Array) -> Prepared:
    real = like(real, rows)
    imaginary = None if imaginary is None else like(imaginary, rows)
    factors = [
        (real[i, :, :], None if imaginary is None else imaginary[i, :, :])
        for i in range(real.shape[0])
    ]
    return _projections(factors, scale)


def sign_product(turns: Any, is_complex: bool, scale: float, rows: Array) -> Prepared:
    pairs = (signs(like(factor, rows), rows) for factor in turns)
    return _projections([(real, imag if is_complex else None) for real, imag in pairs], scale)


def _projections(factors: list[Parts], scale: float) -> Prepared:
    """Products of projections by dense matrices (D, d)."""
    real, imaginary = factors[0]

    def of(rows: Array) -> Parts:
        return _product((project(rows, *factor) for factor in factors), scale)

    widest = max(real.shape) * (1 if imaginary is None else 2)
    # all weights are read for every chunk: many rows share that
    return Prepared(of, widest, accepts_sparse=True, chunk_bytes=1 << 25)


def count_product(
    buckets: Any, turns: Any, n_columns: int, is_complex: bool, rows: Array
) -> Prepared:
    tables = [CountTable(buckets[i], turns[i], n_columns, rows) for i in range(buckets.shape[0])]

    def of(rows: Array) -> Parts:
        spectrum: Any = None
        if len(tables) == 1:  # nothing to convolve
            return transposed(count_sketch(rows, tables[0], is_complex))
        for table in tables:
            transformed = fourier(count_sketch(rows, table, is_complex))
            spectrum = transformed if spectrum is None else spectrum * transformed
        return transposed(inverse_fourier(spectrum, n_columns, is_complex))

    return Prepared(of, max(buckets.shape[1], n_columns) * (1 + is_complex), accepts_sparse=True)


def sorf(signs: Any, scales: Any, rows: Array, transform: Transform = hadamard_middle) -> Prepared:
    signs, scales = like(signs, rows), like(scales, rows)
    n_blocks, _, d = signs.shape

    def of(rows: Any) -> Parts:
        xp = namespace(rows)
        A = columns(rows, d)
        A = xp.broadcast_to(A[None, :, :], (n_blocks, *A.shape))
        D = xp.astype(signs, rows.dtype)
        for step in range(3):
            A = transform(D[:, step, :, None] * A)
        A = xp.reshape(A, (n_blocks * d, rows.shape[0]))
        return A[: scales.shape[0], :].T * scales, None

    return Prepared(of, n_blocks * d)


def linear(matrix: Any, rows: Array) -> Prepared:
    matrix = like(matrix, rows)

    def write(rows: Any, row_scale: Any, out: HostParts) -> None:
        if is_numpy_array(rows):
            np.matmul(rows, matrix.T, out=out[0])
        else:
            out[0][...] = rows @ matrix.T
        scale_in_place(out, row_scale)

    return Prepared(
        lambda rows: (rows @ matrix.T, None), max(matrix.shape), write, accepts_sparse=True
    )


def waves(
    frequencies: tuple[Any, ...],
    phase: Any,
    lengthscale: Any,
    scale: Any,
    is_complex: bool,
    rows: Array,
    structured: Callable[..., Prepared] = sorf,
) -> Prepared:
    *signs, last = frequencies
    products = structured(*signs, last, rows) if signs else linear(last, rows)
    is_array = isinstance(lengthscale, np.ndarray)
    length = like(lengthscale, rows) if is_array else lengthscale
    phase, has_phase = like(phase, rows), len(phase) > 0
    n_pairs = len(last) - has_phase
    accepts_sparse = products.accepts_sparse and not is_array

    def angles(rows: Any) -> Any:  # (n, d) -> (n, D)
        return products(rows if length is None else rows / length)[0]

    def of(rows: Array) -> Parts:
        theta = angles(rows)
        xp = namespace(theta)
        cosines, sines = xp.cos(theta[:, :n_pairs]), xp.sin(theta[:, :n_pairs])
        if is_complex:
            return scale * cosines, scale * sines
        alone = [xp.cos(theta[:, n_pairs:] + phase)] if has_phase else []
        return scale * xp.concat([cosines, sines, *alone], axis=1), None

    def write(rows: Any, row_scale: Any, out: HostParts) -> None:
        """Without temporaries of the size of the columns."""
        theta = angles(rows)
        cosines, sines, alone = wave_views(out, n_pairs)
        np.cos(theta[:, :n_pairs], out=cosines)
        np.sin(theta[:, :n_pairs], out=sines)
        if has_phase:
            np.cos(theta[:, n_pairs:] + phase, out=alone)
        scale_in_place(out, scale, row_scale)

    # all frequencies are read for every chunk: many rows share that
    widest = max(rows.shape[1], len(last))
    return Prepared(of, widest, write, accepts_sparse=accepts_sparse, chunk_bytes=1 << 23)


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


def add_adjoint(Z: np.ndarray, R: np.ndarray, total: np.ndarray) -> None:
    is_wide = R.shape[1] > 64 and total.flags.carray  # the sums of more columns are large
    if is_wide and Z.dtype == R.dtype == total.dtype == np.float32:
        # in place: the product and the sum of two large matrices take longer than this
        sgemm(1.0, Z.T, R.T, trans_b=True, beta=1.0, c=total.T, overwrite_c=True)
    else:
        total += R.T @ Z


def largest_entry(X: Array) -> float:
    if is_sparse(X) or is_numpy_array(X):
        return max(float(X.max()), -float(X.min()))
    xp = namespace(X)
    return max(float(host(xp.max(X))), -float(host(xp.min(X))))

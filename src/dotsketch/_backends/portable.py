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
from .prepared import (
    CountFactors,
    HadamardFactors,
    Prepared,
    WaveFactors,
    multiply,
    scaled,
    transposed,
)
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

WIDE_ADJOINT = 64  # columns; the sums of more of them are large


def hadamard(X: ArrayT) -> ArrayT:  # (n, d) -> (n, d)
    """Unnormalised Walsh–Hadamard transform of every row; d is a power of two."""
    return hadamard_middle(X.T[None, :, :])[0, :, :].T


class HadamardProduct(Prepared):
    """Products of projections by signed, permuted Hadamard blocks."""

    transform = staticmethod(hadamard_middle)

    def __init__(self, factors: HadamardFactors, rows: Array):
        turns, places, n_columns, self.is_complex, self.scale = factors
        n_factors, n_blocks, self.width = places.shape
        # counted over all blocks laid end to end, for the columns that are kept
        places = like(places, rows)
        xp = namespace(places)
        blocks = xp.arange(n_blocks, dtype=places.dtype, device=device(places))
        places = xp.reshape(places + self.width * blocks[:, None], (n_factors, -1))[:, :n_columns]
        turns = like(turns, rows)
        self.factors = [(turns[i, :, :], places[i, :]) for i in range(turns.shape[0])]
        self.widest = max(self.width, n_columns) * (1 + self.is_complex)

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

    def __init__(self, factors: CountFactors, rows: Array):
        buckets, turns, self.n_columns, self.is_complex = factors
        self.tables = [
            CountTable(buckets[i], turns[i], self.n_columns, rows) for i in range(buckets.shape[0])
        ]
        self.widest = max(buckets.shape[1], self.n_columns) * (1 + self.is_complex)

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

    def __init__(self, factors: WaveFactors, rows: Array):
        frequencies, phase, lengthscale, self.scale, self.is_complex = factors
        *signs, last = frequencies
        self.angles: Prepared = self.structured(*signs, last, rows) if signs else Linear(last, rows)
        is_array = isinstance(lengthscale, np.ndarray)
        self.lengthscale = like(lengthscale, rows) if is_array else lengthscale
        self.phase, self.has_phase = like(phase, rows), len(phase) > 0
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


def add_adjoint(Z: np.ndarray, R: np.ndarray, total: np.ndarray) -> None:
    is_wide = R.shape[1] > WIDE_ADJOINT and total.flags.carray
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


hadamard_product = HadamardProduct
sign_product = SignProduct
dense_product = DenseProduct
count_product = CountProduct
sorf = Sorf
linear = Linear
waves = Waves

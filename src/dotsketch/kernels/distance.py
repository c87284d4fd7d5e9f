"""Kernels of rows over lengthscales, and those that are a function of the distance between them."""

from __future__ import annotations

from typing import Any

import array_api_compat
import numpy as np
from scipy.sparse import csr_array, hstack

from .._arrays import (
    ArrayT,
    FloatArray,
    dense,
    double,
    host,
    is_sparse,
    is_traced,
    like,
    namespace,
    nonnegative,
    plain,
    share_of_entries,
    suited,
    without_gradient,
)
from .base import Kernel, Pullback
from .inputs import divided, row_squares, zero_per_row

# Squared distances from a product lose their digits to the norms. Those below this share of the
# norms are computed again from differences wherever the kernel sees the distance itself: its
# error is then 1e-11 of the norms, and few pairs are so near.
_NEAR = 1e-5
_MOST_SHARE = 0.1  # of entries that are not zero: rows with more are treated as dense


class LengthscaleKernel(Kernel):
    """A kernel of s(x) = x / lengthscale."""

    searched: tuple[str, ...] = ("lengthscale", "variance")
    per_input = ("lengthscale",)
    lengthscale: Any

    @property
    def is_common(self) -> bool:
        """Whether one lengthscale stands for all columns."""
        return np.ndim(plain(self.lengthscale)) == 0

    @property
    def metric(self) -> tuple[str, Any]:
        """As for every dot product kernel: ⟨s(x), s(y)⟩ = Σ x_k y_k / lengthscale²."""
        if isinstance(self.lengthscale, str):
            return "rows", np.array(np.nan)
        return "rows", np.asarray(host(self.lengthscale), dtype=float) ** -2.0

    def scale(self, X: ArrayT) -> ArrayT:
        values = lengthscale_of(self.lengthscale, X)
        if isinstance(X, np.ndarray) or not is_sparse(X):
            return X / values
        indices: Any = X.indices  # type: ignore[attr-defined]
        return divided(X, values if self.is_common else values[indices])

    def per_column(self, dimension: int) -> Any:
        if isinstance(self.lengthscale, str):  # a rule such as "median" stays
            return self.changed()
        values = np.broadcast_to(host(self.lengthscale), (dimension,)).astype(float)
        return self.changed(lengthscale=values)

    def slopes(self, by_column: FloatArray, of_variance: Any) -> FloatArray:  # (d,), number
        """Derivatives with respect to the logarithms of the lengthscales, and of the variance."""
        of_lengthscales = by_column.sum(keepdims=True) if self.is_common else by_column
        return np.append(of_lengthscales, of_variance)


class DistanceKernel(LengthscaleKernel):
    """variance · f(|s(x) − s(y)|²/2) with s(x) = x / lengthscale.

    A subclass says what f is, a function of half the squared distance (`profile_of_halves`), for a
    search what its derivative is (`slope_of_halves`), and for Fourier features which mixture of
    Gaussian kernels it is (`frequency_factors`). The guide "Kernels" has an example.

    Parameters
    ----------
    lengthscale : number, array of shape (d,) (one for every coordinate), or "median"
        "median" is the median distance between rows; estimators resolve it when they are fitted,
        and `resolve(X)` does so by hand.
    variance : float, default=1.0
    """

    shift_invariant = True
    rules = ("median",)
    needs_small_distances = False  # whether f is not a smooth function of the square at 0

    def __init__(self, *, lengthscale: Any = "median", variance: float = 1.0):
        self.lengthscale = lengthscale
        self.variance = variance
        self.validate()

    def validate(self) -> None:
        if isinstance(self.lengthscale, str) and self.lengthscale not in self.rules:
            raise ValueError(f'lengthscale must be positive or "median"; got {self.lengthscale!r}.')
        super().validate()

    def set_by_rule(self, name: str, X: ArrayT) -> float:
        return median_distance(X)

    def profile_of_halves(self, halves: ArrayT) -> ArrayT:
        """f, where halves are |s(x) − s(y)|²/2 ≥ 0: an array of any library."""
        raise self.lacks("profile_of_halves(halves)", "f from half the squared distances")

    def fill_profile(self, halves: FloatArray) -> None:
        """f of a block of halves, in place."""
        halves[...] = self.profile_of_halves(halves)

    def slope_of_halves(self, halves: FloatArray) -> FloatArray:
        """The derivative of f with respect to the halves, of which a search makes gradients."""
        raise self.lacks("slope_of_halves(halves)", "the derivative of its profile, for a search")

    def frequency_factors(self, n: int, rng: np.random.Generator) -> FloatArray:  # -> (n,)
        """Random factors c of the spectral density: f = E cos cωᵀ(s(x) − s(y)) for ω ~ N(0, I).

        Fourier features need them. f is a mixture of Gaussian kernels of lengthscales 1/c.
        """
        raise self.lacks("frequency_factors(n, rng)", "factors of its Fourier frequencies")

    def __call__(self, X: ArrayT, Y: ArrayT | None = None) -> ArrayT:
        is_plain = not self.is_differentiable
        X, Y = self._matching(X, Y)
        if is_sparse(X):
            return self._of_sparse(X, Y)
        xp = namespace(X)
        S, T, unit = self._centred(xp, X, Y)
        is_host = isinstance(X, np.ndarray)
        if (is_host or not is_traced(unit)) and loses_digits(X.dtype, float(unit)):
            wide: Any = double(X)
            if wide.dtype != X.dtype:  # JAX may have no float64
                return xp.astype(self(wide, None if Y is None else double(Y)), X.dtype)
        if is_host and is_plain:
            factor, other = min(float(unit), 1e15) ** 2, None if Y is None else T
            K: Any = self._on_host(S, other, factor, float(self.variance))
            return K if K.dtype == X.dtype else like(K, X)
        squares = xp.sum(S * S, axis=1)[:, None] + xp.sum(T * T, axis=1)[None, :] - 2 * (S @ T.T)
        squares = squares * xp.minimum(unit, 1e15 * xp.ones_like(unit)) ** 2
        # Rounding may leave less than zero where rows are equal. To clamp the value must not cut
        # off the derivatives: at equal rows the second one is −1/lengthscale².
        squares = squares + without_gradient(nonnegative(squares) - squares)
        if Y is None:
            same = xp.eye(
                squares.shape[0], dtype=squares.dtype, device=array_api_compat.device(squares)
            )
            squares = squares * (1 - same)
        return plain(self.variance) * self.profile_of_halves(squares / 2)

    def _of_sparse(self, X: Any, Y: Any) -> Any:  # (n, d), (m, d) -> (n, m)
        """As for dense rows; columns of few entries have no centre, which would fill the zeros."""
        rows = [self.scale(X)] if Y is None else [self.scale(X), self.scale(Y)]
        rows = without_offsets(*rows)
        unit = max([1.0, *(float(np.max(np.abs(A.data))) for A in rows if A.nnz)])
        if loses_digits(X.dtype, unit):
            others = None if Y is None else Y.astype(np.float64)
            return self(X.astype(np.float64), others).astype(X.dtype)
        S, T = [*(divided(A, unit) for A in rows), None][:2]
        return self._on_host(S, T, min(unit, 1e15) ** 2, plain(self.variance))

    def _centred(self, xp: Any, X: ArrayT, Y: ArrayT | None) -> tuple[ArrayT, ArrayT, ArrayT]:
        """s(x) and s(y) about a common centre, in units of the largest coordinate (1 at least).

        Distances lose their digits to a common offset, which the kernel does not see, and squares
        of huge distances overflow. Beyond 10¹⁵ units of a lengthscale only a distance of zero
        matters. Neither offset nor unit has a derivative: the kernel does not depend on them.
        """
        S = self.scale(X)
        T = S if Y is None else self.scale(Y)
        has_gradients = not isinstance(S, np.ndarray)
        centre = xp.mean(S, axis=0)
        centre = without_gradient(centre) if has_gradients else centre
        S, T = S - centre, T - centre
        unit = xp.maximum(xp.max(xp.abs(S)), xp.max(xp.abs(T)))
        unit = without_gradient(unit) if has_gradients else unit
        unit = xp.where(unit > 1, unit, xp.ones_like(unit))
        return S / unit, T / unit, unit

    def diag(self, X: ArrayT) -> ArrayT:
        X, _ = self._matching(X, None)
        return plain(self.variance) * (zero_per_row(X) + 1)

    def _on_host(
        self, S: Any, T: Any, factor: float, variance: float
    ) -> FloatArray:  # (n, d), (m, d) or None -> (n, m)
        """variance · f(factor |s − t|²/2) of NumPy or CSR rows, in place and a few at a time.

        All steps on a block of rows stay in the cache: passes over whole matrices would take longer
        than the exponential. With T None only blocks up to the diagonal are computed, and mirrored.
        """
        other = S if T is None else T
        left = row_squares(S) / 2
        right = left if T is None else row_squares(T) / 2
        # Norms as two more columns save passes over K, where it is larger than T; a product S Sᵀ
        # takes half the time of S Tᵀ
        is_large = T is not None and S.shape[0] > S.shape[1]
        has_norms = is_large and not self.needs_small_distances and isinstance(S, np.ndarray)
        K: FloatArray = _half_squares(S, other, left, right) if has_norms else dense(S @ other.T)
        n, m = K.shape
        step = max(1, (1 << 15) // m)
        for start in range(0, n, step):
            stop = min(start + step, n)
            block = K[start:stop, : m if T is not None else stop]
            if not has_norms:
                norms = left[start:stop, None] + right[: block.shape[1]]
                np.subtract(norms, block, out=block)
                if self.needs_small_distances:
                    _improve(block, norms, S[start:stop], other)
            np.maximum(block, 0, out=block)  # rounding may leave less than zero
            if factor != 1:
                block *= factor
            if T is None:
                np.fill_diagonal(block[:, start:], 0)  # exactly
            self.fill_profile(block)
            if variance != 1:
                block *= variance
            if T is None:
                K[:start, start:stop] = block[:, :start].T
        return K

    def range_of(self, name: str, X: FloatArray) -> FloatArray:
        """Distances grow with √d if all columns matter; a column may matter not at all."""
        if self.is_common:
            return median_distance(X) * np.array([[1e-2, 1.0, 1e2]])
        deviations = column_deviations(X)
        typical = np.sqrt(X.shape[1]) * deviations
        ranges = np.stack([1e-2 * deviations, typical, 1e3 * typical], axis=1)
        return fixed_if_constant(ranges, X)

    def with_pullback(
        self, X: FloatArray, Y: FloatArray | None = None
    ) -> tuple[FloatArray, Pullback]:
        S, T, unit = self._centred(np, X, Y)
        S, T = S * unit, T * unit
        left, right = (np.sum(A * A, axis=1) / 2 for A in (S, T))
        halves = S @ T.T
        norms = left[:, None] + right
        np.subtract(norms, halves, out=halves)
        if self.needs_small_distances:
            _improve(halves, norms, S, T)
        np.maximum(halves, 0, out=halves)
        if Y is None:
            np.fill_diagonal(halves, 0)
        variance = float(host(self.variance))
        K = halves.copy()
        self.fill_profile(K)
        K *= variance

        def pullback(M: FloatArray) -> FloatArray:
            G = self.slope_of_halves(halves)
            G *= M
            # Σ_ij G_ij (s_ik − t_jk)² for every k, by one product
            squares = np.sum(G, axis=1) @ (S * S) + np.sum(G, axis=0) @ (T * T)
            lengthscales = -variance * (squares - 2 * np.sum(S * (G @ T), axis=0))
            return self.slopes(lengthscales, np.sum(M * K))

        return K, pullback


def loses_digits(dtype: Any, largest: float) -> bool:
    """Whether squared distances |s|² + |t|² − 2 s·t of rows with entries up to this one are rounded
    by more than 10⁻⁴ in float32: as with a sentinel such as −9999 in one input."""
    return str(dtype).endswith("float32") and largest**2 * float(np.finfo(np.float32).eps) > 1e-4


def _half_squares(
    S: FloatArray, T: FloatArray, left: FloatArray, right: FloatArray
) -> FloatArray:  # (n, d), (m, d), (n,), (m,) -> (n, m)
    """left + right − s·t in one product, where left and right are half the squared norms."""
    A = np.concatenate([S, left[:, None], np.ones_like(left)[:, None]], axis=1)
    B = np.concatenate([-T, np.ones_like(right)[:, None], right[:, None]], axis=1)
    return A @ B.T


def _improve(halves: FloatArray, norms: FloatArray, S: Any, T: Any) -> None:
    """Halves of squared distances that are small beside the norms, from differences of rows."""
    rows, columns = np.nonzero(halves < _NEAR * norms)
    step = max(1, (1 << 18) // S.shape[1])  # differences of so many pairs at a time
    for first in range(0, len(rows), step):
        i, j = rows[first : first + step], columns[first : first + step]
        halves[i, j] = row_squares(S[i] - T[j]) / 2


def without_offsets(*rows: Any) -> list[Any]:  # CSR (n, d), ...
    """All less their mean in the columns of which more than half of the entries are stored.

    Distances lose their digits to a common offset. Elsewhere zeros stay what they are.
    """
    n, d = sum(A.shape[0] for A in rows), rows[0].shape[1]
    is_full = 2 * sum(np.bincount(A.indices, minlength=d) for A in rows) > n
    if not np.any(is_full):
        return list(rows)
    centre = sum(dense(A[:, is_full]).sum(axis=0, dtype=np.float64) for A in rows) / n
    return [
        hstack([A[:, ~is_full], csr_array((dense(A[:, is_full]) - centre).astype(A.dtype))], "csr")
        for A in rows
    ]


def median_distance(X: Any, max_rows: int = 1000) -> float:
    """The median Euclidean distance between distinct rows of X, or of 1000 of them at random.

    If more than half of the distances are zero, the median of the others; 1 if all are.
    """
    X = host(X)
    if X.shape[0] > max_rows:
        X = X[np.sort(np.random.default_rng(0).choice(X.shape[0], max_rows, replace=False))]
    X = X.astype(np.float64)
    if share_of_entries(X) > _MOST_SHARE:
        X = dense(X)
    [X] = without_offsets(X.tocsr()) if is_sparse(X) else [X - X.mean(axis=0)]
    largest = abs(X).max() if X.shape[0] and X.shape[1] else 0.0
    unit = float(largest) or 1.0  # squares of huge and tiny distances leave the range
    X = X / unit
    squares = row_squares(X)
    squares = squares[:, None] + squares[None, :] - 2 * dense(X @ X.T)
    distances = np.sqrt(np.maximum(squares[np.triu_indices(len(squares), 1)], 0))
    # Squares are differences of numbers of order one: smaller distances are rounding
    distances[distances < 1e-7] = 0
    for sample in (distances, distances[distances > 0]):
        if sample.size and np.median(sample) > 0:
            return float(unit * np.median(sample))
    return 1.0


def lengthscale_of(value: Any, X: ArrayT, name: str = "lengthscale") -> Any:
    """A number as it is; an array of lengthscales (or periods) in the library of X."""
    if type(value) is float:
        return value
    if isinstance(value, str):
        raise ValueError(
            f"{name}={value!r} is set from data: call kernel.resolve(X) first, or give a number."
        )
    value = suited(value, X)
    if not isinstance(value, (np.ndarray, list, tuple)):
        return value
    if len(value) != X.shape[1]:
        raise ValueError(f"{name} has {len(value)} values for {X.shape[1]} features.")
    if is_sparse(X):
        return np.asarray(value)
    xp = namespace(X)
    return xp.asarray(np.asarray(value), dtype=X.dtype, device=array_api_compat.device(X))


def column_deviations(X: FloatArray) -> FloatArray:  # (n, d) -> (d,)
    """The standard deviations of the columns; those of constant columns are a typical one."""
    deviations = np.std(X, axis=0)
    varies = varying_columns(X)
    typical = float(np.median(deviations[varies])) if np.any(varies) else 1.0
    return np.where(varies, deviations, typical)


def varying_columns(X: FloatArray) -> FloatArray:  # (n, d) -> (d,)
    """Which columns are not constant, up to rounding."""
    return np.ptp(X, axis=0) > 1e-12 * np.max(np.abs(X), axis=0)


def fixed_if_constant(ranges: FloatArray, X: FloatArray) -> FloatArray:  # (d, 3), (n, d) -> (d, 3)
    """The greatest lengthscale for constant columns: there is nothing to search."""
    return np.where(varying_columns(X)[:, None], ranges, ranges[:, 2:])

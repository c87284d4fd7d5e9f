"""The Gaussian kernel."""

from __future__ import annotations

from typing import Any

import array_api_compat
import numpy as np
from array_api_compat import is_numpy_array

from .._arrays import Array, host, is_sparse, namespace, plain, without_gradient
from .base import DotProductKernel, check_positive, lengthscale_of, matching
from .exponential import Exponential


class Gaussian(DotProductKernel):
    """variance · exp(−|x − y|² / (2 lengthscale²)).

    Parameters
    ----------
    lengthscale : number, array of shape (d,) (one for every coordinate), or "median"
        "median" is the median distance between rows; estimators resolve it when they are fitted,
        and `resolve(X)` does so by hand.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[0.0], [1.0], [3.0]])
    >>> Gaussian().resolve(X)
    Gaussian(lengthscale=2.0)
    >>> Gaussian(lengthscale=1.0)(X[:1], X[1:]).round(4)
    array([[0.6065, 0.0111]])
    """

    shift_invariant = True

    def __init__(self, *, lengthscale: Any = "median", variance: float = 1.0):
        self.lengthscale = lengthscale
        self.variance = variance
        self.validate()

    def validate(self) -> None:
        if isinstance(self.lengthscale, str):
            if self.lengthscale != "median":
                raise ValueError(
                    f'lengthscale must be positive or "median"; got {self.lengthscale!r}.'
                )
        else:
            check_positive("lengthscale", self.lengthscale, most_dimensions=1)
        check_positive("variance", self.variance)

    def resolve(self, X: Array) -> Gaussian:
        if isinstance(self.lengthscale, str):
            return Gaussian(lengthscale=median_distance(X), variance=self.variance)
        return self

    def scale(self, X: Array) -> Array:
        if isinstance(self.lengthscale, str):
            raise ValueError(
                f"lengthscale={self.lengthscale!r} is set from data: call kernel.resolve(X) first, "
                "or give a number."
            )
        return X / lengthscale_of(self.lengthscale, X)

    def log_weight(self, S: Array) -> Array:
        return -namespace(S).sum(S * S, axis=1) / 2

    def series(self, max_degree: int) -> np.ndarray:
        return Exponential().series(max_degree)

    def profile(self, t: Array) -> Array:
        return plain(self.variance) * namespace(t).exp(t)

    def value(self, t: Array, log_weights: Array) -> Array:
        return self.variance * namespace(t).exp(log_weights + t)

    def __call__(self, X: Array, Y: Array | None = None) -> Array:
        # w(x) w(y) exp(s(x)·s(y)) overflows for large norms; the squared distance does not.
        X, Y = matching(X, Y)
        xp = namespace(X)
        S = self.scale(X)
        T = S if Y is None else self.scale(Y)
        # Distances lose their digits to a common offset, which the kernel does not see. Neither
        # offset nor unit has a derivative: the kernel does not depend on them.
        centre = without_gradient(xp.mean(S, axis=0))
        S, T = S - centre, T - centre
        # Squares of huge distances overflow: measure them in units of the largest coordinate.
        # Beyond 10¹⁵ units of a lengthscale only a distance of zero matters.
        unit = without_gradient(xp.maximum(xp.max(xp.abs(S)), xp.max(xp.abs(T))))
        unit = xp.where(unit > 1, unit, xp.ones_like(unit))
        S, T = S / unit, T / unit
        if is_numpy_array(S) and not self.is_differentiable:
            factor = min(float(unit), 1e15) ** 2
            return _gaussian_on_host(S, None if Y is None else T, factor, plain(self.variance))
        squares = xp.sum(S * S, axis=1)[:, None] + xp.sum(T * T, axis=1)[None, :] - 2 * (S @ T.T)
        squares = squares * xp.minimum(unit, 1e15 * xp.ones_like(unit)) ** 2
        # Rounding may leave less than zero where rows are equal. To clamp the value must not cut
        # off the derivatives: at equal rows the second one is −1/lengthscale².
        clamped = xp.maximum(squares, xp.zeros_like(squares))
        squares = squares + without_gradient(clamped - squares)
        if Y is None:
            same = xp.eye(
                squares.shape[0], dtype=squares.dtype, device=array_api_compat.device(squares)
            )
            squares = squares * (1 - same)
        return plain(self.variance) * xp.exp(-squares / 2)

    def diag(self, X: Array) -> Array:
        X, _ = matching(X, None)
        return plain(self.variance) * namespace(X).ones_like(X[:, 0])


def median_distance(X: Array, max_rows: int = 1000) -> float:
    """The median Euclidean distance between distinct rows of (an even subsample of) X.

    If more than half of the distances are zero, the median of the others; 1 if all are.
    """
    X = host(X)
    rows = np.unique(np.linspace(0, X.shape[0] - 1, max_rows).round().astype(int))
    X = X[rows].toarray() if is_sparse(X) else X[rows]
    X = np.asarray(X, dtype=np.float64)
    X = X - X.mean(axis=0)
    unit = np.abs(X).max(initial=0) or 1.0  # squares of huge and tiny distances leave the range
    X = X / unit
    squares = (X * X).sum(axis=1)
    squares = squares[:, None] + squares[None, :] - 2 * (X @ X.T)
    distances = np.sqrt(np.maximum(squares[np.triu_indices(len(X), 1)], 0))
    # Squares are differences of numbers of order one: smaller distances are rounding
    distances[distances < 1e-7] = 0
    for sample in (distances, distances[distances > 0]):
        if sample.size and np.median(sample) > 0:
            return float(unit * np.median(sample))
    return 1.0


def _gaussian_on_host(
    S: np.ndarray, T: np.ndarray | None, factor: float, variance: float
) -> np.ndarray:  # (n, d), (m, d) -> (n, m)
    """variance · exp(−factor |s − t|²/2) of centred rows, in place and a few rows at a time.

    All steps on a block of rows stay in the cache: passes over whole matrices would take longer
    than the exponential. With T None only blocks up to the diagonal are computed, and mirrored.
    """
    other = S if T is None else T
    K = S @ other.T
    left, right = (np.sum(A * A, axis=1) / 2 for A in (S, other))
    n, m = K.shape
    step = max(1, (1 << 15) // m)
    for start in range(0, n, step):
        stop = min(start + step, n)
        block = K[start:stop, : m if T is not None else stop]
        block -= left[start:stop, None] + right[: block.shape[1]]
        np.minimum(block, 0, out=block)  # rounding may leave more than zero
        if factor != 1:
            block *= factor
        if T is None:
            np.fill_diagonal(block[:, start:], 0)  # exactly
        np.exp(block, out=block)
        if variance != 1:
            block *= variance
        if T is None:
            K[:start, start:stop] = block[:, :start].T
    return K

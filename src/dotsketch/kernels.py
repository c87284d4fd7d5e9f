"""The kernels that are approximated.

Every kernel here is a triple (s, w, a):

    k(x, y) = w(x) w(y) Σ_n a_n ⟨s(x), s(y)⟩ⁿ,   a_n ≥ 0,

a scaling of the inputs, a weight, and Maclaurin coefficients. The Gaussian kernel is one of them:
s(x) = x/l, w(x) = exp(−|x/l|²/2), a_n = variance/n!.

Kernels follow scikit-learn's parameter protocol, so that `kernel__lengthscale` can be searched.
A parameter may be a scalar array of the library of X; then gradients flow to it.
"""

from __future__ import annotations

import math
from typing import Any

import array_api_compat
import numpy as np
from array_api_compat import is_numpy_array
from scipy.special import gammaln
from sklearn.base import BaseEstimator

from ._arrays import (
    Array,
    double,
    host,
    is_foreign,
    is_sparse,
    is_traced,
    namespace,
    plain,
    positive_integer,
    square_root,
    without_gradient,
)


class DotProductKernel(BaseEstimator):
    """k(x, y) = w(x) w(y) Σ_n a_n ⟨s(x), s(y)⟩ⁿ with a_n ≥ 0.

    Methods take arrays of any library: X (n, d), Y (m, d).
    """

    shift_invariant = False  # whether k(x + c, y + c) = k(x, y): inputs may then be centred

    def scale(self, X: Array) -> Array:  # (n, d) -> (n, d)
        """s(x), row by row."""
        return X

    def log_weight(self, S: Array) -> Array:  # (n, d) -> (n,)
        """log w(x), row by row, from the scaled inputs S = s(x)."""
        return namespace(S).zeros_like(S[:, 0])

    def weight(self, X: Array) -> Array:  # (n, d) -> (n,)
        """w(x), row by row."""
        return namespace(X).exp(self.log_weight(self.scale(X)))

    def series(self, max_degree: int) -> np.ndarray:  # -> (max_degree + 1,)
        """The Maclaurin coefficients of the kernel of variance 1."""
        raise NotImplementedError

    @property
    def last_degree(self) -> int | None:
        """The degree at which the series ends, or None if it does not."""
        return None

    def coefficients(self, max_degree: int) -> np.ndarray:  # -> (max_degree + 1,)
        """The Maclaurin coefficients a_0 … a_max_degree."""
        return float(host(self.variance)) * self.series(max_degree)

    variance: Any

    def profile(self, t: Array) -> Array:
        """Σ_n a_n tⁿ, summed in closed form."""
        raise NotImplementedError

    def value(self, t: Array, log_weights: Array) -> Array:
        """k(x, y) from t = s(x)·s(y) and log w(x) + log w(y)."""
        return namespace(t).exp(log_weights) * self.profile(t)

    def resolve(self, X: Array) -> DotProductKernel:
        """This kernel with parameters that depend on data (`"median"`) set from X."""
        return self

    def __call__(self, X: Array, Y: Array | None = None) -> Array:  # (n, d), (m, d) -> (n, m)
        """The exact Gram matrix between the rows of X and of Y (X if None)."""
        X, Y = _matching(X, Y)
        S = self.scale(X)
        T = S if Y is None else self.scale(Y)
        w = self.log_weight(S)
        v = w if Y is None else self.log_weight(T)
        return self.value(S @ T.T, w[:, None] + v[None, :])

    def diag(self, X: Array) -> Array:  # (n, d) -> (n,)
        """k(x, x) for every row."""
        X, _ = _matching(X, None)
        S = self.scale(X)
        return self.value(namespace(X).sum(S * S, axis=1), 2 * self.log_weight(S))

    @property
    def is_differentiable(self) -> bool:
        """Whether a parameter is an array of another library, which may have a gradient."""
        return any(is_foreign(value) for value in vars(self).values())

    def detached(self) -> DotProductKernel:
        """This kernel with plain numbers for parameters."""
        return type(self)(**{name: plain(host(v)) for name, v in self.get_params().items()})

    def validate(self) -> None:
        """Raise ValueError if a parameter has no meaning."""

    def set_params(self, **params: Any) -> DotProductKernel:
        super().set_params(**params)
        self.validate()
        return self

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        mine, theirs = self.get_params(), other.get_params()
        return all(np.array_equal(host(mine[k]), host(theirs[k])) for k in mine)

    def __hash__(self) -> int:
        values = (tuple(np.ravel(host(v)).tolist()) for v in self.get_params().values())
        return hash((type(self), *values))


class Polynomial(DotProductKernel):
    """variance · (gamma x·y + coef0)^degree.

    >>> import numpy as np
    >>> X = np.array([[1.0, 2.0], [0.0, 1.0]])
    >>> Polynomial(2)(X)
    array([[36.,  9.],
           [ 9.,  4.]])
    >>> Polynomial(2).coefficients(3)
    array([1., 2., 1., 0.])
    """

    def __init__(
        self, degree: int = 3, *, gamma: float = 1.0, coef0: float = 1.0, variance: float = 1.0
    ):
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.variance = variance
        self.validate()

    def validate(self) -> None:
        positive_integer("degree", self.degree)
        _check_positive("gamma", self.gamma)
        _check_positive("variance", self.variance)
        _check_nonnegative("coef0", self.coef0, "a negative coef0 gives negative coefficients")

    def scale(self, X: Array) -> Array:
        return _times_root(X, self.gamma)

    @property
    def last_degree(self) -> int:
        return int(self.degree)

    def series(self, max_degree: int) -> np.ndarray:
        n = np.arange(max_degree + 1)
        binomial = np.array([float(math.comb(self.degree, int(k))) for k in n])
        coef0 = float(host(self.coef0))
        powers = np.where(n <= self.degree, coef0 ** np.maximum(self.degree - n, 0), 0)
        return binomial * powers

    def profile(self, t: Array) -> Array:
        return plain(self.variance) * _integer_power(t + plain(self.coef0), self.degree)


class Exponential(DotProductKernel):
    """variance · exp(x·y / lengthscale²), the kernel of softmax attention.

    >>> import numpy as np
    >>> Exponential().coefficients(3) * [1, 1, 2, 6]
    array([1., 1., 1., 1.])
    """

    def __init__(self, *, lengthscale: Any = 1.0, variance: float = 1.0):
        self.lengthscale = lengthscale
        self.variance = variance
        self.validate()

    def validate(self) -> None:
        _check_positive("lengthscale", self.lengthscale, most_dimensions=1)
        _check_positive("variance", self.variance)

    def scale(self, X: Array) -> Array:
        return X / _lengthscale(self.lengthscale, X)

    def series(self, max_degree: int) -> np.ndarray:
        n = np.arange(max_degree + 1)
        return np.exp(-gammaln(n + 1.0))

    def profile(self, t: Array) -> Array:
        return plain(self.variance) * namespace(t).exp(t)


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
            _check_positive("lengthscale", self.lengthscale, most_dimensions=1)
        _check_positive("variance", self.variance)

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
        return X / _lengthscale(self.lengthscale, X)

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
        X, Y = _matching(X, Y)
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
            same = xp.eye(squares.shape[0], dtype=squares.dtype, device=_device(squares))
            squares = squares * (1 - same)
        return plain(self.variance) * xp.exp(-squares / 2)

    def diag(self, X: Array) -> Array:
        X, _ = _matching(X, None)
        return plain(self.variance) * namespace(X).ones_like(X[:, 0])


class Maclaurin(DotProductKernel):
    """variance · Σ_n a_n (gamma x·y)ⁿ for a given finite list of coefficients a_0, a_1, …

    >>> import numpy as np
    >>> Maclaurin([1, 0, 0.5])(np.array([[2.0]]))
    array([[9.]])
    """

    def __init__(self, coefficients: Any, *, gamma: float = 1.0, variance: float = 1.0):
        # `coefficients` is the name of a method too, so the list has a name of its own
        self._list = coefficients
        self.gamma = gamma
        self.variance = variance
        self.validate()

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        return {"coefficients": self._list, "gamma": self.gamma, "variance": self.variance}

    def set_params(self, **params: Any) -> Maclaurin:
        self._list = params.pop("coefficients", self._list)
        super().set_params(**params)
        return self

    def validate(self) -> None:
        try:
            a = np.asarray(self._list, dtype=float)
        except (TypeError, ValueError):
            a = np.empty(0)
        if a.ndim != 1 or a.size == 0 or not np.all(np.isfinite(a)):
            raise ValueError(
                f"coefficients must be a list of finite numbers a_0, a_1, …; got {self._list!r}."
            )
        if np.any(a < 0):
            n = int(np.argmax(a < 0))
            raise ValueError(
                f"coefficients must be nonnegative, or the kernel is not positive definite; "
                f"got a_{n} = {a[n]}."
            )
        _check_positive("gamma", self.gamma)
        _check_positive("variance", self.variance)

    def scale(self, X: Array) -> Array:
        return _times_root(X, self.gamma)

    @property
    def last_degree(self) -> int:
        return int(np.flatnonzero(np.asarray(self._list, dtype=float)).max(initial=0))

    def series(self, max_degree: int) -> np.ndarray:
        a = np.zeros(max_degree + 1)
        given = np.asarray(self._list, dtype=float)[: max_degree + 1]
        a[: len(given)] = given
        return a

    def profile(self, t: Array) -> Array:
        total = 0 * t
        for a in reversed(np.asarray(self._list, dtype=float).tolist()):
            total = total * t + a
        return plain(self.variance) * total


class ArcCosine(DotProductKernel):
    """Arc-cosine kernels of order 0 and 1 (Cho and Saul) on normalised inputs.

    With t = cos θ of the angle between x and y (0 if either is zero):
    order 0: 1 − θ/π = 1/2 + (1/π) Σ_k C(2k, k)/(4ᵏ(2k+1)) t^(2k+1);
    order 1: (sin θ + (π − θ) cos θ)/π, whose derivative in t is the one of order 0.
    Both are the kernels of infinitely wide networks, of step functions and of ReLUs.

    >>> import numpy as np
    >>> ArcCosine(0)(np.array([[1.0, 0.0], [3.0, 3.0]])).round(4)
    array([[1.  , 0.75],
           [0.75, 1.  ]])
    """

    def __init__(self, order: int = 1, *, variance: float = 1.0):
        self.order = order
        self.variance = variance
        self.validate()

    def validate(self) -> None:
        if self.order not in (0, 1) or isinstance(self.order, bool):
            raise ValueError(f"order must be 0 or 1; got {self.order!r}.")
        _check_positive("variance", self.variance)

    def scale(self, X: Array) -> Array:
        return directions(X)[0]

    def series(self, max_degree: int) -> np.ndarray:
        a = np.zeros(max_degree + 2)
        k = np.arange(max_degree // 2 + 1)
        # C(2k, k)/4ᵏ in logarithms: exact enough and without overflow for any k
        central = np.exp(gammaln(2 * k + 1.0) - 2 * gammaln(k + 1.0) - k * math.log(4))
        odd = central / (np.pi * (2 * k + 1))
        if self.order == 0:
            a[0] = 0.5
            a[2 * k + 1] = odd
        else:
            a[0], a[1] = 1 / np.pi, 0.5
            even = (2 * k + 2)[2 * k + 2 < len(a)]
            a[even] = (odd / (2 * k + 2))[: len(even)]
        return a[: max_degree + 1]

    def profile(self, t: Array) -> Array:
        xp = namespace(t)
        one = xp.ones_like(t)
        t = xp.minimum(xp.maximum(t, -one), one)
        # acos and √ have infinite derivatives at ±1; the angle of a row with itself has none
        inside = xp.abs(t) < 1
        safe = xp.where(inside, t, 0 * one)
        angle = xp.where(inside, xp.acos(safe), xp.where(t > 0, 0 * one, math.pi * one))
        if self.order == 0:
            return plain(self.variance) * (1 - angle / math.pi)
        sine = xp.where(inside, xp.sqrt((1 - safe) * (1 + safe)), 0 * one)
        return plain(self.variance) * (sine + (math.pi - angle) * t) / math.pi


def directions(S: Array) -> tuple[Array, Array]:  # (n, d) -> (n, d), (n,)
    """Rows over their norms, and the norms; zero rows stay zero, with finite gradients."""
    xp = namespace(S)
    largest = xp.max(xp.abs(S), axis=1, keepdims=True)
    largest = xp.where(largest > 0, largest, xp.ones_like(largest))
    scaled = S / largest  # the squares of tiny and huge rows stay in range
    squares = xp.sum(scaled * scaled, axis=1, keepdims=True)
    zero = squares == 0
    norms = xp.sqrt(xp.where(zero, xp.ones_like(squares), squares))
    radius = xp.where(zero, xp.zeros_like(norms), norms * largest)
    return scaled / norms, radius[:, 0]


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


def _matching(X: Array, Y: Array | None) -> tuple[Array, Array | None]:
    """X and Y as two-dimensional floating arrays of one width."""
    checked: list[Array | None] = []
    A: Any
    for name, A in (("X", X), ("Y", Y)):
        if A is None:
            checked.append(None)
            continue
        if is_sparse(A):
            A = A.toarray()
        if not array_api_compat.is_array_api_obj(A):
            A = np.asarray(A)
        xp = namespace(A)
        if A.ndim != 2:
            raise ValueError(f"{name} must have two dimensions (rows, features); got {A.shape}.")
        if not xp.isdtype(A.dtype, ("bool", "real floating", "integral")):
            raise ValueError(f"{name} must be real and numeric; its dtype is {A.dtype}.")
        checked.append(A if xp.isdtype(A.dtype, "real floating") else _floating(A))
    X, Y = checked
    assert X is not None
    if Y is not None and X.shape[1] != Y.shape[1]:
        raise ValueError(f"X has {X.shape[1]} features and Y has {Y.shape[1]}.")
    return X, Y


def _floating(X: Array) -> Array:
    return X.astype(np.float64) if isinstance(X, np.ndarray) else double(X)


def _integer_power(t: Array, n: int) -> Array:
    """tⁿ for n ≥ 1 by squaring: a few products, where a general power is slow."""
    if n == 1:
        return t
    half = _integer_power(t, n // 2)
    return half * half * t if n % 2 else half * half


def _times_root(X: Array, gamma: Any) -> Array:
    return X if isinstance(gamma, (int, float)) and gamma == 1 else X * square_root(gamma)


def _device(X: Array) -> Any:
    return array_api_compat.device(X)


def _lengthscale(value: Any, X: Array) -> Any:
    """A number as it is; an array of lengthscales in the library of X."""
    value = plain(value)
    if not isinstance(value, (np.ndarray, list, tuple)):
        return value
    if len(value) != X.shape[1]:
        raise ValueError(f"lengthscale has {len(value)} values for {X.shape[1]} features.")
    xp = namespace(X)
    return xp.asarray(np.asarray(value), dtype=X.dtype, device=_device(X))


def _check_positive(name: str, value: Any, most_dimensions: int = 0) -> None:
    _check_sign(name, value, strict=True, why="", most_dimensions=most_dimensions)


def _check_nonnegative(name: str, value: Any, why: str) -> None:
    _check_sign(name, value, strict=False, why=f": {why}")


def _check_sign(name: str, value: Any, *, strict: bool, why: str, most_dimensions: int = 0) -> None:
    if type(value) in (int, float) and (0 < value < np.inf or (value == 0 and not strict)):
        return  # at once: `transform` asks this again for every batch
    if is_traced(value):
        return
    try:
        values = np.asarray(host(value) if hasattr(value, "shape") else value, dtype=float)
    except (TypeError, ValueError):
        values = np.array(np.nan)
    if not np.all(np.isfinite(values)) or np.any(values < 0) or (strict and np.any(values == 0)):
        kind = "positive" if strict else "nonnegative"
        raise ValueError(f"{name} must be a {kind} number; got {value!r}{why}.")
    if values.ndim > most_dimensions:
        or_more = " or one for every feature" if most_dimensions else ""
        raise ValueError(f"{name} must be one number{or_more}; got shape {values.shape}.")

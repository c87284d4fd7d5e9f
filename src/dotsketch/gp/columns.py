"""Fitted features as the columns of a linear model, and the features of a model that names none.

`Columns` is what a model keeps of its features: a function from rows to columns on the host (or in
the array library of the rows, with gradients), and the variance k(x, x) − E k̂(x, x) that the
features lack. Kernels inside of pipelines are found, and replaced, here and nowhere else.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Integral
from types import CodeType, FunctionType
from typing import Annotated, Any

import numpy as np
from sklearn.base import OneToOneFeatureMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline

from .._arrays import Array, dense, host, is_foreign, is_sparse, like, namespace
from .._support.stored import MOST_COLUMNS, Count, array, stored
from ..features import FeatureMap, NystromFeatures
from ..kernels import Kernel, Matern, median_distance
from ..rows import Rows

BLOCK_BYTES = 1 << 26  # of features that are in memory at a time: larger blocks gain no speed
LACK_ROWS = 500  # on which the lack of variance is measured: its mean share to a few percent
# With 4096 columns a fit to 40,000 rows takes twice as long, for 2 to 20 % less error on UCI sets
DEFAULT_COLUMNS = 2048


@stored
@dataclass(frozen=True, eq=False)
class Columns:
    """Fitted features; complex ones become the columns [Re, Im] if `joins_parts`.

    The columns of a trend, if there is one, are the last.
    """

    features: Any  # a fitted transformer
    joins_parts: bool
    n_columns: Annotated[int, Count(MOST_COLUMNS, least=1)]
    is_complex: bool  # whether the columns are complex
    input_scales: Annotated[
        np.ndarray, array("f", "d")
    ]  # standard deviations, as the kernel sees X
    trend: LinearTrend | None = None
    usual_lack: float = 0.0  # the mean share of k(x, x) that training rows lack
    greatest_lack: float = 0.0  # the greatest share of 500 of them
    vanishing_level: float | None = None  # mean k(x, x) of features that carry almost nothing of it

    @classmethod
    def fit(
        cls, features: Any, X: Array, y: Any, some: Array, *, joins_parts: bool, has_trend: bool
    ) -> Columns:
        """A clone of the features fitted to rows X (n, d); some transformers look at y.

        `some` are random rows of them, in random order.
        """
        fitted = clone(features).fit(X, y)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "X does not have valid feature names")
            fitted.transform(some[:1])  # frozen features may have been fitted to other inputs
        trend = LinearTrend.of(some) if has_trend else None
        scales, some = input_scales(last_map(fitted, some)[1]), some[:LACK_ROWS]
        with np.errstate(over="ignore", invalid="ignore"):  # sums have an error of their own
            Z = cls(fitted, joins_parts, 1, False, scales, trend)(some)
            shape = Z.shape[1], bool(np.iscomplexobj(Z))
            columns = cls(fitted, joins_parts, *shape, scales, trend)
            lack, prior = columns.lack(some, Z)
            squares = np.abs(columns.without_trend(Z)) ** 2
            carried = float(np.mean(np.sum(squares, axis=1, dtype=np.float64)))
        if prior is None or not np.all(np.isfinite(lack)):
            return columns
        shares = lack / np.maximum(prior, np.finfo(float).tiny)
        usual, greatest = (min(float(v), 1 - 1e-6) for v in (np.mean(shares), np.max(shares)))
        columns = replace(columns, usual_lack=usual, greatest_lack=greatest)
        level = float(np.mean(prior))
        if carried >= 0.01 * level:
            return columns
        warnings.warn(
            f"The features carry {carried / level:.1g} of the prior variance k(x, x) of the "
            "training rows, so they can learn almost nothing. Usual causes are a lengthscale far "
            "too short for the rows, or a value of extreme size in X: scale the columns, remove "
            "the extreme values, or use another lengthscale or other features.",
            UserWarning,
            stacklevel=5,
        )
        return replace(columns, vanishing_level=level)

    def __call__(self, X: Any) -> Any:  # (n, d) -> (n, n_columns)
        """The columns of validated rows: on the host, or in the foreign array library of X."""
        features = self.features
        if isinstance(features, FrozenEstimator):
            features = features.estimator
        # a subclass may have a `transform` of its own, which is the one to call
        is_ours = getattr(type(features), "transform", None) is FeatureMap.transform
        if is_foreign(X) and not isinstance(features, FeatureMap):
            raise ValueError(
                f"{type(features).__name__} computes with NumPy only, so gradients to rows of "
                "another array library would be lost: give NumPy rows, or features of this "
                "library."
            )
        return self.joined(X, (features.features_of if is_ours else features.transform)(X))

    def joined(self, X: Any, Z: Any) -> Any:  # (n, d), (n, D) -> (n, n_columns)
        """Dense columns of the features, [Re, Im] of complex ones, and those of the trend."""
        Z = Z if is_foreign(Z) else np.asarray(dense(Z))
        xp = namespace(Z)
        if self.joins_parts and xp.isdtype(Z.dtype, "complex floating"):
            Z = xp.concat([xp.real(Z), xp.imag(Z)], axis=1)
        return Z if self.trend is None else xp.concat([Z, like(self.trend(X), Z)], axis=1)

    def without_trend(self, Z: Any) -> Any:  # (n, n_columns) -> (n, D)
        return Z if self.trend is None else Z[:, : Z.shape[1] - len(self.trend.means)]

    @property
    def dtype(self) -> Any:
        """Of sums over the columns."""
        return np.complex128 if self.is_complex else np.float64

    @property
    def block_rows(self) -> int:
        """Rows of a block: about 64 MB of columns in double precision."""
        row = self.n_columns * np.dtype(self.dtype).itemsize
        return int(np.clip(BLOCK_BYTES // row, 64, 1 << 16))

    def blocks(self, X: Any) -> Iterator[tuple[Any, Any]]:
        """Rows of X, which nothing has validated, and their columns, in blocks."""
        if is_foreign(X):
            yield X, self.joined(X, self.features.transform(X))
            return
        for rows, *_ in Rows.of(X).blocks(self.block_rows):
            yield rows, self.joined(rows, self.features.transform(rows))

    def digest(self) -> bytes:
        """A digest of the fitted features: the same features have the same one."""
        return hashed(digest_of(self.features), digest_of(self.trend))

    def same_as(self, other: Columns) -> bool:
        """Whether both are columns of the same features: of the same parameters and weights."""
        shapes = [(c.joins_parts, c.n_columns, c.is_complex) for c in (self, other)]
        return shapes[0] == shapes[1] and self.digest() == other.digest()

    @property
    def kernel(self) -> Any:
        """The kernel that the features approximate, or None if they name none."""
        return getattr(last_map(self.features)[0], "kernel_", None)

    def lack(self, X: Any, Z: Any) -> tuple[Any, Any]:  # (n, d), (n, n_columns) -> (n,), (n,)
        """k(x, x) − E k̂(x, x) ≥ 0, which the features do not carry, and the prior variance k(x, x).

        A transformer that is not a `FeatureMap` has no expectation: |z(x)|² stands in. Features
        that name no kernel lack nothing, and have None in place of k(x, x).
        """
        last, seen = last_map(self.features, X)
        kernel: Any = getattr(last, "kernel_", None)
        Z = self.without_trend(Z)
        xp, is_nystrom = namespace(Z), getattr(last, "lacks_variance", False)
        if not hasattr(kernel, "diag"):
            return xp.zeros_like(xp.abs(Z[:, 0])), None
        prior: Any = kernel.diag(seen)
        if is_foreign(Z) and is_nystrom:
            lack = prior - xp.sum(Z * Z, axis=1)
            return xp.where(lack > 0, lack, xp.zeros_like(lack)), prior
        if isinstance(last, FeatureMap):
            expected = last.expected_diagonal(host(seen), host(Z))
        else:
            expected = np.asarray(np.sum(np.abs(Z) ** 2, axis=1, dtype=np.float64))
        level = np.asarray(host(prior), dtype=np.float64)
        lack = np.maximum(level - expected, 0)
        if not is_foreign(Z):
            return lack, level
        if np.any(lack > 1e-6 * level):
            raise ValueError(
                "The variance that these features lack has no gradient: set "
                "variance_correction=None, or give NumPy rows."
            )
        return xp.zeros_like(prior), prior

    def added_variance(
        self, X: Any, Z: Any, correction: str | None, usual: float, priors: np.ndarray
    ) -> Any:  # (n, d), (n, n_columns), (m,) -> (n, m), or 0
        """What predictions add to the variance of the columns, for every prior variance.

        "posterior" is all of k(x, x) − E k̂(x, x), None nothing. "auto" is, for Nyström features,
        k(x, x) (u − v)/(1 − v) where the share u that the row lacks is above v, the `usual` one
        that the model has learnt with: little near the data, all of k(x, x) far from them. v = 0 if
        the noise was given. Noise that was chosen contains the mean share of the training rows.
        Latent functions of classes have no noise to contain it, and their prior variance was chosen
        by rows that lack as much: for these v is the greatest share. Of other features the lack
        counts only where they carry less than 1 % of k(x, x), so that no variance is 0 in silence.
        """
        if correction is None:
            return 0.0
        lack, prior = self.lack(X, Z)
        if correction == "auto" and prior is not None:
            zero = 0 * lack
            where = namespace(lack).where
            if not getattr(last_map(self.features)[0], "lacks_variance", False):
                lack = where(lack > 0.99 * prior, lack, zero)
            elif usual > 0:
                lack = (lack - usual * prior) / (1 - usual)
                lack = where(lack > 0, where(lack < prior, lack, prior), zero)
        return lack[:, None] * like(np.ascontiguousarray(priors), lack)


@stored
@dataclass(frozen=True, eq=False)
class LinearTrend:
    """Standardised inputs as columns, whose weights have ten times the deviation of the others.

    So a trend is hardly shrunk: its prior says no more than that y changes by less than some ten
    times its variation where an input changes by one standard deviation.
    """

    means: Annotated[np.ndarray, array("f", "d")]
    scales: Annotated[np.ndarray, array("f", "d")]

    @classmethod
    def of(cls, X: Any) -> LinearTrend:
        X = np.asarray(dense(X), dtype=np.float64)
        deviations = input_scales(X)
        return cls(X.mean(axis=0), np.where(deviations > 0, deviations, np.inf) / 10)

    def __call__(self, X: Any) -> Any:  # (n, d) -> (n, d)
        X = dense(X)
        return (X - like(self.means, X)) / like(self.scales, X)


def digest_of(value: Any) -> bytes:
    """A digest of parameters and fitted attributes, all the way down.

    Caches follow from the rest: cached properties, and what begins with an underscore.
    """
    if isinstance(value, np.ndarray) and value.dtype.hasobject:
        return hashed(repr(value.tolist()).encode())
    if isinstance(value, np.ndarray):
        head = f"{value.dtype.str} {value.shape}".encode()
        return hashed(head, np.ascontiguousarray(value).tobytes())
    if is_sparse(value):
        return hashed(b"csr", *map(digest_of, (value.indptr, value.indices, value.data)))
    if isinstance(value, (np.random.Generator, np.random.RandomState)):
        return b"generator"  # what was drawn from it is in the weights
    if isinstance(value, dict):
        return hashed(*(digest_of(pair) for pair in value.items()))
    if isinstance(value, (tuple, list)):
        return hashed(*map(digest_of, value))
    if isinstance(value, CodeType):
        return hashed(value.co_code, digest_of((value.co_consts, value.co_names)))
    if isinstance(value, FunctionType):  # its `repr` has its address
        cells = [cell.cell_contents for cell in value.__closure__ or ()]
        seen = [content for content in cells if content is not value]
        return digest_of((value.__qualname__, value.__code__, value.__defaults__, seen))
    attributes = getattr(value, "__dict__", None)
    if attributes is None or isinstance(value, type) or (callable(value) and not attributes):
        return hashed(repr(value).encode())
    named = {
        name: attribute
        for name, attribute in attributes.items()
        if not name.startswith("_")
        and name != "n_jobs"
        and not isinstance(getattr(type(value), name, None), cached_property)
    }
    return hashed(type(value).__name__.encode(), digest_of(named))


def hashed(*parts: bytes) -> bytes:
    return hashlib.blake2b(b"".join(parts), digest_size=16).digest()


def steps_of(features: Any, *, thaws: bool = False) -> list[Any]:
    """The transformers of pipelines, also nested ones, in their order; the last has the kernel.

    `thaws` takes fitted ones out of a `FrozenEstimator`.
    """
    if thaws and isinstance(features, FrozenEstimator):
        return steps_of(features.estimator, thaws=True)
    if not isinstance(features, Pipeline):
        return [features]
    parts = [part for _, part in features.steps if part is not None and part != "passthrough"]
    return [step for part in parts for step in steps_of(part, thaws=thaws)] or [features]


def last_map(features: Any, X: Any = None) -> tuple[Any, Any]:  # (n, d) -> map, (n, d')
    """The last of fitted transformers, and what it sees of rows X."""
    *before, last = steps_of(features, thaws=True)
    if X is not None:
        for step in before:
            X = step.transform(X)
    return last, X


# -- features that a model is given, or not --------------------------------------------------------


def check_features(features: Any) -> None:
    is_transformer = hasattr(features, "fit") and hasattr(features, "transform")
    is_number = isinstance(features, Integral) and features is not True
    is_number = is_number and int(features) > 0
    is_auto = isinstance(features, str) and features == "auto"
    if not (is_transformer or is_number or is_auto or isinstance(features, Kernel)):
        raise TypeError(
            'features must be "auto", a number of columns, a kernel such as Matern(), or a '
            f"transformer such as MaclaurinFeatures(Gaussian()); got {features!r}."
        )


def is_default(features: Any) -> bool:
    """Whether the model chooses its features itself."""
    return isinstance(features, (str, Integral))


def described_features(features: Any, X: Array, seed: int) -> Any:  # (n, d)
    """An unfitted transformer: as given, or landmarks of the kernel given, or of a Matérn kernel.

    There are 2048 columns, or the number that is given, and one for each row at most.
    """
    if not is_default(features) and not isinstance(features, Kernel):
        return features
    kernel = features if isinstance(features, Kernel) else default_kernel(X)
    n_columns = DEFAULT_COLUMNS if not isinstance(features, Integral) else int(features)
    return NystromFeatures(kernel, n_components=min(n_columns, X.shape[0]), random_state=seed)


def input_scales(X: Any) -> np.ndarray:  # (n, d) -> (d,)
    """Standard deviations of the inputs; 0 for constant ones. Sparse inputs have one scale."""
    if is_sparse(X):
        return np.ones(X.shape[1])
    X = np.asarray(X, dtype=np.float64)
    # constant up to rounding
    varies = np.ptp(X, axis=0) > 1e-12 * np.max(np.abs(X), axis=0)
    return np.where(varies, X.std(axis=0), 0.0)


def default_kernel(X: Array) -> Matern:  # (n, d)
    """A Matérn kernel of the median distance between rows whose inputs are of unit variance.

    Lengthscales are in units of the inputs, so that nothing else has to scale them. Inputs of
    sparse rows have one scale already (words, fingerprints). Constant inputs have the lengthscale
    of a typical input, far longer than any difference that was seen.
    """
    if is_sparse(X):
        return Matern(1.5)
    X = np.asarray(X[:, :], dtype=np.float64)
    deviations = input_scales(X)
    varies = deviations > 0
    if not np.any(varies):
        return Matern(1.5, lengthscale=1.0)
    deviations = np.where(varies, deviations, np.median(deviations[varies]))
    return Matern(1.5, lengthscale=deviations * median_distance(X / deviations))


# -- the kernel of unfitted features, also as the last step of a pipeline --------------------------


def kernel_of(features: Any) -> Any:
    """The kernel of unfitted features, or None if they have none of this library."""
    last = steps_of(features)[-1]
    kernel = None if isinstance(last, FrozenEstimator) else getattr(last, "kernel", None)
    return kernel if isinstance(kernel, Kernel) else None


def with_kernel(features: Any, kernel: Kernel) -> Any:
    """Unfitted features with another kernel."""
    features = clone(features)
    steps_of(features)[-1].set_params(kernel=kernel)
    return features


def with_names(features: Any, names: Any) -> Any:
    """Unfitted features whose kernel has numbers for the names of its inputs (`Kernel.on`).

    They are the names of the rows, if the steps before the kernel keep one column for each.
    """
    kernel = kernel_of(features)
    if kernel is None:
        return features
    keep_inputs = all(isinstance(step, OneToOneFeatureMixin) for step in steps_of(features)[:-1])
    named = kernel.named(names if keep_inputs else None)
    return features if named is kernel else with_kernel(features, named)


def searchable(features: Any, X: Array, y: Any) -> tuple[Kernel, Array]:  # (n, d) -> (n, d')
    """The kernel of unfitted features, and what it sees of rows X; ValueError if there is none."""
    kernel = kernel_of(features)
    if kernel is None:
        raise ValueError(
            "optimize=True searches the parameters of one kernel of this library, which these "
            f"features do not have: {features!r}. Use optimize=False, or features of one kernel "
            "(in a pipeline, as its last step)."
        )
    for step in steps_of(features)[:-1]:
        X = clone(step).fit_transform(X, y)
    return kernel, X.to_numpy() if hasattr(X, "to_numpy") else X

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
    usual_lack: float = 0.0  # the mean share of k(x, x) that training rows lack
    vanishing_level: float | None = None  # mean k(x, x) of features that carry almost nothing of it
    trend: LinearTrend | None = None

    @classmethod
    def fit(
        cls, features: Any, X: Array, y: Any, some: Array, *, joins_parts: bool, has_trend: bool
    ) -> Columns:
        """A clone of the features fitted to rows X (n, d); some transformers look at y.

        What the features lack is measured on `some` random rows of them.
        """
        fitted = clone(features).fit(X, y)
        trend = LinearTrend.of(some) if has_trend else None
        columns = cls(fitted, joins_parts, 1, False, trend=trend)
        probe = columns._joined(some[:1], fitted.transform(some[:1]))
        columns = replace(
            columns, n_columns=probe.shape[1], is_complex=bool(np.iscomplexobj(probe))
        )
        with np.errstate(over="ignore", invalid="ignore"):  # sums have an error of their own
            Z = columns(some)
            prior, lack = columns.prior_diagonal(some), columns.deficit(some, Z)
            squares = np.abs(columns.without_trend(Z)) ** 2
            carried = float(np.mean(np.sum(squares, axis=1, dtype=np.float64)))
        if prior is None or not np.all(np.isfinite(lack)):
            return columns
        prior = np.asarray(prior, dtype=np.float64)
        level = float(np.mean(prior))
        if carried < 0.01 * level:
            warnings.warn(
                f"The features carry {carried / level:.1g} of the prior variance k(x, x) of the "
                "training rows, so they can learn almost nothing. Usual causes are a lengthscale "
                "far too short for the rows, or a value of extreme size in X: scale the columns, "
                "remove the extreme values, or use another lengthscale or other features.",
                UserWarning,
                stacklevel=5,
            )
        shares = lack / np.maximum(prior, np.finfo(float).tiny)
        usual = min(float(np.mean(shares)), 1 - 1e-6)
        vanishing = level if carried < 0.01 * level else None
        return replace(columns, usual_lack=usual, vanishing_level=vanishing)

    def __call__(self, X: Any) -> Any:  # (n, d) -> (n, n_columns)
        """The columns of validated rows: on the host, or in the foreign array library of X."""
        features = self.features
        if isinstance(features, FrozenEstimator):
            features = features.estimator
        # a subclass may have a `transform` of its own, which is the one to call
        is_ours = getattr(type(features), "transform", None) is FeatureMap.transform
        if is_foreign(X) and not is_ours and not isinstance(features, FeatureMap):
            raise ValueError(
                f"{type(features).__name__} computes with NumPy only, so gradients to rows of "
                "another array library would be lost: give NumPy rows, or features of this "
                "library."
            )
        return self._joined(X, (features.features_of if is_ours else features.transform)(X))

    def _joined(self, X: Any, Z: Any) -> Any:  # (n, d), (n, D) -> (n, n_columns)
        """Dense columns of the features, with those of the trend."""
        Z = _joined(Z, self.joins_parts)
        if self.trend is None:
            return Z
        return namespace(Z).concat([Z, like(self.trend(X), Z)], axis=1)

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
            yield X, self._joined(X, self.features.transform(X))
            return
        for rows, *_ in Rows.of(X).blocks(self.block_rows):
            yield rows, self._joined(rows, self.features.transform(rows))

    def digest(self) -> bytes:
        """A digest of the fitted features: the same features have the same one."""
        return hashed(digest_of(self.features), digest_of(self.trend))

    def same_as(self, other: Columns) -> bool:
        """Whether both are columns of the same features: of the same parameters and weights."""
        shapes = [(c.joins_parts, c.n_columns, c.is_complex) for c in (self, other)]
        is_one = unfrozen(self.features) is unfrozen(other.features)
        is_one = is_one and self.trend is other.trend
        return shapes[0] == shapes[1] and (is_one or self.digest() == other.digest())

    def kernel(self) -> Any:
        """The kernel that the features approximate, or None if they name none."""
        return getattr(last_map(self.features)[0], "kernel_", None)

    def prior_diagonal(self, X: Any) -> Any:  # (n, d) -> (n,)
        """k(x, x) in the array library of X, or None if the features name no kernel."""
        last, X = last_map(self.features, X)
        kernel: Any = getattr(last, "kernel_", None)
        return kernel.diag(X) if hasattr(kernel, "diag") else None

    def deficit(self, X: Any, Z: Any) -> Any:  # (n, d), (n, n_columns) -> (n,)
        """k(x, x) − E k̂(x, x) ≥ 0: the prior variance that the features do not carry.

        A transformer that is not a `FeatureMap` has no expectation: |z(x)|² stands in. Zero if the
        features name no kernel.
        """
        prior, Z = self.prior_diagonal(X), self.without_trend(Z)
        last, seen = last_map(self.features, X)
        if is_foreign(Z):
            xp = namespace(Z)
            if prior is None:
                return xp.zeros_like(xp.real(Z[:, 0]) if self.is_complex else Z[:, 0])
            if getattr(last, "lacks_variance", False):
                lack = prior - xp.sum(Z * Z, axis=1)
                return xp.where(lack > 0, lack, xp.zeros_like(lack))
            values = np.asarray(host(prior)) - last.expected_diagonal(host(seen), host(Z))
            if np.any(values > 1e-6 * np.asarray(host(prior))):
                raise ValueError(
                    "The variance that these features lack has no gradient: set "
                    "variance_correction=None, or give NumPy rows."
                )
            return xp.zeros_like(prior)
        if prior is None:
            return np.zeros(len(Z))
        if isinstance(last, FeatureMap):
            expected = last.expected_diagonal(seen, Z)
        else:
            expected = np.asarray(np.sum(np.abs(Z) ** 2, axis=1, dtype=np.float64))
        return np.maximum(np.asarray(prior, dtype=np.float64) - expected, 0)

    def missing(
        self, X: Any, Z: Any, *, in_noise: bool = True
    ) -> Any:  # (n, d), (n, n_columns) -> (n,)
        """What Nyström features lack of k(x, x) at a row beyond the training rows.

        Of other features the lack counts only where they carry less than 1 % of k(x, x), so that no
        variance is 0 in silence. Noise that was chosen contains what the training rows lack. So
        this is k(x, x) (u − v)/(1 − v) where the share u that the row lacks is above v, the mean
        share of the training rows: little near the data, all of k(x, x) far from them. All of the
        lack, v = 0, if the noise was given and contains none of it (`in_noise`).
        """
        lack, prior = self.deficit(X, Z), self.prior_diagonal(X)
        if prior is None:
            return lack
        xp = namespace(lack)
        if not getattr(last_map(self.features)[0], "lacks_variance", False):
            return xp.where(lack > 0.99 * prior, lack, xp.zeros_like(lack))
        if self.usual_lack == 0 or not in_noise:
            return lack
        beyond = (lack - self.usual_lack * prior) / (1 - self.usual_lack)
        beyond = xp.where(beyond > 0, beyond, xp.zeros_like(beyond))
        return xp.where(beyond < prior, beyond, prior)


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
        varies = np.ptp(X, axis=0) > 1e-12 * np.max(np.abs(X), axis=0)
        return cls(X.mean(axis=0), np.where(varies, X.std(axis=0), np.inf) / 10)

    def __call__(self, X: Any) -> Any:  # (n, d) -> (n, d)
        X = dense(X)
        return (X - like(self.means, X)) / like(self.scales, X)


def _joined(Z: Any, joins_parts: bool) -> Any:  # (n, D) -> (n, D) or (n, 2D)
    """Dense features; complex ones as the columns [Re, Im] if these are asked for."""
    if is_foreign(Z):
        xp = namespace(Z)
        if joins_parts and xp.isdtype(Z.dtype, "complex floating"):
            return xp.concat([xp.real(Z), xp.imag(Z)], axis=1)
        return Z
    rows = np.asarray(dense(Z))
    if np.iscomplexobj(rows) and joins_parts:
        return np.concatenate([rows.real, rows.imag], axis=1)
    return rows


def digest_of(value: Any) -> bytes:
    """A digest of parameters and fitted attributes, all the way down.

    Caches follow from the rest: cached properties, and what begins with an underscore.
    """
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


def unfrozen(features: Any) -> Any:
    """The transformer itself, out of a `FrozenEstimator`."""
    return unfrozen(features.estimator) if isinstance(features, FrozenEstimator) else features


def last_map(features: Any, X: Any = None) -> tuple[Any, Any]:  # (n, d) -> map, (n, d')
    """The features, or the last step of a pipeline, and what it sees of rows X."""
    features = unfrozen(features)
    while isinstance(features, Pipeline):
        X = features[:-1].transform(X) if X is not None and len(features.steps) > 1 else X
        features = unfrozen(features.steps[-1][1])
    return features, X


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


def default_kernel(X: Array) -> Matern:  # (n, d)
    """A Matérn kernel of the median distance between rows whose inputs are of unit variance.

    Lengthscales are in units of the inputs, so that nothing else has to scale them. Inputs of
    sparse rows have one scale already (words, fingerprints). Constant inputs have the lengthscale
    of a typical input, far longer than any difference that was seen.
    """
    if is_sparse(X):
        return Matern(1.5)
    X = np.asarray(X[:, :], dtype=np.float64)
    deviations = X.std(axis=0)
    varies = np.ptp(X, axis=0) > 1e-12 * np.max(np.abs(X), axis=0)
    if not np.any(varies):
        return Matern(1.5, lengthscale=1.0)
    deviations = np.where(varies, deviations, np.median(deviations[varies]))
    return Matern(1.5, lengthscale=deviations * median_distance(X / deviations))


@dataclass(frozen=True)
class KernelPlace:
    """Where the kernel of features stands: the name of the parameter, and the steps before it."""

    features: Any
    name: str | None  # None if there is not exactly one kernel that rows or steps lead to

    @classmethod
    def of(cls, features: Any) -> KernelPlace:
        parameters = features.get_params() if hasattr(features, "get_params") else {}
        names = [name for name, value in parameters.items() if isinstance(value, Kernel)]
        outermost = [n for n in names if not any(n.startswith(f"{m}__") for m in names)]
        return cls(features, outermost[0] if len(outermost) == 1 else None)

    @property
    def kernel(self) -> Any:
        return None if self.name is None else self.features.get_params()[self.name]

    def rows(self, X: Array) -> Array | None:  # (n, d) -> (n, d')
        """What the kernel sees of rows X if the steps of pipelines before it are fitted to them.

        None if the kernel stands in another transformer, which may show it anything.
        """
        model = self.features
        for step in str(self.name).split("__")[:-1]:
            if not isinstance(model, Pipeline):
                return None
            before = model[: [name for name, _ in model.steps].index(step)]
            X = clone(before).fit_transform(X) if len(before.steps) else X
            model = model.named_steps[step]
        return X

    def with_names(self, names: Any) -> Any:
        """Unfitted features whose kernel has numbers for the names of its inputs (`Kernel.on`).

        They are the names of the rows, if the steps before the kernel keep one column for each.
        """
        if self.kernel is None or isinstance(self.features, FrozenEstimator):
            return self.features
        model = self.features
        for step in str(self.name).split("__")[:-1]:
            if not isinstance(model, Pipeline):
                names = None
                break
            before = model.steps[: [name for name, _ in model.steps].index(step)]
            if not all(isinstance(part, OneToOneFeatureMixin) for _, part in before):
                names = None
            model = model.named_steps[step]
        kernel = self.kernel.named(names)
        return self.features if kernel is self.kernel else self.with_kernel(kernel)

    def with_kernel(self, kernel: Kernel) -> Any:
        """Unfitted features with another kernel."""
        return clone(self.features).set_params(**{str(self.name): kernel})

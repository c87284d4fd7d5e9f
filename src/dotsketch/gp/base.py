"""What the Gaussian processes on features share: rows from anywhere, their features, blocks."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from copy import copy
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils import check_array, get_tags
from sklearn.utils.validation import (
    _check_feature_names,
    _check_n_features,
    check_is_fitted,
    validate_data,
)

from .._arrays import Array, host
from .._support.parameters import one_of, positive_integer
from ..features.base import FeatureMap
from ..features.design import squared_norms
from ..features.validation import is_valid
from ..rows.collections import rows_of
from ..rows.copies import copies
from ..rows.fold import Checkpoint, fingerprint
from ..rows.sources import SAMPLE_ROWS, Block, Rows, is_on_disk, is_stream
from .functions import joined
from .recipe import MOST_COLUMNS, usual_features
from .search import TunedProcess
from .solvers import Cholesky

BLOCK_BYTES = 1 << 26
PROBE_ROWS = 16  # training rows whose features are looked at
LEAST_CARRIED = 0.01  # share of k(x, x); features that carry less get a warning
DTYPES = [np.float64, np.float32]


class FeatureGP(TunedProcess):
    """A Gaussian process with the kernel of a feature map; see the two estimators."""

    features: Any
    posterior: str
    variance_correction: str | None
    chunk_rows: int | None
    verbose: bool

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    @property
    def kernel_(self) -> Any:
        """The kernel that the fitted features approximate, with the parameters that were found.

        Of features in a pipeline, that of the last step which has one.
        """
        features = unfrozen(self.features_)
        steps = [step for _, step in features.steps] if hasattr(features, "steps") else [features]
        for step in reversed(steps):
            if hasattr(unfrozen(step), "kernel_"):
                return unfrozen(step).kernel_
        raise AttributeError(f"{type(features).__name__} has no kernel_.")

    @property
    def _solver(self) -> Cholesky:
        """How rows become a posterior: the one place that chooses a solver."""
        return Cholesky()

    def for_rows(self) -> Any:
        """A copy for predictions, without the sums over the training rows."""
        light = copy(self)
        for name in ("statistics_", "_sums"):
            light.__dict__.pop(name, None)
        return light

    def _check_features(self, corrections: tuple[str | None, ...]) -> None:
        is_transformer = hasattr(self.features, "fit") and hasattr(self.features, "transform")
        if not is_transformer and not self._has_usual_features:
            raise TypeError(
                'features must be "auto" or a transformer, such as MaclaurinFeatures(Gaussian()); '
                f"got {self.features!r}."
            )
        one_of("posterior", self.posterior, ("real", "complex"))
        one_of("variance_correction", self.variance_correction, corrections)
        if self.chunk_rows is not None:
            positive_integer("chunk_rows", self.chunk_rows)

    def _rows(self, X: Any, *columns: Any) -> Rows:
        """The training rows; arrays in memory are validated already, others block by block."""
        if not is_stream(X):
            if columns[0] is None:
                raise ValueError(
                    f"{type(self).__name__} requires y to be passed, but the target y is None."
                )
            rows = rows_of(X, *columns)
            rows.keep()
            return rows
        if any(column is not None for column in columns):
            raise ValueError(
                "A stream gives batches (X, y): leave y, noise_variance and sample_weight out."
            )
        return Rows(stream=X)

    @property
    def _has_usual_features(self) -> bool:
        return isinstance(self.features, str) and self.features == "auto"

    def _unfitted_features(self, rows: Rows) -> Any:
        """The features that were given, or those of the recipe for these rows."""
        if not self._has_usual_features:
            return self.features
        X, copied, _ = self._fitting_rows(rows)
        return usual_features(X, min(X.shape[0], copied.shape[0]))

    def _check_first_rows(self) -> None:
        """Warn if the first of many batches leaves the features of the recipe few columns."""
        if self._has_usual_features and self.n_columns_ < MOST_COLUMNS:
            warnings.warn(
                f'features="auto" has one column for each of the {self.n_columns_} rows of the '
                f"first call, and no more for later rows: begin with {MOST_COLUMNS} rows or more, "
                "or give features.",
                UserWarning,
                stacklevel=3,
            )

    def _fit_features(self, rows: Rows, features: Any, *, is_final: bool = True) -> None:
        """Fit a clone of `features` on all rows in memory, or on a sample of the others.

        Rows are repeated according to their weights, except those that become landmarks. Features
        of a trial (not final) are not checked.
        """
        X, copied, y = self._fitting_rows(rows)
        targets = self._feature_targets(y) if _needs_targets(features) else None
        self.features_ = clone(features).fit(copied, targets)  # some transformers ask for a target
        if copied is not X:
            _choose_rows(self.features_, X)
        self._joins_parts = self.posterior == "real"
        # tells the features of one fit from those of another; frozen features check their columns
        self._probe = self._joined(self.features_.transform(X[:PROBE_ROWS]))
        self.n_columns_ = self._probe.shape[1]
        if is_final:
            self._check_carried(X[:PROBE_ROWS])

    def _fitting_rows(self, rows: Rows) -> tuple[Array, Array, Any]:
        """The rows that features are fitted to, the same with copies, and targets of those."""
        block = rows.columns if rows.in_memory and rows.columns else rows.sample(SAMPLE_ROWS)
        X = block[0] if rows.in_memory else self._check_sample(block[0])
        copied, y, *_ = copies((X, *block[1:]))
        return X, copied, y

    def _feature_targets(self, y: Any) -> Any:
        """What features that look at targets see of them."""
        return y

    def _check_sample(self, X: Array) -> Array:
        """Rows of a sample that nothing has checked yet: the first that are seen of the data."""
        _check_feature_names(self, X, reset=True)  # forgets those of an earlier fit
        X = check_array(X, accept_sparse="csr", dtype=DTYPES, estimator=self)
        _check_n_features(self, X, reset=True)
        return X

    def _check_carried(self, X: Array) -> None:  # the rows of the probe
        """Warn if the features carry almost nothing of k(x, x).

        A posterior variance can only shrink what the features carry: features near zero would
        predict the mean of y, and be certain of it. Predictions then add what is missing.
        """
        self._unseen_level: float | None = None  # mean k(x, x) of features that vanish
        with np.errstate(over="ignore"):  # sums that overflow have an error of their own
            prior, carried = self._prior_diagonal(X), float(np.mean(squared_norms(self._probe)))
        if prior is None:
            return
        level = float(np.mean(prior))
        if not carried < LEAST_CARRIED * level:
            return
        self._unseen_level = level
        warnings.warn(
            f"The features carry {carried / level:.1g} of the prior variance k(x, x) of the "
            "training rows, so they can learn almost nothing. Usual causes are a lengthscale far "
            "too short for the rows, or a value of extreme size in X: scale the columns, remove "
            "the extreme values, or use another lengthscale or other features. The missing "
            "variance is added to that of predictions.",
            UserWarning,
            stacklevel=5,
        )

    def _prior_diagonal(self, X: Array) -> np.ndarray | None:  # (n, d) -> (n,)
        """k(x, x) of the kernel that the features approximate, or None if they name none."""
        features, X = self._last_map(X)
        kernel: Any = getattr(features, "kernel_", None)
        if not hasattr(kernel, "diag"):
            return None
        return np.asarray(kernel.diag(X), dtype=np.float64)

    def _last_map(self, X: Array | None = None) -> tuple[Any, Any]:  # (n, d) -> map, (n, d')
        """The features, or the last step of a pipeline, and what it sees of rows X."""
        features = unfrozen(self.features_)
        while isinstance(features, Pipeline):
            X = features[:-1].transform(X) if X is not None and len(features.steps) > 1 else X
            features = unfrozen(features.steps[-1][1])
        return features, X

    def _missing(self, X: Array, Z: np.ndarray) -> np.ndarray:  # (n, d), (n, D) -> (n,)
        """The part of k(x, x) that is added to predictions, in multiples of the prior variance.

        All of it where the features of a row are zero, so that no variance is 0 in silence; what
        the features lack for every row if that was asked for, or if they vanish.
        """
        if self._correction is not None or self._unseen_level is not None:
            return self._deficit(X, Z)
        missing = np.zeros(len(Z))
        lost = ~np.any(Z, axis=1)
        prior = self._prior_diagonal(X[lost]) if np.any(lost) else None
        if prior is not None:
            missing[lost] = prior
        return missing

    @property
    def _correction(self) -> str | None:
        """How variances are corrected: as asked, or as suits the features."""
        if self.variance_correction != "auto":
            return self.variance_correction
        return "posterior" if getattr(self._last_map()[0], "lacks_variance", False) else None

    def _check_mergeable(self, other: Any) -> None:
        """Raise unless the sums of another process are those of the same features."""
        if type(other) is not type(self):
            raise TypeError(f"Only a {type(self).__name__} can be merged; got {other!r}.")
        check_is_fitted(other)
        same = self.n_features_in_ == other.n_features_in_ and self._dtype == other._dtype
        if same:
            rows = np.abs(np.random.default_rng(0).standard_normal((8, self.n_features_in_)))
            rows /= np.linalg.norm(rows, axis=1, keepdims=True)  # which every feature map takes
            mine, theirs = self._map(rows), other._map(rows)
            same = mine.shape == theirs.shape and np.allclose(mine, theirs, rtol=1e-5)
        if not same:
            raise ValueError(
                "The two were fitted with different features: fit the features once, and give "
                "both of them FrozenEstimator(features) of sklearn.frozen."
            )

    def _map(self, X: Array) -> np.ndarray:  # (n, d) -> (n, n_columns_)
        """The features of validated rows: real, or complex for the complex posterior."""
        features = self.features_
        if isinstance(features, FrozenEstimator):
            features = features.estimator
        # a subclass may have a `transform` of its own, which is the one to call
        is_ours = getattr(type(features), "transform", None) is FeatureMap.transform
        return self._joined((features.features_of if is_ours else features.transform)(X))

    def _joined(self, Z: Any) -> np.ndarray:  # (n, D) -> (n, n_columns_)
        return joined(Z, self._joins_parts)

    @property
    def _dtype(self) -> Any:
        return np.complex128 if np.iscomplexobj(self._probe) else np.float64

    def _block_rows(self, n_classes: int = 1) -> int:
        """Blocks of about 64 MB, with enough rows of each class for fast rank-k updates."""
        if self.chunk_rows is not None:
            return int(self.chunk_rows)
        row = self.n_columns_ * np.dtype(self._dtype).itemsize
        return max(min(max(BLOCK_BYTES // row, 1024 * n_classes), 8 * BLOCK_BYTES // row), 64)

    def _gather(
        self,
        rows: Rows,
        block: Callable[[Block, int], tuple[Any, ...]],
        zero: Callable[[], Any],
        *,
        assumed: Any,
        path: Any = None,
        n_classes: int = 1,
    ) -> Any:
        """What the solver needs of the rows, in one pass; see `Solver.gather`.

        `assumed` is what it depends on beside rows and features, for a checkpoint at `path`.
        """
        block_rows = self._block_rows(n_classes)
        # Writing the sums takes about as long as adding 400 rows to them
        group = 1 if self.chunk_rows is not None else -(-4096 * n_classes // block_rows)
        shapes = [getattr(column, "shape", None) for column in rows.columns or ()]
        configuration = fingerprint([type(self).__name__, shapes, assumed])
        restore, probe = type(zero()).restored, self._probe
        return self._solver.gather(
            rows,
            block,
            zero,
            block_rows=block_rows,
            group_blocks=group,
            checkpoint=None
            if path is None
            else Checkpoint(path, restore, fingerprint=configuration, probe=probe),
            progress="rows" if self.verbose else None,
        )

    def _check_block(self, X: Array) -> Array:
        if is_valid(self, X):
            return X
        if hasattr(X, "iloc"):  # the names of a batch must be those of the first
            _check_feature_names(self, X, reset=False)
        X = check_array(X, accept_sparse="csr", dtype=DTYPES, estimator=self)
        _check_n_features(self, X, reset=False)
        return X

    def _prediction_blocks(self, X: Array) -> Iterator[tuple[Array, np.ndarray]]:
        """Validated rows of X and their features, in blocks."""
        if not is_on_disk(X):
            X = check_test_rows(self, X)
            for (rows,) in Rows((X,)).blocks(self._block_rows()):
                yield rows, self._map(rows)
            return
        for (rows,) in rows_of(X).blocks(self._block_rows()):
            rows = self._check_block(rows)
            yield rows, self._map(rows)

    def _deficit(self, X: Array, Z: np.ndarray) -> np.ndarray:  # (n, d), (n, D) -> (n,)
        """k(x, x) − E k̂(x, x) ≥ 0: the prior variance that the features do not carry.

        A transformer that is not a `FeatureMap` has no expectation: |z(x)|² stands in.
        """
        prior = self._prior_diagonal(X)
        if prior is None:
            raise ValueError(
                "variance_correction compares with k(x, x): the features need a fitted kernel_, "
                f"which {type(self.features_).__name__} does not have."
            )
        features, X = self._last_map(X)
        is_map = isinstance(features, FeatureMap)
        expected = features.expected_diagonal(X, Z) if is_map else squared_norms(Z)
        return np.maximum(prior - expected, 0)


def check_test_rows(estimator: Any, X: Any) -> Array:
    """Rows in memory to predict, as a real floating array or CSR matrix."""
    if is_valid(estimator, X):
        return X
    return validate_data(estimator, host(X), accept_sparse="csr", dtype=DTYPES, reset=False)


def _needs_targets(features: Any) -> bool:
    """Whether features, or those in a pipeline, say that they cannot be fitted without targets."""
    steps = [step for _, step in features.steps] if isinstance(features, Pipeline) else [features]
    maps = (step for step in steps if isinstance(step, FeatureMap))
    return any(get_tags(step).target_tags.required for step in maps)


def _choose_rows(features: Any, X: Array) -> None:
    """Let features that were fitted to copies of the rows X choose rows among X itself."""
    while isinstance(features, Pipeline):
        X = features[:-1].transform(X) if len(features.steps) > 1 else X
        features = features.steps[-1][1]
    if isinstance(features, FeatureMap):  # frozen ones stay as they are
        pass


def unfrozen(features: Any) -> Any:
    """The transformer itself, out of a `FrozenEstimator`."""
    return unfrozen(features.estimator) if isinstance(features, FrozenEstimator) else features

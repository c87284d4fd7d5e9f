"""What all feature maps share: the interface, columns and output, tags.

A feature map is described by the parameters of its estimator, and an unfitted estimator is a
candidate of a plan: `expected_error(study)` predicts its error, `fit` never calls it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from copy import copy
from functools import cache
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from sklearn import get_config
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone
from sklearn.utils._set_output import _get_output_config
from sklearn.utils.validation import validate_data

from .._arrays import (
    OUTPUTS,
    Array,
    ArrayT,
    as_generator,
    dense,
    from_host,
    host,
    is_foreign,
    namespace,
)
from .._backends import host_view
from .._support.parameters import check_even, one_of, positive_integer
from .._support.stored import MOST_COLUMNS, Count
from ..kernels import Kernel
from ..rows import float_type, in_memory_sample, is_collection, lazy
from .errors import ExpectedError, Unsuited
from .study import Study
from .validation import check_fitted, check_foreign, is_plain, is_valid

NO_SERIES = (
    "These features are for dot product kernels, which have a Maclaurin series: use "
    "NystromFeatures or FourierFeatures (for a sum of kernels, NystromFeatures, or the features of "
    "each part side by side, as in FeatureUnion)"
)
SAMPLE_ROWS = 10_000  # of a Dask collection: a fit sees no more of its rows
NOT_OPTIONS = ("kernel", "n_components", "n_jobs", "random_state", "verbose")


class FeatureMap(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """The interface of all feature maps; validation, tags, names of the columns.

    A family implements `__init__`, `fit` and `_features`; for planning also `label`, `check_study`,
    `expected_error` and `variants`.
    """

    family: ClassVar[str]  # the name that plans and the command line use
    n_components: int
    n_projections_: Annotated[int, Count(MOST_COLUMNS)]
    output: str = "real"
    random_state: Any
    kernel_: Kernel
    weights_: Any
    # The options that say how long a row takes at equal columns; None: all
    # Whether `_features` itself looks for NaN and infinity, while the rows are in the cache
    checks_rows: ClassVar[bool] = False
    # Whether k(x, x) − |z(x)|² ≥ 0 is what these features cannot describe of the row x: Gaussian
    # processes then add it to the variance of predictions
    lacks_variance: bool = False

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.array_api_support = True
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    @classmethod
    @cache
    def _get_param_names(cls) -> list[str]:
        """Once for each class: a plan asks some hundred times, and signatures are slow."""
        return super()._get_param_names()

    # -- planning: an unfitted estimator is a candidate ------------------------------------------

    def label(self) -> str:
        """The name of this candidate: its family and the options that distinguish it."""
        raise NotImplementedError

    def options(self) -> dict[str, Any]:
        """All parameters but the kernel, the number of columns and what does not change errors."""
        return {k: v for k, v in self.get_params(deep=False).items() if k not in NOT_OPTIONS}

    def columns_up_to(self, n_components: int, n_rows: int) -> int:
        """The largest number of columns up to n_components that there can be for n_rows rows."""
        return n_components - n_components % (2 if self.output == "complex_to_real" else 1)

    def for_kernel(self, kernel: Kernel, n_components: int, **shared: Any) -> Self:
        """An unfitted copy for this kernel and number of columns; `shared` sets parameters."""
        given = self.get_params(deep=False) | shared  # a clone takes ten times as long
        return type(self)(**given | {"kernel": kernel, "n_components": n_components})

    def check_study(self, study: Study) -> None:
        """Raise Unsuited, with the reason, where these features suit not the kernel or the data."""

    def cost(self, study: Study) -> float:
        """About how many arithmetic operations a row takes, if it is known before the error."""
        return 0.0

    def expected_error(self, study: Study) -> ExpectedError:
        """The error and cost with n_components columns; Unsuited if they are too few."""
        raise NotImplementedError

    @classmethod
    def variants(cls, study: Study) -> Sequence[FeatureMap]:
        """What is worth comparing in a plan, as far as it suits the kernel and the data."""
        return []

    def settled(self, X: Array, y: Any = None) -> FeatureMap:
        """Unfitted features whose kind no longer depends on data: for searches that fit many."""
        return self

    def choose_rows(self, X: Array) -> None:
        """Features that keep some of the rows choose them anew, from rows that stand in X once.

        After a fit to the same rows with copies of some: what else was set from those stays.
        """

    def redrawn(self, X: Array | None, random_state: Any) -> Self:
        """Another draw of these fitted features, for the rows X that they were fitted to.

        X may be None for a family that overrides this: what depends on rows stays as it is.
        """
        return clone(self).set_params(random_state=random_state).fit(X)

    def _with_weights(self, random_state: Any, weights: Any) -> Self:
        """A fitted copy with other random weights."""
        other = copy(self)
        other.random_state, other.weights_ = random_state, weights
        return other

    def _measured(self, study: Study, cost: float) -> ExpectedError:
        """The error of features drawn for rows held out."""

        def approximate(
            fitting: np.ndarray, held: np.ndarray, rng: np.random.Generator
        ) -> np.ndarray:
            features = self.for_kernel(study.kernel, self.n_components, random_state=rng)
            Z = features.fit(fitting).transform(held)
            return Z @ Z.conj().T

        m = study.n_held
        return study.measure(approximate, 1, m * cost + m * m * self.n_components).error(cost)

    def expected_error_on(self, X: Array, *, n_pairs_sample: int = 500) -> ExpectedError:
        """The error of these fitted features predicted for rows X (n, d), not those of the fit."""
        check_fitted(self)
        kernel, X = self.kernel_.detached(), self._validate(X, reset=False)
        return self.expected_error(Study(kernel, X, n_pairs_sample=n_pairs_sample))

    # -- rows --------------------------------------------------------------------------------------

    def expected_diagonal(self, X: Array, Z: Array) -> np.ndarray:  # (n, d), (n, D) -> (n,)
        """E k̂(x, x) on the host, of validated rows X with features Z: |z(x)|² stands in for it."""
        return squared_norms(host(Z))

    def _validate(self, X: ArrayT, *, reset: bool) -> ArrayT:
        """X as a real floating matrix of its own library (NumPy or CSR for everything else).

        A fit (`reset`) to a collection, such as a Dask array, is one to a sample of its rows.
        """
        if reset and is_collection(X):
            X = in_memory_sample(X, SAMPLE_ROWS, as_generator(self.random_state))
        if not reset and is_valid(self, X):
            return X
        self._check_library(X, reset=reset)
        if not is_foreign(X):
            return validate_data(
                self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=reset
            )
        return check_foreign(self, X, reset=reset)

    def _check_library(self, X: Array, *, reset: bool) -> None:
        """Weights live on the host, so any library may follow any fit; under scikit-learn's
        array API dispatch its rule holds: one library for fit and transform."""
        library = namespace(X).__name__ if is_foreign(X) else "numpy"
        if reset:
            self._library = library
        elif get_config()["array_api_dispatch"] and library != self._library:
            raise ValueError(
                f"Inputs passed to {type(self).__name__}.transform() must use the same namespace "
                f"as those passed to fit(): {self._library}, not {library}."
            )

    def _lazily_transformed(self, X: Any) -> Any:
        """The features of a Dask collection, as a collection."""
        if _get_output_config("transform", self)["dense"] != "default":
            raise ValueError(
                "set_output would load all rows of this collection: use the default output. A data "
                "frame is transformed to a data frame."
            )
        dtype = np.result_type(float_type(X), np.complex64 if self._is_complex else np.float32)
        names = [list(self.get_feature_names_out())]
        return lazy(self.transform, X, dtypes=[dtype], names=names)[0]

    def transform(self, X: ArrayT) -> ArrayT:  # (n, d) -> (n, n_components)
        """The features of every row of X, in its library, dtype and device.

        Those of a Dask collection are a Dask collection.
        """
        check_fitted(self)
        if is_collection(X):
            return self._lazily_transformed(X)
        if not (self.checks_rows and is_plain(self, X)):
            X = self._validate(X, reset=False)
        return self.features_of(X)

    def features_of(self, X: ArrayT) -> ArrayT:  # (n, d) -> (n, n_components)
        """`transform` of rows that the caller has validated: they are not looked through again."""
        self.kernel_.validate()  # a parameter that is trained may have left its range
        twin = None if self.kernel_.is_differentiable else host_view(X)
        return self._features(X) if twin is None else from_host(self._features(twin))

    def _features(self, X: ArrayT) -> ArrayT:
        """The features of validated rows."""
        raise NotImplementedError

    def _begin_fit(self) -> int:
        """Validate n_components and output, and remember them; the number of projections."""
        self.n_projections_ = self._count_projections()
        self.output_ = self.output
        return self.n_projections_

    def _count_projections(self) -> int:
        """How many projections give n_components columns."""
        n = positive_integer("n_components", self.n_components)
        one_of("output", self.output, OUTPUTS)
        if self.output != "complex_to_real":
            return n
        check_even(n, "complex_to_real returns pairs of columns")
        return n // 2

    @property
    def _n_features_out(self) -> int:
        return self.n_projections_ * (2 if self.output_ == "complex_to_real" else 1)

    @property
    def _is_complex(self) -> bool:
        """Whether `transform` returns complex numbers."""
        return self.output_ == "complex"


def check_part(part: str | None, default: str) -> str:
    """`part` as the user gave it, or the default: "real" or "complex"."""
    part = part or default
    one_of("part", part, ("real", "complex"))
    return part


def namespaced(X: Array) -> Array:
    """X, or an array of NumPy where X is none of an array library: where results belong."""
    return X if is_foreign(X) else np.empty(0)


def squared_norms(Z: np.ndarray) -> np.ndarray:  # (n, D) -> (n,)
    """|z|² of every row, in float64."""
    return np.asarray(np.sum(np.abs(Z) ** 2, axis=1, dtype=np.float64))


def owned(kernel: Kernel) -> Kernel:
    """A copy, as later changes of the given kernel are not ours; itself if gradients flow to it."""
    return kernel if kernel.is_differentiable else clone(kernel)


def fitted_kernel(kernel: Kernel, X: Array) -> Kernel:
    """The kernel with its parameters set from X."""
    resolved = kernel.resolve(X)
    resolved.scale(dense(X[:1, :]))  # refuses lengthscales that are not one a column
    return owned(resolved)


def suited(candidates: Iterable[FeatureMap], study: Study) -> list[FeatureMap]:
    """The candidates that suit the kernel and the data."""
    found = []
    for candidate in candidates:
        with suppress(Unsuited):
            candidate.check_study(study)
            found.append(candidate)
    return found

"""The interface of all feature maps: validation, fit, transform, closed forms, tags.

A family implements `__init__`, `design` and `label`, and for plans `variants`. An unfitted
estimator is a candidate of a plan: `expected_error(study)` predicts its error.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from copy import copy
from functools import cache
from typing import Any, ClassVar, Self, TypeGuard, TypeVar

import numpy as np
from sklearn import get_config
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils._set_output import _get_output_config
from sklearn.utils.validation import _check_n_features, check_is_fitted, validate_data

from .._arrays import (
    Array,
    ArrayT,
    as_generator,
    dense,
    double,
    from_host,
    host,
    is_foreign,
    is_traced,
    like,
    namespace,
)
from .._backends import host_view, largest_entry
from .._support.memory import usable_memory
from .._support.parameters import one_of
from ..kernels import Kernel
from ..rows import Rows, float_type, is_collection, lazy
from .design import Design
from .study import (
    SAMPLE_ROWS,
    ExpectedError,
    Study,
    check_kernel,
    formula_error,
    kernel_squares,
    sample_rows,
)

NO_SERIES = (
    "These features are for dot product kernels, which have a Maclaurin series: use "
    "NystromFeatures or FourierFeatures (for a sum of kernels, NystromFeatures, or the features of "
    "each part side by side, as in FeatureUnion)"
)
NOT_OPTIONS = ("kernel", "n_components", "n_jobs", "random_state", "verbose")
OF_KERNEL = ("degree", "gamma", "coef0")  # parameters that stand for one


DesignT = TypeVar("DesignT", bound=Design)


class FeatureMap(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """The interface of all feature maps.

    A fit is: validate X, make a `Study` of it, `design(study)`, `design.sample`. Fitted maps have
    `kernel_`, `design_` and `weights_`.
    """

    family: ClassVar[str]  # the name that plans and the command line use
    # Whether k(x, x) − |z(x)|² ≥ 0 is what these features cannot describe of the row x: Gaussian
    # processes then add it to the variance of predictions
    lacks_variance: ClassVar[bool] = False
    output: str = "real"
    n_jobs: int | None = None
    kernel: Any
    n_components: int
    random_state: Any
    kernel_: Kernel
    design_: Any  # Design
    weights_: Any

    # -- what a family defines -------------------------------------------------------------------

    def design(self, study: Study) -> Design:
        """What the data decide; Unsuited if the features suit not the kernel or the data."""
        raise NotImplementedError

    def of_study(self, kind: type[DesignT], study: Study, **decided: Any) -> DesignT:
        """A design for the kernel and the rows of a study, and what a family decides."""
        shared = {"kernel": study.resolved, "dimension": study.dimension, "output": self.output}
        return kind(**{**shared, "n_components": self.n_components, **decided})

    def label(self) -> str:
        """The name of this candidate: its family and the options that distinguish it."""
        raise NotImplementedError

    @classmethod
    def variants(cls, study: Study) -> Sequence[FeatureMap]:
        """The two to four candidates that a plan compares, if they suit the kernel and the data."""
        return []

    # -- fit and transform -----------------------------------------------------------------------

    def fit(self, X: Array, y: Any = None) -> Self:
        """Make the design for rows X (n, d), and draw its weights."""
        kernel = self._kernel()
        check_kernel(kernel)
        fitted = copy(self)  # a fit that fails or is interrupted leaves this estimator as it was
        X = fitted._validate(X, reset=True)
        kernel = kernel.named(getattr(fitted, "feature_names_in_", None))
        rng = as_generator(self.random_state)
        study = Study(kernel, X, n_pairs_sample=None, random_state=rng)
        design = self.design(study)
        self._check_memory(design)
        weights = design.sample(rng, X)
        for message in design.cautions(study):
            warnings.warn(message, UserWarning, stacklevel=2)
        fitted.kernel_, fitted.design_, fitted.weights_ = design.kernel, design, weights
        self.__dict__ = fitted.__dict__
        return self

    def transform(self, X: ArrayT) -> ArrayT:  # (n, d) -> (n, n_components)
        """The features of every row of X, in its library, dtype and device.

        Those of a Dask collection are a Dask collection.
        """
        check_fitted(self)
        if not is_valid(self, X):
            if is_collection(X):
                return self._lazily_transformed(X)
            X = self._validate(X, reset=False)
        return self.features_of(X)

    def features_of(self, X: ArrayT) -> ArrayT:  # (n, d) -> (n, n_components)
        """`transform` of rows that the caller has validated: they are not looked through again."""
        if self.design_.is_differentiable:
            self.kernel_.validate()  # a parameter that is trained may have left its range
            return self.design_.apply(X, self.weights_, self.n_jobs)
        memory = host_view(X)
        if memory is None:
            return self.design_.apply(X, self.weights_, self.n_jobs)
        return from_host(self.design_.apply(memory, self.weights_, self.n_jobs))

    def expected_diagonal(self, X: Array, Z: Array) -> np.ndarray:  # (n, d), (n, D) -> (n,)
        """E k̂(x, x) on the host, of validated rows X with features Z."""
        return self.design_.expected_diagonal(X, Z)

    # -- closed forms ----------------------------------------------------------------------------

    def variance(self, X: Array, Y: Array | None = None, *, part: str | None = None) -> Array:
        """Variance of the approximate kernel between rows of X and of Y, (n, d), (m, d) -> (n, m).

        It is the variance of the kernel value that the user gets: of the complex value Z Zᴴ for
        output="complex", otherwise of a real number; `part="real"` and `part="complex"` ask for
        one of them. It is on the host and in float64 inside, and has the library of X.
        """
        check_fitted(self)
        part = part or self.design_.part
        one_of("part", part, ("real", "complex"))
        return self._between(X, Y, lambda A, B: self.design_.variance(A, B, part))

    def bias(self, X: Array, Y: Array | None = None) -> Array:  # (n, d), (m, d) -> (n, m)
        """E k̂ − k between rows of X and of Y."""
        check_fitted(self)
        return self._between(X, Y, self.design_.bias)

    def _between(self, X: Array, Y: Array | None, formula: Any) -> Array:
        """A formula of pairs of rows, some rows of X at a time: 16 MiB per array of pairs."""

        def rows(X: Array) -> np.ndarray:
            return np.asarray(host(double(dense(self._validate(X, reset=False)))))

        A = rows(X)
        B = A if Y is None else rows(Y)
        step = max(1, (1 << 21) // len(B))
        values = np.concatenate([formula(A[i : i + step], B) for i in range(0, len(A), step)])
        return like(values, X) if is_foreign(X) else values

    # -- planning: an unfitted estimator is a candidate ------------------------------------------

    def expected_error(self, study: Study) -> ExpectedError:
        """The error and cost with n_components columns; Unsuited if they are too few."""
        return study.error_of(self.design(study))

    def expected_error_on(self, X: Array, *, n_pairs_sample: int = 500) -> ExpectedError:
        """The error of these fitted features predicted for rows X (n, d), not those of the fit."""
        check_fitted(self)
        X, kernel, design = self._validate(X, reset=False), self.kernel_.detached(), self.design_
        if not design.has_formula:
            return Study(kernel, X, n_pairs_sample=n_pairs_sample).error_of(design)
        rows = sample_rows(X, n_pairs_sample, as_generator(0))
        return formula_error(design, rows, kernel_squares(kernel, rows))

    def options(self) -> dict[str, Any]:
        """All parameters but the kernel, the number of columns and what does not change errors."""
        own = self.get_params(deep=False).items()
        return {k: v for k, v in own if k not in (*NOT_OPTIONS, *OF_KERNEL)}

    def for_kernel(self, kernel: Kernel, n_components: int, **shared: Any) -> Self:
        """An unfitted copy for this kernel and number of columns; `shared` sets parameters."""
        parameters = self.get_params(deep=False) | shared
        return type(self)(**parameters | {"kernel": kernel, "n_components": n_components})

    def columns_up_to(self, n_components: int, n_rows: int) -> int:
        """The largest number of columns up to n_components that there can be for n_rows rows."""
        return n_components - n_components % (2 if self.output == "complex_to_real" else 1)

    # -- rows and columns ------------------------------------------------------------------------

    def _kernel(self) -> Any:
        """The kernel that is approximated, which may be unresolved."""
        return self.kernel

    def _validate(self, X: ArrayT, *, reset: bool) -> ArrayT:
        """X as a real floating matrix of its own library (NumPy or CSR for everything else).

        A fit (`reset`) to a collection, such as a Dask array, is one to a sample of its rows.
        """
        is_plain = isinstance(X, np.ndarray)
        if reset and not is_plain and is_collection(X):
            X, *_ = Rows.of(X).sample(SAMPLE_ROWS, as_generator(self.random_state))
        if not reset and is_valid(self, X):
            return X
        # Weights live on the host, so any library may follow any fit; under scikit-learn's array
        # API dispatch its rule holds: one library for fit and transform
        foreign = not is_plain and is_foreign(X)
        library = namespace(X).__name__ if foreign else "numpy"
        if reset:
            self._library = library
        elif get_config()["array_api_dispatch"] and library != self._library:
            raise ValueError(
                f"Inputs passed to {type(self).__name__}.transform() must use the same namespace "
                f"as those passed to fit(): {self._library}, not {library}."
            )
        if foreign:
            return check_foreign(self, X, reset=reset)
        return validate_data(
            self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=reset
        )

    def _lazily_transformed(self, X: Any) -> Any:
        """The features of a Dask collection, as a collection."""
        if _get_output_config("transform", self)["dense"] != "default":
            raise ValueError(
                "set_output would load all rows of this collection: use the default output. A data "
                "frame is transformed to a data frame."
            )
        is_complex = self.design_.output == "complex"
        dtype = np.result_type(float_type(X), np.complex64 if is_complex else np.float32)
        names = [list(self.get_feature_names_out())]
        return lazy(self.transform, X, dtypes=[dtype], names=names)[0]

    def _check_memory(self, design: Design) -> None:
        """Raise before memory is taken that there is not."""
        if design.weight_bytes < 1 << 26:  # 64 MiB: to look takes longer than to take them
            return
        memory = usable_memory()
        if design.weight_bytes > memory:
            fit = int(design.n_components * memory / (2 * design.weight_bytes))
            raise ValueError(
                f"The weights of n_components={design.n_components} with {design.dimension} inputs "
                f"take {design.weight_bytes / 2**30:.3g} GiB, and there are {memory / 2**30:.3g}: "
                f"use {fit:,} columns or fewer, or a structured projection or sketch."
            )

    def check_stored(self) -> None:
        """Raise ValueError unless the design and the weights of a model file fit each other."""
        if not hasattr(self, "weights_"):
            return
        design = self.design_
        if not isinstance(design, Design) or design.dimension != self.n_features_in_:
            raise ValueError(f"{type(self).__name__}.design_ is not one for its inputs.")
        design.check_weights(self.weights_)

    @property
    def _n_features_out(self) -> int:
        return self.design_.n_components

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


# -- what is checked of rows before features are computed ------------------------------------------


def check_fitted(estimator: Any) -> None:
    """scikit-learn's `check_is_fitted`, which builds all tags first, only if it may raise."""
    if "n_features_in_" not in vars(estimator):
        check_is_fitted(estimator)


def is_valid(estimator: Any, X: Any) -> TypeGuard[np.ndarray]:
    """Whether scikit-learn's `validate_data` would return X itself: it looks for data frames first,
    which takes longer than the features of one row."""
    return (
        type(X) is np.ndarray
        and X.ndim == 2
        and X.dtype in (np.float32, np.float64)
        and X.shape[0] > 0
        and X.shape[1] == estimator.n_features_in_
        and not hasattr(estimator, "feature_names_in_")
        and not get_config()["array_api_dispatch"]
        and (bool(get_config()["assume_finite"]) or math.isfinite(largest_entry(X)))
    )


def check_foreign(estimator: Any, X: ArrayT, *, reset: bool) -> ArrayT:
    """The checks of scikit-learn's `validate_data` for arrays of other libraries."""
    xp = namespace(X)
    name = type(estimator).__name__
    if X.ndim != 2:
        raise ValueError(
            f"Expected 2D array, got {X.ndim}D array of shape {tuple(X.shape)} instead. "
            "Reshape it to (rows, features)."
        )
    if xp.isdtype(X.dtype, "complex floating"):
        raise ValueError(f"Complex data not supported by {name}: X has dtype {X.dtype}.")
    if not xp.isdtype(X.dtype, "real floating"):
        X = double(X)
    for count, what in zip(X.shape, ("sample", "feature"), strict=True):
        if count == 0:
            raise ValueError(
                f"Found array with 0 {what}(s) (shape={tuple(X.shape)}) while a minimum of 1 is "
                f"required by {name}."
            )
    _check_n_features(estimator, X, reset=reset)
    if is_traced(X) or get_config()["assume_finite"]:
        return X
    if not math.isfinite(largest_entry(X)):
        raise ValueError(f"Input X contains NaN or infinity; {name} needs finite values.")
    return X


def check_rows(X: Array) -> Array:
    """X as validated rows that are no estimator's: those of a plan."""
    rows = FeatureMap()
    rows.random_state = 0
    return rows._validate(X, reset=True)

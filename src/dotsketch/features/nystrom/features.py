"""Nyström features: the kernel with some training rows, whitened; any kernel, no random weights."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np

from ..._arrays import Array, ArrayT, as_generator
from ..._support.stored import check_lengths
from ..._support.threads import suited_blas_threads
from ...kernels import Kernel
from ..base import FeatureMap, fitted_kernel, suited
from ..degenerate import warn_if_degenerate
from ..errors import ExpectedError, Unsuited
from ..landmarks import CLUSTERS, landmark_rule
from ..study import Study, check_kernel
from .basis import Basis, count_landmarks, fitted_basis, given_rows, unit_kernel
from .columns import NystromColumns
from .measured import has_finite_diagonal, measured


class NystromFeatures(FeatureMap):
    """z(x) = Wᵀ k(B, x) for landmarks B, which are training rows, and a matrix W (m, D).

    With as many landmarks as columns, W = L⁻ᵀ whitens their kernel matrix K_BB = L Lᵀ: k̂ is exact
    between landmarks. With more, m > D, W = L⁻ᵀ V keeps the D combinations with the largest second
    moment over the training rows, V its top eigenvectors: of all features that m landmarks have,
    those with the least squared error of the kernel. With 4 D landmarks it is within a few percent
    of what is possible with D columns of any kind; see the guide "How many columns, and which".

    k̂(x, x) is never above k(x, x). The features adapt to the data and so beat random ones where
    the kernel's spectrum decays fast, at m·d + m·D operations per row, and m³ once, with m² for
    each row of the second moment. Their error has no closed form.

    Landmarks may be nearly dependent, or equal: L is the Cholesky factor of K_BB, scaled to a unit
    diagonal, with 10⁻¹³ of its trace added to the diagonal. Rows of float32 are computed in float32
    where their roundings add less than 0.5 % to the kernel's error, which `fit` measures on 512
    training rows; otherwise (few rows, very smooth kernels) in float64. If the training rows are
    float32, 10⁻¹⁰ of the trace are added where that makes float32 accurate enough and costs less
    than 0.5 % itself.

    Parameters
    ----------
    kernel : Kernel
        A lengthscale of "median" is set from the training rows.
    n_components : int, default=100
        The number of columns, at most the number of training rows.
    n_landmarks : "auto", int or float, default="auto"
        The number m of landmarks: an integer, or a float that is multiplied by n_components, 1.0
        at least. There are never more than training rows. "auto" is 2 D, unless that is more than
        2048 (then 2048, or D if that is more): the set-up takes some seconds at most.
    landmarks : str or array (m, d), default="auto"
        "uniform" draws the landmarks uniformly from the training rows. "rpcholesky" takes the
        pivots of a randomly pivoted Cholesky factor of the kernel matrix of 5000 of them (or twice
        m): rows unlike the landmarks before them are more likely, so that small clusters and
        outliers are not missed; m² · 5000 operations more. "kmeans" are the means of m clusters of
        dense rows, found in a few passes over 50,000 of them; they are no rows themselves. "auto"
        is "rpcholesky" with more landmarks than columns, and otherwise "uniform"; Gaussian
        processes with optimize=True and a kernel that has something to search compare this with
        "kmeans" by the marginal likelihood. "learned" is for them too: the search ends with moving
        up to 1024 landmarks to where they describe the targets best, one to four minutes of one
        core more, and replaces the word by the array of them (one landmark per column); without a
        search it is "uniform". An array of at least n_components rows is taken as it is, whatever
        n_landmarks says.
    n_jobs : int or None, default=None
        Threads that `transform` uses on NumPy rows (-1: all).
    random_state : int, RandomState, Generator or None

    Attributes
    ----------
    kernel_ : the kernel with data-dependent parameters resolved
    components_ : (m, d) the rows B; CSR if the training rows are and store at most a tenth of all
        entries
    component_indices_ : (m,) their row numbers in the training data; −1 if given
    normalization_ : (m, n_components) W, for the kernel of variance 1
    basis_ : the three of them, and the error of float32
    n_features_in_ : int

    Notes
    -----
    The second moment is that of all training rows up to 10,000, or four per landmark if these are
    more; beyond, of so many drawn at random. (From rows that are not in memory, Gaussian processes
    fit features to 10,000.)

    Landmarks of sparse rows (CSR) stay sparse where at most a tenth of the entries is stored, and
    rows are then multiplied with them as they are.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from dotsketch import Gaussian, NystromFeatures, relative_frobenius_error
    >>> X = load_digits().data
    >>> features = NystromFeatures(Gaussian(), n_components=200, random_state=0)
    >>> Z = features.fit_transform(X)
    >>> bool(relative_frobenius_error(features.kernel_(X), Z @ Z.T) < 0.01)
    True
    >>> features.components_.shape
    (400, 64)
    """

    family = "nystrom"
    output = "real"  # there are no others
    lacks_variance = True

    def __init__(
        self,
        kernel: Kernel,
        *,
        n_components: int = 100,
        n_landmarks: int | float | str = "auto",
        landmarks: Any = "auto",
        n_jobs: int | None = None,
        random_state: Any = None,
    ):
        self.kernel = kernel
        self.n_components = n_components
        self.n_landmarks = n_landmarks
        self.landmarks = landmarks
        self.n_jobs = n_jobs
        self.random_state = random_state

    def check_stored(self) -> None:
        if hasattr(self, "basis_"):
            check_lengths(self.basis_, (Basis,), d=self.n_features_in_, D=self.n_projections_)

    def fit(self, X: Array, y: Any = None) -> NystromFeatures:
        """Choose the rows B from X (n, d), n ≥ n_components, and the matrix W."""
        check_kernel(self.kernel)
        D = self._begin_fit()
        X = self._validate(X, reset=True)
        self._check_count(D, X)
        self.kernel_ = fitted_kernel(self.kernel, X)
        warn_if_degenerate(self.kernel_, X)
        self._fit_basis(D, X)
        return self

    def choose_rows(self, X: Array) -> None:
        """Landmarks, and the second moment, of rows that stand once: a copy adds no landmark."""
        if not isinstance(self.landmarks, str):
            return
        X = self._validate(X, reset=False)
        self._check_count(self.n_projections_, X)
        self._fit_basis(self.n_projections_, X)

    def _check_count(self, D: int, X: Array) -> None:
        """Raise if there are fewer rows than columns."""
        if X.shape[0] < D and isinstance(self.landmarks, str):
            raise ValueError(
                f"Every Nyström feature takes a training row of its own: n_components={D} is more "
                f"than n_samples={X.shape[0]}; use n_components={X.shape[0]} or fewer, or more "
                "rows."
            )

    def _fit_basis(self, D: int, X: Array) -> None:
        """Landmarks and W, for the kernel as it is."""
        kernel = unit_kernel(self.kernel_.detached())
        m, chosen = self._count_landmarks(D), self._rule
        if not isinstance(chosen, str):
            chosen = given_rows(chosen, D, self.n_features_in_)
        rng = as_generator(self.random_state)
        self.basis_ = fitted_basis(kernel, chosen, m, D, X, rng)
        self._whitened_kernel = kernel  # of which W is the whitening, if parameters change later

    def _count_landmarks(self, D: int) -> int:
        return count_landmarks(self.n_landmarks, D)

    @property
    def usual_rule(self) -> str:
        """The rule that "auto" stands for without a search.

        Where columns are combinations of more landmarks, these have to cover the rows: pivots do.
        With one landmark per column, pivots that are outliers would be columns for few rows.
        """
        D = self.n_components
        return "rpcholesky" if self._count_landmarks(D) > D else "uniform"

    @property
    def _rule(self) -> Any:
        """The name of the rule, or the landmarks that are given."""
        is_auto = isinstance(self.landmarks, str) and self.landmarks == "auto"
        return self.usual_rule if is_auto else self.landmarks

    def label(self) -> str:
        name = self._rule if isinstance(self.landmarks, str) else "given"
        count = ""
        if isinstance(self.n_landmarks, Integral):
            count = f"{self.n_landmarks} "
        elif isinstance(self.n_landmarks, Real):
            count = "D " if self.n_landmarks == 1 else f"{self.n_landmarks:g} D "
        return f"nystrom: {count}{name} landmarks"

    def check_study(self, study: Study) -> None:
        if not isinstance(self.landmarks, str):
            raise Unsuited("landmarks that are given are not drawn: there is nothing to compare")
        if self.landmarks in ("learned", CLUSTERS):
            raise Unsuited(
                "landmarks are learned by a Gaussian process that searches, not in plans"
                if self.landmarks == "learned"
                else "means of clusters are no rows: there is no measurement of them in plans"
            )
        landmark_rule(self._rule)
        if not study.once("finite diagonal", lambda: has_finite_diagonal(study)):
            raise Unsuited("k(x, x)² overflows for some rows")

    def columns_up_to(self, n_components: int, n_rows: int) -> int:
        """At most one column per row."""
        return min(n_components, n_rows)

    def cost(self, study: Study) -> float:
        m = min(self._count_landmarks(self.n_components), study.n_rows)
        return 2.0 * m * (study.dimension + self.n_components)

    def expected_error(self, study: Study) -> ExpectedError:
        """Measured with as many landmarks as X leaves beside the rows held out; 0 with all rows."""
        D, d = self.n_components, study.dimension
        if study.n_rows < D:
            raise Unsuited(f"X has fewer than {D} rows")
        if study.n_rows == D:
            return study.error(0.0, 0.0, 2.0 * D * (d + D))
        m = min(self._count_landmarks(D), study.n_rows)
        key = "nystrom measurement", self._rule, D, m
        rule = landmark_rule(self._rule)
        with suited_blas_threads(m):
            found = study.once(key, lambda: measured(study, rule, D, m))
        fewer = found.n_fitting if found.n_fitting < m else None
        return found.error(2.0 * m * (d + D), fewer)

    @classmethod
    def variants(cls, study: Study) -> list[FeatureMap]:
        found = [cls(study.kernel, n_landmarks=factor) for factor in (1.0, 2.0, 4.0)]
        return suited([v.set_params(landmarks=v.usual_rule) for v in found], study)

    @property
    def components_(self) -> Any:
        return self.basis_.rows

    @property
    def component_indices_(self) -> np.ndarray:
        return self.basis_.indices

    @property
    def normalization_(self) -> np.ndarray:
        return self.basis_.normalization

    def _features(self, X: ArrayT) -> ArrayT:
        columns = NystromColumns(self.basis_, self.kernel_, self._whitened_kernel)
        return columns(X, self.n_jobs)

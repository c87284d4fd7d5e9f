"""Nyström features: the kernel with some training rows, whitened; any kernel, no random weights."""

from __future__ import annotations

from copy import copy
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import is_numpy_array
from scipy.sparse import csr_array
from sklearn.utils import check_array

from ..._arrays import (
    Array,
    ArrayT,
    Parts,
    as_generator,
    dense,
    double,
    host,
    is_sparse,
    like,
    namespace,
    share_of_entries,
    square_root,
)
from ..._backends import keeps_prepared, kept
from ..._backends.chunks import map_rows
from ..._support.threads import suited_blas_threads
from ...kernels import Kernel
from ...kernels.base import MOST_SHARED
from ..base import FeatureMap, Floor, Setup, fitted_kernel, suited
from ..degenerate import warn_if_degenerate
from ..errors import ExpectedError, Unsuited
from ..landmarks import CLUSTERS, cluster_means, landmark_rule, n_candidates, uniform_rows
from ..samples import keeps_sparse, take_or_keep
from ..study import Study, check_kernel
from ..whitening import (
    JITTER,
    SINGLE_JITTER,
    Whitening,
    WhiteningProduct,
    leading,
    softened,
)
from .measured import eigen_operations, has_finite_diagonal, measured
from .moment import moment_of_rows, n_moment_rows
from .precision import (
    SINGLE_IS_SAFE,
    check_finite,
    check_size,
    is_single,
    probe_rows,
    suited_to_single,
)

_AUTO = 2.0, 2048  # landmarks per column by default, unless that is more than so many
_ROUNDING = 1e-15  # a measured error is never less


@keeps_prepared
class Basis(NamedTuple):
    """What a fit keeps, on the host."""

    rows: Any  # (m, d), CSR if the training rows are
    indices: np.ndarray  # (m,)
    normalization: np.ndarray  # (m, D)
    single_error: float  # roundings of k̂ in float32, relative to the error of k̂

    @property
    def on_host(self) -> tuple[str, ...]:
        """What stays on the host when the others become tensors: code looks at its values."""
        return ("indices",)


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
    landmarks : str or array (m, d), default="uniform"
        "uniform" draws the landmarks uniformly from the training rows. "rpcholesky" takes the
        pivots of a randomly pivoted Cholesky factor of the kernel matrix of 5000 of them (or twice
        m): rows unlike the landmarks before them are more likely, so that small clusters and
        outliers are not missed; m² · 5000 operations more. "kmeans" are the means of m clusters of
        dense rows, found in a few passes over 50,000 of them; they are no rows themselves. Which
        rule is better for predictions depends on the data. "auto" is for Gaussian processes with
        optimize=True, which compare "uniform" and "kmeans" by the marginal likelihood of a
        kernel that has something to search; without a search it is "uniform". "learned" is for
        them too: the search ends with moving up to 1024 landmarks to where they describe the
        targets best, one to four minutes of one core more, and replaces the word by the array of
        them (one landmark per column); without a search it is "uniform". An array of at least
        n_components rows is taken as it is, whatever n_landmarks says.
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
        landmarks: Any = "uniform",
        n_jobs: int | None = None,
        random_state: Any = None,
    ):
        self.kernel = kernel
        self.n_components = n_components
        self.n_landmarks = n_landmarks
        self.landmarks = landmarks
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, X: Array, y: Any = None) -> NystromFeatures:
        """Choose the rows B from X (n, d), n ≥ n_components, and the matrix W."""
        check_kernel(self.kernel)
        D = self._begin_fit()
        X = self._validate(X, reset=True)
        self._check_count(D, X)
        self.kernel_ = fitted_kernel(self.kernel, X)
        warn_if_degenerate(self.kernel_, X)
        with suited_blas_threads(self._size(D)):
            self._fit_basis(D, X)
        return self

    def choose_rows(self, X: Array) -> None:
        """Landmarks, and the second moment, of rows that stand once: a copy adds no landmark."""
        if not isinstance(self.landmarks, str):
            return
        X = self._validate(X, reset=False)
        self._check_count(self.n_projections_, X)
        with suited_blas_threads(self._size(self.n_projections_)):
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
        kernel = self._unit_kernel(self.kernel_.detached())
        rng = as_generator(self.random_state)
        m = min(self._count_landmarks(D), X.shape[0])
        indices = np.full(m, -1)
        if not isinstance(self.landmarks, str):
            rows = self._given_rows(D)
            indices = np.full(rows.shape[0], -1)
        elif self.landmarks == CLUSTERS:
            rows = cluster_means(kernel, host(X), m, rng)
        else:
            indices = landmark_rule(self.landmarks)(kernel, host(X), m, rng)
            rows = take_or_keep(X, indices)
        K = kernel(rows)
        check_size(K)
        whitening = Whitening(K)
        if rows.shape[0] == D:
            W = whitening.inverse()
        else:
            S = moment_of_rows(whitening, kernel, rows, indices, X, rng)
            W = whitening.combined(leading(S, D))
        probe = take_or_keep(X, probe_rows(X.shape[0], indices))

        def soften() -> np.ndarray:
            if rows.shape[0] == D:  # L⁻ᵀ is triangular: a third of the operations
                return Whitening(K, JITTER + SINGLE_JITTER).inverse()
            return softened(W, np.diagonal(K))

        W, error = suited_to_single(kernel, rows, W, probe, soften if is_single(X) else None)
        self.basis_ = Basis(rows, indices, W, error)
        self._whitened_kernel = kernel  # of which W is the whitening, if parameters change later

    def _size(self, D: int) -> int:
        """How many landmarks there may be, given ones too; these are checked later."""
        shape = getattr(self.landmarks, "shape", ())  # dense or sparse
        return shape[0] if shape else self._count_landmarks(D)

    def _count_landmarks(self, D: int) -> int:
        """How many landmarks D columns are made of, if there are so many rows."""
        n = self.n_landmarks
        if isinstance(n, str) and n == "auto":
            factor, most = _AUTO
            return max(D, min(int(factor * D), most))
        if isinstance(n, bool) or not isinstance(n, Real) or not n > 0 or not np.isfinite(n):
            raise ValueError(
                f'n_landmarks must be an integer, a factor such as 2.0, or "auto"; got {n!r}.'
            )
        m = int(n) if isinstance(n, Integral) else int(float(n) * D)
        if m < D:
            raise ValueError(
                f"n_landmarks={n!r} is fewer than n_components={D}: use {D} or more (1.0 or more "
                "times the columns)."
            )
        return m

    def _given_rows(self, n_components: int) -> Any:  # -> (m, d)
        rows = check_array(host(self.landmarks), accept_sparse="csr", dtype=np.float64)
        if rows.shape[0] < n_components or rows.shape[1] != self.n_features_in_:
            raise ValueError(
                f"landmarks must be n_components={n_components} rows or more, of "
                f"{self.n_features_in_} features; got the shape {rows.shape}."
            )
        return rows.copy() if keeps_sparse(rows) else np.array(dense(rows))

    def label(self) -> str:
        name = self.landmarks if isinstance(self.landmarks, str) else "given"
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
        landmark_rule(self.landmarks)
        if not study.once("finite diagonal", lambda: has_finite_diagonal(study)):
            raise Unsuited("k(x, x)² overflows for some rows")

    def most_components(self, study: Study) -> int | None:
        """One column per row: every row is then a landmark, and the kernel matrix exact."""
        return study.n_rows

    def expected_error(self, study: Study) -> ExpectedError:
        """Measured with as many landmarks as X leaves beside the rows held out; 0 with all rows."""
        D, d = self.n_components, study.dimension
        if study.n_rows < D:
            raise Unsuited(f"X has fewer than {D} rows")
        if study.n_rows == D:
            return study.error(0.0, 0.0, 2.0 * D * (d + D))
        m = min(self._count_landmarks(D), study.n_rows)
        key = "nystrom measurement", self.landmarks, D, m
        rule = landmark_rule(self.landmarks)
        with suited_blas_threads(m):
            found = study.once(key, lambda: measured(study, rule, D, m))
        fewer = found.n_fitting if found.n_fitting < m else None
        return found.error(2.0 * m * (d + D), fewer)

    def floor(self, study: Study) -> Floor:
        """Nothing but rounding, which orders the candidates: the cheaper rule first.

        More landmarks are no bound for fewer: the D columns are then those of the largest second
        moment of the rows fitted to, and rows held out may be longer, or in other clusters.
        """
        D = self.n_components
        m = min(self._count_landmarks(D), study.n_rows)
        cost = 2.0 * m * (study.dimension + D)
        if study.n_rows <= D:
            return Floor(0.0, cost)
        is_uniform = landmark_rule(self.landmarks) is uniform_rows
        return Floor(_ROUNDING if is_uniform else 2 * _ROUNDING, cost)

    def setup(self, dimension: int) -> Setup:
        """A factor of a matrix (m, m), and its inverse or its second moment and eigenvectors."""
        D, d = self.n_components, dimension
        m = float(self._count_landmarks(D))
        operations = m**3 + 2 * m * m * d
        if m > D:
            operations += eigen_operations(m) + 2.0 * n_moment_rows(m) * m * (m + d)
        pivots = isinstance(self.landmarks, str) and self.landmarks == "rpcholesky"
        n = n_candidates(int(m)) if pivots else 0
        operations += 2 * n * m * (m + d)
        return Setup(operations, 8 * (3 * m * m + m * d + n * (m + d)))

    @classmethod
    def variants(cls, study: Study) -> list[FeatureMap]:
        uniform = [cls(study.kernel, n_landmarks=factor) for factor in (1.0, 2.0, 4.0)]
        pivoted = cls(study.kernel, n_landmarks=2.0, landmarks="rpcholesky")
        return suited([*uniform, pivoted], study)

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
        kernel = self._unit_kernel(self.kernel_)
        # A kernel of bounded values and a matrix W that enlarges little: float32 is enough
        is_enough = (
            self.kernel_.shift_invariant
            and not self.kernel_.is_differentiable
            and self.basis_.single_error <= SINGLE_IS_SAFE
        )

        def wide(rows: Array) -> Array:
            return dense(rows) if is_single(rows) and is_enough else double(dense(rows))

        first = wide(X[:1, :])
        product, scale = self._product(kernel, first), square_root(self.kernel_.variance)
        keep = self._keeps_sparse(X)
        landmarks: Any = (
            self.components_.astype(first.dtype, copy=False)
            if keep
            else like(dense(self.components_), first)
        )

        def parts(rows: Array) -> Parts:
            # whether sparse rows are multiplied as they are is decided by the kernel
            given: Any = csr_array(rows, dtype=first.dtype) if keep else wide(rows)
            Z, _ = product(kernel(given, landmarks))
            Z = Z if isinstance(scale, float) and scale == 1 else scale * Z
            return namespace(Z).astype(Z, rows.dtype), None

        m = self.components_.shape[0]
        chunk = max(64, (1 << 20) // max(self.n_features_in_, m))
        if keep:  # the kernel may make a chunk dense that has more entries than others
            chunk = max(64, min((1 << 20) // m, (1 << 25) // self.n_features_in_))
        with np.errstate(over="ignore", invalid="ignore"):  # check_finite raises a clearer error
            Z = map_rows(parts, X, "real", self.n_projections_, chunk, n_jobs=self.n_jobs)
        return Z if self.kernel_.shift_invariant else check_finite(Z, X)

    def _keeps_sparse(self, X: Any) -> bool:
        """Whether rows are multiplied by sparse landmarks as CSR; dense ones if few are nonzero."""
        B: Any = self.components_
        if not is_sparse(B) or not is_numpy_array(X):
            return is_sparse(B) and is_sparse(X)
        return bool(np.count_nonzero(X) * share_of_entries(B) <= MOST_SHARED * X.size)

    def _product(self, kernel: Kernel, rows: Array) -> WhiteningProduct:
        """What multiplies values of the kernel with rows like these by W."""

        def make() -> WhiteningProduct:
            return WhiteningProduct(like(self._current_matrix(kernel, rows), rows))

        return make() if kernel.is_differentiable else kept(self.basis_, "product", rows, make)

    def _current_matrix(self, kernel: Kernel, rows: Array) -> Array:  # -> (m, D)
        """W for rows like these, and the kernel's parameters as they are if they have a gradient.

        The fit has Wᵀ(K_BB + jitter) W = 1. With other parameters this is M = 1 + Wᵀ ΔK_BB W, and
        W C⁻ᵀ with M = C Cᵀ whitens again; its derivative is that of the features.
        """
        B: Any = self.components_
        W: Any = self.normalization_
        if is_single(rows) and self.basis_.single_error > SINGLE_IS_SAFE:
            # There is no float64, as in JAX by default: W must not enlarge roundings
            diagonal = self._whitened_kernel.diag(B)
            W = kept(self.basis_, "softened", B, lambda: softened(W, diagonal))
        if not self.kernel_.is_differentiable:
            return W
        xp = namespace(rows)
        B, W = like(dense(B), rows), like(W, rows)
        change = kernel(B) - self._whitened_kernel(B)
        one = like(np.eye(W.shape[1]), rows)
        return xp.linalg.solve(xp.linalg.cholesky(one + W.T @ change @ W), W.T).T

    @staticmethod
    def _unit_kernel(kernel: Kernel) -> Kernel:
        """The kernel with variance 1, which only scales the features."""
        unit = copy(kernel)
        unit.variance = 1.0
        return unit

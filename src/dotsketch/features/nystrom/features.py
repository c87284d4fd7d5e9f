"""Nyström features: the kernel with some training rows, whitened; any kernel, no random weights."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Annotated, Any, NamedTuple, Self

import numpy as np
from array_api_compat import is_numpy_array
from scipy.sparse import csr_array
from sklearn.utils import check_array

from ..._arrays import (
    Array,
    ArrayT,
    Parts,
    dense,
    double,
    host,
    is_sparse,
    is_traced,
    like,
    namespace,
    share_of_entries,
    square_root,
)
from ..._backends import Prepared, keeps_prepared, kept
from ..._support.parameters import positive_integer
from ..._support.stored import array, check_lengths, stored
from ..._support.threads import suited_blas_threads
from ...kernels import Kernel, as_kernel
from ...kernels.base import MOST_SHARED
from ..base import FeatureMap
from ..design import Design, Unsuited
from ..study import Study, keeps_sparse, most_rows, take_or_keep
from .landmarks import landmark_rule, n_candidates
from .whitening import Whitening, leading, second_moment, softened


@keeps_prepared
class Basis(NamedTuple):
    """What a fit keeps, on the host."""

    # CSR if the training rows are
    rows: Annotated[Any, array("f", "m", "d", sparse=True)]
    indices: Annotated[np.ndarray, array("iu", "m")]
    normalization: Annotated[np.ndarray, array("f", "m", "D")]

    @property
    def on_host(self) -> tuple[str, ...]:
        """What stays on the host when the others become tensors: code looks at its values."""
        return ("indices",)


@stored
@dataclass(frozen=True, eq=False, kw_only=True)
class NystromDesign(Design):
    """m landmarks by a rule, or given rows, and the D best combinations of k(B, x).

    unit_kernel : the kernel of variance 1 without gradients, for which W is made
    """

    outputs = ("real",)
    unit_kernel: Kernel
    n_landmarks: int
    rule: str = ""  # which rows become landmarks
    # where they are given
    landmarks: Annotated[Any, array("f", "n_landmarks", "dimension", sparse=True)] = None

    @property
    def cost(self) -> float:
        return 2.0 * self.n_landmarks * (self.dimension + self.n_components)

    @property
    def weight_bytes(self) -> float:
        return 8.0 * self.n_landmarks * (3 * self.n_landmarks + self.dimension)

    @property
    def n_rows_wanted(self) -> int:
        """Those that pivots are drawn from, and 16 per column for a second moment: enough to tell
        its top eigenvectors, and much cheaper than all rows."""
        m, D = self.n_landmarks, self.n_components
        if m == D:
            return m if self.rule == "uniform" else n_candidates(m)
        return max(m if self.rule == "uniform" else n_candidates(m), 16 * D, 2000)

    def for_rows(self, n_rows: int) -> Self:
        if n_rows >= self.n_landmarks or self.landmarks is not None:
            return self
        D = min(self.n_components, n_rows)
        return replace(self, n_landmarks=n_rows, n_components=D)

    def sample(self, rng: np.random.Generator, rows: Array | None = None) -> Basis:
        """Landmarks from the rows (n, d), n ≥ n_components, and the matrix W."""
        if rows is None:
            raise ValueError("Landmarks are training rows: pass the rows to choose them from.")
        design = self.for_rows(rows.shape[0])
        kernel, m = self.unit_kernel, design.n_landmarks
        with suited_blas_threads(m):
            if self.landmarks is None:
                indices = landmark_rule(self.rule)(kernel, host(rows), m, rng)
                landmarks = take_or_keep(rows, indices)
            else:
                landmarks, indices = self.landmarks, np.full(m, -1)
            K = np.asarray(kernel(landmarks))
            size = float(np.max(np.diagonal(K)))
            if not 0 < size < np.inf:
                raise ValueError(
                    f"The largest k(x, x) of the drawn rows is {size}: scale X, or choose another "
                    "lengthscale or gamma."
                )
            whitening = Whitening(K)
            if m == design.n_components:
                return Basis(landmarks, indices, whitening.inverse())
            # all rows up to 10,000, or four per landmark if these are more: then some at random
            n, most = rows.shape[0], max(10_000, 4 * m)
            chosen = np.arange(n) if n <= most else np.sort(rng.permutation(n)[:most])
            step = n if keeps_sparse(rows) else most_rows(self.dimension)
            blocks = (take_or_keep(rows, chosen[i : i + step]) for i in range(0, len(chosen), step))
            moment = second_moment(whitening, kernel, landmarks, blocks)
            top = leading(moment, design.n_components)
            return Basis(landmarks, indices, whitening.combined(top))

    def check_weights(self, weights: Any) -> None:
        check_lengths(weights, (Basis,), d=self.dimension, D=self.n_components)

    def prepare(self, weights: Basis, rows: Array) -> Prepared:
        """z(x) = Wᵀ k(B, x)."""
        keep = keeps_sparse_rows(weights.rows, rows)
        if self.is_differentiable:
            return self._columns(weights, rows, keep)
        return kept(weights, (self, keep), rows, lambda: self._columns(weights, rows, keep))

    def _columns(self, basis: Basis, rows: Array, keeps_sparse: bool) -> Prepared:
        unit_kernel, scale = with_variance_one(self.kernel), square_root(self.kernel.variance)
        W: Any = basis.normalization
        # Roundings ε of k(B, x) become ε|W| in z. D columns leave an error of about the least
        # eigenvalue of K_BB, 1/|W|²: in float32 roundings have to be below a tenth of it
        is_single = str(rows.dtype).endswith("float32")
        is_wide = not self.kernel.shift_invariant or self.is_differentiable
        if is_single and not is_wide:
            size = float(np.linalg.norm(np.asarray(host(W))))
            is_wide = size**3 * float(np.finfo(np.float32).eps) > 0.1

        def wide(rows: Any) -> Any:
            return double(dense(rows)) if is_wide else dense(rows)

        first = wide(rows[:1, :])
        dtype = first.dtype
        if is_wide and str(dtype).endswith("float32"):  # there is no float64
            diagonal = self.unit_kernel.diag(basis.rows)
            W = softened(np.asarray(host(W)), diagonal)
        B: Any = basis.rows
        landmarks: Any = B.astype(dtype) if keeps_sparse else like(dense(B), first)
        W = (
            self._rewhitened(W, unit_kernel, landmarks)
            if self.is_differentiable
            else like(W, first)
        )
        m, D = W.shape
        is_triangular = m == D and is_numpy_array(W) and not np.any(np.tril(W, -1))

        def columns(rows: Any) -> Parts:  # (n, d) -> (n, D), None
            X = csr_array(rows, dtype=dtype) if keeps_sparse else wide(rows)
            K: Any = unit_kernel(X, landmarks)
            if is_triangular:
                Z: Any = np.empty_like(K)
                for start in range(0, D, 128):  # zeros below the diagonal are left out
                    stop = min(start + 128, D)
                    np.matmul(K[:, :stop], W[:stop, start:stop], out=Z[:, start:stop])
            else:
                Z = K @ W
            if not (isinstance(scale, float) and scale == 1):
                Z = scale * Z
            return namespace(Z).astype(Z, rows.dtype), None

        # the kernel may make a chunk of sparse rows dense that has more entries than others
        width = self.dimension // 32 if keeps_sparse else self.dimension
        return Prepared(
            columns, max(m, D, width), accepts_sparse=True, chunk_bytes=1 << 23, least_rows=64
        )

    def _rewhitened(self, W: Any, unit_kernel: Any, landmarks: Any) -> Any:  # (m, D) -> (m, D)
        """W for the kernel's parameters as they are, if gradients flow to them.

        The fit has Wᵀ(K_BB + jitter) W = 1. With other parameters this is M = 1 + Wᵀ ΔK_BB W, and
        W C⁻ᵀ with M = C Cᵀ whitens again; its derivative is that of the features.
        """
        xp, W = namespace(landmarks), like(W, landmarks)
        change = unit_kernel(landmarks) - self.unit_kernel(landmarks)
        identity = like(np.eye(W.shape[1]), landmarks)
        return xp.linalg.solve(xp.linalg.cholesky(identity + W.T @ change @ W), W.T).T

    def checked(self, Z: ArrayT, X: Array) -> ArrayT:
        xp = namespace(Z)
        bounded = self.kernel.shift_invariant or is_traced(Z)
        if bounded or bool(xp.all(xp.isfinite(Z))):
            return Z
        entries = X.data if is_sparse(X) else X
        largest = float(host(namespace(entries).max(namespace(entries).abs(entries))))
        raise ValueError(
            f"The features overflow {X.dtype}: the largest entry of X is {largest:.3g}; scale X "
            "down, use a smaller gamma or a larger lengthscale, or use float64."
        )


def with_variance_one(kernel: Kernel) -> Any:
    """The kernel with variance 1, which only scales the features."""
    unit = copy(kernel)
    unit.variance = 1.0
    return unit


def keeps_sparse_rows(landmarks: Any, X: Any) -> bool:
    """Whether rows are multiplied by sparse landmarks as CSR; dense ones if few are nonzero."""
    if not is_sparse(landmarks) or not is_numpy_array(X):
        return is_sparse(landmarks) and is_sparse(X)
    return bool(np.count_nonzero(X) * share_of_entries(landmarks) <= MOST_SHARED * X.size)


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
    diagonal, with 10⁻¹³ of its trace added to the diagonal. W is computed in float64. Rows of
    float32 are computed in float32 if W enlarges roundings little, and in float64 otherwise.

    Parameters
    ----------
    kernel : Kernel, kernel of scikit-learn, or function of rows (n, d), (m, d) -> (n, m)
        A lengthscale of "median" is set from the training rows. Kernels that are not of this
        library take NumPy rows only, and have no search and no model files.
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
        outliers are not missed; m² · 5000 operations more. "auto" is "rpcholesky" with more
        landmarks than columns, and otherwise "uniform". An array of at least n_components rows is
        taken as it is, whatever n_landmarks says.
    n_jobs : int or None, default=None
        Threads that `transform` uses on NumPy rows (-1: all).
    random_state : int, RandomState, Generator or None

    Attributes
    ----------
    kernel_ : the kernel with data-dependent parameters resolved
    components_ : (m, d) the rows B; CSR if the training rows are and store at most a tenth of all
        entries
    component_indices_ : (m,) their row numbers in the training data; −1 if they were given
    normalization_ : (m, n_components) W, for the kernel of variance 1
    design_ : NystromDesign
    weights_ : Basis, the three of them
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

    def _kernel(self) -> Any:
        return as_kernel(self.kernel)

    def design(self, study: Study) -> NystromDesign:
        D, n = positive_integer("n_components", self.n_components), study.n_rows
        m, rule, landmarks = min(self._count_landmarks(D), n), "", None
        if isinstance(self.landmarks, str):
            rule = self._rule
            landmark_rule(rule)  # refuses a name that it does not have
            if n < D:
                raise Unsuited(
                    f"Every Nyström feature takes a training row of its own: n_components={D} is "
                    f"more than n_samples={n}; use n_components={n} or fewer, or more rows."
                )
        else:
            landmarks = given_rows(self.landmarks, D, study.dimension)
            m = landmarks.shape[0]
        options = {"n_landmarks": m, "rule": rule, "landmarks": landmarks}
        unit_kernel = with_variance_one(study.kernel)
        return self.of_study(NystromDesign, study, unit_kernel=unit_kernel, **options)

    def _count_landmarks(self, D: int) -> int:
        """How many landmarks D columns are made of, if there are so many rows."""
        count: Any = self.n_landmarks
        if isinstance(count, str) and count == "auto":
            return max(D, min(2 * D, 2048))  # with more, the set-up would take minutes
        is_number = isinstance(count, Real) and not isinstance(count, bool)
        if not is_number or not 0 < count < np.inf:
            raise ValueError(
                f'n_landmarks must be an integer, a factor such as 2.0, or "auto"; got {count!r}.'
            )
        m = int(count) if isinstance(count, Integral) else int(float(count) * D)
        if m < D:
            raise ValueError(
                f"n_landmarks={count!r} is fewer than n_components={D}: use {D} or more (1.0 or "
                "more times the columns)."
            )
        return m

    @property
    def _rule(self) -> str:
        """The name of the rule.

        Where columns are combinations of more landmarks, these have to cover the rows: pivots do.
        With one landmark per column, pivots that are outliers would be columns for few rows.
        """
        if self.landmarks != "auto":
            return str(self.landmarks)
        more = self._count_landmarks(self.n_components) > self.n_components
        return "rpcholesky" if more else "uniform"

    def label(self) -> str:
        name = self._rule if isinstance(self.landmarks, str) else "given"
        count = ""
        if isinstance(self.n_landmarks, Integral):
            count = f"{self.n_landmarks} "
        elif isinstance(self.n_landmarks, Real):
            count = "D " if self.n_landmarks == 1 else f"{self.n_landmarks:g} D "
        return f"nystrom: {count}{name} landmarks"

    def columns_up_to(self, n_components: int, n_rows: int) -> int:
        """At most one column per row."""
        return min(n_components, n_rows)

    @classmethod
    def variants(cls, study: Study) -> list[FeatureMap]:
        with np.errstate(over="ignore"):
            values = study.kernel.diag(np.vstack([study.held, study.fitting])) ** 2
        if not np.all(np.isfinite(values)):
            return []  # k(x, x)² overflows for some rows
        return [cls(study.kernel, n_landmarks=factor) for factor in (1.0, 2.0, 4.0)]

    @property
    def components_(self) -> Any:
        return self.weights_.rows

    @property
    def component_indices_(self) -> np.ndarray:
        return np.asarray(self.weights_.indices)

    @property
    def normalization_(self) -> np.ndarray:
        return np.asarray(self.weights_.normalization)


def given_rows(landmarks: Any, n_components: int, n_features: int) -> Any:  # -> (m, d)
    """The landmarks that a user gives, checked; CSR if few of their entries are stored."""
    rows = check_array(
        host(landmarks), accept_sparse="csr", dtype=np.float64, input_name="landmarks"
    )
    if rows.shape[0] < n_components or rows.shape[1] != n_features:
        raise ValueError(
            f"landmarks must be n_components={n_components} rows or more, of {n_features} "
            f"features; got the shape {rows.shape}."
        )
    return rows.copy() if keeps_sparse(rows) else np.array(dense(rows))

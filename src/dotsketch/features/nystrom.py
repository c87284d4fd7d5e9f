"""Nyström features: the kernel with some training rows, whitened; any kernel, no random weights."""

from __future__ import annotations

from copy import copy
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import cholesky, eigh, solve_triangular
from sklearn.utils import check_array

from .._arrays import (
    Array,
    Parts,
    as_generator,
    double,
    host,
    is_sparse,
    is_traced,
    like,
    map_rows,
    namespace,
    square_root,
)
from ..kernels import Kernel
from .base import FeatureMap, Setup, check_kernel, dense, fitted_kernel, suited
from .degenerate import warn_if_degenerate
from .landmarks import landmark_rule, n_candidates, uniform_rows
from .study import ExpectedError, Study, Unsuited

# Eigenvalues below these shares of the largest are rounding: of K_BB, which is computed in float64,
# and of k(x, B) in float32. (Where all eigenvalues are above 1e-9 of the largest, float32 gave the
# kernel error of float64 to four digits on protein, magic and letter, at 1024 columns.)
_CUT = float(np.finfo(np.float64).eps)
_SINGLE_CUT, _SINGLE_IS_SAFE = 1e-10, 1e-9


class Basis(NamedTuple):
    """What a fit keeps, on the host."""

    rows: np.ndarray  # (D, d)
    indices: np.ndarray  # (D,)
    normalization: np.ndarray  # (D, D)
    relative_eigenvalues: np.ndarray  # (D,), of K_BB over the largest, 0 if cut


class NystromFeatures(FeatureMap):
    """z(x) = k(x, B) V w^(−1/2) for n_components landmarks B, which are training rows.

    K_BB = V diag(w) Vᵀ is the kernel matrix of the rows B, its largest eigenvalue first. Columns of
    eigenvalues that are rounding (below 2.2e-16 of the largest) are zero. Rows of float32 are
    computed in float64 where small eigenvalues would enlarge their rounding. The approximate
    kernel is exact between rows of B and never above k(x, x); it adapts to the data and so beats
    random features where the kernel's spectrum decays fast, at D·d + D² operations per row, and D³
    once. Its error has no closed form.

    Parameters
    ----------
    kernel : Kernel
        A lengthscale of "median" is set from the training rows.
    n_components : int, default=100
        The number of columns, at most the number of training rows.
    landmarks : {"uniform", "rpcholesky"} or array of shape (n_components, d), default="uniform"
        "uniform" draws the landmarks uniformly from the training rows. "rpcholesky" takes the
        pivots of a randomly pivoted Cholesky factor of the kernel matrix of 5000 of them (or twice
        n_components): rows unlike the landmarks before them are more likely, so that small clusters
        and outliers are not missed; n_components² · 5000 operations more. An array is taken as it
        is, and only a lengthscale of "median" then depends on the training rows.
    n_jobs : int or None, default=None
        Threads that `transform` uses on NumPy rows (-1: all).
    random_state : int, RandomState, Generator or None

    Attributes
    ----------
    kernel_ : the kernel with data-dependent parameters resolved
    components_ : (n_components, d) the rows B
    component_indices_ : (n_components,) where they stand in the training data; −1 if given
    normalization_ : (n_components, n_components) V w^(−1/2), for the kernel of variance 1
    basis_ : the three of them, and the eigenvalues w over the largest
    n_features_in_ : int

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from dotsketch import Gaussian, NystromFeatures, relative_frobenius_error
    >>> X = load_digits().data
    >>> features = NystromFeatures(Gaussian(), n_components=200, random_state=0)
    >>> Z = features.fit_transform(X)
    >>> bool(relative_frobenius_error(features.kernel_(X), Z @ Z.T) < 0.02)
    True
    """

    family = "nystrom"
    output = "real"  # there are no others

    def __init__(
        self,
        kernel: Kernel,
        *,
        n_components: int = 100,
        landmarks: Any = "uniform",
        n_jobs: int | None = None,
        random_state: Any = None,
    ):
        self.kernel = kernel
        self.n_components = n_components
        self.landmarks = landmarks
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, X: Array, y: Any = None) -> NystromFeatures:
        """Choose the rows B from X (n, d), n ≥ n_components, and whiten their kernel matrix."""
        check_kernel(self.kernel)
        D = self._begin_fit()
        X = self._validate(X, reset=True)
        is_given = not isinstance(self.landmarks, str)
        if X.shape[0] < D and not is_given:
            raise ValueError(
                f"Every Nyström feature takes a training row of its own: n_components={D} is more "
                f"than n_samples={X.shape[0]}; use n_components={X.shape[0]} or fewer, or more "
                "rows."
            )
        self.kernel_ = fitted_kernel(self.kernel, X)
        warn_if_degenerate(self.kernel_, X)
        kernel = self._unit_kernel(self.kernel_.detached())
        if is_given:
            rows, indices = self._given_rows(D), np.full(D, -1)
        else:
            rule = landmark_rule(self.landmarks)
            indices = rule(kernel, host(X), D, as_generator(self.random_state))
            rows = np.asarray(double(dense(host(X)[indices])))
        K = kernel(rows)
        self.basis_ = Basis(rows, indices, *whitening(K))
        return self

    def _given_rows(self, n_landmarks: int) -> np.ndarray:  # -> (n_landmarks, d)
        rows = check_array(host(self.landmarks), accept_sparse="csr", dtype=np.float64)
        expected = n_landmarks, self.n_features_in_
        if rows.shape != expected:
            raise ValueError(
                f"landmarks must be {expected[0]} rows, as n_components says, of {expected[1]} "
                f"features; got the shape {rows.shape}."
            )
        return np.array(dense(rows))

    def label(self) -> str:
        name = self.landmarks if isinstance(self.landmarks, str) else "given"
        return f"nystrom: {name} landmarks"

    def check_study(self, study: Study) -> None:
        if not isinstance(self.landmarks, str):
            raise Unsuited("landmarks that are given are not drawn: there is nothing to compare")
        landmark_rule(self.landmarks)
        if not study.once("finite diagonal", lambda: has_finite_diagonal(study)):
            raise Unsuited("k(x, x)² overflows for some rows")

    def expected_error(self, study: Study) -> ExpectedError:
        """Measured with n_components landmarks, as many as X leaves beside the rows held out.

        K̂ = Bᵀ B with K_ll = L Lᵀ and B = L⁻¹ K_lx: a Cholesky factor, which is much cheaper than
        the eigenvectors that the features need.
        """
        m, D, d = study.n_held, self.n_components, study.dimension
        if study.n_rows < D:
            raise Unsuited(f"X has fewer than {D} rows")
        rule = landmark_rule(self.landmarks)
        # Uniform landmarks are the rows that a draw fits to; a rule chooses among more of them
        pool = D if rule is uniform_rows else max(min(study.n_rows - m, n_candidates(D)), D)

        def approximate(
            fitting: np.ndarray, held: np.ndarray, rng: np.random.Generator
        ) -> np.ndarray:
            landmarks = fitting
            if rule is not uniform_rows:
                landmarks = fitting[rule(study.kernel, fitting, min(D, len(fitting)), rng)]
            K = study.kernel(landmarks)
            # Landmarks may be nearly dependent, or zero
            K[np.diag_indices_from(K)] += 1e-12 * np.trace(K) + np.finfo(float).tiny
            L = cholesky(K, lower=True, overwrite_a=True, check_finite=False)
            B = solve_triangular(L, study.kernel(landmarks, held), lower=True, check_finite=False)
            return B.T @ B

        operations = D * D * (D / 3 + m + 2 * d) + 2.0 * D * m * (m + d)
        operations += 0 if rule is uniform_rows else 2.0 * pool * D * (D + d)
        found = study.measure(approximate, pool, operations)
        fewer = found.n_fitting if found.n_fitting < D else None
        return found.error(2.0 * D * (d + D), fewer)

    def setup(self, dimension: int) -> Setup:
        """An eigendecomposition of a D × D matrix, of which three copies are held."""
        D, d = float(self.n_components), dimension
        pivots = isinstance(self.landmarks, str) and self.landmarks != "uniform"
        n = n_candidates(self.n_components) if pivots else 0
        operations = 10 * D**3 + 2 * D * D * d + 2 * n * D * (D + d)
        return Setup(operations, 8 * (3 * D * D + D * d + n * (D + d)))

    @classmethod
    def variants(cls, study: Study) -> list[FeatureMap]:
        return suited([cls(study.kernel)], study)

    @property
    def components_(self) -> np.ndarray:
        return self.basis_.rows

    @property
    def component_indices_(self) -> np.ndarray:
        return self.basis_.indices

    @property
    def normalization_(self) -> np.ndarray:
        return self.basis_.normalization

    def _features(self, X: Array) -> Array:
        kernel = self._unit_kernel(self.kernel_)
        scale = square_root(self.kernel_.variance)

        normalization = self.normalization_
        shares = self.basis_.relative_eigenvalues if str(X.dtype).endswith("float32") else None
        # A kernel of bounded values and a whitening that enlarges little: float32 is enough
        single = (
            shares is not None
            and self.kernel_.shift_invariant
            and bool(np.all(shares[shares > 0] > _SINGLE_IS_SAFE))
        )

        def parts(rows: Array) -> Parts:
            wide = dense(rows) if single else double(dense(rows))
            used = normalization
            if shares is not None and not single and wide.dtype == rows.dtype:
                used = used * (shares > _SINGLE_CUT)  # a library without float64
            basis = like(self.components_, wide)
            Z = scale * (kernel(wide, basis) @ like(used, wide))
            return namespace(Z).astype(Z, rows.dtype), None

        width = max(self.n_features_in_, self.n_projections_)
        chunk = max(64, (1 << 23) // (8 * width))
        with np.errstate(over="ignore", invalid="ignore"):  # check_finite raises a clearer error
            Z = map_rows(parts, X, "real", self.n_projections_, chunk, n_jobs=self.n_jobs)
        return Z if self.kernel_.shift_invariant else check_finite(Z, X)

    @staticmethod
    def _unit_kernel(kernel: Kernel) -> Kernel:
        """The kernel with variance 1, which only scales the features."""
        unit = copy(kernel)
        unit.variance = 1.0
        return unit


def has_finite_diagonal(study: Study) -> bool:
    """Whether k(x, x)² is finite for all rows, and with it k² for all pairs of them."""
    with np.errstate(over="ignore"):
        return all(
            bool(np.isfinite(np.sum(study.kernel.diag(rows) ** 2))) for rows in study.blocks()
        )


def whitening(K: np.ndarray) -> tuple[np.ndarray, np.ndarray]:  # (D, D) -> (D, D), (D,)
    """V w^(−1/2) of K = V diag(w) Vᵀ, the largest eigenvalue first, and w over the largest.

    Both are zero where w is cut.

    "evd" took 0.3 of the time of a singular value decomposition at D = 2048, as "evr" did, and "ev"
    1.3. The sign of an eigenvector is arbitrary: its largest entry is made positive.
    """
    size = float(np.max(np.diagonal(K)))
    if not 0 < size < np.inf:
        raise ValueError(
            f"The largest k(x, x) of the drawn rows is {size}: scale X, or choose another "
            "lengthscale or gamma."
        )
    w, V = eigh(K / size, driver="evd", overwrite_a=True)
    w, V = w[::-1], V[:, ::-1]
    largest = np.argmax(np.abs(V), axis=0)
    signs = np.where(V[largest, np.arange(len(w))] < 0, -1.0, 1.0)
    kept = w > _CUT * w[0]
    scales = np.where(kept, signs / np.sqrt(size * np.where(kept, w, 1.0)), 0.0)
    return V * scales, np.where(kept, w / w[0], 0.0)


def check_finite(Z: Array, X: Array) -> Array:
    """Z, unless values of the kernel left the range of their dtype."""
    xp = namespace(Z)
    if is_traced(Z) or bool(xp.all(xp.isfinite(Z))):
        return Z
    entries = X.data if is_sparse(X) else X
    largest = float(host(namespace(entries).max(namespace(entries).abs(entries))))
    raise ValueError(
        f"The features overflow {X.dtype}: the largest entry of X is {largest:.3g}; scale X down, "
        "use a smaller gamma or a larger lengthscale, or use float64."
    )

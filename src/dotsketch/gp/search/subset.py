"""Parameters of a kernel and noise by the exact marginal likelihood of some rows.

With C = K(θ) + σ² I, A = C⁻¹ and a = A y the derivative of −log p(y) with respect to C is
½ (m A − a aᵀ), for m outputs: `Kernel.with_pullback` takes it back to the logarithms of θ. One
evaluation costs n³ operations for all derivatives together, however many parameters there are.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from scipy.linalg import lapack
from scipy.optimize import minimize

from ..._arrays import host
from ...kernels import Kernel
from ...spectrum import log_density
from ..evidence import log_density_of_copies
from .record import OutOfTime, Recorder

ROWS = 600, 2000  # of the two rounds: many starts on few rows, then the best of them on more
STARTS = 3
ITERATIONS = 60
# A relative gain of the likelihood per row below this ends a round
TOLERANCE = 1e-6
NOISE = 1e-6, 0.1, 10.0  # least, first and greatest, times the mean square of the targets
FAILED = 1e30  # the loss where C is not positive definite to rounding: a line search steps back
ROWS_PER_LENGTHSCALE = 20
MOST_LENGTHSCALES = 200
MOST_NUMBERS = 1 << 26  # of the rows, made dense


class SubsetEvidence:
    """−log p(y)/n of targets Y (n, m) at rows X (n, d), a function of logarithms with a gradient.

    The logarithms are those of the kernel and, last, that of the noise variance; there is none of
    the noise if the variances of all rows (n,) are given. A row that counts w times (`counts`) is w
    rows, all told n of them, with one mean of noise σ²/w: see `log_density_of_copies`.
    """

    def __init__(
        self,
        kernel: Any,
        X: np.ndarray,
        Y: np.ndarray,
        noise: np.ndarray | None,
        counts: np.ndarray | None = None,
    ):
        self.kernel, self.X, self.Y, self.noise = kernel, X, Y, noise
        self.counts = np.ones(len(X)) if counts is None else counts
        self.n = float(np.sum(self.counts))

    def parts(self, logarithms: np.ndarray) -> tuple[Any, Any]:
        """The kernel, and the noise variance or variances."""
        if self.noise is not None:
            return self.kernel.with_logarithms(logarithms), self.noise
        return self.kernel.with_logarithms(logarithms[:-1]), float(np.exp(logarithms[-1]))

    def __call__(self, logarithms: np.ndarray) -> tuple[float, np.ndarray]:
        n, m = self.Y.shape
        kernel, noise = self.parts(logarithms)
        with np.errstate(over="ignore", invalid="ignore"):
            K, pullback = kernel.with_pullback(self.X)
        C = K.copy().T  # the pullback holds K; the transpose is in the order of LAPACK
        C[np.diag_indices(n)] += noise / self.counts
        factor, failed = lapack.dpotrf(C, lower=1, overwrite_a=1, clean=1)
        if failed or not np.all(np.isfinite(np.diagonal(factor))):
            return FAILED, np.zeros_like(logarithms)
        determinant = 2 * float(np.sum(np.log(np.diagonal(factor))))
        weights, _ = lapack.dpotrs(factor, self.Y, lower=1)
        density = log_density(m * determinant, float(np.sum(self.Y * weights)), n * m, False)
        density += m * log_density_of_copies(noise, self.counts)
        inverse, _ = lapack.dpotri(factor, lower=1, overwrite_c=1)
        # one triangle of the symmetric inverse; its zeros above the diagonal are filled in
        slopes = inverse + inverse.T
        slopes[np.diag_indices(n)] /= 2
        slopes *= m
        slopes -= weights @ weights.T
        gradient = pullback(slopes)
        if self.noise is None:
            of_noise = np.sum(np.diagonal(slopes) / self.counts) * noise
            gradient = np.append(gradient, of_noise + m * np.sum(self.counts - 1))
        return -float(density) / self.n, gradient / (2 * self.n)


class Descent:
    """Runs of L-BFGS on one subset; the best point of all of them, also if one was stopped."""

    def __init__(
        self, evidence: SubsetEvidence, box: np.ndarray, recorder: Recorder, square: float
    ):
        self.evidence, self.box, self.recorder = evidence, box, recorder
        self.square = square  # the unit of variances is this mean square of the targets
        self.best: tuple[float, np.ndarray | None] = np.inf, None

    def run(self, start: np.ndarray) -> tuple[float, np.ndarray]:
        """Loss and logarithms of the best point from a start."""
        began, count = time.perf_counter(), 0
        best = np.inf, start

        def loss(logarithms: np.ndarray) -> tuple[float, np.ndarray]:
            nonlocal best, count
            value, gradient = self.evidence(logarithms)
            count += 1
            if value < best[0]:
                best = value, logarithms.copy()
            self.recorder.check(share=0.5)
            return value, gradient

        try:
            minimize(
                loss,
                np.clip(start, self.box[:, 0], self.box[:, 2]),
                jac=True,
                method="L-BFGS-B",
                bounds=self.box[:, [0, 2]],
                options={"maxiter": ITERATIONS, "maxcor": 20, "ftol": TOLERANCE, "gtol": 1e-4},
            )
        finally:
            kernel, noise = self.evidence.parts(best[1])
            self.recorder.add(
                began,
                stage="subset",
                n_rows=len(self.evidence.X),
                n_columns=None,
                n_evaluations=count,
                factor=1.0,
                log_likelihood=-float(best[0]) - self.evidence.Y.shape[1] * np.log(self.square) / 2,
                noise_variance=self.square * float(np.mean(noise)),
                prior_variance=self.square * float(np.mean(kernel.diag(self.evidence.X))),
            )
            if best[0] < self.best[0]:
                self.best = best
        return best


def best_on_rows(
    kernel: Any,
    X: Any,
    Y: np.ndarray,
    noise: np.ndarray | None,
    counts: np.ndarray | None = None,
    *,
    per_column: bool | None,
    rng: np.random.Generator,
    recorder: Recorder,
) -> Any:  # (n, d), (n, m), (n,), (n,)
    """The kernel with the parameters of the greatest marginal likelihood of some of the rows.

    `per_column` asks for one lengthscale for every column, or for those that the kernel has; None
    decides by the rows there are. The mean of k(x, x) stays as it was: the scale of the process is
    the business of the prior variance.
    """
    order = rng.permutation(X.shape[0])[: MOST_NUMBERS // X.shape[1]]
    rows = [order[:size] for size in sorted({min(size, len(order)) for size in ROWS})]
    least, greatest = _extremes(X)
    recorder.constant_columns = tuple(np.flatnonzero(least == greatest).tolist())
    X = np.asarray(_dense(X[rows[-1]]), dtype=np.float64)
    counts = np.ones(len(X)) if counts is None else np.asarray(counts, dtype=float)[rows[-1]]
    Y = Y[rows[-1]] - np.average(Y[rows[-1]], axis=0, weights=counts)
    square = float(np.mean(np.average(Y**2, axis=0, weights=counts)))
    if len(X) < 3 or not 0 < square < np.inf:
        return kernel.resolve(X)
    Y = Y / np.sqrt(square)
    noise = None if noise is None else noise[rows[-1]] / square
    kernel = kernel.resolve(X)
    level = float(np.mean(kernel.diag(X)))
    if per_column is None:
        per_column = suits_columns(float(np.sum(counts)), X.shape[1])
    searched = kernel.per_column(X.shape[1]) if per_column and X.shape[1] > 1 else kernel
    box = searched.search_range(_spread(X, least, greatest))
    given = searched.logarithms
    if noise is None:
        box, given = np.vstack([box, np.log(NOISE)]), np.append(given, np.log(NOISE[1]))
    starts = [given, box[:, 1]]
    starts += [box[:, 1] + rng.standard_normal(len(box)) for _ in range(STARTS - len(starts))]
    found = given
    try:
        for k, size in enumerate(map(len, rows)):
            part = None if noise is None else noise[:size]
            evidence = SubsetEvidence(searched, X[:size], Y[:size], part, counts[:size])
            descent = Descent(evidence, box, recorder, square)
            _, found = min(map(descent.run, starts), key=lambda pair: pair[0])
            # Where a parameter has run away, the likelihood is flat: more rows would not bring it
            # back from there.
            starts = [np.minimum(found, box[:, 1] + np.log(2))] if k + 1 < len(rows) else []
    except OutOfTime:
        found = found if descent.best[1] is None else descent.best[1]
    best = searched.with_logarithms(found[: len(searched.logarithms)])
    best = best.times(level / float(np.mean(best.diag(X))))
    is_same = np.isclose(float(host(best.variance)), float(host(kernel.variance)), rtol=1e-9)
    if is_same and "variance" in best.get_params():
        best.set_params(variance=kernel.variance)  # to the last digit
    return best


def suits_columns(n_rows: float, dimension: int) -> bool:
    """Whether rows are enough for one lengthscale per column."""
    return dimension <= MOST_LENGTHSCALES and ROWS_PER_LENGTHSCALE * dimension < n_rows


def has_parameters(kernel: Any) -> bool:
    """Whether a kernel has parameters to search beside its scale."""
    return isinstance(kernel, Kernel) and len(kernel.detached().resolve(np.eye(2)).logarithms) > 1


def _extremes(X: Any) -> tuple[np.ndarray, np.ndarray]:  # (n, d) -> (d,), (d,)
    """The least and the greatest value of every column, dense or sparse."""
    least, greatest = (np.ravel(_dense(part)) for part in (X.min(axis=0), X.max(axis=0)))
    return least, greatest


def _spread(X: np.ndarray, least: np.ndarray, greatest: np.ndarray) -> np.ndarray:
    """Rows whose columns vary if those of all rows do: a few rows may miss rare values."""
    missed = (np.ptp(X, axis=0) == 0) & (least < greatest)
    if not np.any(missed):
        return X
    X = X.copy()
    X[0, missed], X[1, missed] = least[missed], greatest[missed]
    return X


def _dense(X: Any) -> np.ndarray:
    return X.toarray() if hasattr(X, "toarray") else np.asarray(X)

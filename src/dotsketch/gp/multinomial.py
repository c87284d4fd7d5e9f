"""Classification by the likelihood of the labels themselves: p(c | x) = softmax_c(μ + Wᵀz(x)).

The weights of every class have the prior N(0, s I), as for Dirichlet labels. The posterior has no
closed form: its mode is found by passes over the rows, and its curvature is replaced by a bound
(Böhning, 1992). With G = Σ w z zᵀ the second derivatives of −log p are at most ½ (I − 11ᵀ/C) ⊗ G.
So one factor of B = I + ½ s G is that of the covariance s B⁻¹ of the weights of all classes. (With
the diagonal blocks of the second derivatives at the mode, a factor for every class, letter had a
mean negative log-likelihood of 0.42 and not 0.16 at s = 1000: a class that a row clearly does not
belong to has no upper bound there.) Another factor, I + 0.1 s G = L Lᵀ, is closer to the second
derivatives of most rows. It makes the problem well conditioned: W = √s L⁻ᵀ U.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import OptimizeResult, minimize

from .._support.progress import progress
from .._support.threads import suited_blas_threads
from .choice import HeldOut, downhill, penalty
from .class_sums import row_hashes
from .packed import PackedFactor, PackedMatrix
from .posterior import evaluate
from .solvers.cholesky import CholeskyPosterior, factorise
from .sums import sampled_columns

CURVATURE = 0.5  # Böhning's bound
# That of the preconditioner. Evaluations of the loss for 10,000 rows of FashionMNIST, 2048 columns:
# 21 with 0.5, 15 to 18 with 0.1, as many with 0.02; letter is further down after 100 of them.
USUAL_CURVATURE = 0.1
# For features that are kept between passes: of the memory of the machine if the rows are in it, and
# bytes if they are not
MEMORY_SHARE, MEMORY = 0.25, 1 << 29
CACHE_BYTES = 1 << 21  # of features that are multiplied twice in a row, in half the time of 16 MB
# Multiplications of a product: OpenBLAS rearranges the factors of larger ones, which takes longer
# than multiplying so few columns as there are classes. It is not worth it below so many rows.
SMALL_PRODUCT, FEW_ROWS = 1_000_000, 16
# Prior variances of the search, in multiples of 1/mean |z|²: half decades from 0.01 to 10⁶
STEP = 10.0**0.5
MULTIPLES = tuple(STEP**k for k in range(-4, 13))
START = 8  # 100
PRIOR_SPREAD = 3.0  # half decades: a weak prior, which counts as one row
# The prior variance is chosen with so many rows and columns at most
SEARCH_ROWS, SEARCH_COLUMNS = 20_000, 512
HELD_OUT = 0.2  # of these rows
SEARCH_ITERATIONS, MOST_ITERATIONS = 25, 100
# A relative gain of an iteration below this ends them. Mean negative log-likelihoods of 4000 rows
# with 1e-4 and 3e-4 (10,000 training rows, 1024 columns): FashionMNIST .424 .423, letter .160 .158,
# covertype .553 .556, adult .333 .333, after 25 18, 100 57, 35 10 and 7 5 iterations.
SEARCH_TOLERANCE, TOLERANCE = 1e-3, 3e-4


class LabelledBlock(NamedTuple):
    """Features of n rows and what they are."""

    features: np.ndarray  # (n, D)
    codes: np.ndarray  # (n,), their classes
    weights: np.ndarray  # (n,), how much they count


class Mode(NamedTuple):
    """The mode of the posterior for one prior variance, and the factor of its covariance."""

    prior_variance: float
    weights: np.ndarray  # (D, C)
    factor: PackedFactor
    jitter: float
    n_iterations: int

    def variance(self, Z: np.ndarray) -> np.ndarray:  # (n, D) -> (n,)
        """The variance of the latent functions, the same for all classes."""
        return self.posteriors()[0].variance(Z)

    def posteriors(self) -> list[CholeskyPosterior]:
        """The posterior of every class; they share the factor."""
        columns = (np.ascontiguousarray(column[:, None]) for column in self.weights.T)
        shared = self.prior_variance, self.jitter
        return [CholeskyPosterior(self.factor, column, *shared) for column in columns]


@dataclass(eq=False)
class SoftmaxProblem:
    """Rows with classes, and the prior means of the latent functions.

    `fold(zero, add)` sums what `add(state, block, first)` makes of all blocks, wherever they are;
    `first` is the number of the first row of the block. `seed` is that of the rows held out.
    """

    fold: Callable[..., Any]
    seed: int
    moment: PackedMatrix  # G
    means: np.ndarray  # μ, (C,)

    def mode(
        self,
        prior_variance: float,
        start: np.ndarray | None = None,
        *,
        iterations: int = MOST_ITERATIONS,
        tolerance: float | None = None,
        verbose: bool = False,
    ) -> Mode:
        """The most probable weights, by L-BFGS from those of the start (D, C) or from zero."""
        tolerance = TOLERANCE if tolerance is None else tolerance
        factor, _ = self._factor(USUAL_CURVATURE * prior_variance)
        shape = factor.size, len(self.means)
        first = np.zeros(shape) if start is None else start
        root = np.sqrt(prior_variance)

        def weights(u: np.ndarray) -> np.ndarray:
            return first + root * factor.half_solve(u.reshape(shape), adjoint=True)

        def loss(u: np.ndarray) -> tuple[float, np.ndarray]:
            W = weights(u)
            value, gradient = self.negative_log_likelihood(W)
            value += 0.5 * float(np.sum(W * W)) / prior_variance
            return value, root * factor.half_solve(gradient + W / prior_variance).ravel()

        # The curvature is about one, so the first step may be as long as the gradient; that of
        # L-BFGS-B has length one, and three more evaluations would find that it may be longer
        zero = np.zeros(first.size)
        value, gradient = loss(zero)
        length = float(np.linalg.norm(gradient)) or 1.0

        def scaled(v: np.ndarray) -> tuple[float, np.ndarray]:
            at = (value, gradient) if not np.any(v) else loss(length * v)
            return at[0] / length**2, at[1] / length

        losses = [value]

        def callback(intermediate_result: OptimizeResult) -> None:
            advance(1)
            losses.append(length**2 * intermediate_result.fun)
            # `ftol` would compare the gain with one where the scaled loss is less: too early
            if losses[-2] - losses[-1] <= tolerance * max(losses[-2], 1.0):
                raise StopIteration

        # solves by SciPy's BLAS alternate with products by that of NumPy
        with (
            suited_blas_threads(factor.size),
            progress("iterations", iterations, verbose) as advance,
        ):
            found = minimize(
                scaled,
                zero,
                jac=True,
                method="L-BFGS-B",
                callback=callback,
                options={"maxiter": iterations, "ftol": 0.0, "gtol": 0.0},
            )
        covariance = self._factor(CURVATURE * prior_variance)
        return Mode(prior_variance, weights(length * found.x), *covariance, int(found.nit))

    def _factor(self, multiple: float) -> tuple[PackedFactor, float]:
        """The factor of I + multiple · G, and the jitter that it took."""
        B = multiple * self.moment
        B.add_to_diagonal(1)
        return factorise(B)

    def split(
        self, places: np.ndarray, factors: np.ndarray, n_rows: int
    ) -> tuple[SoftmaxProblem, float, LabelledBlock]:
        """Some columns (times factors) of some rows: the problem of four fifths, and the others.

        The number is that of the rows of the problem, as often as they count.
        """
        # Hashes are uniform numbers of 64 bits: rows below a limit are a sample of all
        share = min(SEARCH_ROWS / n_rows, 1.0)
        limits = (HELD_OUT * share * 2.0**64, share * 2.0**64)
        seed = self.seed

        def add(found: list[Any], block: LabelledBlock, first: int) -> list[Any]:
            Z, codes, weights = block
            hashes = row_hashes(seed, first, len(Z))
            kept = np.flatnonzero(hashes < limits[1])
            part = Z[np.ix_(kept, places)] * factors.astype(Z.dtype, copy=False)
            found.append((part, codes[kept], weights[kept], hashes[kept]))
            return found

        parts = zip(*self.fold(list, add), strict=True)
        *columns, hashes = (np.concatenate(part) for part in parts)
        order = np.argsort(hashes, kind="stable")
        cut = max(np.searchsorted(hashes[order], limits[0]), 1)
        test, train = (
            LabelledBlock(*(column[rows] for column in columns))
            for rows in (order[:cut], np.sort(order[cut:]))
        )
        moment = PackedMatrix.zeros(len(places), np.float64)
        scaled = train.features * np.sqrt(train.weights)[:, None]
        moment.add_outer_products(np.ascontiguousarray(scaled, dtype=np.float64))
        found = SoftmaxProblem(fold_of(train), seed, moment, self.means)
        return found, float(np.sum(train.weights)), test

    def negative_log_likelihood(
        self, W: np.ndarray
    ) -> tuple[float, np.ndarray]:  # (D, C) -> number, (D, C)
        """−Σ w log p of the classes of all rows, and its gradient.

        Products are in the precision of the features, sums over blocks in double precision.
        """
        means, shape = self.means, (len(W) + 1, W.shape[1])

        def add(total: np.ndarray, block: LabelledBlock, first: int) -> np.ndarray:
            low = W.astype(block.features.dtype, copy=False)
            step = max(CACHE_BYTES // max(block.features[:1].nbytes, 1), 1)
            for k in range(0, len(block.codes), step):
                _add_rows(total, low, means, *(column[k : k + step] for column in block))
            return total

        total = self.fold(partial(np.zeros, shape), add)  # the last row holds the value
        return float(total[-1, 0]), total[:-1]


def _add_rows(
    total: np.ndarray,
    W: np.ndarray,
    means: np.ndarray,
    Z: np.ndarray,
    codes: np.ndarray,
    counts: np.ndarray,
) -> None:  # (D + 1, C), (D, C), (C,), (n, D), (n,), (n,)
    """Add the gradient of some rows, and in the last row of the total their value."""
    places = np.arange(len(Z)), codes
    values = np.empty((len(Z), W.shape[1]), dtype=Z.dtype)
    parts = _small_parts(len(Z), W.size)
    for rows in parts:
        np.matmul(Z[rows], W, out=values[rows])
    values += means.astype(Z.dtype, copy=False)
    values -= values.max(axis=1, keepdims=True)
    right = values[places]
    np.exp(values, out=values)
    sums = values.sum(axis=1)
    losses = np.log(sums) - right
    total[-1, 0] += np.dot(counts, losses.astype(np.float64, copy=False))
    values *= (counts / sums)[:, None].astype(Z.dtype, copy=False)
    values[places] -= counts.astype(Z.dtype, copy=False)
    gradient = np.zeros(W.shape[::-1], dtype=Z.dtype)
    for rows in parts:
        gradient += values[rows].T @ Z[rows]  # faster than Zᵀ times the values
    total[:-1] += gradient.T


def _small_parts(n: int, n_weights: int) -> list[slice]:
    """Rows that are multiplied with so many weights at a time."""
    step = SMALL_PRODUCT // max(n_weights, 1)
    step = max(n, 1) if step < FEW_ROWS else step - step % 8
    return [slice(start, start + step) for start in range(0, n, step)]


def fold_of(block: LabelledBlock) -> Callable[..., Any]:
    """The fold over a single block."""
    return lambda zero, add: add(zero(), block, 0)


def chosen_prior(
    problem: SoftmaxProblem, n_rows: int, temperature: float
) -> tuple[float, np.ndarray]:  # -> number, (D, C)
    """The prior variance under which rows held out are most likely, and weights to start from.

    The search takes 20,000 rows at most, a fifth of them held out, and 512 columns at most. It goes
    downhill from 100 divided by the mean of |z|², in half decades, and every mode starts from the
    nearest one.
    """
    places, factors = sampled_columns(problem.moment.diagonal(), SEARCH_COLUMNS)
    small, n, (Z, codes, weights) = problem.split(places, factors, n_rows)
    level = float(np.sum(small.moment.diagonal()) / n) or 1.0
    modes: dict[int, Mode] = {}
    losses: dict[int, float] = {}

    def loss(j: int) -> float:
        nearest = min(modes, key=lambda k: abs(k - j), default=None)
        start = None if nearest is None else modes[nearest].weights
        found = small.mode(
            MULTIPLES[j] / level,
            start,
            iterations=SEARCH_ITERATIONS,
            tolerance=SEARCH_TOLERANCE,
        )
        modes[j] = found
        mean = evaluate(Z, found.weights) + small.means
        variance = np.repeat(found.variance(Z)[:, None], mean.shape[1], axis=1)
        predicted = HeldOut(mean, variance, codes, weights)
        losses[j] = predicted.loss(temperature) + penalty(j - START, PRIOR_SPREAD, predicted.n)
        return losses[j]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of values that are not chosen
        [place] = downhill(loss, (len(MULTIPLES),), (START,))
    best = modes[place]
    start = np.zeros((problem.moment.size, len(problem.means)))
    start[places] = best.weights * factors[:, None]
    return best.prior_variance * STEP ** lowest_point(losses, place), start


def lowest_point(losses: dict[int, float], place: int) -> float:
    """Where the parabola through the losses at a place and beside it is lowest, from the place."""
    if place - 1 not in losses or place + 1 not in losses:
        return 0.0
    before, after = (losses[place + step] - losses[place] for step in (-1, 1))
    total = before + after  # both are at least zero
    return 0.5 * (before - after) / total if total > 0 else 0.0

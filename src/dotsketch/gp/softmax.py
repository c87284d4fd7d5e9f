"""The likelihood of labels themselves: p(c | x) = softmax_c(μ + Vᵀz(x)).

The coefficients of every class have the prior N(0, s I). The posterior has no closed form: its mode
is found by passes over the rows, and its curvature is replaced by a bound (Böhning, 1992). With
G = Σ w z zᵀ the second derivatives of −log p are at most ½ (I − 11ᵀ/C) ⊗ G. So one factor of
B = I + ½ s G is that of the covariance s B⁻¹ of the coefficients of all classes. (With the diagonal
blocks of the second derivatives at the mode, a factor for every class, letter had a mean negative
log-likelihood of 0.42 and not 0.16 at s = 1000: a class that a row clearly does not belong to has
no upper bound there.) Another factor, I + 0.1 s G = L Lᵀ, is closer to the second derivatives of
most rows. It makes the problem well conditioned: V = √s L⁻ᵀ U.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import OptimizeResult, minimize

from .._arrays import Array
from .._support.progress import progress
from .._support.threads import suited_blas_threads
from ..features import NystromFeatures
from ..rows import Block
from .algebra import factor_of
from .base import labels_of
from .classes import HeldOut, downhill, log_normal
from .noise import is_gain
from .packed import PackedMatrix
from .posterior import Posterior, evaluate
from .search import Search, SearchStep, best_kernel, levelled, line_of
from .sums import SufficientStatistics, sampled_columns

# Prior variances of the search, in multiples of 1/mean |z|²: half decades from 0.01 to 10⁶
STEP = 10.0**0.5
MULTIPLES = tuple(STEP**k for k in range(-4, 13))
START = 8  # 100
SEARCH_ROWS, SEARCH_COLUMNS = 20_000, 512  # that the prior variance is chosen with, at most
JUDGED_ROWS = 6000  # of kernels, a fifth of them held out; few rows are all held out in turn
# A relative gain of an iteration below this ends them. Mean negative log-likelihoods of 4000 rows
# with 1e-4 and 3e-4 (10,000 training rows, 1024 columns): FashionMNIST .424 .423, letter .160 .158,
# covertype .553 .556, adult .333 .333, after 25 18, 100 57, 35 10 and 7 5 iterations.
SEARCH_TOLERANCE, TOLERANCE = 1e-3, 3e-4


class LabelledBlock(NamedTuple):
    """Features of n rows, and what they are."""

    features: np.ndarray  # (n, D)
    codes: np.ndarray  # (n,), their classes
    weights: np.ndarray  # (n,), how much they count


Fold = Callable[..., Any]  # fold(zero, add): the sum of what `add` makes of all blocks


def fold_of(block: LabelledBlock) -> Fold:
    """The fold over a single block."""
    return lambda zero, add: add(zero(), block, 0)


def moment_of(fold: Fold, n_columns: int) -> PackedMatrix:
    """G = Σ w z zᵀ in double precision."""

    def add(sums: SufficientStatistics, block: LabelledBlock, first: int) -> SufficientStatistics:
        sums.update(block.features, counts=block.weights)
        return sums

    return fold(partial(SufficientStatistics.zeros, n_columns, 0), add).second_moment


def mode(
    fold: Fold,
    moment: PackedMatrix,
    means: np.ndarray,
    prior_variance: float,
    start: np.ndarray | None = None,
    *,
    iterations: int = 100,
    tolerance: float = TOLERANCE,
    verbose: bool = False,
) -> tuple[Posterior, int]:  # (D, D), (C,), (D, C) -> posterior of all classes, iterations
    """The most probable coefficients, by L-BFGS from those of the start or from zero."""
    factor, _ = factor_of(0.1 * prior_variance, moment)
    shape = moment.size, len(means)
    first = np.zeros(shape) if start is None else start
    root = np.sqrt(prior_variance)

    def coefficients(u: np.ndarray) -> np.ndarray:
        return first + root * factor.half_solve(u.reshape(shape), adjoint=True)

    def loss(u: np.ndarray) -> tuple[float, np.ndarray]:
        V = coefficients(u)
        value, gradient = negative_log_likelihood(fold, V, means)
        value += 0.5 * float(np.sum(V * V)) / prior_variance
        return value, root * factor.half_solve(gradient + V / prior_variance).ravel()

    # The curvature is about one, so the first step may be as long as the gradient; that of L-BFGS-B
    # has length one, and three more evaluations would find that it may be longer
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
    with suited_blas_threads(factor.size), progress("iterations", iterations, verbose) as advance:
        end = minimize(
            scaled,
            zero,
            jac=True,
            method="L-BFGS-B",
            callback=callback,
            options={"maxiter": iterations, "ftol": 0.0, "gtol": 0.0},
        )
    bound, jitter = factor_of(0.5 * prior_variance, moment)  # Böhning's
    C = len(means)
    posterior = Posterior(
        coefficients(length * end.x),
        (bound,),
        np.zeros(C, dtype=int),
        np.full(C, float(prior_variance)),
        jitter,
    )
    return posterior, int(end.nit)


def negative_log_likelihood(
    fold: Fold, V: np.ndarray, means: np.ndarray
) -> tuple[float, np.ndarray]:  # (D, C), (C,) -> number, (D, C)
    """−Σ w log p of the classes of all rows, and its gradient.

    Products are in the precision of the features, sums over blocks in double precision.
    """

    def add(total: np.ndarray, block: LabelledBlock, first: int) -> np.ndarray:
        low = V.astype(block.features.dtype, copy=False)
        # 2 MB of features are multiplied twice in a row while they are in the cache
        step = max((1 << 21) // max(block.features[:1].nbytes, 1), 1)
        for k in range(0, len(block.codes), step):
            Z, codes, counts = (column[k : k + step] for column in block)
            counts, places = counts.astype(Z.dtype, copy=False), (np.arange(len(Z)), codes)
            values = Z @ low + means.astype(Z.dtype, copy=False)
            values -= values.max(axis=1, keepdims=True)
            right = values[places]
            np.exp(values, out=values)
            sums = values.sum(axis=1)
            total[-1, 0] += np.sum(counts * (np.log(sums) - right), dtype=np.float64)
            values *= (counts / sums)[:, None]
            values[places] -= counts
            total[:-1] += (values.T @ Z).T  # faster than Zᵀ times the values
        return total

    total = fold(partial(np.zeros, (len(V) + 1, V.shape[1])), add)  # the last row holds the value
    return float(total[-1, 0]), total[:-1]


def chosen_prior(
    block: LabelledBlock, means: np.ndarray, rng: np.random.Generator
) -> tuple[float, np.ndarray, np.ndarray]:  # (C,) -> number, (n,), (D, C)
    """The prior variance for rows in memory, by cross-validation where they are few.

    With it the negative log-likelihoods of rows held out, and coefficients to start from.
    With 512 columns at most, downhill from 100 divided by the mean of |z|², in half decades; every
    mode starts from the nearest one. A latent variance of one is the most probable before the data.
    """
    Z, codes, weights = block
    energies = np.einsum("i,ij,ij->j", weights, Z, Z, dtype=np.float64)
    places, factors = sampled_columns(energies, SEARCH_COLUMNS)
    Z = np.ascontiguousarray(Z[:, places] * factors.astype(Z.dtype))
    level = float(np.average(np.sum(Z * Z, axis=1, dtype=np.float64), weights=weights)) or 1.0
    rows, parts = HeldOut.of(codes, weights, rng), []
    for rest, held in rows.folds:
        train = LabelledBlock(Z[rest], codes[rest], weights[rest])
        parts.append((fold_of(train), moment_of(fold_of(train), len(places)), Z[held]))
    modes: dict[int, list[Posterior]] = {}
    of_rows: dict[int, np.ndarray] = {}
    losses: dict[int, float] = {}

    def predict(k: int, j: int, nearest: int | None) -> tuple[np.ndarray, np.ndarray]:
        fold, moment, held = parts[k]
        posterior, _ = mode(
            fold,
            moment,
            means,
            MULTIPLES[j] / level,
            None if nearest is None else modes[nearest][k].coefficients,
            iterations=25,
            tolerance=SEARCH_TOLERANCE,
        )
        modes.setdefault(j, []).append(posterior)
        return evaluate(held, posterior.coefficients) + means, posterior.variance(held)

    def loss(j: int) -> float:
        of_rows[j] = rows.losses(predict, j, min(modes, key=lambda k: abs(k - j), default=None))
        losses[j] = rows.mean(of_rows[j]) - log_normal(MULTIPLES[j]) / rows.n_rows
        return losses[j]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of values that are not chosen
        [place] = downhill(loss, (len(MULTIPLES),), (START,))
    start = np.zeros((block.features.shape[1], len(means)))
    start[places] = modes[place][0].coefficients * factors[:, None]
    prior = MULTIPLES[place] / level * STEP ** _lowest_point(losses, place)
    return prior, of_rows[place], start


def _lowest_point(losses: dict[int, float], place: int) -> float:
    """Where the parabola through the losses at a place and beside it is lowest, from the place."""
    if place - 1 not in losses or place + 1 not in losses:
        return 0.0
    before, after = (losses[place + step] - losses[place] for step in (-1, 1))
    total = before + after  # both are at least zero
    return 0.5 * (before - after) / total if total > 0 else 0.0


# -- the kernel ------------------------------------------------------------------------------------


def best_class_kernel(
    verbose: bool,
    kernel: Any,
    X: Array,
    sample: Block,
    alternatives: Any,
    rng: np.random.Generator,
) -> Search:
    """The kernel that predicts rows held out best: as it is, or of a search by regression.

    Labels have no marginal likelihood in closed form. That of a regression on the columns [y = c],
    with the same lengthscales for all classes, finds good lengthscales on many tables and bad ones
    on others (letter). So the kernel as it was, the one after exact rows and the one after
    landmarks each predict rows held out through 512 columns. The kernel as it was is kept unless
    another one is better by more than chance: a search never makes a model worse, nor do few rows
    choose lengthscales by luck.
    """
    y = labels_of(sample[1])
    classes, codes = np.unique(y, return_inverse=True)
    Y = (codes[:, None] == np.arange(len(classes))).astype(np.float64)
    Y = Y[:, :1] if len(classes) == 2 else Y
    search = best_kernel(kernel, X, Y, alternatives=alternatives, rng=rng, verbose=verbose)
    exact = [step for step in search.steps if step.n_landmarks is None]
    last = max(exact, key=lambda step: (step.n_rows, step.log_likelihood)).kernel
    candidates: list[Any] = [kernel.resolve(X[:1000]), last]
    if search.steps[-1].n_landmarks is not None:
        candidates.append(search.steps[-1].kernel)
    order = rng.permutation(len(y))[:JUDGED_ROWS]
    X, codes = X[order], codes[order]
    frequencies = np.bincount(codes, minlength=len(classes)) / len(codes)
    means = np.log(np.maximum(frequencies, 0.5 / len(codes)))
    seed, steps = int(rng.integers(2**31)), list(search.steps)
    losses: list[np.ndarray] = []  # of the same rows for every candidate
    for candidate in candidates:
        began = time.perf_counter()
        n_columns = min(SEARCH_COLUMNS, len(codes))
        features = NystromFeatures(
            levelled(candidate, X[:1000], 1.0),
            n_components=n_columns,
            n_landmarks=n_columns,
            random_state=seed,
        )
        # candidates are compared in single precision: half the time
        Z = np.asarray(features.fit(X).transform(X), dtype=np.float32)
        block = LabelledBlock(Z, codes, np.ones(len(codes)))
        losses.append(chosen_prior(block, means, np.random.default_rng(seed))[1])
        seconds, value = time.perf_counter() - began, -float(np.mean(losses[-1]))
        step = SearchStep("held out", candidate, len(codes), n_columns, 1, value, np.nan, seconds)
        steps.append(step)
        if verbose:
            print(line_of(step))
    best = min(range(len(losses)), key=lambda k: float(np.mean(losses[k])))
    best = best if is_gain(losses[0] - losses[best]) else 0
    level = float(np.mean(np.asarray(candidates[0].diag(X))))
    return Search(levelled(candidates[best], X, level), tuple(steps))

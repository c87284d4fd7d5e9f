"""The subspace of the preconditioner: leading eigenvectors of the second moment A = ZᵀWZ.

They are found in two steps. The Gram matrix of some rows, of their weighted features Z_s, shows the
spectrum of A, from which the rank r is chosen, and its eigenvectors E give those of Z_sᵀZ_s,

    Z_s Z_sᵀ = E Σ Eᵀ,    Ω = Z_sᵀ E Σ^-½   (D, r)

Random columns complete Ω where the rows show too few directions, or may be unlike the others.
A product Y = AΩ over more rows, or all of them, turns these towards the eigenvectors of A, which is
then taken to be its Nyström approximation (Frangella, Tropp and Udell, 2023):

    A ≈ Y (ΩᵀY)⁻¹ Yᵀ = U Λ Uᵀ
"""

from __future__ import annotations

import math

import numpy as np
from scipy.linalg import eigh, solve_triangular

from ..packed import PackedMatrix, inner_products
from .passes import RowSystems, finite

FIRST_RANK = 64  # ranks are multiples of it, if they are chosen
GRAM_ROWS, BASIS_ROWS = 2048, 10_000  # of the Gram matrix, and of the product that follows
GRAM_SHARE = 8  # one of so many rows is in the Gram matrix, where that is less
LARGEST_OF_SAMPLE = 1024  # the largest rank for which BASIS_ROWS are enough
LEAST_SHIFT = 1e-12  # of the largest eigenvalue; grows tenfold until ΩᵀY + shift is definite
FEATURE_COLUMNS = 10  # computing features takes as long as multiplying so many columns
SINGLE = 1e-6  # of the largest eigenvalue: smaller ones are not known in single precision
# The first eigenvalue that is left counts so many times: the larger it is, the more the residuals,
# whose norm is that of P⁻¹, understate the error
EDGE = 4.0
# Rows show one eigenvector out of so many well enough: what U misses of the others has eigenvalues
# as large as the first of them, however many columns it has (protein, 32,768 columns: ranks of 384,
# 512 and 640 take 37, 33 and 32 iterations, and would take 28, 18 and 12 without)
ROWS_PER_VECTOR = 5
STEP = 4096  # rows of U that are converted to double precision at a time
BYTES_PER_ENTRY = 24  # of U while it is computed, with Ω, Y and a copy of Y in double precision
BYTES_OF_WHOLE = 12  # the same where U is the identity: itself, and packed UᵀU and its factor
LEAST_SHARE = 0.2  # of the degrees of freedom: a subspace that holds less is not made exact


def leading_basis(
    systems: RowSystems,
    precision: float,
    tolerance: float,
    n_columns: float,
    rank: int | None,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:  # -> (D, r), (r,)
    """Leading eigenvectors and eigenvalues of ZᵀWZ with the largest weights of any system.

    The rank, unless it is given, is that of the least predicted time, with iterations to the
    `tolerance` that multiply `n_columns` each; μ is the `precision`.

    The basis of the whole space is the identity, and the preconditioner then the system itself. It
    is taken if it fits into memory and takes less than twice the time, or if eigenvalues above μ
    are lost in single precision (dependent columns, and very little noise).
    """
    D = systems.n_features
    size = gram_rows(systems)
    whole_fits = BYTES_OF_WHOLE * D * D + systems.core_bytes(D) <= systems.memory
    largest = rank or largest_rank(systems, min(D // 4 if whole_fits else D // 2, size // 2))
    if largest >= D:
        return whole_space(D)
    Z = systems.weighted_rows(min(size, 8 * largest))
    values, vectors = eigh(finite(inner_products(Z)), overwrite_a=True)
    values, vectors = np.maximum(values[::-1], 0), vectors[:, ::-1]
    known = int(np.sum(values > SINGLE * values[0]))
    sample = systems.sampled(BASIS_ROWS) if largest <= LARGEST_OF_SAMPLE else systems
    if rank is None and known:
        iteration = n_columns + (0 if systems.keeps_features else FEATURE_COLUMNS)
        left = n_iterations(ratios_beyond(values / precision, systems.n_rows or D), tolerance)
        rank, cost = best_rank(left[: min(known, largest)] * iteration, 0.25 + 0.5 * sample.share)
        is_lost = known < min(largest, len(values)) and SINGLE * values[0] > precision
        if whole_fits and (is_lost or whole_cost(systems) < cost):
            return whole_space(D)
        rank = max(rank, FIRST_RANK)
    rank = rank or FIRST_RANK  # of features that vanish on these rows
    seen = min(rank, known)
    test = Z.T @ (vectors[:, :seen] / np.sqrt(values[:seen])).astype(np.float32)
    del Z, vectors  # all of this is large
    # Rows may be alike that are not like the others, the first of a stream above all
    others = max(rank - seen, FIRST_RANK if systems.is_stream else 0)
    test = completed(test, min(others, D - seen), rng)
    what = f"preconditioner of rank {test.shape[1]}"
    return nystrom(test, sample.products(test, what=what).astype(np.float32))


def ratios_beyond(ratios: np.ndarray, n_rows: int) -> np.ndarray:  # (s,) -> (s,)
    """What counts as the largest eigenvalue over μ outside of a subspace of r = 1, …, s columns.

    The ratios are those of the Gram matrix of s rows, in descending order.
    """
    following = np.append(ratios[1:], ratios[-1])
    missed = ratios[len(ratios) // ROWS_PER_VECTOR] if len(ratios) < n_rows else 0.0
    return EDGE * following + missed


def best_rank(costs: np.ndarray, column: float) -> tuple[int, float]:  # (r,)
    """The rank of the least cost, and that of its iterations.

    Costs are in columns of a pass, products with Z and with Zᵀ: `costs` are those of the iterations
    with ranks of 1, …, r, `column` that of a column of the subspace. The core takes half a pass of
    them; but many columns at a time are multiplied twice as fast as few.
    """
    ranks = np.append(np.arange(FIRST_RANK, len(costs), FIRST_RANK), len(costs))
    best = ranks[np.argmin(column * ranks + costs[ranks - 1])]
    return int(best), float(costs[best - 1])


def whole_cost(systems: RowSystems) -> float:
    """Half of what the whole space costs, for variances are then exact as well.

    It takes no iterations, but one pass of one product, 0.2 D columns, and a Cholesky factor.
    """
    D = systems.n_features
    features = 0 if systems.keeps_features else FEATURE_COLUMNS
    return 0.1 * D * (1 + D / (3 * (systems.n_rows or D))) + features


def gram_rows(systems: RowSystems) -> int:
    """The number of rows whose features and Gram matrix, with its eigenvectors, fit into memory."""
    fits = min(systems.memory // (8 * systems.n_features), math.isqrt(systems.memory // 64))
    wanted = np.clip((systems.n_rows or 0) // GRAM_SHARE, 4 * FIRST_RANK, GRAM_ROWS)
    return max(min(int(wanted), fits), 2 * FIRST_RANK)


def completed(
    test: np.ndarray, count: int, rng: np.random.Generator
) -> np.ndarray:  # (D, r) -> (D, r + count)
    """Ω with so many random columns, which are orthogonal to the others."""
    if count <= 0:
        return test
    fresh = rng.standard_normal((len(test), count)) / math.sqrt(len(test))
    if test.shape[1]:
        fresh -= product(test, adjoint_product(test, fresh))
    return np.concatenate([test, fresh.astype(np.float32)], axis=1)


def largest_rank(systems: RowSystems, columns: int) -> int:
    """The largest multiple of `FIRST_RANK` up to a number of columns that fits into memory."""
    rank = max(columns - columns % FIRST_RANK, FIRST_RANK)
    while rank > FIRST_RANK and not _fits(systems, rank):
        rank -= FIRST_RANK
    return rank


def _fits(systems: RowSystems, rank: int) -> bool:
    """Whether a subspace fits into memory, and after it, in single precision, its systems."""
    entries = systems.n_features * rank
    found = BYTES_PER_ENTRY * entries, 4 * entries + systems.core_bytes(rank)
    return max(found) <= systems.memory


def whole_space(D: int) -> tuple[np.ndarray, np.ndarray]:  # -> (D, D), (1,)
    """The basis of all directions; no eigenvalue is left beyond it."""
    return np.eye(D, dtype=np.float32), np.zeros(1)


def nystrom(
    test: np.ndarray, sketch: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:  # (D, r), (D, r) -> (D, r), (r,)
    """U and Λ, descending, from Ω and Y = AΩ.

    Algorithm 2.1 of the paper: A + νI takes the place of A, and ν is subtracted in the end.
    """
    gram, overlap = adjoint_product(test, sketch), adjoint_product(test, test)
    gram = (gram + gram.T) / 2
    shift = LEAST_SHIFT * float(np.linalg.norm(gram, 2) / np.linalg.norm(overlap, 2)) or 1.0
    while (factor := PackedMatrix.of(gram + shift * overlap).cholesky()) is None:
        shift *= 10
    half = sketch.astype(np.float64)
    for k in range(0, len(half), STEP):
        half[k : k + STEP] += shift * test[k : k + STEP]
    # C-ordered, so that its transpose is in the order of LAPACK and is overwritten
    half = solve_triangular(factor.lower(), half.T, lower=True, overwrite_b=True).T
    values, vectors = eigh(half.T @ half)
    order = np.flatnonzero(values > values[-1] * 1e-14)[::-1]
    vectors = vectors[:, order] / np.sqrt(values[order])
    for k in range(0, len(half), STEP):  # in place
        half[k : k + STEP, : len(order)] = half[k : k + STEP] @ vectors
    return half[:, : len(order)], np.maximum(values[order] - shift, shift)  # smaller: not known


def n_iterations(ratios: np.ndarray, tolerance: float) -> np.ndarray:  # (r,) -> (r,)
    """Iterations to a tolerance where eigenvalues beyond the subspace are `ratios` times μ.

    The residual falls by (√κ − 1)/(√κ + 1) in each, with the condition number κ = 1 + ratio.
    """
    root = np.sqrt(1 + np.maximum(ratios, 1e-6))
    return math.log(2 / tolerance) / np.log1p(2 / (root - 1))


def exact_columns(ratios: np.ndarray, most: int) -> int:  # (r,)
    """The number of leading columns of U whose UᵀBU is computed from all rows; `ratios` are Λ/μ.

    It makes the part of the variances within them exact. Eigenvectors share the variance at the
    rows by λ/(λ + μ), which add up to the degrees of freedom. Where most of these are beyond
    the subspace, the draws estimate most of the variance anyway; a pass for all columns of U, which
    takes as long as several iterations, does not pay. At most `most` eigenvalues are not zero;
    further ones are extrapolated from the first half of the ratios, as a power of their number: the
    last are too small.
    """
    size = len(ratios)
    if size <= FIRST_RANK:
        return size
    known, numbers = ratios[: size // 2], np.arange(size + 1, most + 1)
    power = math.log2(float(known[len(known) // 2]) / float(known[-1]))
    further = known[-1] * (numbers / len(known)) ** -power
    within, beyond = (float(np.sum(part / (1 + part))) for part in (ratios, further))
    return size if within >= LEAST_SHARE * (within + beyond) else FIRST_RANK


def adjoint_product(U: np.ndarray, R: np.ndarray) -> np.ndarray:  # (D, r), (D, c) -> (r, c)
    """UᵀR in double precision, without a copy of U in it."""
    parts = (U[k : k + STEP].astype(np.float64).T @ R[k : k + STEP] for k in range(0, len(U), STEP))
    return sum(parts, np.zeros(1))


def product(U: np.ndarray, along: np.ndarray) -> np.ndarray:  # (D, r), (r, c) -> (D, c)
    """U times columns, in the same way."""
    return np.concatenate(
        [U[k : k + STEP].astype(np.float64) @ along for k in range(0, len(U), STEP)]
    )

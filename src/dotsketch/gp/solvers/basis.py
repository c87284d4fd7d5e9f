"""The subspace of the preconditioner: leading eigenvectors of the second moment A = ZᵀWZ.

They are found in two steps. The second moment of some columns, of features Z_c that stand for all
of them (`sampled_columns`), shows the spectrum of A, from which the rank r is chosen. Its
eigenvectors give those of the kernel matrix W^½ZZᵀW^½, about,

    Z_cᵀWZ_c = E Σ Eᵀ,    T = W^½ Z_c E Σ^-½   (n, r)

and the product Y = ZᵀW^½T, those of A. This is a product Y = AΩ with a matrix Ω that has rows of
zeros for all other columns, so that the half of it with Z takes little time. A is then taken to be
its Nyström approximation (Frangella, Tropp and Udell, 2023):

    A ≈ Y (ΩᵀY)⁻¹ Yᵀ = U Λ Uᵀ
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.linalg import eigh

from ..sums import sampled_columns
from .passes import RowBlock, RowSystems

FIRST_RANK = 64  # ranks that are chosen are multiples of it, unless fewer vectors are known
SOME_COLUMNS = 2048  # at most, that show the spectrum
# Rows that show which columns are large, those of the spectrum, and those of the product
ENERGY_ROWS, SPECTRUM_ROWS, BASIS_ROWS = 2000, 10_000, 20_000
SHARE = 8  # one column for so many rows shows the spectrum
LARGEST_OF_SAMPLE = 1024  # the largest rank for which BASIS_ROWS are enough
FEATURE_COLUMNS = 10  # computing features takes as long as multiplying so many columns
# Of the largest eigenvalue: smaller ones are not known in single and in double precision
SINGLE, DOUBLE = 1e-6, 1e-14
# The first eigenvalue that is left counts so many times: the larger it is, the more the residuals,
# whose norm is that of P⁻¹, understate the error
EDGE = 2.0
# Some columns show one eigenvector out of so many well enough: what U misses of the others has
# eigenvalues as large as the first of them, however many columns it has
COLUMNS_PER_VECTOR = 5
# Where a spectrum ends: at most its next eigenvalue over the last, and what is left of the degrees
# of freedom
DROP, LEFT = 0.1, 0.05
STEP = 4096  # rows of U that are converted to double precision at a time
# Of U while it is computed: every sum of Y in both precisions, and Y and U in single precision
BYTES_PER_SUM, BYTES_PER_ENTRY = 12, 8
BYTES_OF_WHOLE = 12  # the same where U is the identity: itself, and packed UᵀU and its factor
# A pass that computes UᵀBU takes as long per column as this share of a column of an iteration: it
# has one product of two, and many columns are multiplied twice as fast as few
CORE_COST = 0.25
DRAW_PASSES = 6  # that multiply draws: usually three to eight


class Subspace(NamedTuple):
    """Leading eigenvectors U and eigenvalues Λ of A, and the number of all that are not zero."""

    basis: np.ndarray  # U (D, r), single precision
    values: np.ndarray  # Λ (r,), descending
    most: int  # eigenvalues, unless some columns have not shown where they end: then D


def leading_basis(
    systems: RowSystems, precision: float, tolerance: float, n_columns: float, rank: int | None
) -> Subspace:
    """That of ZᵀWZ with the largest weights of any system.

    The rank, unless it is given, is that of the least predicted time, with iterations to the
    `tolerance` that multiply `n_columns` each; μ is the `precision`.

    The basis of the whole space is the identity, and the preconditioner then the system itself. It
    is taken if it fits into memory and takes less than twice the time, or if eigenvalues above μ
    are lost in single precision (dependent columns, and very little noise).
    """
    D = systems.n_features
    size = moment_columns(systems, rank)
    whole_fits = BYTES_OF_WHOLE * D * D + systems.core_bytes(D) <= systems.memory
    largest = rank or largest_rank(systems, min(D // 4 if whole_fits else D // 2, size // 2))
    if largest >= D:
        return whole_space(D)
    sample = systems.sampled(BASIS_ROWS)
    energies = sample.sampled(ENERGY_ROWS).energies()
    places, factors = sampled_columns(energies if np.any(energies) else np.ones(D), size)
    moment = sample.sampled(SPECTRUM_ROWS).column_moment(places, factors)
    values, vectors = eigh(moment, overwrite_a=True)
    values, vectors = np.maximum(values[::-1], 0), vectors[:, ::-1]
    floor = SINGLE * values[0]
    known = int(np.sum(values > floor))
    if not known:
        return Subspace(*some_direction(D), 1)
    sample = sample if largest <= LARGEST_OF_SAMPLE else systems
    is_lost = known < min(largest, len(values)) and floor > precision
    largest = min(largest, len(values) if is_lost else known)  # nothing of importance is beyond
    if rank is None:
        iteration = n_columns + (0 if systems.keeps_features else FEATURE_COLUMNS)
        ratios = ratios_beyond(values / precision, D)
        rank, cost = best_rank(n_iterations(ratios[:largest], tolerance) * iteration, sample.share)
        if whole_fits and (is_lost or whole_cost(systems) < cost):
            return whole_space(D)
    rank = min(rank, largest)
    # Vectors that are not known are random, and as good as those of any random test matrix
    test = factors[:, None] * vectors[:, :rank] / np.sqrt(np.maximum(values[:rank], floor))
    test = test.astype(np.float32)

    def columns(block: RowBlock, first: int) -> np.ndarray:  # -> (b, r)
        return block.features[:, places] @ test * block.weights.max(axis=1, keepdims=True)

    what = f"preconditioner of rank {rank}"
    sketch = sample.adjoint(columns, rank, what=what).astype(np.float32)
    return Subspace(*nystrom(test, sketch, places), known if ends(values, known, precision) else D)


def ends(values: np.ndarray, known: int, precision: float) -> bool:  # (s,)
    """Whether features have no more than the known eigenvalues, of those of some columns.

    They fall to those of roundings at once, and these hold few degrees of freedom (λ/μ at most).
    Few columns show those of a smooth kernel as if they ended, but these fall little by little.
    """
    if known == len(values):
        return False
    is_drop = values[known] <= DROP * values[known - 1]
    return bool(is_drop and np.sum(values[known:]) <= LEFT * known * precision)


def ratios_beyond(ratios: np.ndarray, n_features: int) -> np.ndarray:  # (s,) -> (s,)
    """What counts as the largest eigenvalue over μ outside of a subspace of r = 1, …, s columns.

    The ratios are those of the second moment of s columns, in descending order.
    """
    following = np.append(ratios[1:], ratios[-1])
    missed = ratios[len(ratios) // COLUMNS_PER_VECTOR] if len(ratios) < n_features else 0.0
    return EDGE * following + missed


def best_rank(costs: np.ndarray, share: float) -> tuple[int, float]:  # (r,)
    """The rank of the least cost, and that of its iterations.

    Costs are in columns of a pass, products with Z and with Zᵀ: `costs` are those of the iterations
    with ranks of 1, …, r. A column of the subspace takes a product with a `share` of the rows, and
    one with all of them if it is made exact.
    """
    column = CORE_COST * (1 + share)
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


def moment_columns(systems: RowSystems, rank: int | None) -> int:
    """The number of columns whose second moment, with its eigenvectors, fits into memory.

    More than a given rank, by far, but no more than there are.
    """
    D = systems.n_features
    if rank is None:
        wanted = max(min((systems.n_rows or D) // SHARE, D // 2), 4 * FIRST_RANK)
    else:
        wanted = 8 * rank
    fits = min(math.isqrt(systems.memory // 64), SOME_COLUMNS)
    return min(wanted, max(fits, 2 * (rank or FIRST_RANK)), D)


def largest_rank(systems: RowSystems, columns: int) -> int:
    """The largest multiple of `FIRST_RANK` up to a number of columns that fits into memory."""
    rank = max(columns - columns % FIRST_RANK, FIRST_RANK)
    while rank > FIRST_RANK and not _fits(systems, rank):
        rank -= FIRST_RANK
    return rank


def _fits(systems: RowSystems, rank: int) -> bool:
    """Whether a subspace fits into memory, and after it, in single precision, its systems."""
    entries = systems.n_features * rank
    n = systems.n_rows
    states = systems.n_states(None if n is None else min(n, 2 * BASIS_ROWS))
    sums = (BYTES_PER_SUM * states + BYTES_PER_ENTRY) * entries
    return max(sums, 4 * entries + systems.core_bytes(rank)) <= systems.memory


def whole_space(D: int) -> Subspace:
    """All directions; no eigenvalue is left beyond them."""
    return Subspace(np.eye(D, dtype=np.float32), np.zeros(1), D)


def some_direction(D: int) -> tuple[np.ndarray, np.ndarray]:  # -> (D, 1), (1,)
    """The basis of features that vanish: one direction is as good as any other."""
    return np.eye(D, 1, dtype=np.float32), np.zeros(1)


def nystrom(
    test: np.ndarray, sketch: np.ndarray, places: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:  # (s, r), (D, r), (s,) -> (D, r'), (r',)
    """U, in the precision of Y = AΩ, and Λ, descending; `test` are the rows of Ω at these places.

    With ΩᵀY = Q Γ Qᵀ, U are the left singular vectors of Y Q Γ^-½ and Λ the squares of its singular
    values, found from a small matrix in double precision. Directions of Ω in which A vanishes, to
    rounding, have a Γ of rounding.
    """
    gram = test.T.astype(np.float64) @ sketch[places]
    roots, turn = eigh((gram + gram.T) / 2)
    if roots[-1] <= 0:
        return some_direction(len(sketch))
    turn = turn / np.sqrt(np.maximum(roots, SINGLE * roots[-1]))
    values, vectors = eigh(turn.T @ self_product(sketch) @ turn)
    order = np.flatnonzero(values > DOUBLE * values[-1])[::-1]
    turn = turn @ (vectors[:, order] / np.sqrt(values[order]))
    basis = np.empty((len(sketch), len(order)), dtype=sketch.dtype)
    for k in range(0, len(sketch), STEP):  # no copy of all of Y in double precision
        basis[k : k + STEP] = sketch[k : k + STEP].astype(np.float64) @ turn
    return basis, values[order]


def n_iterations(ratios: np.ndarray, tolerance: float) -> np.ndarray:  # (r,) -> (r,)
    """Iterations to a tolerance where eigenvalues beyond the subspace are `ratios` times μ.

    The residual falls by (√κ − 1)/(√κ + 1) in each, with the condition number κ = 1 + ratio.
    """
    root = np.sqrt(1 + np.maximum(ratios, 1e-6))
    return math.log(2 / tolerance) / np.log1p(2 / (root - 1))


def is_worth_a_core(ratios: np.ndarray, most: int, n_draws: int) -> bool:  # (r,)
    """Whether UᵀBU is to be computed from all rows; `ratios` are Λ/μ.

    It makes the part of the variances within the subspace exact. Eigenvectors share the variance at
    the rows by λ/(λ + μ), which add up to the degrees of freedom. Where the subspace holds a share
    f of them, 1/(1 − f)² times as many draws would be as good: it pays if these take longer.

    At most `most` eigenvalues are not zero; those beyond the subspace are extrapolated from the
    first half of the ratios, as a power of their number: the last are too small.
    """
    size = len(ratios)
    if size <= FIRST_RANK:
        return True
    known, numbers = ratios[: size // 2], np.arange(size + 1, most + 1)
    power = math.log2(float(known[len(known) // 2]) / float(known[-1]))
    further = known[-1] * (numbers / len(known)) ** -power
    within, beyond = (float(np.sum(part / (1 + part))) for part in (ratios, further))
    more = n_draws * ((1 + within / beyond) ** 2 - 1) if beyond else math.inf
    return CORE_COST * size <= DRAW_PASSES * more


def adjoint_product(U: np.ndarray, R: np.ndarray) -> np.ndarray:  # (D, r), (D, c) -> (r, c)
    """UᵀR in double precision, without a copy of U in it."""
    parts = (U[k : k + STEP].astype(np.float64).T @ R[k : k + STEP] for k in range(0, len(U), STEP))
    return sum(parts, np.zeros(1))


def self_product(U: np.ndarray) -> np.ndarray:  # (D, r) -> (r, r)
    """UᵀU in the same way."""
    total = np.zeros((U.shape[1], U.shape[1]))
    for k in range(0, len(U), STEP):
        part = U[k : k + STEP].astype(np.float64)
        total += part.T @ part  # with itself: NumPy computes half of it
    return total


def product(U: np.ndarray, along: np.ndarray) -> np.ndarray:  # (D, r), (r, c) -> (D, c)
    """U times columns, in the same way."""
    return np.concatenate(
        [U[k : k + STEP].astype(np.float64) @ along for k in range(0, len(U), STEP)]
    )

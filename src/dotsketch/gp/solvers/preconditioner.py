"""A randomized Nyström preconditioner (Frangella, Tropp and Udell, 2023).

A random test matrix Ω (D, r) and its product Y = AΩ with a positive semidefinite A give

    A ≈ Y (ΩᵀY)⁻¹ Yᵀ = U Λ Uᵀ

with the leading eigenvectors of A up to a small error. For systems B = A_s + μI whose matrices A_s
differ from A in the weights of the rows, the subspace of U is shared, and each of them has its own
`core` UᵀBU:

    P⁻¹ = U (UᵀBU)⁻¹ Uᵀ + (I − UUᵀ) / (λ_r + μ)

The condition number of P⁻¹B is about 1 + λ_r/μ.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import block_diag, eigh, solve_triangular

from ..packed import PackedFactor, PackedMatrix
from .passes import RowSystems

FIRST_RANK = 64
LEAST_SHIFT = 1e-12  # of the largest eigenvalue; grows tenfold until ΩᵀY + shift is definite
FEATURE_COLUMNS = 10  # computing features takes as long as multiplying so many columns
SINGLE = 1e-6  # of the largest eigenvalue: smaller ones are not known in single precision
EDGE = 4.0  # eigenvalues of A beyond the rank are up to so many times the last one found
STEP = 4096  # rows of U that are converted to double precision at a time
BYTES_PER_ENTRY = 24  # of U while it is computed, with Ω, Y and a copy of Y in double precision
BYTES_OF_WHOLE = 12  # the same where U is the identity: itself, and packed UᵀU and its factor
# Of many more rows, so many show the leading eigenvectors well enough to choose their number, and
# so many to improve them
FIRST_ROWS, BASIS_ROWS = 4096, 10_000
LEAST_SHARE = 0.25  # of the degrees of freedom: a subspace that holds less is not made exact
SAMPLE_RANKS = 256, 1024  # on a sample: the first, and the largest that it is good for


def nystrom(
    test: np.ndarray, sketch: np.ndarray, is_orthonormal: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """U (D, r) and Λ (r,), descending, from Ω, which may be orthonormal, and Y = AΩ (D, r).

    Algorithm 2.1 of the paper: A + νI takes the place of A, and ν is subtracted in the end.
    """
    gram = adjoint_product(test, sketch)
    overlap = np.eye(len(gram)) if is_orthonormal else adjoint_product(test, test)
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


def random_basis(
    systems: RowSystems,
    precision: float,
    tolerance: float,
    n_columns: float,
    rank: int | None,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:  # -> (D, r), (r,)
    """Leading eigenvectors and eigenvalues of ZᵀWZ with the largest weights of any system.

    The rank doubles, unless it is given, while that is predicted to save time in the iterations to
    the `tolerance`, which multiply `n_columns` each; μ is the `precision`. New columns of Ω are
    orthogonal to the eigenvectors found so far: rounding is relative to the eigenvalues left.
    With many rows, a sample of them is multiplied, but twice: with U in the place of Ω next.

    The basis of the whole space is the identity, and the preconditioner then the system itself. It
    is taken if it fits into memory and a quarter of the columns is not enough, or if eigenvalues
    above μ are lost in single precision (dependent columns, and very little noise).
    """
    D = systems.n_features
    whole_fits = BYTES_OF_WHOLE * D * D + systems.core_bytes(D) <= systems.memory
    largest = max(D // 4 if whole_fits else D // 2, FIRST_RANK)
    while largest > FIRST_RANK and not _fits(systems, largest):
        largest -= FIRST_RANK
    if rank is not None and rank >= D:
        return whole_space(D)
    samples = [systems.sampled(size) for size in (FIRST_ROWS, BASIS_ROWS)]
    if samples[1] is systems or (rank or 0) > SAMPLE_RANKS[1]:
        samples, first = [systems], FIRST_RANK
    else:
        first, largest = (min(largest, size) for size in SAMPLE_RANKS)
    width = first if rank is None else rank
    if width >= D:
        return whole_space(D)
    basis = test = sketch = np.zeros((D, 0), np.float32)

    def improved() -> tuple[np.ndarray, np.ndarray]:
        nonlocal test, sketch
        if len(samples) == 1:
            return basis, values
        test = sketch = basis[:, :0]  # their memory is needed
        found = samples[1].products(basis, what="preconditioner").astype(np.float32)
        return nystrom(basis, found, is_orthonormal=True)

    while True:
        fresh = rng.standard_normal((D, width))
        fresh -= product(basis, adjoint_product(basis, fresh))
        fresh = np.linalg.qr(fresh.astype(np.float32))[0]
        test = np.concatenate([test, fresh], axis=1)
        size = test.shape[1]
        fresh = samples[0].products(fresh, what=f"preconditioner of rank {size}")
        sketch = np.concatenate([sketch, fresh.astype(np.float32)], axis=1)
        del fresh  # all of this is large
        basis, values = nystrom(test, sketch)
        basis = basis.astype(np.float32)
        if rank is not None:
            return improved()
        is_lost = len(values) < size or values[-1] < SINGLE * values[0]
        if whole_fits and is_lost and values[-1] > precision:
            return whole_space(D)
        width = min(2 * size, largest) - size
        # Costs are in columns of a pass, products with Z and with Zᵀ. The core takes half a pass;
        # but many columns at a time are multiplied twice as fast as few. The whole space takes one
        # pass of one product, 0.25 D such columns, and no iterations; it may take twice the time of
        # the alternative, for variances are then exact as well.
        passes = sum(sample.share for sample in samples)
        features = 0 if systems.keeps_features else FEATURE_COLUMNS
        iteration = features + n_columns
        if width < 1 or len(values) < size:
            left = n_iterations(float(values[-1]) / precision, tolerance)
            pays = whole_fits and 0.125 * D + features < left * iteration
            return whole_space(D) if pays else improved()
        cost = (0.25 + 0.5 * passes) * width + passes * features
        if cost >= passes_saved(values / precision, width, tolerance) * iteration:
            return improved()


def _fits(systems: RowSystems, rank: int) -> bool:
    """Whether a subspace fits into memory, and after it, in single precision, its systems."""
    entries = systems.n_features * rank
    found = BYTES_PER_ENTRY * entries, 4 * entries + systems.core_bytes(rank)
    return max(found) <= systems.memory


def whole_space(D: int) -> tuple[np.ndarray, np.ndarray]:  # -> (D, D), (1,)
    """The basis of all directions; no eigenvalue is left beyond it."""
    return np.eye(D, dtype=np.float32), np.zeros(1)


def passes_saved(ratios: np.ndarray, width: int, tolerance: float) -> float:  # (r,)
    """How many iterations `width` more columns save; `ratios` are Λ/μ."""
    size = len(ratios)
    further = float(extrapolated(ratios, np.array(size + width)))
    return n_iterations(float(ratios[-1]), tolerance) - n_iterations(further, tolerance)


def exact_columns(ratios: np.ndarray, most: int) -> int:  # (r,)
    """The number of leading columns of U whose UᵀBU is computed from all rows; `ratios` are Λ/μ.

    It makes the part of the variances within them exact. Eigenvectors share the variance at the
    rows by λ/(λ + μ), which add up to the degrees of freedom. Where most of these are beyond
    the subspace, the draws estimate most of the variance anyway; a pass for all columns of U, which
    takes as long as several iterations, does not pay. At most `most` eigenvalues are not zero;
    further ones are extrapolated from the first half of the ratios: the last are too small.
    """
    size = len(ratios)
    if size <= FIRST_RANK:
        return size
    further = extrapolated(ratios[: size // 2], np.arange(size + 1, most + 1))
    within, beyond = (float(np.sum(part / (1 + part))) for part in (ratios, further))
    return size if within >= LEAST_SHARE * (within + beyond) else FIRST_RANK


def extrapolated(ratios: np.ndarray, numbers: np.ndarray) -> np.ndarray:  # (r,), (n,) -> (n,)
    """Eigenvalues further on, as a power of their number."""
    size, last = len(ratios), float(ratios[-1])
    power = math.log2(float(ratios[size // 2]) / last)
    return np.asarray(last * (numbers / size) ** -power)


def n_iterations(ratio: float, tolerance: float) -> float:
    """Iterations to a tolerance where the last eigenvalue found is `ratio` times μ."""
    return 0.5 * math.sqrt(1 + EDGE * ratio) * math.log(2 / tolerance)


@dataclass(frozen=True, eq=False)
class Preconditioner:
    """P of every system; columns of all of them side by side.

    U is stored in single precision, so it is orthonormal up to 10⁻⁷ only. That is not enough where
    the eigenvalues of B differ by more than 10⁷: I − U(UᵀU)⁻¹Uᵀ takes the place of I − UUᵀ, and all
    arithmetic is in double precision.
    """

    basis: np.ndarray  # U (D, r), single precision
    gram: PackedFactor  # the Cholesky factor of UᵀU
    packed: np.ndarray  # (S, r (r + 1) / 2): that of UᵀBU, for every system
    tail: float  # λ_r + μ

    @classmethod
    def of(
        cls,
        basis: np.ndarray,
        moments: np.ndarray,
        precision: float,
        last: float,
        others: np.ndarray | None = None,
    ) -> Preconditioner:  # (D, r), (S, e (e + 1) / 2), (r - e,)
        """From packed UᵀZᵀW_sZU of every system, μ, and the last eigenvalue found.

        The moments may be those of the leading e columns: the eigenvalues of the others take their
        place then. The cores take the place of the moments: there may be one for each of many
        classes.
        """
        gram = gram_of(basis)
        n_others = 0 if others is None else len(others)
        within = gram.leading(gram.size - n_others)
        for moment in map(PackedMatrix, moments):
            moment.add_multiple(precision, within)
            moment.values[:] = definite(moment).values
        if others is not None and n_others:
            rest = np.diag(np.sqrt(others + precision))
            cores = [block_diag(PackedFactor(moment).lower(), rest) for moment in moments]
            moments = np.stack([PackedMatrix.of(core).values for core in cores])
        return cls(basis, definite(gram), moments, last + precision)

    @cached_property
    def cores(self) -> list[PackedFactor]:
        """The factors of UᵀBU."""
        return [PackedFactor(core) for core in self.packed]

    def __call__(self, R: np.ndarray, owners: np.ndarray) -> np.ndarray:  # (D, c), (c,) -> (D, c)
        """P⁻¹ R."""
        along = adjoint_product(self.basis, R)
        inner = solved(self.cores, along, owners) - self.gram.solve(along) / self.tail
        return R / self.tail + product(self.basis, inner)


def solved(
    cores: list[PackedFactor], along: np.ndarray, owners: np.ndarray
) -> np.ndarray:  # (r, c), (c,) -> (r, c)
    """(UᵀBU)⁻¹ times columns, each of its own system: solutions within the subspace."""
    found = np.empty_like(along)
    for system, core in enumerate(cores):
        mine = owners == system
        if np.any(mine):
            found[:, mine] = core.solve(along[:, mine])
    return found


def gram_of(basis: np.ndarray) -> PackedMatrix:  # (D, r)
    """UᵀU."""
    D, r = basis.shape
    if r < D:
        return PackedMatrix.of(adjoint_product(basis, basis))
    gram = PackedMatrix.zeros(D, np.float64)  # the whole space
    gram.add_to_diagonal(1)
    return gram


def definite(A: PackedMatrix) -> PackedFactor:
    """The Cholesky factor of a matrix that is positive definite unless something overflows."""
    factor = A.cholesky()
    if factor is None:
        raise ValueError(
            "The system is not positive definite to rounding: use a larger noise variance or a "
            "smaller prior variance."
        )
    return factor


def adjoint_product(U: np.ndarray, R: np.ndarray) -> np.ndarray:  # (D, r), (D, c) -> (r, c)
    """UᵀR in double precision, without a copy of U in it."""
    parts = (U[k : k + STEP].astype(np.float64).T @ R[k : k + STEP] for k in range(0, len(U), STEP))
    return sum(parts, np.zeros(1))


def product(U: np.ndarray, along: np.ndarray) -> np.ndarray:  # (D, r), (r, c) -> (D, c)
    """U times columns, in the same way."""
    return np.concatenate(
        [U[k : k + STEP].astype(np.float64) @ along for k in range(0, len(U), STEP)]
    )

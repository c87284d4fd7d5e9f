"""The preconditioner: a subspace of leading eigenvectors, and a multiple of the identity beyond it.

For systems B = A_s + μI whose matrices A_s differ in the weights of the rows, the subspace of U is
shared, and each of them has its own `core` UᵀBU:

    P⁻¹ = U (UᵀBU)⁻¹ Uᵀ + (I − UUᵀ) / (λ_r + μ)

or the eigenvalues Λ + μ in its place.

With λ_r the last eigenvalue in the subspace (`basis`), the condition number of P⁻¹B is about
1 + λ_r/μ.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..packed import PackedFactor, PackedMatrix
from .basis import adjoint_product, product, self_product


@dataclass(frozen=True, eq=False)
class Preconditioner:
    """P of every system; columns of all of them side by side.

    U is stored in single precision, so it is orthonormal up to 10⁻⁷ only. That is not enough where
    the eigenvalues of B differ by more than 10⁷: I − U(UᵀU)⁻¹Uᵀ takes the place of I − UUᵀ, and all
    arithmetic is in double precision.
    """

    basis: np.ndarray  # U (D, r), single precision
    gram: PackedFactor  # the Cholesky factor of UᵀU
    packed: np.ndarray  # (S, r (r + 1) / 2): that of UᵀBU, or of Λ + μ, for every system
    tail: float  # λ_r + μ

    @classmethod
    def of(
        cls, basis: np.ndarray, moments: np.ndarray, precision: float, last: float
    ) -> Preconditioner:  # (D, r), (S, r (r + 1) / 2)
        """From packed UᵀZᵀW_sZU of every system, μ, and the last eigenvalue found.

        The cores take the place of the moments: there may be one for each of many classes.
        """
        gram = gram_of(basis)
        for moment in map(PackedMatrix, moments):
            moment.add_multiple(precision, gram)
            moment.values[:] = definite(moment).values
        return cls(basis, definite(gram), moments, last + precision)

    @classmethod
    def of_values(
        cls, basis: np.ndarray, values: np.ndarray, precision: float
    ) -> Preconditioner:  # (D, r), (r,)
        """Of one system, from eigenvalues in place of UᵀZᵀWZU."""
        core = PackedMatrix.zeros(len(values), np.float64)
        core.add_to_diagonal(np.sqrt(values + precision))
        return cls(basis, definite(gram_of(basis)), core.values[None], values[-1] + precision)

    @cached_property
    def cores(self) -> list[PackedFactor]:
        """The factors of UᵀBU, or of Λ + μ."""
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
        return PackedMatrix.of(self_product(basis))
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

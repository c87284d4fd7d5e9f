"""The likelihood from the eigenvalues of a Gram matrix.

A Householder reduction A = Q T Qᴴ to a real tridiagonal T is a third of an eigendecomposition. The
eigenvectors of A, whose computation is most of the rest, are not needed: those of T, which take D²
operations, see the vectors Qᴴ b.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh_tridiagonal, lapack

from .likelihood import Likelihood


@dataclass(frozen=True, kw_only=True)
class Spectrum(Likelihood):
    """Eigenvalues λ_j of the Gram matrix K̂ of the rows, and the energy of the targets along them.

    y has variance σ² + s λ_j along eigenvector j, and σ² along the directions that no feature sees.
    """

    eigenvalues: np.ndarray  # (r,)
    energies: np.ndarray  # (r,): Σ over outputs of |u_jᴴ y|²
    rest: float = 0.0  # energy of the other n − r directions

    @classmethod
    def of_kernel(cls, K: np.ndarray, y: np.ndarray) -> Spectrum:  # (n, n), (n, m)
        """From the Gram matrix itself."""
        values, energies = eigenvalues_and_energies(K, y)
        values = np.maximum(values, 0)
        return cls(eigenvalues=values, energies=energies, n=len(K), n_outputs=y.shape[1])

    @property
    def energy(self) -> float:
        return (float(np.sum(self.energies)) + self.rest) / self.count

    @property
    def largest(self) -> float:
        return float(self.eigenvalues.max(initial=0.0))

    def measure(self, ratio: float) -> tuple[float, float]:
        shares = 1 + ratio * self.eigenvalues
        square = float(np.sum(self.energies / shares)) + self.rest
        return float(np.sum(np.log(shares))), square


def eigenvalues_and_energies(
    A: np.ndarray, b: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:  # (D, D), (D, m) -> (D,), (D,)
    """The eigenvalues λ_j of A (its lower triangle), ascending, and Σ |u_jᴴ b|² over columns of b.

    >>> values, energies = eigenvalues_and_energies(np.diag([2.0, 1.0]), np.array([[3.0], [4.0]]))
    >>> values, energies
    (array([1., 2.]), array([16.,  9.]))
    """
    is_complex = np.iscomplexobj(A)
    letter, adjoint = ("z", "C") if is_complex else ("d", "T")
    name = letter + ("hetrd" if is_complex else "sytrd")
    A = np.asfortranarray(A, dtype=np.complex128 if is_complex else np.float64)
    b = np.array(b, dtype=A.dtype, order="F")
    D, m = b.shape
    if D == 1:
        return A[0].real, np.sum(np.abs(b) ** 2, axis=1)
    work, _ = getattr(lapack, f"{name}_lwork")(D, lower=1)
    reflectors, diagonal, beside, tau, _ = getattr(lapack, name)(A, lower=1, lwork=int(work.real))
    # Q leaves the first coordinate alone; its reflectors stand below the diagonal, as those of a QR
    multiply = getattr(lapack, letter + ("unmqr" if is_complex else "ormqr"))
    b[1:], _, _ = multiply("L", adjoint, reflectors[1:, :-1], tau, b[1:], 64 * m)
    values, vectors = eigh_tridiagonal(diagonal, beside, check_finite=False)
    return values, np.sum(np.abs(vectors.T @ b) ** 2, axis=1)

"""A posterior of weights by a subspace and draws: what an iterative solver can know."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..packed import PackedFactor
from ..posterior import Posterior


@dataclass(frozen=True, eq=False)
class SampledPosterior(Posterior):
    """Weights with the mean v (D, m) and the covariance B⁻¹, in two parts.

    For any U, with core = UᵀBU = L Lᵀ,

        B⁻¹ = U core⁻¹ Uᵀ + Cov(δ'),    δ' = δ − U core⁻¹ Uᵀ B δ,   δ ~ N(0, B⁻¹)

    The first part is exact. The second is estimated from k independent draws of δ',
    with a relative standard error of √(2/k). It vanishes if the columns of U span the space.
    """

    weights: np.ndarray  # v (D, m)
    basis: np.ndarray  # U (D, r), single precision
    core: PackedFactor  # L
    rest: np.ndarray  # draws of δ' (D, k), single precision

    jitter = 0.0

    def __post_init__(self) -> None:
        D = len(self.basis)
        if self.weights.ndim != 2 or self.basis.ndim != 2 or self.rest.ndim != 2:
            raise ValueError("Weights, basis and draws of a posterior are matrices.")
        if len(self.weights) != D or len(self.rest) != D or not self.rest.shape[1]:
            raise ValueError(
                f"Weights, basis and draws have {len(self.weights)}, {D} and {len(self.rest)} "
                "rows, which must agree."
            )
        if self.basis.shape[1] != self.core.size:
            raise ValueError(
                f"A basis of {self.basis.shape[1]} columns does not fit a core of "
                f"{self.core.size} rows."
            )

    def variance(self, Z: np.ndarray) -> np.ndarray:  # (n, D) -> (n,)
        """Var f(x) = |L⁻¹ Uᵀz|² + mean (zᵀδ')²."""
        half, rest = self._parts(Z)
        return np.einsum("ij,ij->j", half, half) + np.mean(rest**2, axis=1)

    def covariance(self, Z: np.ndarray) -> np.ndarray:  # (n, D) -> (n, n)
        """The same for pairs of rows."""
        half, rest = self._parts(Z)
        return half.T @ half + rest @ rest.T / rest.shape[1]

    def sample_weights(
        self, n_samples: int, rng: np.random.Generator
    ) -> np.ndarray:  # -> (D, m, n_samples)
        """Draws of v: new ones in the subspace, and a random rotation of the draws of δ'.

        Up to k draws (for all outputs together) are independent; more share the same k draws of δ'.
        """
        D, m = self.weights.shape
        count, k = m * n_samples, self.rest.shape[1]
        inner = self.core.half_solve(rng.standard_normal((self.core.size, count)), adjoint=True)
        rotations = [np.linalg.qr(rng.standard_normal((k, k)))[0] for _ in range(-(-count // k))]
        turned = self.rest @ np.concatenate(rotations, axis=1)[:, :count].astype(np.float32)
        draws = self.basis @ inner.astype(np.float32) + turned
        return self.weights[:, :, None] + draws.reshape(D, m, n_samples)

    def _parts(self, Z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:  # (n, D) -> (r, n), (n, k)
        """L⁻¹ Uᵀz and zᵀδ' in double precision, from products in single precision."""
        low = np.asarray(Z, dtype=np.float32)
        half = self.core.half_solve(np.asarray(low @ self.basis, dtype=np.float64).T)
        return half, np.asarray(low @ self.rest, dtype=np.float64)

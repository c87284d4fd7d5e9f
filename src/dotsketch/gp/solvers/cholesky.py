"""The direct solver: sums over the rows, one Cholesky factor per system.

With B = I + s M and B = L Lᴴ (Appendix D of the paper),

    v = s B⁻¹ Σ w z y,   Var f(x) = s |L⁻¹ z(x)|².
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...rows import Rows
from ..packed import PackedFactor, PackedMatrix
from ..posterior import Posterior
from .base import System

JITTERS = (0.0, *(10.0**power for power in range(-15, -3)))


class Cholesky:
    """One pass over the rows for the sums, then O(D³) per system; memory O(D²)."""

    mergeable = True

    def gather(
        self,
        rows: Rows,
        block: Callable[..., tuple[Any, ...]],
        zero: Callable[[], Any],
        **options: Any,
    ) -> Any:
        """The sums over all rows."""

        def add(sums: Any, columns: tuple[Any, ...], first: int) -> Any:
            sums.update(*block(columns, first))
            return sums

        return rows.fold(zero, add, **options)

    def solve(
        self,
        systems: Iterable[System],
        prior_variance: float,
        *,
        rng: np.random.Generator | None = None,
    ) -> Iterator[CholeskyPosterior]:
        """The posterior of every system, one after the other."""
        for moment, cross in systems:
            B = prior_variance * moment
            B.add_to_diagonal(1)
            factor, jitter = factorise(B)
            weights = prior_variance * factor.solve(cross)
            yield CholeskyPosterior(factor, weights, float(prior_variance), jitter)


@dataclass(frozen=True, eq=False)
class CholeskyPosterior(Posterior):
    """Weights with the mean v (D, m) and the covariance s B⁻¹, B = L Lᴴ."""

    factor: PackedFactor  # L
    weights: np.ndarray  # v, (D, m)
    prior_variance: float
    jitter: float

    def __post_init__(self) -> None:
        if self.weights.ndim != 2 or len(self.weights) != self.factor.size:
            raise ValueError(
                f"Weights of shape {self.weights.shape} do not fit a factor of "
                f"{self.factor.size} rows."
            )

    @property
    def log_determinant(self) -> float:
        """log |B|."""
        return self.factor.log_determinant()

    def variance(self, Z: np.ndarray) -> np.ndarray:  # (n, D) -> (n,)
        """Var f(x) = s |L⁻¹ z(x)|².

        In single precision for features of single precision: the rounding of the features has an
        effect of the same order (relative errors of the variance below 1e-4 for condition numbers
        of L up to 1e4).
        """
        if Z.dtype in (np.float32, np.complex64) and self.factor.fits_single:
            half = self.factor.single_half_solve(Z.T).T
            parts = half.view(np.float32) if np.iscomplexobj(half) else half
            squares = np.asarray(np.sum(parts * parts, axis=1, dtype=np.float64))
            return self.prior_variance * squares
        half = self._half(Z).T
        parts = half.view(np.float64) if np.iscomplexobj(half) else half
        return self.prior_variance * np.einsum("ij,ij->i", parts, parts)

    def covariance(self, Z: np.ndarray) -> np.ndarray:  # (n, D) -> (n, n)
        """Cov(f(x), f(x')) = s Re (L⁻¹ z(x))ᴴ (L⁻¹ z(x'))."""
        half = self._half(Z)
        return self.prior_variance * (half.conj().T @ half).real

    def sample_weights(
        self, n_samples: int, rng: np.random.Generator
    ) -> np.ndarray:  # -> (D, m, n_samples)
        """Draws of v.

        With complex features both parts of the white noise have variance one, so that the *real
        part* of the function has the covariance of `covariance`.
        """
        D, m = self.weights.shape
        noise: np.ndarray = rng.standard_normal((D, m * n_samples))
        if np.iscomplexobj(self.weights):
            noise = noise + 1j * rng.standard_normal((D, m * n_samples))
        draws = self.factor.half_solve(noise, adjoint=True)
        draws = np.sqrt(self.prior_variance) * draws.reshape(D, m, n_samples)
        return self.weights[:, :, None] + draws

    def _half(self, Z: np.ndarray) -> np.ndarray:  # (n, D) -> (D, n)
        """L⁻¹ z(x), a column for every row of Z."""
        return self.factor.half_solve(np.ascontiguousarray(Z, dtype=self.factor.dtype).T)


def check_finite(B: PackedMatrix) -> None:
    """Raise unless the sums, and the mean of their diagonal, are finite."""
    if not B.is_finite():
        raise ValueError(
            "The sums over the features overflow or are not finite: scale the features down, or "
            "use a larger noise variance."
        )


def factorise(B: PackedMatrix) -> tuple[PackedFactor, float]:
    """The Cholesky factor of B and the relative jitter that it took.

    Where B is not positive definite to rounding, a jitter that grows tenfold is added to its
    diagonal; a warning says how much.
    """
    check_finite(B)
    scale = float(np.mean(B.diagonal()))
    for jitter in JITTERS:
        attempt = B
        if jitter:
            attempt = B.copy()
            attempt.add_to_diagonal(jitter * scale)
        factor = attempt.cholesky()
        if factor is None:
            continue
        if jitter:
            warnings.warn(
                f"The system is not positive definite to rounding: {jitter:.0e} times its mean "
                "diagonal was added. A larger noise variance avoids this.",
                RuntimeWarning,
                stacklevel=3,
            )
        return factor, jitter
    raise ValueError(
        f"The system is not positive definite, even with {JITTERS[-1]:.0e} of its mean diagonal "
        "added: use a larger noise variance or a smaller prior variance."
    )

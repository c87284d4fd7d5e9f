"""What a Gaussian process knows after the data, as values that hold no rows.

f_j(x) = Re z(x)ᴴ v_j for outputs (or classes) j, with coefficients v_j ~ N(0, s_j I) before the
data. A `Posterior` is their distribution.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from .._arrays import Array, is_foreign, like, namespace
from .._support.stored import array, stored
from .packed import PackedFactor


@stored
@dataclass(frozen=True, eq=False)
class Posterior:
    """Coefficients with the means v_j (D, m) and the covariances s_j B_j⁻¹, B_j = L_j L_jᴴ.

    Outputs of the same variances share a factor L. Z are features (n, D) of rows to predict.
    """

    coefficients: Annotated[np.ndarray, array("fc", "D", "m")]
    factors: tuple[PackedFactor, ...]  # the different L
    owners: Annotated[np.ndarray, array("i", "m")]  # which factor every output has
    prior_variances: Annotated[np.ndarray, array("f", "m")]
    jitter: float = 0.0  # what was added to the systems, relative to their mean diagonals

    def __post_init__(self) -> None:
        sizes = {factor.size for factor in self.factors}
        if sizes != {len(self.coefficients)} or not np.all(
            (self.owners >= 0) & (self.owners < len(self.factors))
        ):
            raise ValueError("Coefficients and factors of a posterior do not fit each other.")

    def mean(self, Z: Any) -> Any:  # (n, D) -> (n, m)
        """E f_j(x), in the array library of Z."""
        return evaluate(Z, self.coefficients)

    def variance(self, Z: Any) -> Any:  # (n, D) -> (n, m)
        """Var f_j(x) = s_j |L_j⁻¹ z(x)|², in the array library of Z.

        In single precision for features of single precision: the rounding of the features has an
        effect of the same order.
        """
        squares = half_squares(self.factors, Z)
        xp = namespace(squares)
        own = xp.take(squares, like(self.owners, squares), axis=1)
        return own * like(self.prior_variances, own)

    def covariance(
        self, Z: np.ndarray, other: np.ndarray | None = None
    ) -> np.ndarray:  # (n, D), (k, D) -> (n, k, m)
        """Cov(f_j(x), f_j(x')) = s_j Re (L_j⁻¹ z(x))ᴴ (L_j⁻¹ z(x')), of rows and other rows."""
        products = []
        for factor in self.factors:
            left = factor.half_solve(np.ascontiguousarray(Z).T)
            right = left if other is None else factor.half_solve(np.ascontiguousarray(other).T)
            products.append((left.conj().T @ right).real)
        return np.stack(products, axis=2)[:, :, self.owners] * self.prior_variances

    def sample(self, n: int, rng: np.random.Generator) -> np.ndarray:  # -> (D, m, n)
        """Draws of the coefficients, each of them a function: see `evaluate`.

        With complex features both parts of the white noise have variance one, so that the *real
        part* of the function has the covariance of `covariance`.
        """
        draws = []
        for k, s in zip(self.owners, self.prior_variances, strict=True):
            noise: np.ndarray = rng.standard_normal((len(self.coefficients), n))
            if np.iscomplexobj(self.coefficients):
                noise = noise + 1j * rng.standard_normal(noise.shape)
            draws.append(np.sqrt(s) * self.factors[k].half_solve(noise, adjoint=True))
        return self.coefficients[:, :, None] + np.stack(draws, axis=1)


def evaluate(Z: Any, coefficients: np.ndarray) -> Any:  # (n, D), (D, ...) -> (n, ...)
    """The functions x ↦ Re z(x)ᴴ v at rows with features Z, in the array library of Z."""
    flat, xp = coefficients.reshape(len(coefficients), -1), namespace(Z)
    if xp.isdtype(Z.dtype, "complex floating"):  # Re z·Re v + Im z·Im v
        Z = xp.concat([xp.real(Z), xp.imag(Z)], axis=1)
        flat = np.concatenate([flat.real, flat.imag])
    flat = np.ascontiguousarray(flat.real)
    values = Z @ (like(flat, Z) if is_foreign(Z) else flat)
    return xp.reshape(values, (-1, *coefficients.shape[1:]))


def half_squares(factors: Sequence[PackedFactor], Z: Any) -> Any:  # (n, D) -> (n, factors)
    """|L⁻¹ z|² for factors L and rows z of Z, in the array library of Z."""
    square = _foreign_squares if is_foreign(Z) else PackedFactor.half_squares
    return namespace(Z).stack([square(factor, Z) for factor in factors], axis=1)


def _foreign_squares(factor: PackedFactor, Z: Array) -> Array:  # (n, D) -> (n,)
    """|L⁻¹ z|² with gradients to Z: by the inverse factor, in the precision of Z."""
    xp = namespace(Z)
    inverse = np.ascontiguousarray(factor.inverse().T)  # L⁻ᴴ conjugated: rows z times L⁻ᵀ
    if xp.isdtype(Z.dtype, "complex floating"):
        real, imaginary = xp.real(Z), xp.imag(Z)
        a, b = (like(part.copy(), real) for part in (inverse.real, inverse.imag))
        halves = real @ a - imaginary @ b, real @ b + imaginary @ a
        return xp.sum(halves[0] ** 2 + halves[1] ** 2, axis=1)
    half = Z @ like(inverse.real if np.iscomplexobj(inverse) else inverse, Z)
    return xp.sum(half * half, axis=1)

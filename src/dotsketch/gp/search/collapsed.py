"""Parameters of a kernel and noise by the marginal likelihood that landmarks have on many rows.

With landmarks B and P = K_BB⁻¹ K_BX the targets have the covariance C = K_XB P + diag 1/w. With
K_BB = L Lᵀ, a(x) = L⁻¹ k(B, x) and S = 1 + Σ w a aᵀ everything is in as many dimensions as there
are landmarks: for a = C⁻¹ y and M = (L S Lᵀ)⁻¹ the derivatives of −log p(y) are, for one output,

    M K_BX diag w − (P a) aᵀ            with respect to K_BX,
    −½ (K_BB⁻¹ − M − (P a)(P a)ᵀ)       with respect to K_BB.

Where the landmarks themselves are moved, this likelihood would reward those that leave the prior
variance out. The variational bound (Titsias 2009) subtracts ½ Σ w (k(x, x) − |a(x)|²), which has
the derivatives −K_BB⁻¹ K_BX diag w and ½ L⁻ᵀ (S − 1) L⁻¹.

One evaluation costs 4 n m² operations for n rows and m landmarks.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import lapack, solve_triangular

from ...spectrum import log_density
from ..evidence import log_density_of_copies
from .subset import FAILED, SubsetEvidence

JITTER = 1e-8  # of the mean of k(x, x), added to the diagonal of K_BB


class Slopes(NamedTuple):
    """The loss −log p(y), and its derivatives."""

    loss: float
    cross: np.ndarray  # (m, n), with respect to K_BX
    square: np.ndarray  # (m, m), with respect to K_BB
    noise: float  # with respect to the logarithm of the noise
    diagonal: float  # Σ k(x, x) times the derivatives with respect to them


class LandmarkEvidence(SubsetEvidence):
    """−log p(y)/n with the kernel of landmarks (m, d); see `SubsetEvidence` for the others."""

    stage = "landmarks"

    def __init__(self, kernel: Any, landmarks: np.ndarray, *rows: Any):
        super().__init__(kernel, *rows)
        self.landmarks, self.n_columns = landmarks, len(landmarks)

    def __call__(self, logarithms: np.ndarray) -> tuple[float, np.ndarray]:
        kernel, noise = self.parts(logarithms)
        with np.errstate(over="ignore", invalid="ignore"):
            K_BB, pull_back_square = kernel.with_pullback(self.landmarks)
            K_BX, pull_back = kernel.with_pullback(self.landmarks, self.X)
        slopes = self.slopes(K_BB, K_BX, noise)
        if slopes is None:
            return FAILED, np.zeros_like(logarithms)
        gradient = pull_back(slopes.cross) + pull_back_square(slopes.square)
        if self.noise is None:
            gradient = np.append(gradient, slopes.noise)
        return slopes.loss / self.n, gradient / self.n

    def slopes(
        self, K_BB: np.ndarray, K_BX: np.ndarray, noise: Any, diagonal: np.ndarray | None = None
    ) -> Slopes | None:  # (m, m), (m, n), (), (n,)
        """Loss and derivatives; None where a matrix is not positive definite to rounding.

        With k(x, x) of the rows (`diagonal`) they are those of the bound.
        """
        outputs, size = self.Y.shape[1], len(K_BB)
        jittered = K_BB.copy().T
        jittered[np.diag_indices(size)] += JITTER * np.mean(np.diagonal(K_BB))
        L, failed = lapack.dpotrf(jittered, lower=1, overwrite_a=1, clean=1)
        if failed or not np.all(np.isfinite(np.diagonal(L))):
            return None
        weights = self.counts / noise * np.ones(len(self.X))
        A = solve_triangular(L, K_BX, lower=True, check_finite=False)
        A *= np.sqrt(weights)
        moment = A @ A.T
        R, failed = lapack.dpotrf((moment + np.eye(size)).T, lower=1, overwrite_a=1, clean=1)
        if failed or not np.all(np.isfinite(np.diagonal(R))):
            return None
        rooted = np.sqrt(weights)[:, None] * self.Y
        solved, _ = lapack.dpotrs(R, A @ rooted, lower=1)
        a = np.sqrt(weights)[:, None] * (rooted - A.T @ solved)  # C⁻¹ y
        determinant = 2 * float(np.sum(np.log(np.diagonal(R)))) - float(np.sum(np.log(weights)))
        n = len(self.X) * outputs
        density = log_density(outputs * determinant, float(np.sum(self.Y * a)), n, False)
        loss = -density - outputs * log_density_of_copies(noise, self.counts)
        inverse = solve_triangular(L, np.eye(size), lower=True, check_finite=False)
        half = solve_triangular(R, inverse, lower=True, check_finite=False)
        M, whole = half.T @ half, inverse.T @ inverse
        p = inverse.T @ (A @ (a / np.sqrt(weights)[:, None]))
        trace = len(self.X) - size + np.sum(lapack.dtrtri(R, lower=1)[0] ** 2)
        of_noise = outputs * (trace + self.n - len(self.X)) - np.sum(a * a / weights[:, None])
        square = outputs * (M - whole) + p @ p.T
        of_diagonal = 0.0
        if diagonal is not None:
            of_diagonal = outputs * float(np.sum(weights * diagonal))
            missing = of_diagonal - outputs * float(np.trace(moment))
            loss, of_noise = loss + missing / 2, of_noise - missing
            square += outputs * (inverse.T @ moment @ inverse)
            M -= whole
        cross = (outputs * M) @ K_BX
        cross *= weights
        cross -= p @ a.T
        return Slopes(float(loss), cross, square / 2, float(of_noise) / 2, of_diagonal / 2)


class MovedLandmarks(LandmarkEvidence):
    """The negative bound per row, a function of the logarithms and then of the landmarks as well.

    For kernels of the distance. Landmarks are in units of the first lengthscales, which makes them
    and the logarithms numbers of one size.
    """

    stage = "moved"

    def __init__(self, kernel: Any, landmarks: np.ndarray, *rows: Any):
        super().__init__(kernel, landmarks, *rows)
        self.units = kernel.lengthscale * np.ones(landmarks.shape[1])

    def start(self, logarithms: np.ndarray) -> np.ndarray:
        """The logarithms, and the landmarks as they are."""
        return np.append(logarithms, self.landmarks / self.units)

    def parts(self, values: np.ndarray) -> tuple[Any, Any]:
        return super().parts(values[: -self.landmarks.size])

    def moved(self, values: np.ndarray) -> np.ndarray:  # -> (m, d)
        """The landmarks among the values."""
        return self.units * values[-self.landmarks.size :].reshape(self.landmarks.shape)

    def __call__(self, values: np.ndarray) -> tuple[float, np.ndarray]:
        kernel, noise = self.parts(values)
        landmarks = self.moved(values)
        with np.errstate(over="ignore", invalid="ignore"):
            K_BB, pull_back_square = kernel.with_pullback_to_rows(landmarks)
            K_BX, pull_back = kernel.with_pullback_to_rows(landmarks, self.X)
        slopes = self.slopes(K_BB, K_BX, noise, kernel.diag(self.X))
        if slopes is None:
            return FAILED, np.zeros_like(values)
        (of_cross, rows), (of_square, once) = (
            pull_back(slopes.cross),
            pull_back_square(slopes.square),
        )
        gradient = of_cross + of_square
        gradient[-1] += slopes.diagonal  # the variance is the last logarithm
        rest = [] if self.noise is not None else [slopes.noise]
        rows += 2 * once  # K_BB has the landmarks on both sides, and is symmetric
        gradient = np.concatenate([gradient, rest, np.ravel(self.units * rows)])
        return slopes.loss / self.n, gradient / self.n

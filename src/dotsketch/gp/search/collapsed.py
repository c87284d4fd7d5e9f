"""Parameters of a kernel and noise by the marginal likelihood that landmarks have on many rows.

With landmarks B and P = K_BB⁻¹ K_BX the targets have the covariance C = K_XB P + diag 1/w. With
K_BB = L Lᵀ, a(x) = L⁻¹ k(B, x) and S = 1 + Σ w a aᵀ everything is in as many dimensions as there
are landmarks: for a = C⁻¹ y and M = (L S Lᵀ)⁻¹ the derivatives of −log p(y) are, for one output,

    M K_BX diag w − (P a) aᵀ            with respect to K_BX,
    −½ (K_BB⁻¹ − M − (P a)(P a)ᵀ)       with respect to K_BB.

One evaluation costs 4 n m² operations for n rows and m landmarks.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import lapack, solve_triangular

from ...spectrum import log_density
from ..evidence import log_density_of_copies
from .subset import FAILED, SubsetEvidence

JITTER = 1e-8  # of the mean of k(x, x), added to the diagonal of K_BB


class LandmarkEvidence(SubsetEvidence):
    """−log p(y)/n with the kernel of landmarks (m, d); see `SubsetEvidence` for the others."""

    stage = "landmarks"

    def __init__(self, kernel: Any, landmarks: np.ndarray, *rows: Any):
        super().__init__(kernel, *rows)
        self.landmarks, self.n_columns = landmarks, len(landmarks)

    def __call__(self, logarithms: np.ndarray) -> tuple[float, np.ndarray]:
        outputs, size = self.Y.shape[1], len(self.landmarks)
        kernel, noise = self.parts(logarithms)
        with np.errstate(over="ignore", invalid="ignore"):
            K_BB, pull_back_square = kernel.with_pullback(self.landmarks)
            K_BX, pull_back = kernel.with_pullback(self.landmarks, self.X)
        jittered = K_BB.copy().T
        jittered[np.diag_indices(size)] += JITTER * np.mean(np.diagonal(K_BB))
        L, failed = lapack.dpotrf(jittered, lower=1, overwrite_a=1, clean=1)
        if failed or not np.all(np.isfinite(np.diagonal(L))):
            return FAILED, np.zeros_like(logarithms)
        weights = self.counts / noise * np.ones(len(self.X))
        A = solve_triangular(L, K_BX, lower=True, check_finite=False)
        A *= np.sqrt(weights)
        S = A @ A.T
        S[np.diag_indices(size)] += 1
        R, failed = lapack.dpotrf(S.T, lower=1, overwrite_a=1, clean=1)
        if failed or not np.all(np.isfinite(np.diagonal(R))):
            return FAILED, np.zeros_like(logarithms)
        rooted = np.sqrt(weights)[:, None] * self.Y
        solved, _ = lapack.dpotrs(R, A @ rooted, lower=1)
        a = np.sqrt(weights)[:, None] * (rooted - A.T @ solved)  # C⁻¹ y
        determinant = 2 * float(np.sum(np.log(np.diagonal(R)))) - float(np.sum(np.log(weights)))
        n = len(self.X) * outputs
        density = log_density(outputs * determinant, float(np.sum(self.Y * a)), n, False)
        density += outputs * log_density_of_copies(noise, self.counts)
        inverse = solve_triangular(L, np.eye(size), lower=True, check_finite=False)
        half = solve_triangular(R, inverse, lower=True, check_finite=False)
        M = half.T @ half
        p = inverse.T @ (A @ (a / np.sqrt(weights)[:, None]))
        slopes = (outputs * M) @ K_BX
        slopes *= weights
        slopes -= p @ a.T
        gradient = pull_back(slopes)
        gradient -= pull_back_square(outputs * (inverse.T @ inverse - M) - p @ p.T) / 2
        if self.noise is None:
            trace = len(self.X) - size + np.sum(lapack.dtrtri(R, lower=1)[0] ** 2)
            of_noise = outputs * (trace + self.n - len(self.X))
            gradient = np.append(gradient, (of_noise - np.sum(a * a / weights[:, None])) / 2)
        return -float(density) / self.n, gradient / self.n

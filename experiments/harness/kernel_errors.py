"""The relative Frobenius error of a Gram matrix, with and without the imaginary part."""

from __future__ import annotations

import numpy as np

from .experiment import Row


def gram_errors(
    K: np.ndarray, Z: np.ndarray, *, size: int | None = None, block_size: int = 1024
) -> Row:
    """‖K − Z Zᴴ‖_F / ‖K‖_F for an exact Gram matrix (n, n) and features (n, D).

    `frobenius_error` drops the imaginary part of Z Zᴴ, as the paper's text defines it;
    `frobenius_error_complex` keeps it, as the authors' results do for polynomial kernels. Both
    are the same for real features. Works on blocks above the diagonal, sums in float64.

    With `size`, the rows are a random sample of so many, whose matrix is meant: its size diagonal
    and size (size − 1) other entries are as large in the mean as those of the sample. The squared
    norms are then unbiased. (Without this weight a small sample has too much diagonal.)
    """
    n = len(K)
    weight = 1.0 if size is None or n < 2 else (size - 1) / (n - 1)
    real = np.concatenate([Z.real, Z.imag], axis=1) if np.iscomplexobj(Z) else Z
    imaginary = np.ascontiguousarray(Z.imag) if np.iscomplexobj(Z) else None
    real_part = np.ascontiguousarray(Z.real)
    total = kept = dropped = 0.0
    for start in range(0, n, block_size):
        rows, rest = slice(start, start + block_size), slice(start, n)
        exact = K[rows, rest]
        total += weighted(exact, weight)
        kept += weighted(exact - real[rows] @ real[rest].T, weight)
        if imaginary is not None:
            block = imaginary[rows] @ real_part[rest].T - real_part[rows] @ imaginary[rest].T
            dropped += weighted(block, weight)
    return {
        "frobenius_error": float(np.sqrt(kept / total)),
        "frobenius_error_complex": float(np.sqrt((kept + dropped) / total)),
    }


def expected_error(K: np.ndarray, variance: np.ndarray, size: int | None = None) -> float:
    """√(E‖K − K̂‖² / ‖K‖²) of an unbiased K̂, from the variances of its entries, (n, n) each."""
    weight = 1.0 if size is None else (size - 1) / (len(K) - 1)
    return float(np.sqrt(weighted(np.sqrt(variance), weight) / weighted(K, weight)))


def weighted(block: np.ndarray, weight: float) -> float:
    """Σ of squares over a block that starts at the diagonal and reaches to the last column.

    What lies right of the diagonal block counts twice, for its mirror image; what is not on the
    diagonal counts `weight` times.
    """
    squares = np.einsum("ij,ij->j", block, block, dtype=np.float64)
    diagonal = float(np.sum(np.diagonal(block).astype(np.float64) ** 2))
    width = len(block)
    total = squares[:width].sum() + 2 * squares[width:].sum()
    return diagonal + weight * (float(total) - diagonal)

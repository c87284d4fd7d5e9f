"""The relative Frobenius error of a Gram matrix, with and without the imaginary part."""

from __future__ import annotations

import numpy as np

from .experiment import Row


def gram_errors(K: np.ndarray, Z: np.ndarray, block_size: int = 1024) -> Row:
    """‖K − Z Zᴴ‖_F / ‖K‖_F for an exact Gram matrix (n, n) and features (n, D).

    `frobenius_error` drops the imaginary part of Z Zᴴ, as the paper's text defines it;
    `frobenius_error_complex` keeps it, as the authors' results do for polynomial kernels. Both
    are the same for real features. Works on blocks above the diagonal, sums in float64.
    """
    n = len(K)
    real = np.concatenate([Z.real, Z.imag], axis=1) if np.iscomplexobj(Z) else Z
    imaginary = np.ascontiguousarray(Z.imag) if np.iscomplexobj(Z) else None
    real_part = np.ascontiguousarray(Z.real)
    total = kept = dropped = 0.0
    for start in range(0, n, block_size):
        rows, rest = slice(start, start + block_size), slice(start, n)
        width = min(block_size, n - start)
        exact = K[rows, rest]
        total += weighted(exact, width)
        kept += weighted(exact - real[rows] @ real[rest].T, width)
        if imaginary is not None:
            block = imaginary[rows] @ real_part[rest].T - real_part[rows] @ imaginary[rest].T
            dropped += weighted(block, width)
    return {
        "frobenius_error": float(np.sqrt(kept / total)),
        "frobenius_error_complex": float(np.sqrt((kept + dropped) / total)),
    }


def weighted(block: np.ndarray, width: int) -> float:
    """Σ of squares, where what lies right of the diagonal block counts twice."""
    squares = np.einsum("ij,ij->j", block, block, dtype=np.float64)
    return float(squares[:width].sum() + 2 * squares[width:].sum())

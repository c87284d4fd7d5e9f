"""How good an approximation is."""

from __future__ import annotations

from ._arrays import Array, namespace


def relative_frobenius_error(K: Array, K_approx: Array) -> Array:
    """‖K − K̂‖_F / ‖K‖_F of an exact and an approximate Gram matrix, (n, m) each.

    A complex K̂ is taken as it is: pass its real part to drop the imaginary one.

    >>> import numpy as np
    >>> relative_frobenius_error(np.eye(2), np.diag([1.0, 0.0])).round(4)
    np.float64(0.7071)
    """
    xp = namespace(K, K_approx)
    if K.shape != K_approx.shape:
        raise ValueError(f"K has shape {K.shape} and K_approx has {K_approx.shape}.")
    norm = xp.sqrt(xp.sum(xp.abs(K) ** 2))
    if not norm > 0:
        raise ValueError("K is zero (or not finite): a relative error has no meaning.")
    return xp.sqrt(xp.sum(xp.abs(K - K_approx) ** 2)) / norm

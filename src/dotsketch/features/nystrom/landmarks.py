"""Which training rows become the landmarks of Nyström features: one function per rule.

A rule takes a kernel without gradients, rows (NumPy or CSR), the number of landmarks and a random
generator, and returns the numbers of the rows. `RULES` names them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from ..._support.parameters import one_of
from ...kernels import Kernel
from ..study import keeps_sparse, take_or_keep


def n_candidates(n_landmarks: int) -> int:
    """The number of rows that pivots are drawn from, if there are so many."""
    return max(5000, 2 * n_landmarks)


def uniform_rows(
    kernel: Kernel, X: Any, n_landmarks: int, rng: np.random.Generator
) -> np.ndarray:  # (n, d) -> (n_landmarks,)
    """Rows drawn uniformly, without replacement."""
    return rng.permutation(X.shape[0])[:n_landmarks]


def pivoted_rows(
    kernel: Kernel, X: Any, n_landmarks: int, rng: np.random.Generator
) -> np.ndarray:  # (n, d) -> (n_landmarks,)
    """The pivots of a randomly pivoted Cholesky factor of the kernel matrix.

    A row becomes the next landmark with a probability proportional to what the landmarks before
    it leave of k(x, x), so that rows unlike all others are not missed, and no two of a kind are
    taken (Chen, Epperly, Tropp and Webber 2024). A hundred are proposed at once and each accepted
    with the probability that keeps the distribution of one at a time (Epperly, Tropp and Webber
    2024), which turns most of the work into matrix products. Pivots are drawn from 5000 of the
    rows, or twice the number of landmarks: n_candidates · n_landmarks² operations.

    Where fewer rows than landmarks have anything left (rows are repeated), the rest is uniform.
    """
    n = X.shape[0]
    if n <= n_landmarks:
        return uniform_rows(kernel, X, n_landmarks, rng)  # all of them
    # 256 MiB of rows, unless they are sparse
    most = n if keeps_sparse(X) else max((1 << 28) // (8 * X.shape[1]), n_landmarks)
    chosen = rng.permutation(n)[: min(n_candidates(n_landmarks), most)]
    rows = take_or_keep(X, chosen)
    left = np.asarray(kernel.diag(rows), dtype=np.float64).copy()  # of k(x, x)
    total = float(np.sum(left))
    factor = np.empty((n_landmarks, len(chosen)))
    pivots = np.empty(0, dtype=np.intp)
    # until what is left is rounding
    while len(pivots) < n_landmarks and np.sum(left) > 1e-13 * total:
        k = len(pivots)
        accepted, small = _accepted(kernel, rows, left, factor[:k], n_landmarks - k, rng)
        if not len(accepted):  # the first proposal is accepted, unless what is left is rounding
            break
        G = kernel(rows[accepted], rows) - factor[:k, accepted].T @ factor[:k]
        new = factor[k : k + len(accepted)]
        new[...] = solve_triangular(small, G, lower=True, check_finite=False)
        left -= np.einsum("ij,ij->j", new, new)
        np.maximum(left, 0, out=left)  # rounding
        left[accepted] = 0
        pivots = np.append(pivots, accepted)
    if len(pivots) < n_landmarks:
        others = np.setdiff1d(np.arange(len(chosen)), pivots)
        pivots = np.append(pivots, rng.permutation(others)[: n_landmarks - len(pivots)])
    return chosen[pivots]


def _accepted(
    kernel: Kernel,
    rows: Any,
    left: np.ndarray,
    factor: np.ndarray,
    most: int,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """Some new pivots, and the Cholesky factor of what is left of the kernel between them."""
    size = 100  # are proposed at once
    proposed = rng.choice(len(left), size, p=left / np.sum(left))
    luck = rng.random(size)
    H = kernel(rows[proposed]) - factor[:, proposed].T @ factor[:, proposed]
    threshold, diagonal = luck * left[proposed], np.diagonal(H).copy()
    lower = np.zeros((size, min(size, most)))
    kept: list[int] = []
    for i in range(size):
        if threshold[i] < diagonal[i] and len(kept) < most:
            k = len(kept)
            column = lower[i:, k]
            column[:] = (H[i:, i] - lower[i:, :k] @ lower[i, :k]) / np.sqrt(diagonal[i])
            column[0] = np.sqrt(diagonal[i])
            diagonal[i:] -= column**2
            kept.append(i)
    return proposed[kept], lower[kept, : len(kept)]


Rule = Callable[[Kernel, Any, int, np.random.Generator], np.ndarray]
RULES: dict[str, Rule] = {
    "rpcholesky": pivoted_rows,
    "uniform": uniform_rows,
}


def landmark_rule(name: str) -> Rule:
    """The rule of this name."""
    one_of("landmarks, unless it is an array of rows,", name, ("auto", *RULES))
    return RULES[name]

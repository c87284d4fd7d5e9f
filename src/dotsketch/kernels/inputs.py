"""Rows as kernels take them: of any array library, or CSR."""

from __future__ import annotations

from typing import Any

import array_api_compat
import numpy as np

from .._arrays import ArrayT, dense, double, is_sparse, namespace, share_of_entries


def directions(S: ArrayT) -> tuple[ArrayT, ArrayT]:  # (n, d) -> (n, d), (n,)
    """Rows over their norms, and the norms; zero rows stay zero, with finite gradients."""
    if is_sparse(S):
        numbers = np.repeat(np.arange(S.shape[0]), np.diff(S.indptr))
        largest = np.zeros(S.shape[0], dtype=S.dtype)
        np.maximum.at(largest, numbers, np.abs(S.data))  # abs(S) would sort the entries of S itself
        S = divided(S, np.where(largest > 0, largest, 1)[numbers])
        norms = np.sqrt(row_squares(S))
        return divided(S, np.where(norms > 0, norms, 1)[numbers]), norms * largest
    xp = namespace(S)
    largest = xp.max(xp.abs(S), axis=1, keepdims=True)
    largest = xp.where(largest > 0, largest, xp.ones_like(largest))
    scaled = S / largest  # the squares of tiny and huge rows stay in range
    squares = xp.sum(scaled * scaled, axis=1, keepdims=True)
    zero = squares == 0
    norms = xp.sqrt(xp.where(zero, xp.ones_like(squares), squares))
    radius = xp.where(zero, xp.zeros_like(norms), norms * largest)
    return scaled / norms, radius[:, 0]


def matching(
    X: ArrayT, Y: ArrayT | None, *, most_shared: float = 0.0
) -> tuple[ArrayT, ArrayT | None]:
    """X and Y as two-dimensional floating arrays of one width.

    Two sparse matrices stay so (CSR) if at most this share of the products of their entries is not
    zero; all others are made dense.
    """
    other = X if Y is None else Y
    keep_sparse = (
        most_shared > 0
        and is_sparse(X)
        and is_sparse(other)
        and share_of_entries(X) * share_of_entries(other) <= most_shared
    )
    checked: list[Any] = []
    A: Any
    for name, A in (("X", X), ("Y", Y)):
        if A is None:
            checked.append(None)
            continue
        if keep_sparse:
            if A.dtype.kind not in "biuf":
                raise ValueError(f"{name} must be real and numeric; its dtype is {A.dtype}.")
            checked.append(A.tocsr() if A.dtype.kind == "f" else A.tocsr().astype(np.float64))
            continue
        A = dense(A)
        if not array_api_compat.is_array_api_obj(A):
            A = np.asarray(A)
        xp = namespace(A)
        if A.ndim != 2:
            raise ValueError(f"{name} must have two dimensions (rows, features); got {A.shape}.")
        if not xp.isdtype(A.dtype, ("bool", "real floating", "integral")):
            raise ValueError(f"{name} must be real and numeric; its dtype is {A.dtype}.")
        checked.append(A if xp.isdtype(A.dtype, "real floating") else double(A))
    X, Y = checked
    assert X is not None
    if Y is not None and X.shape[1] != Y.shape[1]:
        raise ValueError(f"X has {X.shape[1]} features and Y has {Y.shape[1]}.")
    return X, Y


def row_squares(S: Any) -> Any:  # (n, d) -> (n,)
    """|s|² of every row, dense or sparse."""
    if isinstance(S, np.ndarray):  # first: most rows are
        return np.sum(S * S, axis=1)
    if is_sparse(S):
        return np.asarray(S.multiply(S).sum(axis=1)).ravel()
    return namespace(S).sum(S * S, axis=1)


def zero_per_row(S: Any) -> Any:  # (n, d) -> (n,)
    """Zeros of the dtype and library of dense or sparse rows."""
    return np.zeros(S.shape[0], dtype=S.dtype) if is_sparse(S) else namespace(S).zeros_like(S[:, 0])


def divided(S: Any, divisors: Any) -> Any:  # CSR (n, d), number or one per stored entry
    """The entries of a CSR matrix over one number or over each their own, in the dtype of S."""
    S = S.copy()
    S.data /= np.asarray(divisors, dtype=S.dtype)
    return S

"""How rows are multiplied by random weights: one interface, several implementations.

The interface is `Backend`; `backend_of(rows)` chooses the module that implements it:

| module      | rows                                                                               |
|-------------|------------------------------------------------------------------------------------|
| `portable`  | any array library, CSR: array API code, the oracle of the others                   |
| `compiled`  | NumPy and CSR, if the C++ extension is available                                   |
| `torch_cpu` | torch tensors, if it is available: portable around compiled transforms      |

Weights are moved, checked and laid out once, as a `Prepared`, which is a function of one chunk of
rows, and `Prepared.map` is the loop over all chunks; `kept` keeps it with its weights. `transforms`
holds the linear maps that these are made of.

No other module knows that compiled code exists. `DOTSKETCH_FAST=0` turns it off, `DOTSKETCH_ISA`
chooses its instruction set.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from array_api_compat import is_numpy_array, is_torch_array

from .._arrays import Array, is_sparse, is_traced
from . import compiled, cpp, portable, torch_cpu
from .prepared import (
    Owner,
    Prepared,
    dense_like,
    fill,
    keeps_prepared,
    kept,
    linear_on_parts,
    multiply,
    power_of_two,
    scaled,
)


class Backend(Protocol):
    """What a module that multiplies rows offers; arguments are given by position.

    `rows` is an array like the chunks that a `Prepared` will see: it decides on the library, dtype
    and device. Arrays are `Any` here: each module takes those that `backend_of` hands to it.
    """

    def hadamard(self, X: Any, /) -> Array:
        """Unnormalised Walsh–Hadamard transform of every row; the width is a power of two."""

    def hadamard_product(
        self, turns: Any, places: Any, n_columns: int, is_complex: bool, scale: float, rows: Any, /
    ) -> Prepared:
        """Products over p of projections by signed, permuted Hadamard blocks, times `scale`.

        Weights are iᵗ for turns (p, B, d), d a power of two; column l of a block is its coordinate
        places[…, l], places (p, B, d). The first n_columns of all blocks are kept.
        """

    def sign_product(self, turns: Any, is_complex: bool, scale: float, rows: Any, /) -> Prepared:
        """Products over p of dense projections by weights iᵗ, turns (p, D, d), times `scale`."""

    def dense_product(self, real: Any, imaginary: Any, scale: float, rows: Any, /) -> Prepared:
        """Products over p of projections by dense matrices (p, D, d), times `scale`."""

    def count_product(
        self, buckets: Any, turns: Any, n_columns: int, is_complex: bool, rows: Any, /
    ) -> Prepared:
        """Convolution over p of count sketches.

        `buckets` (p, d) are hashes of coordinates to n_columns buckets, their signs are iᵗ for
        `turns` (p, d).
        """

    def sorf(self, signs: Any, scales: Any, rows: Any, /) -> Prepared:
        """Structured orthogonal projections H D₃ H D₂ H D₁ x, block by block.

        `signs` (B, 3, d) are ±1, d a power of two, to which x is padded with zeros. The first D
        columns of all blocks are kept and multiplied by `scales` (D,).
        """

    def waves(
        self,
        frequencies: tuple[Any, ...],
        phase: Any,
        lengthscale: Any,
        scale: Any,
        is_complex: bool,
        rows: Any,
        /,
    ) -> Prepared:
        """Cosines and sines of the angles ωᵀx/l of D frequencies ω, times the scale.

        Frequencies are a dense matrix (D, d), or the signs and scales of `sorf`; the lengthscale is
        None, a number, or one number for each coordinate. Complex columns are exp(iωᵀx/l); real
        ones are all cosines, then all sines, and with a `phase` (1,) instead of (0,) the last angle
        has one column only, its cosine after the phase is added.
        """

    def linear(self, matrix: Any, rows: Any, /) -> Prepared:
        """Projection by a dense real matrix (D, d)."""

    def largest_entry(self, X: Any, /) -> float:
        """max |x| over all entries of X (dense or sparse), or NaN."""

    def add_adjoint(self, Z: Any, R: Any, total: Any, /) -> None:
        """total (c, D) += RᵀZ for NumPy arrays Z (b, D) and R (b, c) of any type."""

    @property
    def pair_gram(self) -> Callable[..., tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Sums over a block of pairs that decide a bias, see `portable.pair_gram`."""

    @property
    def pair_terms(self) -> Callable[..., np.ndarray | None]:
        """Sums of variance terms over a block of pairs, or None where the backend has none.

        The arguments are those of the kernel `pair_terms`; `shape` is that of the sums.
        """


def backend_of(rows: Array) -> Backend:
    """The module that multiplies rows like these."""
    if not cpp.AVAILABLE:
        return portable
    if is_numpy_array(rows) or is_sparse(rows):
        return compiled
    return torch_cpu if is_torch_array(rows) else portable


def description() -> str:
    """Which code multiplies NumPy rows, for a bug report."""
    if not cpp.AVAILABLE:
        return "not available (portable code is used)"
    return f"compiled, {cpp.ISA}"


def host_view(X: Array) -> np.ndarray | None:
    """The memory of a torch tensor as a NumPy array, if compiled code can work on it.

    None for everything else: other arrays, devices and dtypes, and tensors with a gradient.
    """
    if not cpp.AVAILABLE or not is_torch_array(X) or X.device.type != "cpu" or is_traced(X):
        return None
    if X.requires_grad or str(X.dtype) not in ("torch.float32", "torch.float64"):
        return None
    return X.detach().numpy()


def hadamard(X: Array) -> Array:  # (n, d) -> (n, d)
    """Unnormalised Walsh–Hadamard transform of every row; d is a power of two.

    The matrix is Sylvester's, H_2d = [[H_d, H_d], [H_d, −H_d]]: applied twice it gives d·x.

    >>> import numpy as np
    >>> hadamard(np.array([[1.0, 2.0, 3.0, 4.0]]))
    array([[10., -2., -4.,  0.]])
    """
    d = X.shape[1]
    if d != power_of_two(d):
        raise ValueError(
            f"The Walsh–Hadamard transform needs a power of two; X has {d} columns: "
            f"pad it with zeros to {power_of_two(d)}."
        )
    return backend_of(X).hadamard(X)


def largest_entry(X: Array) -> float:
    """max |x| over all entries of X (dense or sparse), or NaN, without a temporary of its size."""
    return backend_of(X).largest_entry(X)


def add_adjoint(Z: np.ndarray, R: np.ndarray, total: np.ndarray) -> None:
    """total (c, D) += RᵀZ for Z (b, D) and R (b, c): fastest for some columns, up to 64.

    >>> total = np.zeros((1, 3))
    >>> add_adjoint(np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]), np.array([[1.0], [10.0]]), total)
    >>> total
    array([[41., 52., 63.]])
    """
    backend_of(Z).add_adjoint(Z, R, total)


__all__ = [
    "Backend",
    "Owner",
    "Prepared",
    "add_adjoint",
    "backend_of",
    "dense_like",
    "description",
    "fill",
    "hadamard",
    "host_view",
    "keeps_prepared",
    "kept",
    "largest_entry",
    "linear_on_parts",
    "multiply",
    "power_of_two",
    "scaled",
]

"""The backend for torch tensors on a CPU: portable code around a compiled Walsh–Hadamard transform
through which gradients flow."""

from __future__ import annotations

from typing import Any

from .._arrays import Array, is_traced
from . import cpp, portable
from .portable import (
    count_product,
    dense_product,
    largest_entry,
    linear,
    pair_gram,
    pair_terms,
    sign_product,
)


def hadamard_middle(A: Array) -> Array:  # (B, d, n) -> (B, d, n)
    """H_d applied along the middle axis; compiled if a gradient is to flow through it."""
    return _compiled(A) if _is_suited(A) else portable.hadamard_middle(A)


def _is_suited(A: Array) -> bool:
    import torch

    if A.shape[1] > cpp.LARGEST_HADAMARD or is_traced(A) or A.device.type != "cpu":
        return False
    is_real = A.dtype in (torch.float32, torch.float64)
    return is_real and A.requires_grad and not torch._C._functorch.is_functorch_wrapped_tensor(A)


def _compiled(A: Array) -> Array:
    """The compiled transform under autograd: H is symmetric, so its gradient is itself."""
    import torch

    class Transform(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, rows: Array) -> Array:
            out = torch.empty_like(rows)
            d = rows.shape[-1]
            cpp.fwht(rows.detach().numpy().reshape(-1, d), out.numpy().reshape(-1, d))
            return out

        @staticmethod
        def backward(ctx: Any, gradient: Array) -> Array:
            return Transform.apply(gradient.contiguous())

    return Transform.apply(A.transpose(1, 2).contiguous()).transpose(1, 2)


def hadamard(X: Array) -> Array:  # (n, d) -> (n, d)
    return hadamard_middle(X.T[None, :, :])[0, :, :].T


class TorchHadamardProduct(portable.HadamardProduct):
    transform = staticmethod(hadamard_middle)


class TorchSorf(portable.Sorf):
    transform = staticmethod(hadamard_middle)


class TorchWaves(portable.Waves):
    structured = TorchSorf


hadamard_product = TorchHadamardProduct
sorf = TorchSorf
waves = TorchWaves

__all__ = [
    "count_product",
    "dense_product",
    "hadamard",
    "hadamard_product",
    "largest_entry",
    "linear",
    "pair_gram",
    "pair_terms",
    "sign_product",
    "sorf",
    "waves",
]

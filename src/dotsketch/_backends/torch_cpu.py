"""The backend for torch tensors: compiled kernels on the CPU, in both directions of a gradient.

The kernels see the memory of the tensors. Their gradients are the same transforms, of which no
intermediate result is kept: a pullback computes the factors of a product again. Portable code takes
over for other devices and dtypes, for weights that are trained, for second derivatives, and under
`torch.compile` and `torch.func`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np
from array_api_compat import is_torch_array

from .._arrays import Array, ArrayT, HostParts, Parts, host, is_traced
from .._support.threads import run_all
from . import compiled, cpp, portable, transforms
from .portable import add_adjoint as add_adjoint
from .portable import dense_product as dense_product
from .portable import linear as linear
from .portable import pair_gram as pair_gram
from .portable import pair_terms as pair_terms
from .portable import sign_product as sign_product
from .prepared import Prepared, empty_parts, multiply

if TYPE_CHECKING:
    import torch


def _is_suited(rows: Array, signs: Any = None) -> bool:
    """Whether compiled code can work on the memory of these rows, with weights as drawn."""
    import torch

    if rows.device.type != "cpu" or is_traced(rows):
        return False
    if is_torch_array(signs) and (signs.is_floating_point() or is_traced(signs)):
        return False
    return rows.dtype in (torch.float32, torch.float64)


@dataclass(eq=False)
class _Differentiable:
    """A kernel for NumPy rows with its pullback, as an autograd node.

    Parameters
    ----------
    kernel, n_columns, is_complex : of NumPy rows
    widest : numbers per row of the widest array
    pullback : rows (n, d), gradient parts (n, D) -> the gradient of Σ Re(conj(gradient) · columns)
        with respect to the rows, (n, d)
    portable : the same columns in array API code, of which torch knows all derivatives
    """

    kernel: Prepared
    n_columns: int
    is_complex: bool
    widest: int
    pullback: Callable[[np.ndarray, HostParts], np.ndarray]
    portable: Callable[[Any], Prepared]

    def prepared(self) -> Prepared:
        def columns(rows: Any) -> Parts:
            real, *imaginary = _autograd_function().apply(rows, self)
            return real, imaginary[0] if imaginary else None

        # one node of the graph for many rows; blocks of them stay in the cache
        return Prepared(columns, self.widest, depends_on_chunk=False, chunk_bytes=1 << 27)

    def forward(self, rows: torch.Tensor) -> tuple[torch.Tensor, ...]:
        import torch

        memory = rows.detach().numpy()
        out = empty_parts(rows.shape[0], self.n_columns, memory.dtype, self.is_complex)

        def run(block: slice) -> None:
            self.kernel(
                memory[block], out=(out[0][block], None if out[1] is None else out[1][block])
            )

        workers = torch.get_num_threads()
        block_rows = len(memory) if workers == 1 else max(64, -(-len(memory) // (4 * workers)))
        run_all(run, _blocks(len(memory), block_rows), workers)
        return tuple(torch.from_numpy(part) for part in out if part is not None)

    def backward(self, rows: torch.Tensor, gradients: tuple[torch.Tensor, ...]) -> torch.Tensor:
        import torch

        memory = rows.detach().numpy()
        parts = [gradient.detach().numpy() for gradient in gradients]
        result = np.empty(memory.shape, dtype=memory.dtype)

        def run(block: slice) -> None:
            imaginary = parts[1][block] if self.is_complex else None
            result[block] = self.pullback(memory[block], (parts[0][block], imaginary))

        # several arrays of 2¹⁸ bytes fit into an L2 cache
        block_rows = max(16, (1 << 18) // (self.widest * memory.itemsize))
        run_all(run, _blocks(len(memory), block_rows), torch.get_num_threads())
        return torch.from_numpy(result)


@lru_cache(maxsize=1)
def _autograd_function() -> Any:
    """The autograd function of all kernels below; torch is imported when it is needed."""
    import torch

    class Compiled(torch.autograd.Function):
        @staticmethod
        def forward(
            ctx: Any, rows: torch.Tensor, kernel: _Differentiable
        ) -> tuple[torch.Tensor, ...]:
            ctx.save_for_backward(rows)
            ctx.kernel = kernel
            return kernel.forward(rows)

        @staticmethod
        def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, None]:
            (rows,) = ctx.saved_tensors
            if torch.is_grad_enabled():  # create_graph=True: derivatives of this gradient follow
                columns = ctx.kernel.portable(rows)(rows)
                parts = [part for part in columns if part is not None]
                [gradient] = torch.autograd.grad(parts, rows, gradients, create_graph=True)
                return gradient, None
            return ctx.kernel.backward(rows, gradients), None

    return Compiled


def hadamard_product(
    turns: Any, places: Any, n_columns: int, is_complex: bool, scale: float, rows: Array
) -> Prepared:
    """Products of projections P_i = H D_i, permuted: the gradient is Σ_i P_iᵀ (g Π_{j≠i} P_j x)."""
    arguments = (turns, places, n_columns, is_complex, scale)

    def of_tensors(rows: Array) -> Prepared:
        return portable.hadamard_product(*arguments, rows, transform=hadamard_middle)

    if places.shape[2] > cpp.LARGEST_HADAMARD or not _is_suited(rows, turns):
        return of_tensors(rows)
    turns, places, memory = host(turns), host(places), _host_like(rows)
    _, n_blocks, d = turns.shape

    def product(which: slice, scale: float) -> Prepared:
        weights = turns[which], places[which]
        return compiled.hadamard_product(*weights, n_columns, is_complex, scale, memory)

    @lru_cache(maxsize=1)
    def single_factors() -> list[Prepared]:
        return [product(slice(i, i + 1), 1.0) for i in range(len(turns))]

    def pullback(rows: np.ndarray, gradient: HostParts) -> np.ndarray:
        total = np.zeros((len(rows), d), dtype=rows.dtype)
        spread = np.empty_like(total)
        forward = np.zeros(d, dtype=np.int8)  # turns of a permutation, which has no signs
        signs = transforms.signs(turns, rows)
        factors = [factor(rows) for factor in single_factors()]
        for i, of_factor in _cofactors(factors, gradient):
            for b in range(n_blocks):
                columns = slice(b * d, min((b + 1) * d, n_columns))
                n_used = columns.stop - columns.start
                for part, sign in zip(of_factor, signs, strict=True):
                    if part is not None:
                        hashes = places[i, b, :n_used], forward[:n_used]
                        cpp.count_sketch(compiled.aligned(part[:, columns]), *hashes, spread, None)
                        total += compiled.hadamard(spread) * sign[i, b]
        total *= scale
        return total[:, : rows.shape[1]]

    kernel, widest = product(slice(None), scale), max(d, n_columns) * (1 + is_complex)
    node = _Differentiable(kernel, n_columns, is_complex, widest, pullback, of_tensors)
    return node.prepared()


def count_product(
    buckets: Any, turns: Any, n_columns: int, is_complex: bool, rows: Array
) -> Prepared:
    """Convolutions of count sketches: the gradient correlates with the others, and gathers."""
    arguments = (buckets, turns, n_columns, is_complex)

    def of_tensors(rows: Array) -> Prepared:
        return portable.count_product(*arguments, rows)

    if not _is_suited(rows, turns):
        return of_tensors(rows)
    on_host = (host(buckets), host(turns), n_columns, is_complex)

    def pullback(rows: np.ndarray, gradient: HostParts) -> np.ndarray:
        total = np.zeros(rows.shape, dtype=rows.dtype)
        signs = transforms.signs(on_host[1], rows)
        counts = compiled.count_sketches(rows, *on_host)
        spectra: list[Any] = [transforms.fourier(parts, axis=1) for parts in counts]
        transformed: Any = transforms.fourier(gradient, axis=1)
        parts = [(spectrum.real, spectrum.imag) for spectrum in spectra]
        for i, of_factor in _cofactors(parts, (transformed.real, transformed.imag)):
            spectrum = np.empty_like(transformed)
            spectrum.real, spectrum.imag = of_factor
            back: Any = transforms.inverse_fourier(spectrum, n_columns, is_complex, axis=1)
            for part, sign in zip(back, signs, strict=True):
                if part is not None:
                    total += np.take(part, on_host[0][i], axis=1) * sign[i]
        return total

    kernel = compiled.count_product(*on_host, _host_like(rows))
    widest = max(buckets.shape[1], n_columns) * (1 + is_complex)
    node = _Differentiable(kernel, n_columns, is_complex, widest, pullback, of_tensors)
    return node.prepared()


def sorf(signs: Any, scales: Any, rows: Array) -> Prepared:
    """H D₃ H D₂ H D₁: a linear map, whose gradient is D₁ H D₂ H D₃ H."""
    arguments = (signs, scales)

    def of_tensors(rows: Array) -> Prepared:
        return portable.sorf(*arguments, rows, transform=hadamard_middle)

    is_trained = is_torch_array(scales) and scales.requires_grad
    is_short = signs.shape[2] <= cpp.LARGEST_HADAMARD
    if is_trained or not is_short or not _is_suited(rows, signs):
        return of_tensors(rows)
    memory, signs = _host_like(rows), host(signs)
    scales = host(scales).astype(memory.dtype, copy=False)
    n_blocks, _, d = signs.shape
    n_columns = len(scales)

    @lru_cache(maxsize=1)
    def adjoints() -> list[Prepared]:
        ones = np.ones_like(signs[:, 0])
        backwards = np.stack([ones, signs[:, 2], signs[:, 1]], axis=1)
        return [compiled.sorf(block[None], np.ones(d), memory) for block in backwards]

    def pullback(rows: np.ndarray, gradient: HostParts) -> np.ndarray:
        padded = np.zeros((len(rows), n_blocks * d), dtype=rows.dtype)
        np.multiply(gradient[0], scales, out=padded[:, :n_columns])
        total = np.zeros((len(rows), d), dtype=rows.dtype)
        for b, adjoint in enumerate(adjoints()):
            total += adjoint(padded[:, b * d : (b + 1) * d])[0] * signs[b, 0]
        return total[:, : rows.shape[1]]

    kernel = compiled.sorf(signs, scales, memory)
    node = _Differentiable(kernel, n_columns, False, n_blocks * d, pullback, of_tensors)
    return node.prepared()


waves = partial(portable.waves, structured=sorf)


def _host_like(rows: Array) -> np.ndarray:
    """A NumPy array that stands for the memory of these tensors."""
    return np.empty((0, 0), dtype=str(rows.dtype).removeprefix("torch."))


def _blocks(n: int, size: int) -> list[slice]:
    return [slice(start, min(start + size, n)) for start in range(0, n, max(size, 1))]


def _cofactors(factors: list[Parts], gradient: Parts) -> Iterator[tuple[int, Any]]:
    """gradient · conj(Π_{j≠i} factors[j]) of every i, without a division; the last one first."""
    before: list[Parts] = []  # conj(Π_{j<i} factors[j]) of i = 1, 2, …
    conjugates = [(real, None if im is None else -im) for real, im in factors]
    for factor in conjugates[:-1]:
        before.append(multiply(before[-1], factor) if before else factor)
    for i in reversed(range(len(factors))):
        yield i, multiply(gradient, before[i - 1]) if i else gradient
        gradient = multiply(gradient, conjugates[i])


def hadamard_middle(A: Any) -> Any:  # (B, d, n) -> (B, d, n)
    """H_d applied along the middle axis; compiled if a gradient is to flow through it."""
    if not _is_suited(A) or not A.requires_grad or A.shape[1] > cpp.LARGEST_HADAMARD:
        return transforms.hadamard_middle(A)
    return _transform().apply(A.transpose(1, 2).contiguous()).transpose(1, 2)


@lru_cache(maxsize=1)
def _transform() -> Any:
    """The compiled transform under autograd: H is symmetric, so its gradient is itself."""
    import torch

    class Transform(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, rows: torch.Tensor) -> torch.Tensor:
            out = torch.empty_like(rows)
            d = rows.shape[-1]
            cpp.fwht(rows.detach().numpy().reshape(-1, d), out.numpy().reshape(-1, d))
            return out

        @staticmethod
        def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
            return _transform().apply(gradient.contiguous())

    return Transform


def hadamard(X: ArrayT) -> ArrayT:  # (n, d) -> (n, d)
    return hadamard_middle(X.T[None, :, :])[0, :, :].T


def largest_entry(X: Array) -> float:
    return compiled.largest_entry(host(X)) if _is_suited(X) else portable.largest_entry(X)

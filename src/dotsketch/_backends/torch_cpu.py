"""The backend for torch tensors: compiled kernels on the CPU, in both directions of a gradient.

The kernels see the memory of the tensors. Their gradients are the same transforms, of which no
intermediate result is kept: a pullback computes the factors of a product again. Portable code takes
over for other devices and dtypes, for weights that are trained, for second derivatives, and under
`torch.compile` and `torch.func`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property, lru_cache
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
from .prepared import CountFactors, HadamardFactors, Prepared, empty_parts, multiply

if TYPE_CHECKING:
    import torch

_BLOCK_BYTES = 1 << 18  # of one array of a pullback: several of them fit into an L2 cache


def _is_suited(rows: Array, signs: Any = None) -> bool:
    """Whether compiled code can work on the memory of these rows, with weights as drawn."""
    import torch

    if rows.device.type != "cpu" or is_traced(rows):
        return False
    if is_torch_array(signs) and (signs.is_floating_point() or is_traced(signs)):
        return False
    return rows.dtype in (torch.float32, torch.float64)


class _Compiled(Prepared):
    """Weights with a compiled kernel for NumPy rows, its pullback, and portable code."""

    chunk_bytes = 1 << 27  # one node of the graph for many rows; blocks of them stay in the cache
    depends_on_chunk = False
    n_columns: int
    is_complex: bool = False
    kernel: Prepared

    def columns(self, rows: Array) -> Parts:
        real, *imaginary = _autograd_function().apply(rows, self)
        return real, imaginary[0] if imaginary else None

    def portable(self, rows: Array) -> Parts:
        """The same in array API code, of which torch knows all derivatives."""
        raise NotImplementedError

    def pullback(self, rows: np.ndarray, gradient: HostParts) -> np.ndarray:  # (n, D) -> (n, d)
        """The gradient of Σ Re(conj(gradient) · columns) with respect to the rows."""
        raise NotImplementedError

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
        given = [gradient.detach().numpy() for gradient in gradients]
        result = np.empty(memory.shape, dtype=memory.dtype)

        def run(block: slice) -> None:
            imaginary = given[1][block] if self.is_complex else None
            result[block] = self.pullback(memory[block], (given[0][block], imaginary))

        block_rows = max(16, _BLOCK_BYTES // (self.widest * memory.itemsize))
        run_all(run, _blocks(len(memory), block_rows), torch.get_num_threads())
        return torch.from_numpy(result)


@lru_cache(maxsize=1)
def _autograd_function() -> Any:
    """The autograd function of all prepared weights below; torch is imported when it is needed."""
    import torch

    class Compiled(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, rows: torch.Tensor, prepared: _Compiled) -> tuple[torch.Tensor, ...]:
            ctx.save_for_backward(rows)
            ctx.prepared = prepared
            return prepared.forward(rows)

        @staticmethod
        def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, None]:
            (rows,) = ctx.saved_tensors
            if torch.is_grad_enabled():  # create_graph=True: derivatives of this gradient follow
                parts = [part for part in ctx.prepared.portable(rows) if part is not None]
                [gradient] = torch.autograd.grad(parts, rows, gradients, create_graph=True)
                return gradient, None
            return ctx.prepared.backward(rows, gradients), None

    return Compiled


class TorchHadamardProduct(_Compiled):
    """Products of projections P_i = H D_i, permuted: the gradient is Σ_i P_iᵀ (g Π_{j≠i} P_j x)."""

    def __init__(self, factors: HadamardFactors, rows: Array):
        self.given = factors
        turns, places, self.n_columns, self.is_complex, self.scale = factors
        self.turns, self.places = host(turns), host(places)
        self.widest = max(places.shape[2], self.n_columns) * (1 + self.is_complex)
        self.like = _host_like(rows)
        self.kernel = self._of_factors(slice(None), self.scale)

    def _of_factors(self, which: slice, scale: float) -> Prepared:
        weights = self.turns[which], self.places[which]
        factors = HadamardFactors(*weights, self.n_columns, self.is_complex, scale)
        return compiled.hadamard_product(factors, self.like)

    @cached_property
    def factors(self) -> list[Prepared]:
        return [self._of_factors(slice(i, i + 1), 1.0) for i in range(len(self.turns))]

    def portable(self, rows: Array) -> Parts:
        return PortableHadamardProduct(self.given, rows)(rows)

    def pullback(self, rows: np.ndarray, gradient: HostParts) -> np.ndarray:
        _, n_blocks, d = self.turns.shape
        total = np.zeros((len(rows), d), dtype=rows.dtype)
        spread = np.empty_like(total)
        forward = np.zeros(d, dtype=np.int8)  # turns of a permutation, which has no signs
        signs = transforms.signs(self.turns, rows)
        factors = [factor(rows) for factor in self.factors]
        for i, of_factor in _cofactors(factors, gradient):
            for b in range(n_blocks):
                kept = slice(b * d, min((b + 1) * d, self.n_columns))
                n_kept = kept.stop - kept.start
                for part, sign in zip(of_factor, signs, strict=True):
                    if part is not None:
                        hashes = self.places[i, b, :n_kept], forward[:n_kept]
                        cpp.count_sketch(compiled.aligned(part[:, kept]), *hashes, spread, None)
                        total += compiled.hadamard(spread) * sign[i, b]
        total *= self.scale
        return total[:, : rows.shape[1]]


class TorchCountProduct(_Compiled):
    """Convolutions of count sketches: the gradient correlates with the others, and gathers."""

    def __init__(self, factors: CountFactors, rows: Array):
        self.given = factors
        buckets, turns, self.n_columns, self.is_complex = factors
        self.buckets, self.turns = host(buckets), host(turns)
        self.widest = max(buckets.shape[1], self.n_columns) * (1 + self.is_complex)
        on_host = CountFactors(self.buckets, self.turns, self.n_columns, self.is_complex)
        self.kernel = compiled.count_product(on_host, _host_like(rows))
        self.counts = compiled.SpectralCountProduct(on_host).counts

    def portable(self, rows: Array) -> Parts:
        return portable.CountProduct(self.given, rows)(rows)

    def pullback(self, rows: np.ndarray, gradient: HostParts) -> np.ndarray:
        total = np.zeros(rows.shape, dtype=rows.dtype)
        signs = transforms.signs(self.turns, rows)
        spectra: list[Any] = [transforms.fourier(counts, axis=1) for counts in self.counts(rows)]
        transformed: Any = transforms.fourier(gradient, axis=1)
        parts = [(spectrum.real, spectrum.imag) for spectrum in spectra]
        for i, of_factor in _cofactors(parts, (transformed.real, transformed.imag)):
            spectrum = np.empty_like(transformed)
            spectrum.real, spectrum.imag = of_factor
            back: Any = transforms.inverse_fourier(
                spectrum, self.n_columns, self.is_complex, axis=1
            )
            for part, sign in zip(back, signs, strict=True):
                if part is not None:
                    total += np.take(part, self.buckets[i], axis=1) * sign[i]
        return total


class TorchSorf(_Compiled):
    """H D₃ H D₂ H D₁: a linear map, whose gradient is D₁ H D₂ H D₃ H."""

    def __init__(self, signs: Array, scales: Array, rows: Array):
        self.arguments = (signs, scales)
        self.signs = host(signs)
        like = _host_like(rows)
        self.scales = host(scales).astype(like.dtype, copy=False)
        self.n_columns = len(self.scales)
        self.widest = self.signs.shape[0] * self.signs.shape[2]
        self.kernel = compiled.sorf(self.signs, self.scales, like)
        ones = np.ones_like(self.signs[:, 0])
        backwards = np.stack([ones, self.signs[:, 2], self.signs[:, 1]], axis=1)
        unit = np.ones(self.signs.shape[2])
        self.adjoints = [compiled.sorf(block[None], unit, like) for block in backwards]

    def portable(self, rows: Array) -> Parts:
        return PortableSorf(*self.arguments, rows)(rows)

    def pullback(self, rows: np.ndarray, gradient: HostParts) -> np.ndarray:
        d = self.signs.shape[2]
        padded = np.zeros((len(rows), self.widest), dtype=rows.dtype)
        np.multiply(gradient[0], self.scales, out=padded[:, : self.n_columns])
        total = np.zeros((len(rows), d), dtype=rows.dtype)
        for b, adjoint in enumerate(self.adjoints):
            total += adjoint(padded[:, b * d : (b + 1) * d])[0] * self.signs[b, 0]
        return total[:, : rows.shape[1]]


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


class PortableHadamardProduct(portable.HadamardProduct):
    transform = staticmethod(hadamard_middle)


class PortableSorf(portable.Sorf):
    transform = staticmethod(hadamard_middle)


def hadamard_product(factors: HadamardFactors, rows: Array) -> Prepared:
    is_short = factors.places.shape[2] <= cpp.LARGEST_HADAMARD
    suited = is_short and _is_suited(rows, factors.turns)
    return (TorchHadamardProduct if suited else PortableHadamardProduct)(factors, rows)


def count_product(factors: CountFactors, rows: Array) -> Prepared:
    suited = _is_suited(rows, factors.turns)
    return (TorchCountProduct if suited else portable.CountProduct)(factors, rows)


def sorf(signs: Array, scales: Array, rows: Array) -> Prepared:
    is_fixed = not (is_torch_array(scales) and scales.requires_grad)
    suited = _is_suited(rows, signs) and signs.shape[2] <= cpp.LARGEST_HADAMARD
    return (TorchSorf if suited and is_fixed else PortableSorf)(signs, scales, rows)


class TorchWaves(portable.Waves):
    structured = staticmethod(sorf)


waves = TorchWaves

"""Compact bilinear pooling: a TensorSketch of the outer product of two feature vectors."""

from __future__ import annotations

from typing import Any, Self

import torch

from .._support.parameters import positive_integer
from ..sketches import BalancedTensorSketch, TensorSketch
from ..sketches.tensor_sketch import HashWeights
from .weights import Seed, Weighted, full_precision, host_generator


class CompactBilinearPooling(Weighted):
    """Σ over locations of a sketch of x ⊗ y, whose dot products estimate Σ Σ (x·x')(y·y').

    Coordinate i of x and j of y meet in column (h(i) + g(j)) mod out_features, with the product of
    two random signs (Gao et al., 2016). The transforms are summed over the locations before one
    inverse transform for each image.

    Parameters
    ----------
    in_features1, in_features2 : int, the channels of x and of y
    out_features : int
    sum_pool : bool, default=True
        Add up all locations; otherwise every location keeps its features.
    balanced : bool, default=True
        Hashes that spread the channels evenly over the columns, which often has less variance.
    generator : torch.Generator, int or None

    Examples
    --------
    >>> import torch
    >>> from dotsketch.nn import CompactBilinearPooling
    >>> pool = CompactBilinearPooling(16, 16, 256, generator=0)
    >>> pool(torch.randn(4, 16, 7, 7)).shape
    torch.Size([4, 256])
    """

    def __init__(
        self,
        in_features1: int,
        in_features2: int,
        out_features: int,
        sum_pool: bool = True,
        *,
        balanced: bool = True,
        generator: Seed = None,
    ):
        super().__init__()
        self.in_features = (
            positive_integer("in_features1", in_features1),
            positive_integer("in_features2", in_features2),
        )
        self.out_features = positive_integer("out_features", out_features)
        self.sum_pool = bool(sum_pool)
        self.sketch = (BalancedTensorSketch if balanced else TensorSketch)(1, out_features)
        self.register_weights(self._draw(generator))

    def _draw(self, generator: Seed) -> list[HashWeights]:
        rng = host_generator(generator)
        both = (self.sketch.sample(width, rng) for width in self.in_features)
        return [HashWeights(*(array[0] for array in weights)) for weights in both]  # of degree one

    def resample_(self, generator: Seed = None) -> Self:
        """Draw the weights anew, in place."""
        self.set_weights(self._draw(generator))
        return self

    def forward(self, x: torch.Tensor, y: torch.Tensor | None = None) -> torch.Tensor:
        """(batch, channels, …) of x and y (x if None) -> (batch, out_features), or with
        sum_pool=False (batch, out_features, …)."""
        y = x if y is None else y
        if x.ndim < 2 or x.shape[0] != y.shape[0] or x.shape[2:] != y.shape[2:]:
            raise ValueError(
                "x and y must be (batch, channels, …) with the same batch and locations; got "
                f"{tuple(x.shape)} and {tuple(y.shape)}."
            )
        with full_precision(x):
            first, second = self.assembled()
            product = self._spectrum(x, 0, first) * self._spectrum(y, 1, second)
            if self.sum_pool:
                product = product.sum(dim=2, keepdim=True)
            Z = torch.fft.irfft(product, n=self.out_features, dim=1).to(x.dtype)
        locations = () if self.sum_pool else x.shape[2:]
        return Z.reshape(x.shape[0], self.out_features, *locations)

    def _spectrum(self, x: torch.Tensor, number: int, weights: Any) -> torch.Tensor:
        """The transform of the counts, (batch, channels, …) -> (batch, D/2 + 1, locations)."""
        width = self.in_features[number]
        if x.shape[1] != width:
            raise ValueError(
                f"Input {number + 1} must have {width} channels; its shape is {tuple(x.shape)}."
            )
        rows = x.reshape(x.shape[0], width, -1)
        rows = rows.to(torch.float64 if x.dtype == torch.float64 else torch.float32)
        signs = (1 - weights.turns.to(rows.dtype))[:, None]  # the turns 0 and 2
        counts = rows.new_zeros(x.shape[0], self.out_features, rows.shape[2])
        return torch.fft.rfft(counts.index_add(1, weights.buckets, signs * rows), dim=1)

    def extra_repr(self) -> str:
        return f"{self.in_features}, {self.out_features}, sum_pool={self.sum_pool}"

"""Layers of random features: a polynomial sketch, and any fitted feature map."""

from __future__ import annotations

import math
from copy import copy
from typing import Any, Self

import torch

from .._arrays import OUTPUTS, Array, join
from .._support.parameters import one_of, positive_integer
from ..features import FeatureMap, check_fitted
from ..kernels import Polynomial
from ..sketches import make_sketch
from .weights import Seed, Weighted, full_precision, host_generator, working_rows


class SketchLayer(Weighted):
    """Random features of the polynomial kernel (gamma x·y + coef0)^degree, as a layer.

    On the CPU, tensors of float32 and float64 use the compiled kernels in both directions; other
    devices, trained weights, `torch.compile` and `torch.func` use portable torch code. Half
    precision is computed in float32, also under autocast; the result has the dtype of x.

    Parameters
    ----------
    in_features, out_features : int
        The last axis of x, and that of the result.
    degree : int, default=2
    sketch : str, default="tensor_srht"
        See `dotsketch.sketches`.
    output : {"real", "complex", "complex_to_real"}, default="real"
        As for `PolynomialSketch`.
    gamma, coef0 : float, default=1.0 and 0.0
    trainable : bool, default=False
        Make the weights parameters, which start at the random draw: signs become real numbers,
        hashes and permutations stay as they are. For output="real".
    generator : torch.Generator, int or None
        What the weights are drawn from; None is torch's global generator (`torch.manual_seed`).

    Examples
    --------
    >>> import torch
    >>> from dotsketch.nn import SketchLayer
    >>> layer = SketchLayer(16, 64, degree=3, generator=0)
    >>> layer(torch.ones(2, 5, 16)).shape
    torch.Size([2, 5, 64])
    >>> sorted(layer.state_dict())
    ['weights_places', 'weights_turns']
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        *,
        degree: int = 2,
        sketch: str = "tensor_srht",
        output: str = "real",
        gamma: float = 1.0,
        coef0: float = 0.0,
        trainable: bool = False,
        generator: Seed = None,
    ):
        super().__init__()
        self.in_features = positive_integer("in_features", in_features)
        self.out_features = positive_integer("out_features", out_features)
        one_of("output", output, OUTPUTS)
        if output == "complex_to_real" and out_features % 2:
            raise ValueError(
                f"complex_to_real returns pairs of columns: out_features={out_features} must be "
                f"even; use {out_features + 1}."
            )
        Polynomial(degree, gamma=gamma, coef0=coef0)  # refuses what has no meaning
        self.output, self.gamma, self.coef0 = output, float(gamma), float(coef0)
        n_projections = out_features // (2 if output == "complex_to_real" else 1)
        field = "real" if output == "real" else "complex"
        self.sketch = make_sketch(sketch, degree, n_projections, field)
        weights = self.sketch.sample(self._width, host_generator(generator))
        self.register_weights(weights, trainable=trainable, dtype=torch.get_default_dtype())

    @property
    def _width(self) -> int:
        return self.in_features + (self.coef0 > 0)

    def resample_(self, generator: Seed = None) -> Self:
        """Draw the weights anew, in place."""
        self.set_weights(self.sketch.sample(self._width, host_generator(generator)))
        return self

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # (…, in_features) -> (…, out_features)
        rows = working_rows(x, self.in_features)
        with full_precision(x):
            if self.gamma != 1:
                rows = rows * math.sqrt(self.gamma)
            if self.coef0:
                constant = torch.full_like(rows[:, :1], math.sqrt(self.coef0))
                rows = torch.cat([rows, constant], dim=1)
            Z: Any = join(self.sketch.prepare(self.assembled(), rows)(rows), self.output)
        return as_given(Z, x)

    def extra_repr(self) -> str:
        return f"{self.in_features}, {self.out_features}, {self.sketch}, output={self.output!r}"


class FeatureLayer(Weighted):
    """Any fitted feature map of dotsketch as a layer; its random weights are buffers.

    The layer computes what `features.transform` does, without a scan of x for NaN. Numbers that
    are not weights (lengthscales, coefficients) are constants. Weights are float64, as fitted, and
    converted to the dtype in which x is worked on (`layer.float()` converts them once).

    Parameters
    ----------
    features : a fitted feature map, such as FourierFeatures(Gaussian()).fit(X)
    trainable : bool, default=False
        Make the weights parameters, which start at the random draw: signs become real numbers,
        hashes and permutations stay as they are. For real weights.

    Examples
    --------
    >>> import torch
    >>> from dotsketch import FourierFeatures, Gaussian
    >>> from dotsketch.nn import FeatureLayer
    >>> X = torch.randn(50, 8)
    >>> layer = FeatureLayer(FourierFeatures(Gaussian(), n_components=32, random_state=0).fit(X))
    >>> layer(X.reshape(5, 10, 8)).shape
    torch.Size([5, 10, 32])
    """

    def __init__(
        self,
        features: FeatureMap,
        *,
        trainable: bool = False,
    ):
        super().__init__()
        if not isinstance(features, FeatureMap):
            raise TypeError(f"features must be a feature map of dotsketch; got {features!r}.")
        check_fitted(features)
        self.in_features = features.n_features_in_
        self.out_features = features._n_features_out
        self.register_weights(features, trainable=trainable)

    @property
    def description(self) -> FeatureMap:
        """The feature map that was given, without its weights."""
        return self._nest

    def resample_(self, generator: Seed = None, rows: Array | None = None) -> Self:
        """Draw the weights anew, in place.

        `rows` are those that the features were fitted to: needed where the weights are rows.
        """
        features = owner = copy(self.description)
        while hasattr(owner, "features_"):  # those that AutoFeatures chose
            owner.features_ = owner = copy(owner.features_)
        owner.weights_ = owner.design_.sample(host_generator(generator), rows)
        self.set_weights(features)
        return self

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # (…, in_features) -> (…, out_features)
        rows = working_rows(x, self.in_features)
        with full_precision(x):
            Z = transformed(self, rows)
        return as_given(Z, x)

    def extra_repr(self) -> str:
        return f"{self.in_features}, {self.out_features}, {type(self.description).__name__}"


@torch._dynamo.nonstrict_trace
def transformed(layer: FeatureLayer, rows: torch.Tensor) -> torch.Tensor:  # (n, d) -> (n, D)
    """The features, which `torch.compile` records as tensor operations.

    It does not read the code: designs and kernels compute with NumPy arrays on the way.
    """
    features = layer.assembled()
    return features.design_.apply(rows, features.weights_)


def as_given(Z: torch.Tensor, x: torch.Tensor) -> torch.Tensor:  # (n, D) -> (…, D)
    """Features in the shape of x, and in its dtype unless they are complex."""
    Z = Z.reshape(*x.shape[:-1], Z.shape[-1])
    return Z if Z.is_complex() else Z.to(x.dtype)

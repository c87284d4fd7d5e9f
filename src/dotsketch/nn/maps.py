"""Feature maps for linear attention: (z(q)·z(k))ˢ in place of a kernel of queries and keys."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from .._support.parameters import one_of, positive_integer
from ..features import MaclaurinFeatures, PositiveFeatures
from ..kernels import Exponential
from .layers import FeatureLayer, SketchLayer
from .weights import Seed, host_generator

METHODS = ("maclaurin", "positive")


class PolynomialMap(SketchLayer):
    """Weights (z(q)·z(k))², never negative, with a sketch z of half the degree.

    The kernel is (gamma q·k + coef0)^degree, with an even degree. The features are the tensor
    square z ⊗ z, of which only z is formed: num_features numbers for each position. The state of
    attention has num_features² rows. The mean of (z(q)·z(k))² is the kernel plus the variance of
    z(q)·z(k), which falls as 1/num_features.

    Parameters
    ----------
    head_dim : int, the size of queries and keys
    num_features : int, default=32
    degree : int, default=4, an even number
    gamma : float or None, default=None for 1/√head_dim
    coef0 : float, default=0.0
    sketch : str, default="tensor_srht"
    trainable, generator : as for `SketchLayer`

    Examples
    --------
    >>> import torch
    >>> from dotsketch.nn import PolynomialMap
    >>> square = PolynomialMap(8, 64, degree=2, coef0=1.0, generator=0)
    >>> q, k = torch.ones(1, 8), torch.ones(1, 8) / 2
    >>> approximate = (square(q) @ square(k).T) ** square.power
    >>> torch.allclose(approximate, square.kernel(q, k), rtol=0.1)
    True
    """

    power = 2

    def __init__(
        self,
        head_dim: int,
        num_features: int = 32,
        *,
        degree: int = 4,
        gamma: float | None = None,
        coef0: float = 0.0,
        sketch: str = "tensor_srht",
        trainable: bool = False,
        generator: Seed = None,
    ):
        if positive_integer("degree", degree) % 2:
            raise ValueError(f"degree must be even: weights are squares; got {degree}.")
        super().__init__(
            head_dim,
            num_features,
            degree=degree // 2,
            sketch=sketch,
            gamma=head_dim**-0.5 if gamma is None else gamma,
            coef0=coef0,
            trainable=trainable,
            generator=generator,
        )
        self.degree = degree

    def kernel(self, q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:  # (…, t, d) -> (…, t, s)
        """(gamma q·k + coef0)^degree, exactly."""
        return (self.gamma * (q @ k.transpose(-1, -2)) + self.coef0) ** self.degree

    def extra_repr(self) -> str:
        return f"degree={self.degree}"


class SoftmaxMap(FeatureLayer):
    """Features of the kernel of softmax attention, exp(q·k/√head_dim).

    method="maclaurin" sketches the powers of its series, with the columns spread over the degrees
    for queries and keys of about the given norm; `expected_error` is known before anything is
    drawn. Weights may be negative, so `linear_attention` keeps their sums above `least_weight`
    times the number of keys. method="positive" (FAVOR+) has positive weights and, unless norms are
    large, more variance.

    Parameters
    ----------
    head_dim : int, the size of queries and keys
    num_features : int, default=128
    method : {"maclaurin", "positive"}, default="maclaurin"
    norm : float or None, default=None for √2 · head_dim^(1/4)
        The norm of queries and keys in use: exponents are then at most norm²/√head_dim (2).
        `SketchAttention(qk_norm=True)` keeps it.
    sketch : str, default="tensor_srht", for method="maclaurin"
    trainable, generator : as for `FeatureLayer`

    Attributes
    ----------
    expected_error : float, relative error of the kernel for random directions of that norm
    least_weight : float, exp(−norm²/√head_dim), the least value of the kernel for that norm; 0 for
        method="positive"

    Examples
    --------
    >>> from dotsketch.nn import SoftmaxMap
    >>> maclaurin = SoftmaxMap(16, 256, generator=0)
    >>> positive = SoftmaxMap(16, 256, method="positive", generator=0)
    >>> print(f"{maclaurin.expected_error:.2f} {positive.expected_error:.2f}")
    0.06 0.87
    """

    power = 1

    def __init__(
        self,
        head_dim: int,
        num_features: int = 128,
        *,
        method: str = "maclaurin",
        norm: float | None = None,
        sketch: str = "tensor_srht",
        trainable: bool = False,
        generator: Seed = None,
    ):
        one_of("method", method, METHODS)
        norm = norm or math.sqrt(2) * positive_integer("head_dim", head_dim) ** 0.25
        rng = host_generator(generator)
        kernel = Exponential(lengthscale=head_dim**0.25)
        features: Any = MaclaurinFeatures(kernel, sketch=sketch, n_components=num_features)
        if method == "positive":
            is_even = num_features % 2 == 0
            features = PositiveFeatures(kernel, n_components=num_features, hyperbolic=is_even)
        directions = rng.standard_normal((256, head_dim))
        rows = norm * directions / np.linalg.norm(directions, axis=1, keepdims=True)
        super().__init__(features.set_params(random_state=rng).fit(rows), trainable=trainable)
        self.method, self.norm = method, norm
        self.expected_error = self.predicted_error(torch.from_numpy(rows))
        # positive features need no bound, and theirs holds for any norm
        is_signed = method == "maclaurin"
        self.least_weight = math.exp(-(norm**2) / math.sqrt(head_dim)) if is_signed else 0.0

    def predicted_error(self, x: torch.Tensor) -> float:  # (…, head_dim)
        """The relative error of the kernel between rows of x: root mean square, over that of k.

        It is a closed form, of these norms and angles and not of the weights that were drawn.
        """
        rows = x.detach().reshape(-1, self.in_features).cpu().double().numpy()
        return float(self.description.expected_error_on(rows).relative_error)

    def kernel(self, q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:  # (…, t, d) -> (…, t, s)
        """exp(q·k/√head_dim), exactly up to e⁶⁰: sums over keys stay finite in float32."""
        return torch.exp((q @ k.transpose(-1, -2) / math.sqrt(self.in_features)).clamp(max=60))

    def extra_repr(self) -> str:
        return f"{self.method}, norm={self.norm:.3g}, expected_error={self.expected_error:.2g}"

"""A kernel for GPyTorch whose Gram matrix has the rank of the features.

Needs torch and gpytorch (`pip install 'dotsketch[gpytorch]'`), which are imported with this module
and not with `dotsketch`.
"""

from __future__ import annotations

from typing import Any

import torch
from gpytorch.kernels import Kernel
from gpytorch.models.exact_prediction_strategies import LinearPredictionStrategy
from linear_operator.operators import (
    LowRankRootLinearOperator,
    MatmulLinearOperator,
    RootLinearOperator,
)
from sklearn.base import clone

from .features import FeatureMap
from .nn import FeatureLayer


class SketchKernel(Kernel):
    """k(x, y) ≈ z(x/l)·z(y/l) with any feature map z of dotsketch and lengthscales l to learn.

    The Gram matrix of n rows is a low-rank linear operator: the evidence and the predictions of an
    `ExactGP` take O(n D²) time and O(n D) memory for D features, and no n × n matrix is formed.

    Parameters
    ----------
    features : FeatureMap
        Fitted features; or features that are not fitted yet, which are fitted to `train_x`. With a
        real output. One draw of the weights is kept for the whole training, so that the evidence is
        smooth.
    train_x : (n, d) or None
        The training rows. Kernels that do not depend on the origin (Gaussian, Matérn) then scale
        differences from their mean, where Maclaurin and positive features are most accurate.
    ard_num_dims, batch_shape, lengthscale_prior, lengthscale_constraint, … : of gpytorch's Kernel
        Use ard_num_dims=d for one lengthscale for each column.

    The lengthscale starts at 1 and multiplies that of the features' own kernel. Wrap the kernel in
    `gpytorch.kernels.ScaleKernel` for a variance. The posterior of features alone is overconfident
    away from the data, as that of every kernel of finite rank: use more features than the data
    need.

    Examples
    --------
    >>> import torch
    >>> from dotsketch import FourierFeatures, Gaussian
    >>> from dotsketch.gpytorch import SketchKernel
    >>> X = torch.randn(100, 3)
    >>> features = FourierFeatures(Gaussian(lengthscale=1.0), n_components=64, random_state=0)
    >>> kernel = SketchKernel(features, X, ard_num_dims=3)
    >>> kernel.lengthscale = torch.tensor([1.0, 2.0, 4.0])
    >>> type(kernel(X).evaluate_kernel()).__name__
    'LowRankRootLinearOperator'
    """

    has_lengthscale = True

    def __init__(self, features: FeatureMap, train_x: torch.Tensor | None = None, **kwargs: Any):
        super().__init__(**kwargs)
        if not isinstance(features, FeatureMap):
            raise TypeError(f"features must be a feature map of dotsketch; got {features!r}.")
        if features.output == "complex":
            raise ValueError('GPyTorch has real kernels: use output="complex_to_real".')
        if not hasattr(features, "n_features_in_"):
            if train_x is None:
                raise ValueError("These features are not fitted: pass train_x, the training rows.")
            features = clone(features).fit(train_x.detach())
        self.layer = FeatureLayer(features)
        centre = torch.zeros(features.n_features_in_, dtype=torch.float64)
        if train_x is not None and features.kernel_.shift_invariant:
            centre = train_x.detach().double().mean(dim=-2)
        self.register_buffer("centre", centre)
        self.lengthscale = 1.0

    def features_of(self, x: torch.Tensor) -> torch.Tensor:  # (…, n, d) -> (…, n, D)
        """The features of rows, with the lengthscales of this kernel."""
        centre = self.centre.to(x.dtype)
        return self.layer((x - centre) / self.lengthscale + centre)

    def forward(self, x1: torch.Tensor, x2: torch.Tensor, diag: bool = False, **params: Any) -> Any:
        Z = self.features_of(x1)
        is_same = x1.shape == x2.shape and torch.equal(x1, x2)
        other = Z if is_same else self.features_of(x2)
        if diag:
            return (Z * other).sum(dim=-1)
        if not is_same:
            return MatmulLinearOperator(Z, other.transpose(-1, -2))
        is_low_rank = Z.shape[-1] < Z.shape[-2]
        return (LowRankRootLinearOperator if is_low_rank else RootLinearOperator)(Z)

    def prediction_strategy(
        self, train_inputs: Any, train_prior_dist: Any, train_labels: Any, likelihood: Any
    ) -> LinearPredictionStrategy:
        """Predictions from D × D matrices in place of n × n ones."""
        return LinearPredictionStrategy(train_inputs, train_prior_dist, train_labels, likelihood)

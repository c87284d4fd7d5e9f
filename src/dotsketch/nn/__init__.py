"""Modules for PyTorch: layers of random features, attention in linear time, bilinear pooling.

Needs torch, which is imported with this module and not with `dotsketch`.

- `SketchLayer`, `FeatureLayer`: random features as layers, weights as buffers
- `functional.linear_attention`: causal or not, with a state for decoding step by step
- `PolynomialMap`, `SoftmaxMap`: feature maps for it
- `SketchAttention`: multi-head attention with such a map
- `CompactBilinearPooling`: a TensorSketch of all products of two feature vectors
"""

from . import functional
from .attention import SketchAttention
from .functional import AttentionState, linear_attention
from .layers import FeatureLayer, SketchLayer
from .maps import PolynomialMap, SoftmaxMap
from .pooling import CompactBilinearPooling

__all__ = [
    "AttentionState",
    "CompactBilinearPooling",
    "FeatureLayer",
    "PolynomialMap",
    "SketchAttention",
    "SketchLayer",
    "SoftmaxMap",
    "functional",
    "linear_attention",
]

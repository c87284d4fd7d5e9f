"""The kernels that are approximated.

Every kernel here is a triple (s, w, a):

    k(x, y) = w(x) w(y) Σ_n a_n ⟨s(x), s(y)⟩ⁿ,   a_n ≥ 0,

a scaling of the inputs, a weight, and Maclaurin coefficients. The Gaussian kernel is one of them:
s(x) = x/l, w(x) = exp(−|x/l|²/2), a_n = variance/n!.

Kernels follow scikit-learn's parameter protocol, so that `kernel__lengthscale` can be searched.
A parameter may be a scalar array of the library of X; then gradients flow to it.
"""

from .arc_cosine import ArcCosine
from .base import DotProductKernel, directions
from .exponential import Exponential
from .gaussian import Gaussian, median_distance
from .maclaurin import Maclaurin
from .polynomial import Polynomial

__all__ = [
    "ArcCosine",
    "DotProductKernel",
    "Exponential",
    "Gaussian",
    "Maclaurin",
    "Polynomial",
    "directions",
    "median_distance",
]

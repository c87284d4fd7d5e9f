"""The kernels that are approximated.

Every kernel here is a triple (s, w, a):

    k(x, y) = w(x) w(y) Σ_n a_n ⟨s(x), s(y)⟩ⁿ,   a_n ≥ 0,

a scaling of the inputs, a weight, and Maclaurin coefficients. The Gaussian kernel is one of them:
s(x) = x/l, w(x) = exp(−|x/l|²/2), a_n = variance/n!.

Kernels can be added and multiplied (`algebra`): `Polynomial(2) + Exponential()`, `2.0 * Matern()`.

Kernels follow scikit-learn's parameter protocol, so that `kernel__lengthscale` can be searched.
A parameter may be a scalar array of the library of X; then gradients flow to it.
"""

from .algebra import DotProductProduct, DotProductSum, Product, Sum
from .arc_cosine import ArcCosine
from .base import DotProductKernel, ExpandedKernel, Kernel
from .distance import DistanceKernel, median_distance
from .exponential import Exponential
from .gaussian import Gaussian
from .inputs import directions
from .maclaurin import Maclaurin
from .matern import Matern
from .polynomial import Polynomial
from .tanimoto import Tanimoto

__all__ = [
    "ArcCosine",
    "DistanceKernel",
    "DotProductKernel",
    "DotProductProduct",
    "DotProductSum",
    "ExpandedKernel",
    "Exponential",
    "Gaussian",
    "Kernel",
    "Maclaurin",
    "Matern",
    "Polynomial",
    "Product",
    "Sum",
    "Tanimoto",
    "directions",
    "median_distance",
]

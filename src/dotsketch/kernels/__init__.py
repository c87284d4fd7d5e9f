"""The kernels that are approximated.

A dot product kernel is a triple (s, w, a):

    k(x, y) = w(x) w(y) Σ_n a_n ⟨s(x), s(y)⟩ⁿ,   a_n ≥ 0,

a scaling of the inputs, a weight, and Maclaurin coefficients. The Gaussian kernel is one of them:
s(x) = x/l, w(x) = exp(−|x/l|²/2), a_n = variance/n!.

Others are a function of the distance (`distance`), or have a law of their own. Kernels can be added
and multiplied (`algebra`), and see some inputs only (`on`): `Polynomial(2) + 2.0 * Matern().on(0)`.

Kernels follow scikit-learn's parameter protocol, so that `kernel__lengthscale` can be searched.
A parameter may be a scalar array of the library of X; then gradients flow to it.
"""

from .algebra import Composite, DotProductProduct, DotProductSum, Product, Sum
from .arc_cosine import ArcCosine
from .base import DotProductKernel, ExpandedKernel, Kernel
from .distance import DistanceKernel, median_distance
from .exponential import Exponential, Gaussian
from .foreign import ForeignKernel, as_kernel
from .inputs import directions
from .maclaurin import Maclaurin
from .matern import Matern
from .on import On
from .periodic import Periodic
from .polynomial import Linear, Polynomial
from .rational_quadratic import RationalQuadratic
from .tanimoto import Tanimoto

__all__ = [
    "ArcCosine",
    "Composite",
    "DistanceKernel",
    "DotProductKernel",
    "DotProductProduct",
    "DotProductSum",
    "ExpandedKernel",
    "Exponential",
    "ForeignKernel",
    "Gaussian",
    "Kernel",
    "Linear",
    "Maclaurin",
    "Matern",
    "On",
    "Periodic",
    "Polynomial",
    "Product",
    "RationalQuadratic",
    "Sum",
    "Tanimoto",
    "as_kernel",
    "directions",
    "median_distance",
]

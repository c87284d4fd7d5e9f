"""The estimators: random features as scikit-learn transformers.

They validate, choose a sketch, draw its weights in `fit` and evaluate it in `transform`.
NumPy, pandas and SciPy sparse input gives NumPy features; a torch, JAX or other array API input
gives features of that library, on its device, with gradients.
"""

from .base import FeatureMap
from .fourier import FourierFeatures, FourierMap
from .maclaurin import Allocation, MaclaurinFeatures
from .nystrom import NystromFeatures
from .polynomial import PolynomialSketch
from .positive import PositiveFeatures, PositiveMap
from .spherical import RadialDensity, SphericalFeatures, SphericalMap

__all__ = [
    "Allocation",
    "FeatureMap",
    "FourierFeatures",
    "FourierMap",
    "MaclaurinFeatures",
    "NystromFeatures",
    "PolynomialSketch",
    "PositiveFeatures",
    "PositiveMap",
    "RadialDensity",
    "SphericalFeatures",
    "SphericalMap",
]

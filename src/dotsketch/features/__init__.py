"""The families of features: random features as scikit-learn transformers, one file each.

They validate, choose a sketch, draw its weights in `fit` and evaluate it in `transform`. An
unfitted estimator is a candidate of a plan (`expected_error`); `FAMILIES` lists what is compared.
NumPy, pandas and SciPy sparse input gives NumPy features; a torch, JAX or other array API input
gives features of that library, on its device, with gradients.
"""

from .base import FeatureMap
from .errors import ExpectedError, Unsuited
from .fourier import FourierFeatures, FourierMap
from .maclaurin import Allocation, MaclaurinFeatures
from .nystrom import NystromFeatures
from .polynomial import PolynomialSketch
from .positive import PositiveFeatures, PositiveMap
from .samples import check_rows
from .spherical import RadialDensity, SphericalFeatures, SphericalMap
from .study import Study, check_kernel

# In the order in which plans compare them; a new family needs this line, and no other elsewhere
FAMILIES: dict[str, type[FeatureMap]] = {
    estimator.family: estimator
    for estimator in (
        MaclaurinFeatures,
        PolynomialSketch,
        FourierFeatures,
        SphericalFeatures,
        PositiveFeatures,
        NystromFeatures,
    )
}

__all__ = [
    "FAMILIES",
    "Allocation",
    "ExpectedError",
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
    "Study",
    "Unsuited",
    "check_kernel",
    "check_rows",
]

"""The families of features: random features as scikit-learn transformers.

Description → design → weights → apply: the parameters of an estimator describe features, `design`
is what the data decide (`Study`), `Design.sample` draws weights, and `Design.apply` evaluates them.
An unfitted estimator is a candidate of a plan; `FAMILIES` lists what is compared. NumPy, pandas and
SciPy sparse input gives NumPy features; a torch, JAX or other array API input gives features of
that library, on its device, with gradients.
"""

from .base import FeatureMap, check_fitted, check_foreign, check_rows, is_valid
from .design import Design, Unsuited
from .fourier import FourierDesign, FourierFeatures
from .maclaurin import Allocation, MaclaurinDesign, MaclaurinFeatures
from .nystrom import NystromDesign, NystromFeatures
from .polynomial import PolynomialDesign, PolynomialSketch
from .positive import PositiveDesign, PositiveFeatures
from .spherical import RadialDensity, SphericalDesign, SphericalFeatures
from .study import ExpectedError, Study, check_kernel

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
    "Design",
    "ExpectedError",
    "FeatureMap",
    "FourierDesign",
    "FourierFeatures",
    "MaclaurinDesign",
    "MaclaurinFeatures",
    "NystromDesign",
    "NystromFeatures",
    "PolynomialDesign",
    "PolynomialSketch",
    "PositiveDesign",
    "PositiveFeatures",
    "RadialDensity",
    "SphericalDesign",
    "SphericalFeatures",
    "Study",
    "Unsuited",
    "check_fitted",
    "check_foreign",
    "check_kernel",
    "check_rows",
    "is_valid",
]

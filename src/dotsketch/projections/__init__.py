"""Random linear maps, one per file: the factors of every sketch, and frequencies.

`GaussianProjection`, `RademacherProjection` and `HadamardProjection` have rows w with
E[w w*] = I; sketches are products and trees of them. `Frequencies` are real rows with given norms,
independent, orthogonal or structured ("sorf"), for Fourier, spherical and positive features.
"""

from .base import Projection
from .frequencies import (
    PROJECTIONS,
    Frequencies,
    orthogonal_covariance,
    sphere_mean,
)
from .gaussian import GaussianProjection
from .hadamard import HadamardProjection
from .rademacher import RademacherProjection

__all__ = [
    "PROJECTIONS",
    "Frequencies",
    "GaussianProjection",
    "HadamardProjection",
    "Projection",
    "RademacherProjection",
    "orthogonal_covariance",
    "sphere_mean",
]

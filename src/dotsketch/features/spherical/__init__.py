"""Spherical random features: Fourier features of a dot product kernel on the unit sphere.

- `density`: the mixture of frequencies that is closest to a kernel, and its moments
- `features`: the estimator
"""

from .density import RadialDensity, SphericalMap, predicted_errors
from .features import SphericalFeatures

__all__ = ["RadialDensity", "SphericalFeatures", "SphericalMap", "predicted_errors"]

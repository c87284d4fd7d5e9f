"""Random features for dot product kernels, with their error known in closed form.

The layers, each importing only those above it:

- `kernels`: what is approximated, k(x, y) = w(x) w(y) Σ a_n ⟨s(x), s(y)⟩ⁿ
- `pairs`: the statistics of a pair of inputs that every variance depends on
- `sketches`: random feature maps of ⟨x, y⟩ᵖ, with variance and pseudo-variance in closed form
- `features`: the scikit-learn transformers
- `metrics`: how good an approximation is
"""

from importlib.metadata import version as _version

from ._versions import show_versions
from .features import PolynomialSketch
from .kernels import ArcCosine, DotProductKernel, Exponential, Gaussian, Maclaurin, Polynomial
from .metrics import relative_frobenius_error
from .pairs import PairStatistics
from .sketches import (
    SKETCHES,
    BalancedTensorSketch,
    CompactSketch,
    GaussianSketch,
    RademacherSketch,
    RademacherTree,
    Sketch,
    SRHTTree,
    TensorSketch,
    TensorSRHT,
    make_sketch,
)

__version__ = _version("dotsketch")

__all__ = [
    "SKETCHES",
    "ArcCosine",
    "BalancedTensorSketch",
    "CompactSketch",
    "DotProductKernel",
    "Exponential",
    "Gaussian",
    "GaussianSketch",
    "Maclaurin",
    "PairStatistics",
    "Polynomial",
    "PolynomialSketch",
    "RademacherSketch",
    "RademacherTree",
    "SRHTTree",
    "Sketch",
    "TensorSRHT",
    "TensorSketch",
    "make_sketch",
    "relative_frobenius_error",
    "show_versions",
]

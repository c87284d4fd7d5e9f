"""Random features for dot product kernels, with their error known in closed form.

The names below are the front door. The rooms, each importing only those above it, have the rest:

- `kernels`: what is approximated
- `pairs`: the statistics of a pair of inputs that every variance depends on
- `metrics`: how good an approximation or a prediction is
- `projections`: random linear maps, and frequencies
- `sketches`: random feature maps of ⟨x, y⟩ᵖ, with variance and pseudo-variance in closed form
- `features`: the scikit-learn transformers, one file or folder per family
- `planning`: the predicted error of every candidate; the features needed to reach a tolerance; the
  transformer that follows it
- `rows`: where rows come from, and the one loop over blocks of them
- `gp`: Gaussian processes on features, and exact ones
- `datasets`: named data sets, from a folder, scikit-learn or OpenML
- `tables`: data frames of numbers, categories and dates as numbers
- `persistence`: save and load without executing code
- `nn`, `gpytorch`: modules for PyTorch and a kernel for GPyTorch, each imported on its own
"""

from importlib.metadata import version as _version

from . import datasets as datasets
from . import tables as tables
from ._versions import show_versions
from .features import (
    FourierFeatures,
    MaclaurinFeatures,
    NystromFeatures,
    PolynomialSketch,
    PositiveFeatures,
    SphericalFeatures,
)
from .gp import (
    DirichletGPClassifier,
    ExactGPClassifier,
    ExactGPRegressor,
    FeatureGPClassifier,
    FeatureGPRegressor,
    SufficientStatistics,
)
from .kernels import (
    ArcCosine,
    Exponential,
    Gaussian,
    Linear,
    Maclaurin,
    Matern,
    Periodic,
    Polynomial,
    RationalQuadratic,
    Tanimoto,
)
from .metrics import gaussian_kl, mean_negative_log_likelihood, relative_frobenius_error
from .persistence import PersistenceError, load, save
from .planning import AutoFeatures, error_bound, plan, required_components

__version__ = _version("dotsketch")

__all__ = [
    "ArcCosine",
    "AutoFeatures",
    "DirichletGPClassifier",
    "ExactGPClassifier",
    "ExactGPRegressor",
    "Exponential",
    "FeatureGPClassifier",
    "FeatureGPRegressor",
    "FourierFeatures",
    "Gaussian",
    "Linear",
    "Maclaurin",
    "MaclaurinFeatures",
    "Matern",
    "NystromFeatures",
    "Periodic",
    "PersistenceError",
    "Polynomial",
    "PolynomialSketch",
    "PositiveFeatures",
    "RationalQuadratic",
    "SphericalFeatures",
    "SufficientStatistics",
    "Tanimoto",
    "error_bound",
    "gaussian_kl",
    "load",
    "mean_negative_log_likelihood",
    "plan",
    "relative_frobenius_error",
    "required_components",
    "save",
    "show_versions",
]

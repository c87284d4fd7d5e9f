"""Random features for dot product kernels, with their error known in closed form.

The layers, each importing only those above it:

- `kernels`: what is approximated, k(x, y) = w(x) w(y) Σ a_n ⟨s(x), s(y)⟩ⁿ
- `pairs`: the statistics of a pair of inputs that every variance depends on
- `sketches`: random feature maps of ⟨x, y⟩ᵖ, with variance and pseudo-variance in closed form
- `features`: the scikit-learn transformers, one file per family
- `planning`: the predicted error of every candidate; the features needed to reach a tolerance; the
  transformer that follows it
- `metrics`: how good an approximation is
- `gp`: Gaussian processes on features, and exact ones
- `datasets`: named data sets, from a folder, scikit-learn or OpenML
- `persistence`: save and load without executing code
"""

from importlib.metadata import version as _version

from ._versions import show_versions
from .datasets import Dataset, DatasetError, fetch_dataset, list_datasets, load_dataset
from .features import (
    Allocation,
    FourierFeatures,
    FourierMap,
    MaclaurinFeatures,
    NystromFeatures,
    PolynomialSketch,
    PositiveFeatures,
    PositiveMap,
    RadialDensity,
    SphericalFeatures,
    SphericalMap,
)
from .gp import (
    ExactGPClassifier,
    ExactGPRegressor,
    FeatureGPClassifier,
    FeatureGPRegressor,
    SufficientStatistics,
    log_marginal_likelihood,
)
from .kernels import (
    ArcCosine,
    DotProductKernel,
    Exponential,
    Gaussian,
    Maclaurin,
    Matern,
    Polynomial,
)
from .metrics import (
    error_rate,
    expected_calibration_error,
    gaussian_kl,
    mean_negative_log_likelihood,
    normalized_mean_squared_error,
    relative_frobenius_error,
)
from .pairs import PairStatistics
from .persistence import PersistenceError, load, save
from .planning import (
    AutoFeatures,
    Plan,
    complex_advantage,
    error_bound,
    plan,
    required_components,
)
from .projections import Frequencies
from .rows import parquet_batches
from .sketches import (
    SKETCHES,
    BalancedTensorSketch,
    CompactSketch,
    GaussianSketch,
    MonomialSketch,
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
    "Allocation",
    "ArcCosine",
    "AutoFeatures",
    "BalancedTensorSketch",
    "CompactSketch",
    "Dataset",
    "DatasetError",
    "DotProductKernel",
    "ExactGPClassifier",
    "ExactGPRegressor",
    "Exponential",
    "FeatureGPClassifier",
    "FeatureGPRegressor",
    "FourierFeatures",
    "FourierMap",
    "Frequencies",
    "Gaussian",
    "GaussianSketch",
    "Maclaurin",
    "MaclaurinFeatures",
    "Matern",
    "MonomialSketch",
    "NystromFeatures",
    "PairStatistics",
    "PersistenceError",
    "Plan",
    "Polynomial",
    "PolynomialSketch",
    "PositiveFeatures",
    "PositiveMap",
    "RademacherSketch",
    "RademacherTree",
    "RadialDensity",
    "SRHTTree",
    "Sketch",
    "SphericalFeatures",
    "SphericalMap",
    "SufficientStatistics",
    "TensorSRHT",
    "TensorSketch",
    "complex_advantage",
    "error_bound",
    "error_rate",
    "expected_calibration_error",
    "fetch_dataset",
    "gaussian_kl",
    "list_datasets",
    "load",
    "load_dataset",
    "log_marginal_likelihood",
    "make_sketch",
    "mean_negative_log_likelihood",
    "normalized_mean_squared_error",
    "parquet_batches",
    "plan",
    "relative_frobenius_error",
    "required_components",
    "save",
    "show_versions",
]

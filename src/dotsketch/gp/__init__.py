"""Gaussian processes: on features, at scale, and exact ones as the reference.

`FeatureGPRegressor` and `FeatureGPClassifier` reduce features to sums over rows, one block at a
time, and work in the dimension of the features from there on. `ExactGPRegressor` and
`ExactGPClassifier` have the same interface with the exact kernel.
"""

from .classification import FeatureGPClassifier
from .evidence import log_marginal_likelihood
from .exact import ExactGPClassifier, ExactGPRegressor
from .posterior import Posterior
from .regression import FeatureGPRegressor
from .sums import SufficientStatistics

__all__ = [
    "ExactGPClassifier",
    "ExactGPRegressor",
    "FeatureGPClassifier",
    "FeatureGPRegressor",
    "Posterior",
    "SufficientStatistics",
    "log_marginal_likelihood",
]

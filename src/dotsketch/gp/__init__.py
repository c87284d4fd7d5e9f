"""Gaussian processes: on features, at scale, and exact ones as the reference.

`FeatureGPRegressor`, `FeatureGPClassifier` and `DirichletGPClassifier` reduce features to sums over
rows, one block at a time, and work in the dimension of the features from there on.
`ExactGPRegressor` and `ExactGPClassifier` have the same interface with the exact kernel. All of
them are thin: `fit` is a straight function of values, assigned at its end.

- `sums`: what rows say about coefficients, as values that merge; `packed`: Hermitian matrices
- `algebra`: posterior and evidence, of sums, of a kernel matrix, of landmarks; `spectrum`
- `columns`: fitted features as columns; `posterior`: mean, variance, covariance, samples of f
- `search`, `class_search`: the parameters of the kernel
- `conjugate_gradients`: the posterior by passes over the rows; `softmax`: the likelihood of labels
- `noise`: noise that depends on x, tails, warped targets, intervals of left-out rows
- `outputs`: from f to y; `predictions`, `classes`: what regressors and classifiers predict
- `base`: rows that are validated once, the beginning and the end of a `fit`
- `regression`, `classification`, `dirichlet`, `exact`: the estimators
"""

from .algebra import posterior_of_sums
from .classification import FeatureGPClassifier
from .conjugate_gradients import ConjugateGradients
from .dirichlet import DirichletGPClassifier
from .exact import ExactGPClassifier, ExactGPRegressor
from .noise import Noise, Tails
from .outputs import Outputs, SampledFunctions
from .posterior import Posterior
from .regression import FeatureGPRegressor
from .search import Search, best_kernel
from .sums import SufficientStatistics

__all__ = [
    "ConjugateGradients",
    "DirichletGPClassifier",
    "ExactGPClassifier",
    "ExactGPRegressor",
    "FeatureGPClassifier",
    "FeatureGPRegressor",
    "Noise",
    "Outputs",
    "Posterior",
    "SampledFunctions",
    "Search",
    "SufficientStatistics",
    "Tails",
    "best_kernel",
    "posterior_of_sums",
]

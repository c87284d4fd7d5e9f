"""Gaussian processes: on features, at scale, and exact ones as the reference.

`FeatureGPRegressor` and `FeatureGPClassifier` reduce features to sums over rows, one block at a
time, and work in the dimension of the features from there on. `ExactGPRegressor` and
`ExactGPClassifier` have the same interface with the exact kernel.

- `sums`, `class_sums`: what rows say about weights, as values that merge
- `solvers`: from there to a `Posterior` (`posterior`); `packed`: Hermitian matrices by one triangle
- `evidence`: the marginal likelihood, as a function of the sums
- `search`: the parameters of the kernel, by the marginal likelihood; `recipe`: features that are
  not given
- `functions`: functions drawn from a posterior, as values
- `iterative`: rows for the solver that passes over them many times
- `base`: features and blocks of rows; `targets`, `dirichlet`, `multinomial`: y and labels
- `regression`, `classification` (with `class_fits`), `exact`, `exact_classification`: the
  estimators; `missing`: rows with missing values
"""

from .classification import FeatureGPClassifier
from .evidence import log_marginal_likelihood
from .exact import ExactGPRegressor
from .exact_classification import ExactGPClassifier
from .functions import SampledFunctions
from .missing import ImputedGPRegressor
from .posterior import Posterior
from .regression import FeatureGPRegressor
from .search import Search
from .solvers import ConjugateGradients
from .sums import SufficientStatistics

__all__ = [
    "ConjugateGradients",
    "ExactGPClassifier",
    "ExactGPRegressor",
    "FeatureGPClassifier",
    "FeatureGPRegressor",
    "ImputedGPRegressor",
    "Posterior",
    "SampledFunctions",
    "Search",
    "SufficientStatistics",
    "log_marginal_likelihood",
]

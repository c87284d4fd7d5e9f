"""The search for the parameters of a kernel: `optimize=True` of the Gaussian processes.

First the exact marginal likelihood of some rows, with gradients (`subset`), then that of landmarks
on more of them (`collapsed`), in rounds of L-BFGS (`rounds`): lengthscales, one for every column if
the rows allow it, kernel variance and noise. Then one common factor of the lengthscales through the
features, on all rows (`factor`, `features`): the best lengthscales depend on the number of rows and
columns. `placement` finds the kernel inside of a transformer, `record` keeps what was tried, also
in a file (`journal`), and `estimator` is what all four processes share.
"""

from .estimator import TunedProcess
from .features import Judge, Score, tuned_features
from .journal import Journal
from .record import Recorder, Search, SearchStep
from .rounds import best_on_rows, has_parameters

__all__ = [
    "Journal",
    "Judge",
    "Recorder",
    "Score",
    "Search",
    "SearchStep",
    "TunedProcess",
    "best_on_rows",
    "has_parameters",
    "tuned_features",
]

"""The error of every candidate before anything is computed, and how many features it takes.

A candidate is an unfitted estimator of `features`; no family is named here.

- `limit`: the least error that any features with a number of columns can have
- `posterior`: how far features are from the exact posterior, measured on a sample
- `table`: the plan, candidates in the order of their error, or of that distance
- `contest`: candidates that cannot be the best are dropped before they are computed
- `timing`: what features and solver take on this machine; columns that fit into a time
- `means`: what a plan is asked for, and the columns that candidates may have
- `search`: `plan`; `components`: `required_components`
- `auto`: the transformer that follows the plan
- `bounds`: the worst-case guarantee of the paper's Section 3.4; whether complex weights pay
"""

from .auto import AutoFeatures
from .bounds import ComplexAdvantage, complex_advantage, error_bound
from .components import least_components, required_components
from .limit import BestPossible, best_possible
from .means import Aim, Means
from .posterior import PosteriorSetting
from .search import (
    Assessment,
    Selection,
    assess,
    identity,
    plan,
    predict,
    select,
    tabulate,
    variants,
)
from .table import Dropped, LeftOut, Plan, PlannedCandidate
from .timing import MeasuredCost, TimedFeatures

__all__ = [
    "Aim",
    "Assessment",
    "AutoFeatures",
    "BestPossible",
    "ComplexAdvantage",
    "Dropped",
    "LeftOut",
    "Means",
    "MeasuredCost",
    "Plan",
    "PlannedCandidate",
    "PosteriorSetting",
    "Selection",
    "TimedFeatures",
    "assess",
    "best_possible",
    "complex_advantage",
    "error_bound",
    "identity",
    "least_components",
    "plan",
    "predict",
    "required_components",
    "select",
    "tabulate",
    "variants",
]

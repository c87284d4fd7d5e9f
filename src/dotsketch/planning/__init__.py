"""The error of every candidate before anything is computed, and the columns a tolerance needs.

A candidate is an unfitted estimator of `features`; no family is named here.

- `plan`: `plan`, candidates by their predicted error
- `auto`: `AutoFeatures`, the transformer that follows the plan
- `components`: `required_components`, the columns that reach a tolerance, and `error_bound`, the
  worst-case guarantee of the paper's Section 3.4
- `limit`: the least error that any features with a number of columns can have
"""

from .auto import AutoFeatures
from .components import error_bound, least_components, required_components
from .limit import BestPossible, best_possible
from .plan import Plan, PlannedCandidate, compare, plan, predict_with, select, variants

__all__ = [
    "AutoFeatures",
    "BestPossible",
    "Plan",
    "PlannedCandidate",
    "best_possible",
    "compare",
    "error_bound",
    "least_components",
    "plan",
    "predict_with",
    "required_components",
    "select",
    "variants",
]

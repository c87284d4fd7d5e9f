"""The error of every candidate before anything is computed, and the columns a tolerance needs.

A candidate is an unfitted estimator of `features`; no family is named here.

- `plan`: `plan`, candidates by their predicted error
- `auto`: `AutoFeatures`, the transformer that follows the plan
- `components`: `required_components`, the columns that reach a tolerance
- `limit`: the least error that any features with a number of columns can have
- `bounds`: the worst-case guarantee of the paper's Section 3.4; whether complex weights pay
"""

from .auto import AutoFeatures
from .bounds import ComplexAdvantage, complex_advantage, error_bound
from .components import least_components, predict_with, required_components
from .limit import BestPossible, best_possible
from .plan import Plan, PlannedCandidate, compare, plan, select, variants

__all__ = [
    "AutoFeatures",
    "BestPossible",
    "ComplexAdvantage",
    "Plan",
    "PlannedCandidate",
    "best_possible",
    "compare",
    "complex_advantage",
    "error_bound",
    "least_components",
    "plan",
    "predict_with",
    "required_components",
    "select",
    "variants",
]

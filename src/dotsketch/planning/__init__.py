"""The error of every candidate before anything is computed, and how many features it takes.

- `table`: the plan, candidates in the order of their error
- `study`: a sample of the data with what the candidates need to know of it, computed once
- `candidates`, `frequency_candidates`: one class per family of features: which kernels it supports,
  its error, how it is built; `families` lists all that are compared
- `search`: `plan` and `required_components`
- `auto`: the transformer that follows the plan
- `bounds`: the worst-case guarantee of the paper's Section 3.4; whether complex weights pay
"""

from .auto import AutoFeatures
from .bounds import ComplexAdvantage, complex_advantage, error_bound
from .candidates import (
    Candidate,
    MaclaurinCandidate,
    NystromCandidate,
    PolynomialCandidate,
)
from .families import FAMILIES, all_candidates
from .frequency_candidates import FourierCandidate, PositiveCandidate, SphericalCandidate
from .search import (
    Assessment,
    Selection,
    assess,
    least_components,
    plan,
    required_components,
    select,
    tabulate,
)
from .study import Study
from .table import LeftOut, Plan, PlannedCandidate

__all__ = [
    "FAMILIES",
    "Assessment",
    "AutoFeatures",
    "Candidate",
    "ComplexAdvantage",
    "FourierCandidate",
    "LeftOut",
    "MaclaurinCandidate",
    "NystromCandidate",
    "Plan",
    "PlannedCandidate",
    "PolynomialCandidate",
    "PositiveCandidate",
    "Selection",
    "SphericalCandidate",
    "Study",
    "all_candidates",
    "assess",
    "complex_advantage",
    "error_bound",
    "least_components",
    "plan",
    "required_components",
    "select",
    "tabulate",
]

"""Features of a dot product kernel through its Maclaurin series.

- `expansion`: a kernel as a weighted sum of powers of one dot product
- `moments`: averages over pairs of rows that decide an allocation
- `allocation`: a budget spread over the powers, its error, and fitted coefficients
- `features`: the design and the estimator
"""

from .allocation import (
    Allocation,
    AllocationSearch,
    allocate,
    evaluate,
    fitted_coefficients,
    random_projections,
)
from .expansion import EigenExpansion, expand
from .features import MaclaurinDesign, MaclaurinFeatures
from .moments import ExpansionMoments

__all__ = [
    "Allocation",
    "AllocationSearch",
    "EigenExpansion",
    "ExpansionMoments",
    "MaclaurinDesign",
    "MaclaurinFeatures",
    "allocate",
    "evaluate",
    "expand",
    "fitted_coefficients",
    "random_projections",
]

"""Features of a dot product kernel through its Maclaurin series.

- `expansion`: a kernel as a weighted sum of powers of one dot product
- `moments`: averages over pairs of rows that decide an allocation
- `allocation`: a budget spread over the powers, its error, and fitted coefficients
- `features`: the design and the estimator
"""

from .allocation import (
    Allocation,
    allocate,
    allocations,
    drawn_degrees,
    evaluate,
    fitted_coefficients,
    solve,
)
from .expansion import EigenExpansion, expand
from .features import MaclaurinDesign, MaclaurinFeatures
from .moments import ExpansionMoments

__all__ = [
    "Allocation",
    "EigenExpansion",
    "ExpansionMoments",
    "MaclaurinDesign",
    "MaclaurinFeatures",
    "allocate",
    "allocations",
    "drawn_degrees",
    "evaluate",
    "expand",
    "fitted_coefficients",
    "solve",
]

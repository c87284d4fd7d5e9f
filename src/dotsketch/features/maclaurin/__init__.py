"""Features of a dot product kernel through its Maclaurin series.

- `series`: a kernel as a weighted sum of powers of one dot product
- `moments`: averages over pairs of rows that decide an allocation
- `allocation`: a budget spread over the powers, its error, and fitted coefficients
- `search`: the best of all allocations
- `design`: what the data of a study decide
- `blocks`: sketches of the powers, drawn, and what they make of rows
- `features`: the estimator; `parameters`: what it accepts
"""

from .allocation import Allocation
from .features import MaclaurinFeatures

__all__ = ["Allocation", "MaclaurinFeatures"]

"""The marginal likelihood of a Gram matrix at all noise and prior variances at once.

- `likelihood`: what it needs of the matrix, and the search for the best variances
- `eigenvalues`: from a spectrum, for matrices of up to 1024 rows
- `banded`: from a band, for larger ones
"""

from .banded import MOST_OF_SPECTRUM, Banded, band_of, kernel_likelihood
from .eigenvalues import Spectrum, eigenvalues_and_energies
from .likelihood import Likelihood, best_variances, log_density, maximise, search_variances

__all__ = [
    "MOST_OF_SPECTRUM",
    "Banded",
    "Likelihood",
    "Spectrum",
    "band_of",
    "best_variances",
    "eigenvalues_and_energies",
    "kernel_likelihood",
    "log_density",
    "maximise",
    "search_variances",
]

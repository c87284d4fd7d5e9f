"""From what rows say about weights to a posterior: one solver per file.

A solver gathers a state from rows (`gather`), the state describes the systems to solve (see
`sums`), and `solve` gives one posterior per system. `Cholesky` gathers sums, which merge; a solver
that iterates gathers right-hand sides and keeps the rows, whose products are its matrix.
"""

from .base import Solver, System
from .cholesky import Cholesky

__all__ = ["Cholesky", "Solver", "System"]

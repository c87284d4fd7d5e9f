"""From what rows say about weights to a posterior: one solver per file.

`Cholesky` gathers sums from the rows in one pass (`gather`); sums merge, describe the systems to
solve (see `sums`), and `solve` gives one posterior per system. `ConjugateGradients` keeps no sums:
it begins with a preconditioner (`basis`, `preconditioner`, `start`), and every iteration
(`iteration`) is a pass over the rows (`passes`), whose products are its matrix. Its posterior is a
subspace and draws (`sampled`).
"""

from .base import Solver, System
from .cholesky import Cholesky
from .conjugate_gradients import ConjugateGradients
from .passes import RowBlock, RowSystems

__all__ = ["Cholesky", "ConjugateGradients", "RowBlock", "RowSystems", "Solver", "System"]

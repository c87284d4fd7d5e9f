"""Nyström features: the kernel with some training rows, whitened.

- `landmarks`: which rows; `whitening`: the matrix W; `features`: the design and the estimator
"""

from .features import NystromDesign, NystromFeatures, keeps_sparse_rows
from .landmarks import RULES, pivoted_rows
from .whitening import Whitening, leading, softened

__all__ = [
    "RULES",
    "NystromDesign",
    "NystromFeatures",
    "Whitening",
    "keeps_sparse_rows",
    "leading",
    "pivoted_rows",
    "softened",
]

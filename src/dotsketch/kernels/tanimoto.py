"""The Tanimoto kernel between fingerprints."""

from __future__ import annotations

import math
from typing import Any

from .._arrays import ArrayT, is_sparse, is_traced, namespace, plain
from .base import ExpandedKernel
from .inputs import matching, row_squares


class Tanimoto(ExpandedKernel):
    """variance · x·y / (|x|² + |y|² − x·y) for nonnegative rows, such as molecular fingerprints.

    For rows of zeros and ones it is the share of the ones of either that both have (Jaccard
    index); counts are compared by their dot product. k(x, x) is the variance for every row; by
    convention that of two zero rows is too, and k(0, y) = 0 for every other y.

    With t = x·y and N = |x|² + |y|² it is t/(N − t) = Σ_{r≥1} tʳ/Nʳ, a series of the dot product
    whose coefficients depend on the norms of both rows. `MaclaurinFeatures` write them in a few
    eigenfunctions over the training rows.

    Sparse rows (CSR) are multiplied as they are.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[1, 1, 0, 0], [1, 1, 1, 0], [0, 0, 0, 0]])
    >>> Tanimoto()(X).round(4)
    array([[1.    , 0.6667, 0.    ],
           [0.6667, 1.    , 0.    ],
           [0.    , 0.    , 1.    ]])
    """

    nonnegative = True

    def __init__(self, *, variance: float = 1.0):
        self.variance = variance
        self.validate()

    def scale(self, X: ArrayT) -> ArrayT:
        """X itself, if no entry is negative."""
        entries = X.data if is_sparse(X) else X
        if not is_traced(entries) and bool(namespace(entries).any(entries < 0)):
            raise ValueError(
                "Tanimoto is a kernel between nonnegative rows, such as fingerprints; X has "
                "negative entries. Do not centre or standardise X for it."
            )
        return X

    def trait(self, S: ArrayT) -> ArrayT:
        """|x|², row by row."""
        squares: Any = row_squares(S)
        if not is_traced(squares) and not bool(namespace(squares).all(squares < math.inf)):
            raise ValueError(
                f"The squares of the norms overflow {S.dtype}: divide X by its largest entry, of "
                "which Tanimoto sees nothing."
            )
        return squares

    def value(self, t: ArrayT, traits: ArrayT) -> ArrayT:
        return plain(self.variance) * _ratio(t, traits, of_zeros=1.0)

    def taylor(self, degree: int, t: ArrayT, traits: ArrayT) -> ArrayT:
        # t/(N − t) = N/(N − t) − 1, and the derivatives of N/(N − t) are N j!/(N − t)^(j+1)
        if degree == 0:
            return _ratio(t, traits, of_zeros=0.0)
        xp = namespace(traits)
        rest = traits - t
        positive = rest > 0
        rest = xp.where(positive, rest, xp.ones_like(rest))
        return xp.where(positive, traits / rest ** (degree + 1), xp.zeros_like(rest))

    def _matching(self, X: ArrayT, Y: ArrayT | None) -> tuple[ArrayT, ArrayT | None]:
        return matching(X, Y, most_shared=1.0)  # products of fingerprints are faster as CSR

    def diag(self, X: ArrayT) -> ArrayT:  # (n, d) -> (n,)
        X, _ = self._matching(X, None)
        traits = self.trait(self.scale(X))
        return plain(self.variance) * namespace(traits).ones_like(traits)


def _ratio(t: ArrayT, total: ArrayT, of_zeros: float) -> ArrayT:
    """t/(total − t), and `of_zeros` for two zero rows."""
    xp = namespace(total)
    rest = total - t
    zero = rest <= 0
    ratio = t / xp.where(zero, xp.ones_like(rest), rest)
    return xp.where(zero, of_zeros * xp.ones_like(rest), ratio)

"""What a variance formula needs to know of a pair of inputs.

Every closed-form variance in this package depends on a pair (x, y) only through three numbers:
the dot product x·y, the product of squared norms |x|²|y|², and Σ x_k² y_k².
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Generic

from ._arrays import ArrayT, double, namespace, nonnegative


@dataclass(frozen=True)
class PairStatistics(Generic[ArrayT]):
    """Statistics of pairs (x, y), arrays of one shape (any shape).

    Attributes
    ----------
    dot : s = x·y
    norms : N = |x|² |y|²
    squares : S = Σ_k x_k² y_k²
    dimension : d, the number of coordinates of x and y

    Examples
    --------
    >>> import numpy as np
    >>> pairs = PairStatistics.between(np.array([[1.0, 2.0]]), np.array([[3.0, 1.0]]))
    >>> pairs.dot, pairs.norms, pairs.squares
    (array([[5.]]), array([[50.]]), array([[13.]]))
    """

    dot: ArrayT
    norms: ArrayT
    squares: ArrayT
    dimension: int

    @classmethod
    def between(cls, X: ArrayT, Y: ArrayT | None = None) -> PairStatistics[ArrayT]:
        """All pairs of rows of X (n, d) and Y (m, d; X if None): arrays of shape (n, m)."""
        X = double(X)
        Y = X if Y is None else double(Y)
        xp = namespace(X, Y)
        squared_X, squared_Y = X * X, Y * Y
        norms_X = xp.sum(squared_X, axis=1)
        norms_Y = xp.sum(squared_Y, axis=1)
        return cls(
            dot=X @ Y.T,
            norms=norms_X[:, None] * norms_Y[None, :],
            squares=squared_X @ squared_Y.T,
            dimension=X.shape[1],
        )

    def at(self, chosen: Any) -> PairStatistics[ArrayT]:
        """Those of some of the pairs, by an index of the arrays."""
        return replace(
            self, dot=self.dot[chosen], norms=self.norms[chosen], squares=self.squares[chosen]
        )

    @property
    def beta(self) -> ArrayT:
        """β = N − S = Σ_{k≠l} x_k² y_l², never negative."""
        return nonnegative(self.norms - self.squares)

    @property
    def gamma(self) -> ArrayT:
        """γ = s² − S = Σ_{k≠l} x_k y_k x_l y_l; complex sketches win where it is nonnegative."""
        return self.dot * self.dot - self.squares

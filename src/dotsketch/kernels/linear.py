"""The linear kernel."""

from __future__ import annotations

from .polynomial import Polynomial


class Linear(Polynomial):
    """variance · (gamma x·y + coef0): `Polynomial(degree=1)`, without an offset by default.

    Its functions are linear: a trend, as in `Linear().on("year") + Matern()`. Without an offset
    they are zero at x = 0.

    Parameters
    ----------
    gamma, variance : float, default=1.0
    coef0 : float, default=0.0

    Examples
    --------
    >>> import numpy as np
    >>> Linear(variance=2.0)(np.array([[1.0, 2.0], [0.0, 1.0]]))
    array([[10.,  4.],
           [ 4.,  2.]])
    """

    def __init__(self, *, gamma: float = 1.0, coef0: float = 0.0, variance: float = 1.0):
        super().__init__(1, gamma=gamma, coef0=coef0, variance=variance)

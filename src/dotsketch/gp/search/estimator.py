"""What all Gaussian processes that search for their kernel share."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from ..._arrays import host
from ...features.validation import check_fitted
from .journal import Journal
from .record import Recorder, Search

CHOICES = (False, True, "common", "ard")


class TunedProcess(BaseEstimator):
    """Parameters of a search, and what it has found."""

    optimize: bool | str
    time_budget: float | None
    n_features_in_: int
    search_: Search | None

    @property
    def relevances_(self) -> np.ndarray:  # -> (d,)
        """How fast the function may vary along every column: 1/lengthscale, summing to one.

        Lengthscales are in the units of their columns: compare columns of one scale (standardised
        ones, say). One common lengthscale gives the same relevance to all. A column of large
        relevance need not matter much for predictions; one of small relevance does not matter.
        Columns that a search found to be constant have the relevance 0.
        """
        check_fitted(self)
        values = getattr(self.kernel_, "lengthscale", None)
        if values is None:
            raise AttributeError(f"{self.kernel_!r} has no lengthscale, and so no relevances.")
        inverse = 1 / np.asarray(host(values), dtype=float)
        if inverse.ndim == 0:
            inverse = np.full(self.n_features_in_, float(inverse))
        elif self.search_ is not None:
            inverse[list(self.search_.constant_columns)] = 0
        return inverse / (np.sum(inverse) or 1.0)

    def plot_relevances(self, ax: Any = None, *, n_columns: int = 30) -> Any:
        """Bars of `relevances_`, the greatest `n_columns` of them; the matplotlib axes."""
        import matplotlib.pyplot as plt

        relevances = self.relevances_
        order = np.argsort(relevances, kind="stable")[::-1][:n_columns][::-1]
        names = getattr(self, "feature_names_in_", None)
        if names is None or len(names) != len(relevances):
            names = [f"column {k}" for k in range(len(relevances))]
        if ax is None:
            ax = plt.subplots(figsize=(5, 0.6 + 0.25 * len(order)), layout="constrained")[1]
        ax.barh([str(names[k]) for k in order], relevances[order], color="#3b6ea5")
        ax.set_xlabel("relevance (1 / lengthscale, summing to 1)")
        return ax

    def _asked(self, optimize: bool | str | None) -> bool | str:
        """What `fit` was asked for, or else the parameter."""
        asked = self.optimize if optimize is None else optimize
        is_choice = isinstance(asked, (bool, str, np.bool_))
        if not is_choice or asked not in CHOICES:
            raise ValueError(f"optimize must be one of {CHOICES}; got {asked!r}.")
        budget = self.time_budget
        is_number = isinstance(budget, Real) and not isinstance(budget, bool)
        if budget is not None and not (is_number and budget > 0):
            raise ValueError(
                f"time_budget must be a positive number of seconds or None; got {budget!r}."
            )
        return asked

    @staticmethod
    def _per_column(asked: bool | str) -> bool | None:
        """Whether every column has its lengthscale; None leaves it to the number of rows."""
        return {"ard": True, "common": False}.get(str(asked))

    def _recorder(self, journal: Journal | None = None) -> Recorder:
        return Recorder(self.time_budget, bool(getattr(self, "verbose", False)), journal)

"""The line of Python that builds an estimator."""

from __future__ import annotations

from typing import Any

from sklearn import config_context
from sklearn.base import BaseEstimator

PACKAGE = __name__.split(".", maxsplit=1)[0]


def source_of(estimator: Any) -> str:
    """An expression that builds an equal estimator; parameters at their defaults are left out.

    >>> from dotsketch import Gaussian, MaclaurinFeatures
    >>> source_of(MaclaurinFeatures(Gaussian(lengthscale=2.0), n_components=64))
    'MaclaurinFeatures(kernel=Gaussian(lengthscale=2.0), n_components=64)'
    """
    with config_context(print_changed_only=True):
        text = estimator.__repr__(N_CHAR_MAX=10**6)
    return " ".join(text.split())  # scikit-learn breaks long lines


def imports_of(estimator: BaseEstimator) -> str:
    """The import statements that `source_of(estimator)` needs, on one line."""
    modules: dict[str, set[str]] = {}
    for one in (estimator, *estimator.get_params().values()):
        if isinstance(one, BaseEstimator):
            top, second, *_ = type(one).__module__.split(".")
            module = top if top == PACKAGE else f"{top}.{second}"
            modules.setdefault(module, set()).add(type(one).__name__)
    parts = (
        f"from {module} import {', '.join(sorted(modules[module]))}" for module in sorted(modules)
    )
    return "; ".join(parts)

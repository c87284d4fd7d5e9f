"""The lengthscale of a kernel by a search along one line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import clone

from .._arrays import Array, plain
from ..features.degenerate import without_degenerate_warnings
from ..planning import AutoFeatures
from .evidence import maximise

SPAN = 1 / 16, 16.0  # of the lengthscale given


def best_lengthscale(model: Any, X: Array, evidence: Callable[[Any], float]) -> Any:
    """A clone of a kernel or feature map with its lengthscale scaled to the greatest evidence.

    One factor for all coordinates if there are several lengthscales. A model without a lengthscale
    is returned as it is. Feature maps draw the same random numbers for every lengthscale. For
    `AutoFeatures` the search is among features of the kind that they choose at the lengthscale
    given: a plan for every lengthscale would take most of the time.
    """
    names = [name for name in model.get_params() if name.split("__")[-1] == "lengthscale"]
    if not names:
        return model
    name = min(names, key=len)
    model = clone(model)
    for seed, value in model.get_params().items():
        if seed.split("__")[-1] == "random_state" and value is None:
            model.set_params(**{seed: int(np.random.default_rng().integers(2**31))})
    base = model.get_params()[name]
    if isinstance(base, str):
        base = _resolved_lengthscale(model, name, X)

    def scaled(model: Any, factor: float) -> Any:
        return clone(model).set_params(**{name: plain(factor * np.asarray(base))})

    searched = _planned_once(model, X)
    with without_degenerate_warnings():
        best = maximise(
            lambda factor: evidence(scaled(searched, factor)), SPAN, points=9, tolerance=0.02
        )
    return scaled(model, best)


def _planned_once(model: Any, X: Array) -> Any:
    """The model with the features that it chooses for X in the place of every `AutoFeatures`."""
    if isinstance(model, AutoFeatures):
        return clone(clone(model).fit(X).features_)
    names = [name for name, value in model.get_params().items() if isinstance(value, AutoFeatures)]
    if not names:
        return model
    fitted = clone(model).fit(X, None).get_params()
    return clone(model).set_params(**{name: clone(fitted[name].features_) for name in names})


def _resolved_lengthscale(model: Any, name: str, X: Array) -> Any:
    """The lengthscale that a rule such as "median" gives for X.

    A feature map may stand behind other steps of a pipeline, which change X: it is fitted.
    """
    if hasattr(model, "resolve"):
        return model.resolve(X).get_params()[name]
    fitted = clone(model).fit(X, None)
    owner, _, rest = name.rpartition("kernel__")  # of the kernel that has the lengthscale
    return (fitted.get_params()[owner[:-2]] if owner else fitted).kernel_.get_params()[rest]

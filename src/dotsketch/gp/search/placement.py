"""Where the kernel of a model stands: a kernel itself, a feature map, or a step of a pipeline."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline

from ..._arrays import Array, host
from ...features.base import FeatureMap
from ...kernels import Kernel

FEW = 8  # columns, of a fit that only shows whether it can be done


class Placement:
    """A model (kernel or transformer) with one kernel in it, which can be replaced.

    Feature maps without a seed get one, so that they draw the same numbers for every kernel.
    """

    def __init__(self, model: Any):
        self.model = clone(model)
        names = [name for name, value in _parameters(self.model) if isinstance(value, Kernel)]
        outermost = [n for n in names if not any(n.startswith(f"{m}__") for m in names)]
        # several kernels (a union of feature maps) have no common likelihood of rows
        self.name = outermost[0] if len(outermost) == 1 else None
        if self.name is not None and self.name != "":
            for seed, value in self.model.get_params().items():
                if seed.split("__")[-1] == "random_state" and value is None:
                    drawn = int(np.random.default_rng().integers(2**31))
                    self.model.set_params(**{seed: drawn})

    @property
    def kernel(self) -> Any:
        """The kernel, or None if there is not exactly one."""
        if self.name is None:
            return None
        return self.model.get_params()[self.name] if self.name else self.model

    def with_kernel(self, kernel: Any, n_columns: int | None = None) -> Any:
        """A clone of the model with this kernel, and with fewer columns if they are given."""
        if not self.name:
            return clone(kernel)
        changed = {self.name: clone(kernel)}
        if n_columns is not None:
            changed[self._columns_name] = n_columns
        return clone(self.model).set_params(**changed)

    @property
    def learns_landmarks(self) -> bool:
        """Whether the owner of the kernel has landmarks that a search is to move."""
        return self._landmarks == "learned"

    @property
    def chooses_landmarks(self) -> bool:
        """Whether the owner of the kernel has landmarks whose rule a search is to choose."""
        return self._landmarks == "auto"

    @property
    def usual_rule(self) -> str:
        """The rule of landmarks that "auto" stands for without a choice."""
        return str(self._owner._rule)

    def with_landmarks(self, kernel: Any, landmarks: Any, n_columns: int | None = None) -> Any:
        """A clone of the model with this kernel and these landmarks, or with a rule for them."""
        name = f"{self._path}__landmarks" if self._path else "landmarks"
        return self.with_kernel(kernel, n_columns).set_params(**{name: landmarks})

    @property
    def _landmarks(self) -> str | None:
        """The rule of landmarks, if the owner of the kernel has one."""
        value = getattr(self._owner, "landmarks", None) if self.name else None
        return value if isinstance(value, str) else None

    @property
    def n_columns(self) -> int | None:
        """The number of columns that the owner of the kernel has as a parameter, or None."""
        value = self.model.get_params().get(self._columns_name) if self.name else None
        return None if value is None else int(value)

    @property
    def columns_at_once(self) -> int:
        """Columns come in multiples of this number."""
        return int(getattr(self._owner, "columns_at_once", 1))

    def settled(self, kernel: Any, X: Array, y: Any = None) -> Placement:
        """The same with features that no longer depend on a plan; see `FeatureMap.settled`.

        X is what the kernel sees of rows.
        """
        owner = self._owner
        if not isinstance(owner, FeatureMap):
            return self
        found = clone(owner).set_params(kernel=clone(kernel))
        path = self._path
        return Placement(clone(self.model).set_params(**{path: found}) if path else found)

    def accepts(self, kernel: Any, X: Array) -> bool:
        """Whether the features can have this kernel: some of them are fitted to a few rows X."""
        owner = clone(self._owner).set_params(kernel=clone(kernel), n_components=FEW)
        try:
            owner.fit(X[: 5 * FEW])
        except (TypeError, ValueError):
            return False
        return True

    def rows_of_kernel(self, X: Array, fitting: Array) -> Array | None:  # (n, d) -> (n, d')
        """What the kernel sees of rows X, if the model is fitted to the rows `fitting` (m, d).

        The steps before it in a pipeline are fitted to them: lengthscales and landmarks that are
        found in one space are of no use in another. None if the kernel stands in some other
        transformer, which may show it anything.
        """
        model = self.model
        for step in filter(None, self._path.split("__")):
            if not isinstance(model, Pipeline):
                return None
            names = [name for name, _ in model.steps]
            before = model[: names.index(step)]
            if len(before.steps):
                before = clone(before).fit(fitting)
                X, fitting = before.transform(X), before.transform(fitting)
            model = model.named_steps[step]
        return host(X)

    def with_fitted_steps(self, fitting: Array) -> Any:  # (m, d)
        """A clone of the model whose steps before the kernel are fitted to these rows for good."""
        model = inner = clone(self.model)
        for step in filter(None, self._path.split("__")):
            if not isinstance(inner, Pipeline):
                break
            before = inner[: [name for name, _ in inner.steps].index(step)]
            if len(before.steps):
                fitted = clone(before).fit(fitting)
                fitting = fitted.transform(fitting)
                name = before.steps[0][0]
                inner.steps[: len(before.steps)] = [(name, FrozenEstimator(fitted))]
            inner = inner.named_steps[step]
        return model

    @property
    def _owner(self) -> Any:
        return self.model.get_params()[self._path] if self._path else self.model

    @property
    def _path(self) -> str:
        """Of the feature map that the kernel is a parameter of."""
        return (self.name or "").rpartition("__")[0]

    @property
    def _columns_name(self) -> str:
        return f"{self._path}__n_components" if self._path else "n_components"


def _parameters(model: Any) -> list[tuple[str, Any]]:
    if isinstance(model, Kernel):
        return [("", model)]
    return list(model.get_params().items()) if hasattr(model, "get_params") else []

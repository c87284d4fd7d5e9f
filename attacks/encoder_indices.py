"""Estimators of scikit-learn whose indices and categories point outside of their columns.

They are rebuilt by their constructors and `fit`; what does not fit is refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import OneHotEncoder

from dotsketch.persistence.objects import known_classes
from dotsketch.persistence.values import Encoder

from .forging import forge, npy, tree_of
from .harness import show

COLORS = np.array([["red"], ["green"], ["blue"]], dtype=object)
GAPS = np.array([[1.0, np.nan], [2.0, 3.0]])


def write_state(path: Path, estimator: Any, **changes: Any) -> None:
    """A file of the estimator whose state has other values."""
    encoder = Encoder(known_classes())
    tree = encoder.encode(estimator, "estimator")
    tree["state"] |= {name: encoder.encode(value, name) for name, value in changes.items()}
    members = [(f"arrays/{k}.npy", npy(array)) for k, array in enumerate(encoder.arrays)]
    forge(path, [("model.json", tree_of(tree)), *members])


def files(path: Path) -> Iterator[str]:
    encoder = OneHotEncoder().fit(COLORS)
    imputer = SimpleImputer(add_indicator=True).fit(GAPS)
    for estimator, change in (
        (encoder, {"categories_": [np.empty(0, dtype=object)]}),
        (encoder, {"categories_": [np.array([3.0, 1.0, 2.0])]}),
        (encoder, {"categories_": [np.array([["red"]], dtype=object)]}),
        (encoder, {"drop": np.array([7])}),
        (imputer, {"indicated_": np.array([0, 1 << 40])}),
        (imputer, {"indicated_": np.array([-1])}),
        (imputer, {"statistics_": np.zeros((2, 2))}),
    ):
        write_state(path, estimator, **change)
        yield f"{type(estimator).__name__}.{change}".replace("\n", " ")


if __name__ == "__main__":
    show("encoder_indices")

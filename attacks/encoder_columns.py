"""A OneHotEncoder whose columns do not fit its categories.

scikit-learn allocates by a private count of columns and writes by the categories: a file that held
both wrote beyond an array (SIGABRT). A file holds the categories alone, and `fit` counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from sklearn.preprocessing import OneHotEncoder

from dotsketch import load

from .forging import write_changed, write_tree
from .harness import show

COLORS = np.array([["red"], ["green"], ["blue"]] * 50, dtype=object)


def files(path: Path) -> Iterator[str]:
    write_changed(path, OneHotEncoder().fit(COLORS), _n_features_outs=[0])
    yield "_n_features_outs = [0] is not stored"
    state = {"categories_": [], "_n_features_outs": [0]}
    write_tree(path, {"kind": "object", "class": "sklearn.OneHotEncoder", "state": state})
    yield "_n_features_outs = [0] in the file"


def attempt(path: Path) -> str:
    return f"loaded; transform gives {load(path).transform(COLORS).shape[1]} columns"


if __name__ == "__main__":
    show("encoder_columns")

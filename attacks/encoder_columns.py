"""A OneHotEncoder that claims fewer columns than its categories have.

scikit-learn allocates by `_n_features_outs` and writes by `categories_`: transform wrote beyond an
array (SIGABRT). The columns are counted from the categories, and not read from the file.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from sklearn.preprocessing import OneHotEncoder

from dotsketch import load

from .forging import write_changed
from .harness import show

COLORS = np.array([["red"], ["green"], ["blue"]] * 50, dtype=object)


def files(path: Path) -> Iterator[str]:
    write_changed(path, OneHotEncoder().fit(COLORS), _n_features_outs=[0])
    yield "_n_features_outs = [0]"


def attempt(path: Path) -> str:
    return f"loaded; transform gives {load(path).transform(COLORS).shape[1]} columns"


if __name__ == "__main__":
    show("encoder_columns")

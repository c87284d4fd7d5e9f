"""Encoders whose indices, mappings and bins point outside of their categories.

Indices are compared with the arrays that they point into, and categories with the bins.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from sklearn.preprocessing import KBinsDiscretizer, OneHotEncoder

from .forging import write_changed
from .harness import show

COLORS = np.array([["red"], ["green"], ["blue"]], dtype=object)
NUMBERS = np.linspace(0, 1, 30).reshape(10, 3)


def files(path: Path) -> Iterator[str]:
    grouped = OneHotEncoder(max_categories=2).fit(COLORS)
    bins = KBinsDiscretizer(n_bins=3, quantile_method="averaged_inverted_cdf").fit(NUMBERS)
    changes = [
        (OneHotEncoder().fit(COLORS), {"drop_idx_": np.array([7], dtype=object)}),
        (grouped, {"_infrequent_indices": [np.array([0, 9])]}),
        (grouped, {"_default_to_infrequent_mappings": [np.array([0, 1, 1 << 40])]}),
        (bins, {"_encoder": OneHotEncoder().fit(COLORS)}),
        (bins, {"n_bins_": np.array([3, 3, 9])}),
    ]
    for estimator, change in changes:
        write_changed(path, estimator, **change)
        yield f"{type(estimator).__name__}.{next(iter(change))}"


if __name__ == "__main__":
    show("encoder_indices")

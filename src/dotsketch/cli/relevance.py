"""How much every column of a table counts: what predictions lose when it is shuffled."""

from __future__ import annotations

import numpy as np

from .measure import Compared, HeldOut, errors_of
from .schema import Schema

MOST_ROWS = 500
MOST_COLUMNS = 200


def relevances(best: Compared, split: HeldOut, schema: Schema) -> dict[str, float]:
    """For every column, how much R² or accuracy falls on rows held out when its values go to other
    rows; the largest first. Empty for very wide tables."""
    columns = [*schema.numeric, *schema.categorical]
    X, y = split.test_rows[:MOST_ROWS], split.y_test[:MOST_ROWS]
    if len(columns) > MOST_COLUMNS or len(X) < 10 or best.model is None:
        return {}
    before = errors_of(best.model.predict(X), y, schema.task)
    order = np.random.default_rng(0).permutation(len(X))
    found, first = {}, 0
    for column in columns:
        width = 1 if column.kind == "numeric" else len(column.levels)
        shuffled = X.copy()
        shuffled[:, first : first + width] = X[order, first : first + width]
        first += width
        after = errors_of(best.model.predict(shuffled), y, schema.task)
        found[column.name] = float(np.mean(after - before))
    return dict(sorted(found.items(), key=lambda item: -item[1]))

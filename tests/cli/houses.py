"""A made-up table: prices of houses, numeric and categorical columns."""

import numpy as np
import pandas as pd


def make_houses(n, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "size": rng.gamma(4, 25, n).round(1),
            "rooms": rng.integers(1, 7, n),
            "town": rng.choice(["Bern", "Basel", "Genève"], n),
        }
    )
    value = 50 * frame["size"] ** 0.8 * (1 + 0.3 * (frame["town"] == "Genève"))
    frame["price"] = (value + 20 * rng.normal(size=n)).round(2)
    frame["sold"] = np.where(frame["price"] + 50 * rng.normal(size=n) > 1800, "yes", "no")
    return frame

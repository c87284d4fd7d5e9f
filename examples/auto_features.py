"""
Features that choose themselves
===============================

Features chosen by their predicted error, and the prediction checked on rows that were not seen.

One kernel, three ways to give it the same data: as they are, centred, and at unit norm. Which
features are best differs; `AutoFeatures` finds them on a sample of the rows before it draws any.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import normalize

from dotsketch import AutoFeatures, Polynomial

KERNEL = Polynomial(3, gamma=0.5, coef0=0.5)
digits = load_digits().data
centred = digits - digits.mean(axis=0)
DATA = {
    "raw": digits / np.linalg.norm(digits, axis=1).mean(),
    "centred": centred / np.linalg.norm(centred, axis=1).mean(),
    "unit norm": normalize(digits),
}


def measured_error(K, Z):
    """Relative error over pairs of distinct rows, as it is predicted."""
    distinct = ~np.eye(len(K), dtype=bool)
    return np.sqrt(np.mean((Z @ Z.T - K)[distinct] ** 2) / np.mean(K[distinct] ** 2))


figure, axes = plt.subplots(figsize=(6, 3), layout="constrained")
for name, X in DATA.items():
    train, test = train_test_split(X, test_size=400, random_state=0)
    auto = AutoFeatures(KERNEL, n_components=256, n_pairs_sample=200, random_state=0).fit(train)
    error = measured_error(KERNEL(test), auto.transform(test))
    print(f"{name}: {auto.explain()}\nMeasured on {len(test)} new rows, one draw: {error:.3g}\n")
    bars = axes.plot([row.relative_error for row in auto.plan_], ".-", label=f"{name}, predicted")
    axes.plot(0, error, "o", mfc="none", color=bars[0].get_color(), label=f"{name}, measured")
axes.set(xlabel="candidates, the best first", ylabel="relative error of the kernel", yscale="log")
axes.legend(frameon=False, fontsize=8, ncols=3)

# The other way round: how many columns reach a tolerance?
# Nyström is left out, whose cost grows with the square of the columns.
families = ("maclaurin", "polynomial", "spherical")
auto = AutoFeatures(KERNEL, tolerance=0.05, candidates=families, n_pairs_sample=200, random_state=0)
auto.fit(DATA["unit norm"])
print("An error of 5 % at unit norm:", auto.explain())

"""
Predicted and measured errors
=============================

The error of features before and after they are drawn, for more and more columns.

``python examples/predicted_and_measured.py [figure.svg]``

Lines are what `plan` predicts on the digits, for the kernel (1/2 + x·y/2)⁷ on rows of unit norm;
dots are measured on rows that the plan has not seen, root mean square of ten draws.
"""

import sys

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.preprocessing import normalize

from dotsketch import (
    MaclaurinFeatures,
    NystromFeatures,
    Polynomial,
    PolynomialSketch,
    SphericalFeatures,
    plan,
)

kernel = Polynomial(7, gamma=0.5, coef0=0.5)
CANDIDATES = {
    "one TensorSRHT of degree 7": PolynomialSketch(sketch="tensor_srht"),
    "spherical, orthogonal": SphericalFeatures(kernel, projection="orthogonal"),
    "Maclaurin (the paper)": MaclaurinFeatures(kernel, output="complex_to_real"),
    "Maclaurin, fitted, mean split": MaclaurinFeatures(
        kernel, sketch="balanced_tensor_sketch", coefficients="fitted", mean_split=True
    ),
    "Nyström (scikit-learn's)": NystromFeatures(kernel, n_landmarks=1.0),
}
COLUMNS = (32, 64, 128, 256, 512)
N_DRAWS = 10

rows = np.random.default_rng(0).permutation(normalize(load_digits().data))
train, test = rows[:1400], rows[1400:]
K = kernel(test)
distinct = ~np.eye(len(test), dtype=bool)


def measured(candidate, n_components):
    squares = []
    for seed in range(N_DRAWS):
        features = candidate.for_kernel(kernel, n_components, random_state=seed).fit(train)
        Z = features.transform(test)
        squares.append(np.mean((Z @ Z.T - K)[distinct] ** 2))
    return np.sqrt(np.mean(squares) / np.mean(K[distinct] ** 2))


found = {}
print(f"{'relative error, predicted / measured':36s}", *(f"{D:>15d}" for D in COLUMNS))
for name, candidate in CANDIDATES.items():
    pairs = []
    for D in COLUMNS:
        [row] = plan(kernel, train, n_components=D, candidates=[candidate])
        pairs.append((row.relative_error, measured(candidate, D)))
    found[name] = np.array(pairs)
    print(f"{name:36s}", *(f"{p:7.3g} /{m:6.3g}" for p, m in pairs))

# %%
# The figure
# ----------

figure, ax = plt.subplots(figsize=(7.2, 4.2), layout="constrained")
for number, (name, pairs) in enumerate(found.items()):
    colour = plt.get_cmap("tab10")(number)
    ax.loglog(COLUMNS, pairs[:, 0], color=colour, label=name)
    ax.loglog(COLUMNS, pairs[:, 1], "o", color=colour)
ax.set_xticks(COLUMNS, [str(D) for D in COLUMNS])
ax.set_xticks([], minor=True)
ax.set_xlabel("columns")
ax.set_ylabel("relative error of the kernel")
ax.set_title("digits, (1/2 + x·y/2)⁷: predicted (lines) and measured (dots)", fontsize=10)
ax.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))
if len(sys.argv) > 1:
    figure.savefig(sys.argv[1])

"""
What each idea is worth
=======================

What each idea is worth on the digits, predicted before any feature is computed.

The kernel (1/2 + x·y/2)ᵖ on rows of unit norm, 256 real columns: the table of the README.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.preprocessing import normalize

from dotsketch import MaclaurinFeatures, Polynomial, plan

BALANCED = "balanced_tensor_sketch"
CANDIDATES = {
    "random degrees": {"output": "complex_to_real", "allocation": "random"},
    "the paper's, real": {},
    "the paper's, complex": {"output": "complex_to_real"},
    "balanced TensorSketch": {"sketch": BALANCED},
    "+ fitted coefficients": {"sketch": BALANCED, "coefficients": "fitted"},
    "+ mean split": {"sketch": BALANCED, "coefficients": "fitted", "mean_split": True},
}

X = normalize(load_digits().data)
print("| degree p | " + " | ".join(CANDIDATES) + " |")
print("|" + "---|" * (len(CANDIDATES) + 1))
figure, axes = plt.subplots(figsize=(6, 3), layout="constrained")
for p in (3, 7, 10):
    kernel = Polynomial(p, gamma=0.5, coef0=0.5)
    candidates = [MaclaurinFeatures(kernel, **options) for options in CANDIDATES.values()]
    table = plan(kernel, X, n_components=256, candidates=candidates, n_pairs_sample=1000)
    errors = {row.label: row.relative_error for row in table}
    print(f"| {p} | " + " | ".join(f"{errors[c.label()]:.3g}" for c in candidates) + " |")
    values = [errors[c.label()] for c in candidates]
    axes.semilogy(list(CANDIDATES), values, "o-", label=f"degree {p}")
axes.tick_params(axis="x", rotation=20)
axes.set(ylabel="predicted relative error")
axes.legend(frameon=False)

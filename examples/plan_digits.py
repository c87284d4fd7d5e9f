"""What each idea is worth on the digits, predicted before any feature is computed.

The kernel (1/2 + x·y/2)ᵖ on rows of unit norm, 256 real columns: the table of the README.
"""

from sklearn.datasets import load_digits
from sklearn.preprocessing import normalize

from dotsketch import MaclaurinCandidate, Polynomial, plan

BALANCED = "balanced_tensor_sketch"
CANDIDATES = {
    "random degrees": MaclaurinCandidate("tensor_srht", "complex_to_real", "random"),
    "the paper's, real": MaclaurinCandidate("tensor_srht"),
    "the paper's, complex": MaclaurinCandidate("tensor_srht", "complex_to_real"),
    "balanced TensorSketch": MaclaurinCandidate(BALANCED),
    "+ fitted coefficients": MaclaurinCandidate(BALANCED, coefficients="fitted"),
    "+ mean split": MaclaurinCandidate(BALANCED, coefficients="fitted", mean_split=True),
}

X = normalize(load_digits().data)
print("| degree p | " + " | ".join(CANDIDATES) + " |")
print("|" + "---|" * (len(CANDIDATES) + 1))
for p in (3, 7, 10):
    kernel = Polynomial(p, gamma=0.5, coef0=0.5)
    table = plan(kernel, X, n_components=256, candidates=CANDIDATES.values(), n_pairs_sample=1000)
    errors = {row.candidate: row.relative_error for row in table}
    print(f"| {p} | " + " | ".join(f"{errors[c]:.3g}" for c in CANDIDATES.values()) + " |")

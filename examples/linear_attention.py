"""
Softmax attention in linear time
================================

Softmax attention in linear time, by features of its kernel exp(q·k/√d), in PyTorch.

attention(Q, K, V) = A V / A 1 with A = exp(QKᵀ/√d). With A ≈ z(Q) z(K)ᵀ the products are taken from
the right, z(Q) (z(K)ᵀ V), and no n × n matrix is made. Positive features (FAVOR+) keep every weight
positive. Maclaurin features have less variance, until queries and keys are so long that neither is
accurate; then they can also make a denominator negative. Needs torch.
"""

import warnings

import torch

from dotsketch import Exponential, MaclaurinFeatures, PositiveFeatures

N_TOKENS, WIDTH, COLUMNS, DRAWS = 512, 32, 256, 3
SIZES = (1, 2, 4, 8, 12)  # about the norm of queries and of keys
KERNEL = Exponential(lengthscale=WIDTH**0.25)
FEATURES = {
    "positive (FAVOR+)": PositiveFeatures(KERNEL, n_components=COLUMNS, hyperbolic=True),
    "maclaurin": MaclaurinFeatures(KERNEL, n_components=COLUMNS),
}

# The longest queries are here to show where the series fails, which fit warns of.
warnings.filterwarnings("ignore", message="The features hold at most")


def exact_attention(Q, K, V):
    return torch.softmax(Q @ K.T / WIDTH**0.5, dim=1) @ V


def linear_attention(features, Q, K, V):
    """The output, and the least denominator over their mean: below zero, weights are wrong."""
    features.fit(torch.cat([Q, K]))
    left, right = features.transform(Q), features.transform(K)
    denominators = left @ right.sum(dim=0)
    output = left @ (right.T @ V) / denominators[:, None]
    return output, (denominators.min() / denominators.mean()).item()


torch.manual_seed(0)
torch.set_num_threads(1)
queries, keys, V = (torch.randn(N_TOKENS, WIDTH) for _ in range(3))
print(f"{N_TOKENS} tokens, {WIDTH} channels, {COLUMNS} features: relative error of the output,")
print("and the least denominator over their mean\n")
print(f"{'|q|, |k|':20s}" + "".join(f"{size:>18d}" for size in SIZES))
for name, features in FEATURES.items():
    line = f"{name:20s}"
    for size in SIZES:
        Q, K = (size / WIDTH**0.5 * rows for rows in (queries, keys))
        exact = exact_attention(Q, K, V)
        draws = [
            linear_attention(features.set_params(random_state=seed), Q, K, V)
            for seed in range(DRAWS)
        ]
        error = sum(((out - exact).norm() / exact.norm()).item() for out, _ in draws) / DRAWS
        line += f"{error:10.3g} {min(least for _, least in draws):7.2g}"
    print(line)

"""
A transformer with attention in linear time
===========================================

Train a small transformer on the digits, read pixel by pixel, without a matrix of weights.

Softmax attention weighs keys by exp(q·k/√d). `SoftmaxMap` approximates this kernel by features, so
that the sums over keys are taken first and no matrix of weights is formed. Its error is known
before anything is drawn, and grows with the norms of queries and keys. `PolynomialMap` uses another
kernel, (q·k/√d)⁴, by the square of a sketch: its weights are never negative. Transformers with
either learn the digits as one with softmax attention does. Attention uses the exact kernel among up
to 256 positions; chunk_size=16 lets features see nearly all of these 64. Needs torch.
"""

import time

import matplotlib.pyplot as plt
import torch
from sklearn.datasets import load_digits
from torch import nn

from dotsketch.nn import SketchAttention, SoftmaxMap, linear_attention

EPOCHS, N_TRAIN = 12, 1400
WIDTH, HEADS, BATCH = 32, 2, 50

torch.manual_seed(0)
torch.set_num_threads(1)

# %%
# The error of the features, predicted and as attention sees it
# -------------------------------------------------------------

q, k, v = torch.randn(3, 1, 512, 1, 16)
print("512 tokens, 16 channels, 256 features")
print("norm   predicted error of the kernel   error of the output")
for norm in (1, 2, 4):
    Q, K = (norm * x / x.norm(dim=-1, keepdim=True) for x in (q, k))
    exact = torch.softmax((Q[0, :, 0] @ K[0, :, 0].T) / 4, dim=1) @ v[0, :, 0]
    for method in ("maclaurin", "positive"):
        softmax = SoftmaxMap(16, 256, method=method, norm=norm, generator=0)
        output = linear_attention(Q, K, v, feature_map=softmax)[0, :, 0]
        error = ((output - exact).norm() / exact.norm()).item()
        print(f"{norm:4d}   {method:10s} {softmax.expected_error:18.4f} {error:21.4f}")

# %%
# A transformer
# -------------


class SoftmaxAttention(nn.MultiheadAttention):
    def forward(self, x):
        return super().forward(x, x, x, need_weights=False)


class Transformer(nn.Module):
    """Pixels as tokens, two blocks, the mean over positions."""

    def __init__(self, make_attention):
        super().__init__()
        self.pixels, self.places = nn.Embedding(17, WIDTH), nn.Embedding(64, WIDTH)
        self.norms = nn.ModuleList([nn.LayerNorm(WIDTH) for _ in range(4)])
        self.attention = nn.ModuleList([make_attention() for _ in range(2)])
        self.dense = nn.ModuleList(
            [
                nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH))
                for _ in range(2)
            ]
        )
        self.readout = nn.Linear(WIDTH, 10)

    def forward(self, images):  # (batch, 64) -> (batch, 10)
        x = self.pixels(images) + self.places(torch.arange(64))
        for i in range(2):
            x = x + self.attention[i](self.norms[2 * i](x))[0]
            x = x + self.dense[i](self.norms[2 * i + 1](x))
        return self.readout(x.mean(dim=1))


KINDS = {
    "softmax attention": lambda: SoftmaxAttention(WIDTH, HEADS, batch_first=True),
    "softmax features": lambda: SketchAttention(
        WIDTH, HEADS, feature_map="softmax", num_features=64, qk_norm=True, chunk_size=16
    ),
    "polynomial features": lambda: SketchAttention(
        WIDTH, HEADS, feature_map="polynomial", num_features=8, qk_norm=True, chunk_size=16
    ),
}
digits = load_digits()
X, y = torch.tensor(digits.data, dtype=torch.int64), torch.tensor(digits.target)
order = torch.randperm(len(X))
train, test = order[:N_TRAIN], order[N_TRAIN:]

print("\n                      accuracy on rows held out   seconds")
for name, make_attention in KINDS.items():
    torch.manual_seed(1)
    model = Transformer(make_attention)
    optimiser = torch.optim.AdamW(model.parameters(), lr=3e-3)
    losses, start = [], time.perf_counter()
    for _ in range(EPOCHS):
        for rows in torch.split(train[torch.randperm(N_TRAIN)], BATCH):
            loss = nn.functional.cross_entropy(model(X[rows]), y[rows])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            losses.append(loss.item())
    seconds = time.perf_counter() - start
    with torch.no_grad():
        accuracy = (model(X[test]).argmax(1) == y[test]).float().mean().item()
    print(f"{name:22s} {accuracy:25.3f} {seconds:9.1f}")
    window = min(len(losses), 20)
    smooth = torch.tensor(losses).unfold(0, window, 1).mean(dim=1)
    plt.plot(smooth, label=name)
plt.xlabel("step")
plt.ylabel("training loss, mean of 20 steps")
plt.yscale("log")
plt.legend()
plt.show()

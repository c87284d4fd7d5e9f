"""Layers and attention of `dotsketch.nn` on the CPU: time, memory, and recall.

    python -m benchmarks.attention [layer] [length] [recall]

- layer: forward and backward of a SketchLayer, of nn.Linear and of the portable path (1000 rows,
  d = D = 1024, float32).
- length: causal attention of 512 … 16384 positions (4 heads, 64 channels) by
  scaled_dot_product_attention and by linear attention, each in a process of its own: seconds of a
  forward pass and of forward and backward, and megabytes above those before the call.
- recall: multi-query associative recall. A sequence gives pairs of a key and a value, and asks for
  the values of all keys in another order. One attention layer after a mix of neighbouring
  tokens, feature maps of about the same state size, three seeds: the share of right answers.

All on one thread; seconds are those of the processor. The tables are printed; nothing is asserted.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import statistics
import time
from collections.abc import Callable

import torch
from torch import nn

from dotsketch._backends import cpp
from dotsketch.nn import (
    PolynomialMap,
    SketchAttention,
    SketchLayer,
    SoftmaxMap,
    linear_attention,
)

from .common import least_seconds, peak_mebibytes

LENGTHS = (512, 1024, 2048, 4096, 8192, 16384)
HEADS, CHANNELS = 4, 64
PAIRS, KEYS, VALUES, STEPS, BATCH = 24, 48, 48, 300, 32
EMBEDDING, RECALL_HEADS = 32, 4


class PerformerMap(nn.Module):
    """FAVOR+ in plain torch, as a reference: exp(ωᵀx − |x|²/2)/√D, independent ω."""

    def __init__(self, dimension: int, n_features: int):
        super().__init__()
        self.register_buffer("frequencies", torch.randn(n_features, dimension))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x / x.shape[-1] ** 0.25
        exponents = x @ self.frequencies.T - x.square().sum(-1, keepdim=True) / 2
        return torch.exp(exponents) / math.sqrt(len(self.frequencies))


class TaylorMap(nn.Module):
    """1 + t + t²/2 with t = q·k/√d, exactly: 1 + d + d² features."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x / x.shape[-1] ** 0.25
        squares = (x[..., :, None] * x[..., None, :]).flatten(-2) / math.sqrt(2)
        return torch.cat([torch.ones_like(x[..., :1]), x, squares], dim=-1)


# -- layers ----------------------------------------------------------------------------------------


def compare_layers() -> None:
    x = torch.randn(1000, 1024).div(32).requires_grad_()
    gradient = torch.randn(1000, 1024)

    def both(layer: nn.Module) -> float:
        return least_seconds(lambda: layer(x).backward(gradient), 8)

    print("layer: forward and backward, 1000 rows, d = D = 1024, p = 3, milliseconds\n")
    print(f"{'nn.Linear':36s} {1e3 * both(nn.Linear(1024, 1024)):8.1f}")
    for sketch in ("tensor_srht", "tensor_sketch"):
        layer = SketchLayer(1024, 1024, degree=3, sketch=sketch, generator=0)
        print(f"{'SketchLayer, ' + sketch:36s} {1e3 * both(layer):8.1f}")
        available, cpp.AVAILABLE = cpp.AVAILABLE, False
        print(f"{'SketchLayer, ' + sketch + ', portable':36s} {1e3 * both(layer):8.1f}")
        cpp.AVAILABLE = available


# -- length ----------------------------------------------------------------------------------------


def make_attention(name: str) -> Callable[..., torch.Tensor]:
    if name == "softmax":
        return lambda q, k, v: nn.functional.scaled_dot_product_attention(
            *(x.transpose(1, 2) for x in (q, k, v)), is_causal=True
        ).transpose(1, 2)
    maps: dict[str, Callable[[], nn.Module]] = {
        "polynomial 16": lambda: PolynomialMap(CHANNELS, 16, generator=0),
        "maclaurin 256": lambda: SoftmaxMap(CHANNELS, 256, generator=0),
        "positive 256": lambda: SoftmaxMap(CHANNELS, 256, method="positive", generator=0),
        "performer 256": lambda: PerformerMap(CHANNELS, 256),
    }
    feature_map = maps[name]()
    return lambda q, k, v: linear_attention(q, k, v, feature_map=feature_map, causal=True)


def measure_length(name: str, length: int) -> None:
    """Print the seconds and the megabytes of one method at one length."""
    torch.manual_seed(0)
    run = make_attention(name)
    small = [torch.randn(1, 64, HEADS, CHANNELS) / 4 for _ in range(3)]
    run(*small)
    inputs = [torch.randn(1, length, HEADS, CHANNELS) / 4 for _ in range(3)]

    before = peak_mebibytes()
    with torch.no_grad():
        run(*inputs)
        inference = peak_mebibytes() - before
        forward = least_seconds(lambda: run(*inputs), 1 if length > 4096 else 3)
    for x in inputs:
        x.requires_grad_()
    run(*inputs).sum().backward()
    training = peak_mebibytes() - before
    both = least_seconds(lambda: run(*inputs).sum().backward(), 1 if length > 4096 else 3)
    line = f"{name:16s} {length:6d} {forward:9.3f} {both:9.3f} {inference:9.0f} {training:9.0f}"
    print(line, flush=True)


def compare_lengths() -> None:
    print("\nlength: causal attention, 4 heads, 64 channels")
    print("seconds forward, and forward and backward; megabytes of inference, and of training\n")
    print(
        f"{'':16s} {'length':>6s} {'forward':>9s} {'both':>9s} {'MB':>9s} {'MB both':>9s}",
        flush=True,
    )
    fork = multiprocessing.get_context("fork")
    for length in LENGTHS:
        for name in ("softmax", "polynomial 16", "maclaurin 256", "positive 256", "performer 256"):
            # a fork starts with the memory of now, and without the seconds of an import
            process = fork.Process(target=measure_length, args=(name, length))
            process.start()
            process.join()


# -- recall ----------------------------------------------------------------------------------------


def recall_batch(n: int, rng: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """Tokens (n, 3·PAIRS) of pairs and questions, and the values asked for (n, PAIRS)."""
    order = torch.rand(n, KEYS, generator=rng).argsort(dim=1)[:, :PAIRS]
    values = KEYS + torch.randint(VALUES, (n, PAIRS), generator=rng)
    pairs = torch.stack([order, values], dim=2).flatten(1)
    asked = torch.rand(n, PAIRS, generator=rng).argsort(dim=1)
    return torch.cat([pairs, order.gather(1, asked)], dim=1), values.gather(1, asked) - KEYS


class Recall(nn.Module):
    """Embedding, a mix with the token before, one attention layer, and a readout."""

    def __init__(self, feature_map: nn.Module | None):
        super().__init__()
        self.embedding = nn.Embedding(KEYS + VALUES, EMBEDDING)
        self.mix = nn.Linear(2 * EMBEDDING, EMBEDDING)
        self.norm = nn.LayerNorm(EMBEDDING)
        self.attention: nn.Module
        if feature_map is None:
            self.attention = nn.MultiheadAttention(EMBEDDING, RECALL_HEADS, batch_first=True)
        else:
            self.attention = SketchAttention(
                EMBEDDING,
                RECALL_HEADS,
                feature_map=feature_map,
                causal=True,
                qk_norm=True,
                chunk_size=1,
            )
            for norm in (self.attention.q_norm, self.attention.k_norm):
                nn.init.constant_(norm.weight, 1.0)
        self.readout = nn.Sequential(nn.LayerNorm(EMBEDDING), nn.Linear(EMBEDDING, VALUES))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        h = self.embedding(tokens)
        before = torch.cat([torch.zeros_like(h[:, :1]), h[:, :-1]], dim=1)
        h = h + self.mix(torch.cat([h, before], dim=-1))
        a = self.norm(h)
        if isinstance(self.attention, nn.MultiheadAttention):
            mask = torch.ones(a.shape[1], a.shape[1], dtype=torch.bool).triu(1)
            h = h + self.attention(a, a, a, attn_mask=mask, need_weights=False)[0]
        else:
            h = h + self.attention(a)[0]
        return self.readout(h[:, 2 * PAIRS :])


def share_of_right_answers(make_map: Callable[[int], nn.Module | None], seed: int) -> float:
    torch.manual_seed(seed)
    rng = torch.Generator().manual_seed(seed)
    model = Recall(make_map(seed))
    optimiser = torch.optim.AdamW(model.parameters(), lr=5e-3, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 1e-2, total_steps=STEPS)
    for _ in range(STEPS):
        tokens, answers = recall_batch(BATCH, rng)
        loss = nn.functional.cross_entropy(model(tokens).flatten(0, 1), answers.flatten())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
    with torch.no_grad():
        tokens, answers = recall_batch(500, rng)
        return float((model(tokens).argmax(-1) == answers).float().mean())


def compare_recall() -> None:
    d = EMBEDDING // RECALL_HEADS
    # norm √d: the exponents of softmax attention may reach √d, as those of a trained model do
    norm = math.sqrt(d)
    n = 1 + d + d * d  # features of the exact Taylor map
    maps: dict[str, tuple[int | None, Callable[[int], nn.Module | None]]] = {
        "softmax attention": (None, lambda seed: None),
        "exact Taylor, degree 2": (n, lambda seed: TaylorMap()),
        "polynomial 8, degree 4": (64, lambda seed: PolynomialMap(d, 8, generator=seed)),
        "polynomial 8, degree 2": (
            64,
            lambda seed: PolynomialMap(d, 8, degree=2, coef0=1.0, generator=seed),
        ),
        "maclaurin": (n, lambda seed: SoftmaxMap(d, n, norm=norm, generator=seed)),
        "positive": (
            n - 1,
            lambda seed: SoftmaxMap(d, n - 1, method="positive", norm=norm, generator=seed),
        ),
    }
    heads = f"{RECALL_HEADS} heads of {d}"
    print(f"\nrecall: {PAIRS} pairs of {KEYS} keys, {heads}, {STEPS} steps, three seeds\n")
    print(f"{'':26s} {'state':>6s} {'right answers':>24s} {'seconds':>8s}")
    for name, (size, make_map) in maps.items():
        start = time.process_time()
        shares = [share_of_right_answers(make_map, seed) for seed in range(3)]
        text = ", ".join(f"{share:.3f}" for share in shares)
        mean = statistics.mean(shares)
        taken = (time.process_time() - start) / 3
        print(f"{name:26s} {size or '-':>6} {mean:7.3f} ({text}) {taken:6.1f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="Layers and attention: time, memory, recall.")
    parser.add_argument("parts", nargs="*", help="layer, length, recall (all)")
    options = parser.parse_args()
    torch.set_num_threads(1)
    parts = {"layer": compare_layers, "length": compare_lengths, "recall": compare_recall}
    for part in options.parts or parts:
        parts[part]()


if __name__ == "__main__":
    main()

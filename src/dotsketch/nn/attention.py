"""Multi-head attention in linear time."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from .._support.parameters import one_of, positive_integer
from .functional import AttentionState, linear_attention
from .maps import PolynomialMap, SoftmaxMap
from .weights import Seed

MAPS: dict[str, Any] = {"softmax": SoftmaxMap, "polynomial": PolynomialMap}


class SketchAttention(nn.Module):
    """Multi-head attention with a feature map, used as `torch.nn.MultiheadAttention` is.

    Inputs are (batch, time, embed_dim), as with batch_first=True there.

    Parameters
    ----------
    embed_dim, num_heads : int
    feature_map : "softmax", "polynomial" or a module, default="softmax"
        `SoftmaxMap` or `PolynomialMap` of queries and keys with embed_dim/num_heads channels; one
        map for all heads.
    num_features : int or None, default=None for that of the map
    causal : bool, default=False
    qk_norm : bool, default=False
        Normalise queries and keys to a root mean square that is learnt. It starts at the norm
        for which a `SoftmaxMap` is made, so that its predicted error holds.
    bias : bool, default=True
    chunk_size : int, default=256
        As for `functional.linear_attention`; up to so many positions are softmax attention itself,
        which is faster there than features.
    generator : torch.Generator, int or None, for the weights of the feature map

    Examples
    --------
    >>> import torch
    >>> from dotsketch.nn import SketchAttention
    >>> attention = SketchAttention(32, 4, causal=True)
    >>> x = torch.randn(2, 10, 32)
    >>> output, _ = attention(x, x, x)
    >>> output.shape
    torch.Size([2, 10, 32])
    >>> _, state = attention(x, x, x, output_final_state=True)
    >>> following, state = attention(  # one token more
    ...     x[:, :1], x[:, :1], x[:, :1], initial_state=state, output_final_state=True
    ... )
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        *,
        feature_map: str | nn.Module = "softmax",
        num_features: int | None = None,
        causal: bool = False,
        qk_norm: bool = False,
        bias: bool = True,
        chunk_size: int = 256,
        generator: Seed = None,
    ):
        super().__init__()
        if positive_integer("embed_dim", embed_dim) % positive_integer("num_heads", num_heads):
            raise ValueError(
                f"embed_dim must be a multiple of num_heads; got {embed_dim} and {num_heads}."
            )
        self.embed_dim, self.num_heads = embed_dim, num_heads
        self.head_dim = embed_dim // num_heads
        self.causal = causal
        self.chunk_size = positive_integer("chunk_size", chunk_size)
        if not isinstance(feature_map, nn.Module):
            one_of("feature_map", feature_map, MAPS)
            size = () if num_features is None else (num_features,)
            feature_map = MAPS[feature_map](self.head_dim, *size, generator=generator)
        self.feature_map: Any = feature_map
        self.q_proj = nn.Linear(embed_dim, embed_dim, bias=bias)
        self.k_proj = nn.Linear(embed_dim, embed_dim, bias=bias)
        self.v_proj = nn.Linear(embed_dim, embed_dim, bias=bias)
        self.out_proj = nn.Linear(embed_dim, embed_dim, bias=bias)
        self.q_norm, self.k_norm = (
            nn.RMSNorm(self.head_dim) if qk_norm else nn.Identity() for _ in range(2)
        )
        for projection in (self.q_proj, self.k_proj, self.v_proj):
            nn.init.xavier_uniform_(projection.weight)
        norm = getattr(self.feature_map, "norm", None)
        for module in (self.q_norm, self.k_norm):
            if norm is not None and isinstance(module, nn.RMSNorm):
                nn.init.constant_(module.weight, norm / self.head_dim**0.5)

    def forward(
        self,
        query: torch.Tensor,  # (batch, time, embed_dim)
        key: torch.Tensor | None = None,
        value: torch.Tensor | None = None,
        key_padding_mask: torch.Tensor | None = None,
        need_weights: bool = False,
        attn_mask: torch.Tensor | None = None,
        is_causal: bool | None = None,
        *,
        initial_state: AttentionState | None = None,
        output_final_state: bool = False,
    ) -> tuple[torch.Tensor, AttentionState | None]:
        """The output (batch, time, embed_dim), and the state if it was asked for.

        `key` and `value` are the query and the key if they are None. `key_padding_mask` (batch,
        keys) is True where a key is padding. There is no matrix of weights: `need_weights` and
        other masks than the causal one are refused.
        """
        if need_weights:
            raise ValueError("Linear attention forms no weights: use need_weights=False.")
        if attn_mask is not None:
            raise ValueError(
                "Linear attention has no attn_mask: use causal=True or key_padding_mask."
            )
        key = query if key is None else key
        value = key if value is None else value
        output = linear_attention(
            self.q_norm(self._heads(self.q_proj(query))),
            self.k_norm(self._heads(self.k_proj(key))),
            self._heads(self.v_proj(value)),
            feature_map=self.feature_map,
            causal=self.causal if is_causal is None else is_causal,
            chunk_size=self.chunk_size,
            initial_state=initial_state,
            output_final_state=output_final_state,
            key_padding_mask=key_padding_mask,
        )
        output, state = output if output_final_state else (output, None)
        return self.out_proj(output.flatten(2)), state

    def _heads(self, x: torch.Tensor) -> torch.Tensor:
        return x.unflatten(-1, (self.num_heads, self.head_dim))

    def extra_repr(self) -> str:
        return f"{self.embed_dim}, num_heads={self.num_heads}, causal={self.causal}"

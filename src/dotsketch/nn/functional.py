"""Attention in linear time: sums over keys in place of a matrix of weights.

A feature map z with κ(q, k) ≈ (z(q)·z(k))ˢ, s = 1 or 2, replaces the weights of attention,

    o_t = Σ_j κ(q_t, k_j) v_j / Σ_j κ(q_t, k_j),

by one sum over the keys, Σ_j z(k_j)^{⊗s} ⊗ [v_j, 1]: the state. Causal attention goes through the
sequence in chunks. Inside a chunk the weights are a small matrix, of the exact kernel if the map
has one, which is both more accurate and cheaper than features there; what comes before the chunk
is read from the state. The tensor square for s = 2 is never formed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from .._support.parameters import positive_integer
from .weights import full_precision

Tensor = torch.Tensor


class AttentionState(NamedTuple):
    """What attention remembers of the keys and values so far.

    `sums` is (batch, heads, D, channels + 1), or (batch, heads, D, D, channels + 1) for a map with
    power 2; the last channel belongs to the denominator. For causal attention with a map that has a
    `kernel`, `keys` and `values` hold the chunk that is not full yet. `n_keys` is the number of
    keys seen, (batch, 1, 1, 1).
    """

    sums: Tensor | None = None
    keys: Tensor | None = None  # (batch, heads, time, dim)
    values: Tensor | None = None  # (batch, heads, time, channels + 1)
    n_keys: Tensor | None = None


def linear_attention(
    q: Tensor,  # (batch, time, heads, dim)
    k: Tensor,  # (batch, keys, heads, dim)
    v: Tensor,  # (batch, keys, heads, channels)
    *,
    feature_map: Callable[[Tensor], Tensor],
    causal: bool = False,
    chunk_size: int = 256,
    initial_state: AttentionState | None = None,
    output_final_state: bool = False,
    normalize: bool = True,
    key_padding_mask: Tensor | None = None,  # (batch, keys), True: not a key
) -> Any:
    """Attention with the kernel of a feature map, in time and memory linear in the length.

    Parameters
    ----------
    q, k, v : (batch, time, heads, dim), the last axis of v may have another size
    feature_map : PolynomialMap, SoftmaxMap or a function of tensors (…, dim) -> (…, D)
        Its attribute `power` (1 if it has none) is s in κ(q, k) = (z(q)·z(k))ˢ. Its method
        `kernel(q, k)`, if it has one, is κ exactly. Its attribute
        `least_weight` (0 if it has none) is a lower bound of κ: sums of weights are raised to it
        times the number of keys, so that features whose weights may be negative can be trained.
    causal : bool, default=False
        A position sees itself and what is before it; q and k then have the same length.
    chunk_size : int, default=256
        Among so many positions the exact kernel is used, if the map has it: in the chunk of a
        position for causal=True, otherwise if that is all keys. Without a `kernel` it changes
        time and memory, and the result only by rounding.
    initial_state : AttentionState or None
        What an earlier call returned: the result is that of one call on the joined sequence.
    output_final_state : bool, default=False
        Return (output, state).
    normalize : bool, default=True
        Divide by the sum of the weights; where that is zero the output is zero.
    key_padding_mask : (batch, keys) bool or None
        True where a key is padding and is not to be seen.

    Returns
    -------
    output : (batch, time, heads, channels) in the dtype of v, or (output, AttentionState)

    Half precision is computed in float32, also under autocast.

    Examples
    --------
    >>> import torch
    >>> from dotsketch.nn import PolynomialMap, linear_attention
    >>> q, k, v = torch.randn(3, 2, 10, 4, 8, generator=torch.Generator().manual_seed(0))
    >>> square = PolynomialMap(8, 16, generator=0)
    >>> whole = linear_attention(q, k, v, feature_map=square, causal=True)
    >>> state, steps = None, []
    >>> for t in range(10):
    ...     now = (x[:, t : t + 1] for x in (q, k, v))
    ...     out, state = linear_attention(
    ...         *now, feature_map=square, causal=True, initial_state=state, output_final_state=True
    ...     )
    ...     steps.append(out)
    >>> torch.allclose(torch.cat(steps, dim=1), whole, atol=1e-5)
    True
    """
    positive_integer("chunk_size", chunk_size)
    _check(q, k, v, causal, key_padding_mask)
    state = initial_state or AttentionState()
    dtype = torch.float64 if v.dtype == torch.float64 else torch.float32
    with full_precision(v):
        queries, keys, values = (x.transpose(1, 2).to(dtype) for x in (q, k, v))
        values = torch.cat([values, torch.ones_like(values[..., :1])], dim=-1)
        if key_padding_mask is not None:
            values = values.masked_fill(key_padding_mask[:, None, :, None], 0)
        run = _causal if causal else _bidirectional
        sums, final = run(queries, keys, values, feature_map, chunk_size, state, output_final_state)
        output = sums[..., :-1]
        seen = values[:, :1, :, -1:]  # (batch, 1, keys, 1)
        seen = seen.cumsum(2) if causal else seen.sum(2, keepdim=True)
        if state.n_keys is not None:
            seen = seen + state.n_keys
        if normalize:
            output = output / _denominator(sums[..., -1:], seen, feature_map)
        final = final._replace(n_keys=seen[:, :, -1:])
        output = output.transpose(1, 2).to(v.dtype)
    return (output, final) if output_final_state else output


def _denominator(sums: Tensor, seen: Tensor, feature_map: Any) -> Tensor:
    """The sum of the weights, at least what the kernel itself would give for the keys seen.

    Features of a positive kernel may have a sum near zero, or below: quotients, and gradients all
    the more, would explode.
    """
    least = getattr(feature_map, "least_weight", 0.0)
    if least > 0:
        sums = torch.maximum(sums, least * seen)
    return torch.where(sums == 0, torch.ones_like(sums), sums)


def _causal(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    feature_map: Any,
    chunk_size: int,
    state: AttentionState,
    needs_state: bool,
) -> tuple[Tensor, AttentionState]:
    """Chunk by chunk; with an exact kernel a chunk that is not full is kept for the next call."""
    power, exact = getattr(feature_map, "power", 1), hasattr(feature_map, "kernel")
    length, outputs, start = q.shape[2], [], 0
    sums, keys, values, _ = state
    while start < length:
        held = 0 if keys is None else keys.shape[2]
        stop = min(start + chunk_size - held, length)
        queries, keys = q[:, :, start:stop], _joined(keys, k[:, :, start:stop])
        values = _joined(values, v[:, :, start:stop])
        is_full = not exact or held + stop - start == chunk_size
        writes = is_full and (stop < length or needs_state)
        z_q: Any = feature_map(queries) if sums is not None or not exact else None
        z_k: Any = feature_map(keys) if writes or not exact else None
        if exact:
            weights = feature_map.kernel(queries, keys)
        else:
            weights = (z_q @ z_k.transpose(-1, -2)) ** power
        output = weights.tril(held) @ values
        outputs.append(output if sums is None else output + _read(sums, z_q, power))
        if writes:
            sums = _add(sums, _written(z_k, values, power))
        if is_full:
            keys = values = None
        start = stop
    joined = torch.cat(outputs, dim=2) if outputs else v[:, :, :0]
    return joined, AttentionState(sums, keys, values)


def _bidirectional(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    feature_map: Any,
    chunk_size: int,
    state: AttentionState,
    needs_state: bool,
) -> tuple[Tensor, AttentionState]:
    """All keys first, then all queries, a chunk of features at a time; few keys exactly."""
    power, past = getattr(feature_map, "power", 1), state.sums
    is_exact = hasattr(feature_map, "kernel") and k.shape[2] <= chunk_size
    sums, outputs = past, list[Tensor]()
    if needs_state or not is_exact:
        for start in range(0, k.shape[2], chunk_size):
            part = slice(start, start + chunk_size)
            sums = _add(sums, _written(feature_map(k[:, :, part]), v[:, :, part], power))
    behind = past if is_exact else sums  # what is seen through features
    for start in range(0, q.shape[2], chunk_size):
        queries = q[:, :, start : start + chunk_size]
        output: Any = feature_map.kernel(queries, k) @ v if is_exact else 0
        if behind is not None:
            output = output + _read(behind, feature_map(queries), power)
        outputs.append(output)
    return torch.cat(outputs, dim=2), AttentionState(sums)


def _written(z: Tensor, v: Tensor, power: int) -> Tensor:  # (…, t, D), (…, t, c) -> sums
    """Σ_t z_t ⊗ v_t, or Σ_t z_t ⊗ z_t ⊗ v_t."""
    if power == 1:
        return z.transpose(-1, -2) @ v
    paired = (z[..., :, None] * v[..., None, :]).flatten(-2)
    return (z.transpose(-1, -2) @ paired).unflatten(-1, (z.shape[-1], v.shape[-1]))


def _read(sums: Any, z: Tensor, power: int) -> Tensor:  # (…, t, D) -> (…, t, c)
    """Σ over the features of the state, weighted with those of the queries."""
    if power == 1:
        return torch.matmul(z, sums)
    partial = torch.matmul(z, sums.flatten(-2)).unflatten(-1, sums.shape[-2:])  # (…, t, D, c)
    return torch.matmul(z[..., None, :], partial).squeeze(-2)


def _joined(before: Tensor | None, new: Tensor) -> Tensor:
    return new if before is None else torch.cat([before, new], dim=2)


def _add(sums: Tensor | None, more: Tensor) -> Tensor:
    return more if sums is None else sums + more


def _check(q: Tensor, k: Tensor, v: Tensor, causal: bool, mask: Tensor | None) -> None:
    shapes = f"q {tuple(q.shape)}, k {tuple(k.shape)}, v {tuple(v.shape)}"
    if not q.ndim == k.ndim == v.ndim == 4:
        raise ValueError(f"q, k and v must be (batch, time, heads, dim); got {shapes}.")
    if q.shape[0] != k.shape[0] or q.shape[2:] != k.shape[2:] or k.shape[:3] != v.shape[:3]:
        raise ValueError(f"q, k and v must agree in batch, heads and dim; got {shapes}.")
    if causal and q.shape[1] != k.shape[1]:
        raise ValueError(f"Causal attention needs one key for every query; got {shapes}.")
    if k.shape[1] == 0:
        raise ValueError(f"There are no keys; got {shapes}.")
    if mask is not None and (mask.dtype != torch.bool or mask.shape != k.shape[:2]):
        raise ValueError(
            f"key_padding_mask must be bool of shape {tuple(k.shape[:2])}, True where a key is "
            f"padding; got {mask.dtype} {tuple(mask.shape)}."
        )

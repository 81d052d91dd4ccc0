"""Attention over one shared prefix and the windows of several branches, the prefix never copied.

A round of LoPA asks for the attention of B windows, each over the same cached prefix and over itself. Repeating the
prefix B times would cost memory and bandwidth each round, so the two parts are computed apart and joined by their
log-sum-exp, as in cascade attention: softmax over a concatenation equals the two partial results weighted by
exp(lse) of each. All windows' queries read the prefix together as one long row of queries (no mask is needed there:
every window position sees the whole prefix under every visibility rule).
"""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812 - the field's usual name
from torch import Tensor


def attend(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, causal: bool = False) -> Tensor:
    """Scaled dot-product attention with grouped key/value heads.

    Args:
        query: [B, heads, T, head_dim].
        key: [B, kv_heads, S, head_dim]; `value` alike.
        mask: bool, True where attention is allowed, broadcastable to [B, 1, T, S], or None.
        causal: apply the causal rule instead of a mask (T == S).
    """
    grouped = query.shape[1] != key.shape[1]
    return F.scaled_dot_product_attention(query, key, value, attn_mask=mask, is_causal=causal, enable_gqa=grouped)


def attend_with_prefix(
    query: Tensor, key: Tensor, value: Tensor, prefix_key: Tensor, prefix_value: Tensor, mask: Tensor | None
) -> Tensor:
    """Attention of B windows over one shared prefix and over themselves.

    Args:
        query: [B, heads, T, head_dim].
        key: [B, kv_heads, T, head_dim], the windows' own keys; `value` alike.
        prefix_key: [1, kv_heads, C, head_dim], stored once; `prefix_value` alike.
        mask: visibility inside the window, bool broadcastable to [B, 1, T, T], or None for everything.

    Returns:
        [B, heads, T, head_dim].
    """
    batch, heads, window, dim = query.shape
    kv_heads = key.shape[1]
    groups = heads // kv_heads
    by_kv = query.reshape(batch, kv_heads, groups * window, dim)

    # One row of B * groups * T queries per key/value head reads the prefix.
    together = by_kv.transpose(0, 1).reshape(1, kv_heads, batch * groups * window, dim)
    far, far_weight = _attend_with_lse(together, prefix_key, prefix_value, None)
    far = far.view(kv_heads, batch, groups * window, dim).transpose(0, 1)
    far_weight = far_weight.view(kv_heads, batch, groups * window).transpose(0, 1)

    if mask is not None:
        mask = mask.expand(batch, 1, window, window).repeat(1, 1, groups, 1)
    near, near_weight = _attend_with_lse(by_kv, key, value, mask)

    share = torch.sigmoid(far_weight - near_weight).unsqueeze(-1).to(near.dtype)
    return torch.lerp(near, far, share).reshape(batch, heads, window, dim)


def _attend_with_lse(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
    """Attention and the log-sum-exp of each row's scores; query [B, H, T, D] -> ([B, H, T, D], [B, H, T])."""
    if query.device.type == "cpu":
        return _cpu_kernel(query, key, value, mask)
    if query.device.type == "cuda" and query.dtype != torch.float64:
        return _cuda_kernel(query, key, value, mask)
    return plain_attention(query, key, value, mask)


def _additive(mask: Tensor | None, like: Tensor, rows: int, columns: int) -> Tensor | None:
    if mask is None:
        return None
    blocked = torch.full((), float("-inf"), dtype=like.dtype, device=like.device)
    return torch.where(mask, torch.zeros_like(blocked), blocked).expand(*like.shape[:2], rows, columns)


def _cpu_kernel(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
    # The kernel behind scaled_dot_product_attention on CPU; asked for by name since only it returns the log-sum-exp.
    bias = _additive(mask, query, query.shape[2], key.shape[2])
    out, lse = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(query, key, value, attn_mask=bias)
    return out, lse


def _cuda_kernel(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
    if mask is None and query.dtype in (torch.float16, torch.bfloat16):
        out, lse = torch.ops.aten._scaled_dot_product_flash_attention(query, key, value)[:2]
        return out, lse
    bias = _additive(mask, query, query.shape[2], key.shape[2])
    if bias is not None:
        bias = _aligned(bias)
    out, lse = torch.ops.aten._scaled_dot_product_efficient_attention(query, key, value, bias, True)[:2]
    return out, lse[..., : query.shape[2]]


def _aligned(bias: Tensor) -> Tensor:
    """The memory-efficient kernel wants the bias' rows to start at multiples of 16 elements."""
    columns = bias.shape[-1]
    padded = F.pad(bias, (0, -columns % 16))
    return padded[..., :columns]


def plain_attention(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
    """The same written out; for devices without a kernel that returns the log-sum-exp, and as the tests' reference."""
    scores = query @ key.transpose(-1, -2) * query.shape[-1] ** -0.5
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    lse = torch.logsumexp(scores, dim=-1)
    return torch.softmax(scores, dim=-1) @ value, lse

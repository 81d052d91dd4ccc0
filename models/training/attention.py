"""Attention for training short sequences on a CPU: a few rows at a time, over only the keys that these rows see.

The CPU's fused kernel is made for long sequences; its backward pass in bfloat16 alone was a third of a training step.
Written out as matrix products over small groups of rows, whose scores stay in the processor's cache and whose
invisible keys are never touched, the same takes a third to two thirds of the time, for some memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from lopa_bench.models.config import ModelConfig
from lopa_bench.models.network import Attention, Transformer, Window

NUM_ROWS = 64
"""Rows (queries) of all sequences that are worked on together."""


@dataclass(frozen=True, slots=True)
class Group:
    """Some rows, the keys that any of them sees in any sequence (None is all), and where they do not."""

    rows: slice
    keys: Tensor | None
    blocked: Tensor

    def taken(self, tensor: Tensor) -> Tensor:
        """The group's keys out of [B, H, T, head_dim]."""
        return tensor if self.keys is None else tensor.index_select(2, self.keys)

    def add(self, total: Tensor, part: Tensor) -> None:
        """Add `part`, one row per key of the group, to `total`."""
        if self.keys is None:
            total += part
        else:
            total.index_add_(2, self.keys, part.to(total.dtype))


class Planner:
    """Cuts a mask into groups; remembers the last mask, since all layers of a forward share one."""

    def __init__(self) -> None:
        self._mask: Tensor | None = None
        self._groups: list[Group] = []

    def groups(self, mask: Tensor) -> list[Group]:
        """The groups of a bool mask that is broadcastable to [B, 1, T, T]."""
        if self._mask is not mask:
            full = mask.reshape((1,) * (4 - mask.dim()) + mask.shape)
            self._groups = [self._group(full, start) for start in range(0, full.shape[2], NUM_ROWS)]
            self._mask = mask
        return self._groups

    def _group(self, mask: Tensor, start: int) -> Group:
        rows = slice(start, start + NUM_ROWS)
        seen = mask[:, :, rows]
        keys = seen.any(dim=2).any(dim=0)[0].nonzero().squeeze(1)
        if len(keys) == mask.shape[3]:
            return Group(rows, None, ~seen)
        return Group(rows, keys, ~seen.index_select(3, keys))


class GroupedAttention(torch.autograd.Function):
    """softmax(query key^T / sqrt(head_dim)) value for [B, H, T, head_dim], group by group."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor, groups: list[Group]) -> Tensor:
        """Attend; the probabilities are kept for the backward pass."""
        scaled = query * query.shape[-1] ** -0.5
        out = torch.empty_like(query)
        shares = []
        for group in groups:
            scores = scaled[:, :, group.rows] @ group.taken(key).transpose(-1, -2)
            shares.append(scores.masked_fill_(group.blocked, float("-inf")).softmax(-1))
            out[:, :, group.rows] = shares[-1] @ group.taken(value)
        ctx.groups = groups
        ctx.save_for_backward(scaled, key, value, *shares)
        return out

    @staticmethod
    @torch.autocast("cpu", enabled=False)
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        """Gradients of query, key and value; sums over groups are kept in float32."""
        scaled, key, value, *shares = ctx.saved_tensors
        by_query = torch.empty_like(scaled)
        by_key, by_value = (torch.zeros(key.shape, device=key.device) for _ in range(2))
        for group, share in zip(ctx.groups, shares, strict=True):
            upstream = gradients[0][:, :, group.rows]
            group.add(by_value, share.transpose(-1, -2) @ upstream)
            by_share = upstream @ group.taken(value).transpose(-1, -2)
            by_score = torch._softmax_backward_data(by_share, share, -1, share.dtype)
            by_query[:, :, group.rows] = by_score @ group.taken(key)
            group.add(by_key, by_score.transpose(-1, -2) @ scaled[:, :, group.rows])
        by_query *= scaled.shape[-1] ** -0.5
        return by_query, by_key.to(key.dtype), by_value.to(value.dtype), None


class TrainingAttention(Attention):
    """The network's attention, computed by `GroupedAttention` where that applies: masked, on a CPU."""

    def __init__(self, config: ModelConfig, layer: int, planner: Planner) -> None:
        super().__init__(config, layer)
        self._planner = planner

    def _mix(self, query: Tensor, key: Tensor, value: Tensor, window: Window) -> Tensor:
        if window.cache is not None or window.mask is None or query.device.type != "cpu":
            return super()._mix(query, key, value, window)
        repeats = query.shape[1] // key.shape[1]
        if repeats > 1:
            key, value = (tensor.repeat_interleave(repeats, dim=1) for tensor in (key, value))
        groups = self._planner.groups(window.mask)
        # Under autocast the rotation leaves queries and keys in float32.
        inputs = (tensor.to(value.dtype).contiguous() for tensor in (query, key, value))
        with torch.autocast("cpu", enabled=False):
            out: Tensor = GroupedAttention.apply(*inputs, groups)
        return out


def trainable(config: ModelConfig) -> Transformer:
    """A network of `config` with training's attention; parameter names and results are the plain network's."""
    network = Transformer(config)
    planner = Planner()
    for index, layer in enumerate(network.layers):
        layer.attention = TrainingAttention(config, index, planner)
    return network

"""Projections of the same input merged into one product: query, key and value, and gate and up.

Small products leave most of a device idle; one of three times the width is read and started once. Every output is the
sum it was, so that only rounding differs, where the library blocks a wider matrix otherwise.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from lopa_bench.models.network import MLP, Attention, Transformer


def merge_projections(network: Transformer) -> None:
    """Merge the projections of every layer in place; their separate weights are given up one layer at a time."""
    for module in list(network.modules()):
        if isinstance(module, Attention):
            _merge_attention(module)
        elif isinstance(module, MLP):
            _merge_mlp(module)


def _merge_attention(attention: Attention) -> None:
    parts = [attention.q_proj, attention.k_proj, attention.v_proj]
    sizes = [part.weight.shape[0] for part in parts]
    attention.qkv_proj = _stacked(parts)
    attention.qkv_sizes = sizes
    del attention.q_proj, attention.k_proj, attention.v_proj


def _merge_mlp(mlp: MLP) -> None:
    mlp.gate_up_proj = _stacked([mlp.gate_proj, mlp.up_proj])
    del mlp.gate_proj, mlp.up_proj


def _stacked(parts: list[nn.Linear]) -> nn.Linear:
    weights: list[Tensor] = [part.weight for part in parts]
    weight = torch.cat(weights)
    biases: list[Tensor] = [part.bias for part in parts if part.bias is not None]
    merged = nn.Linear(weight.shape[1], weight.shape[0], bias=bool(biases), device="meta")
    merged.weight = nn.Parameter(weight, requires_grad=False)
    if biases:
        merged.bias = nn.Parameter(torch.cat(biases), requires_grad=False)
    return merged

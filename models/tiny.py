"""Shapes of tiny networks with random weights: what the self-checks and the tests decode with."""

from __future__ import annotations

from typing import Any

from lopa_bench.models.config import ModelConfig

VOCABULARY = 61
_SHAPE: dict[str, Any] = {
    "hidden_size": 32,
    "num_layers": 2,
    "num_heads": 4,
    "num_kv_heads": 2,
    "head_dim": 8,
    "intermediate_size": 48,
    "norm_eps": 1e-6,
    "rope_theta": 10000.0,
    "max_positions": 512,
}
# What tells the families apart, each with a trait that the others lack.
_FAMILIES: dict[str, dict[str, Any]] = {
    "dream": {"logit_shift": True, "causal": False, "qkv_bias": True},
    "llada": {"logit_shift": False, "causal": False, "num_kv_heads": 4},
    "qwen2": {"logit_shift": True, "causal": True, "qkv_bias": True},
    "qwen3": {"logit_shift": True, "causal": True, "qk_norm": True, "head_dim": 16},
    "llama": {"logit_shift": True, "causal": True, "tied_head": True},
}


def tiny_config(family: str = "dream", vocab_size: int = VOCABULARY, **changes: Any) -> ModelConfig:
    """Return the shape of two layers of width 32 in a family's manner; `changes` replace fields of ModelConfig.

    A diffusion model's mask is the last id, and the EOS, which also pads, the one before.
    """
    eos = vocab_size - 2
    ids: dict[str, Any] = {"eos_token_id": eos, "pad_token_id": eos}
    if not _FAMILIES[family]["causal"]:
        ids["mask_token_id"] = vocab_size - 1
    return ModelConfig(**{"family": family, "vocab_size": vocab_size, **_SHAPE, **_FAMILIES[family], **ids, **changes})
